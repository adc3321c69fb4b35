"""Expected time that a workload remains unchanged, estimated from earlier quiet periods.

Autoscalers change workloads in clusters. Therefore the estimate is conditional on the current
quiet time: the mean residual duration of past periods that lasted at least equally long.
"""

from collections.abc import Callable, Mapping

import attrs

from kubedsm.model.model import Workload

#: Expected seconds until a workload changes.
Lasting = Callable[[Workload], float]

#: Prior expectation in seconds, increased by the current quiet time.
#: (Lomax distribution of shape 2: many short periods, some extremely long.)
ASSUMED = 60.0
#: Longest estimate in seconds.
FARTHEST = 3600.0
#: Weight of a period relative to the next one. The prior counts as the latest.
_FADING = 0.8
#: Number of remembered periods; earlier periods have negligible weight.
_REMEMBERED = 16
#: Seconds within which successive changes count as simultaneous.
_AT_ONCE = 1.0


def assume_prior(_: Workload) -> float:
    """Return the default estimate, in seconds, for how long a workload remains unchanged, used
    before any observation.
    """
    return ASSUMED


@attrs.frozen
class QuietPeriods:
    """Durations of past periods, in seconds, during which a workload remained unchanged."""

    #: timestamp of the latest change of the workload
    since: float
    #: durations, latest first
    lengths: tuple[float, ...] = ()

    def lasting(self, now: float) -> float:
        """Estimate for how many more seconds the workload will remain unchanged (mean residual life
        of past periods).
        """
        age = max(0.0, now - self.since)
        left = ASSUMED + age
        counts = (ASSUMED / left) ** 2
        total = counts * left
        weight = 1.0
        for length in self.lengths:
            if length > age:
                counts += weight
                total += weight * (length - age)
            weight *= _FADING
        return min(total / counts, FARTHEST)


def end_period(known: QuietPeriods | None, now: float) -> QuietPeriods:
    """Return the periods after a change now; `known`: those before, None before any change."""
    if known is None:
        return QuietPeriods(now)
    length = now - known.since
    if length < _AT_ONCE:
        return QuietPeriods(max(now, known.since), known.lengths)
    return QuietPeriods(now, (length, *known.lengths)[:_REMEMBERED])


@attrs.frozen
class Quiet:
    """Periods without change that were observed for each workload, and for the edge as a whole, up
    to one moment.
    """

    now: float = 0.0
    workloads: Mapping[Workload, QuietPeriods] = attrs.field(factory=dict)
    #: all workloads together: capacity on the edge may be released or requested by any
    edge: QuietPeriods | None = None

    def lasting(self, workload: Workload) -> float:
        """Estimate for how many seconds the workload and the edge will remain unchanged."""
        known = (self.workloads.get(workload), self.edge)
        return min(ASSUMED if each is None else each.lasting(self.now) for each in known)
