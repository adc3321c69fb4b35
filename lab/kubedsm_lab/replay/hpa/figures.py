"""What the trials of one kind come to, and how much of it is chance."""

import bisect
import math
import statistics
from collections.abc import Sequence

import attrs

from kubedsm_lab.replay.hpa.trial import Outcome
from kubedsm_lab.replay.summaries import median_interval
from loadgen.recovery import HOLD_SECONDS


@attrs.frozen
class Times:
    """Seconds of several trials; not within HOLD, or at all, is infinity."""

    values: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the median is with a chance of 95 %, by order statistics; None of too few."""
        return median_interval(self.values)

    @property
    def deviation(self) -> float | None:
        """The standard deviation; None if one is not known, or there is but one."""
        known = len(self.values) > 1 and all(map(math.isfinite, self.values))
        return statistics.stdev(self.values) if known else None


def recoveries(outcomes: Sequence[Outcome]) -> Times:
    return Times([recovery(each) for each in outcomes])


def recovery(outcome: Outcome) -> float:
    return outcome.seconds if outcome.mode != "no_recovery_within_hold" else math.inf


def chance_of_apart(values: Sequence[float], runs: int, apart: float) -> float:
    """That of so many values drawn, the greatest is so much above the least, or more.

    It is 1 without the chance that all are below least + apart, for each that may be the least.
    What is longer than HOLD counts as HOLD.
    """
    ranked = sorted(min(value, HOLD_SECONDS) for value in values)
    near = 0.0
    for least in sorted(set(ranked)):
        first, above = bisect.bisect_left(ranked, least), bisect.bisect_right(ranked, least)
        end = bisect.bisect_left(ranked, least + apart)
        near += ((end - first) / len(ranked)) ** runs - ((end - above) / len(ranked)) ** runs
    return 1 - near
