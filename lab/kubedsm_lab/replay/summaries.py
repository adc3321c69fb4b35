"""What a run is judged by: edge shares over time, and latencies."""

import math
from collections.abc import Mapping, Sequence

import attrs

from kubedsm.model.model import Share
from loadgen.measures import nearest_rank


@attrs.frozen(slots=True)
class Latency:
    """Seconds."""

    mean: float
    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latency | None":
        """Summarise at least one measurement; percentiles by nearest rank."""
        if not seconds:
            return None
        ranked = sorted(seconds)
        return cls(sum(ranked) / len(ranked), nearest_rank(ranked, 50), nearest_rank(ranked, 99))

    def milliseconds(self) -> dict[str, float]:
        return {name: round(1000 * value, 2) for name, value in attrs.asdict(self).items()}


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Between which of the values the median of all there could be is, by their order alone.

    With at least that chance, whatever they are distributed like; None if there are too few.
    """
    number, outside, cut = len(values), 0.0, 0
    # Whether a value is below that median is the toss of a coin.
    while cut < number / 2 and 2 * (outside + math.comb(number, cut) / 2**number) <= 1 - level:
        outside += math.comb(number, cut) / 2**number
        cut += 1
    ranked = sorted(values)
    return (ranked[cut - 1], ranked[number - cut]) if cut else None


class EdgeRatio:
    """The papers' metric: the time mean of the mean edge share over workloads.

    Counted are pods that are Ready and not terminating, a workload with none is left out, and
    time begins when every one of the workloads has had such a pod.
    """

    def __init__(self, workloads: Sequence[str]) -> None:
        self._unseen = set(workloads)
        self._shares: dict[str, float] = {}
        self._since: float | None = None
        #: integrals over time of the mean share, and of each workload's share and of its presence
        self._mean = 0.0
        self._seconds = 0.0
        self._of: dict[str, float] = dict.fromkeys(workloads, 0.0)
        self._present: dict[str, float] = dict.fromkeys(workloads, 0.0)

    def observe(self, now: float, shares: Mapping[str, Share]) -> None:
        """Take in the shares that hold from `now` (seconds) until the next call."""
        self._pass(now)
        self._shares = {name: share.ratio for name, share in shares.items() if share.total}
        self._unseen -= self._shares.keys()
        self._since = None if self._unseen else now

    def _pass(self, now: float) -> None:
        if self._since is None or not self._shares:
            return
        seconds = now - self._since
        self._seconds += seconds
        self._mean += seconds * sum(self._shares.values()) / len(self._shares)
        for name, share in self._shares.items():
            self._of[name] += seconds * share
            self._present[name] += seconds

    @property
    def ratio(self) -> float | None:
        return self._mean / self._seconds if self._seconds else None

    def shares(self) -> dict[str, float | None]:
        """Return each workload's time mean, while it had pods."""
        return {
            name: self._of[name] / present if present else None
            for name, present in self._present.items()
        }
