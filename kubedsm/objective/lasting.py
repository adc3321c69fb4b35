"""Expected time that a workload stays unchanged, learned from earlier quiet periods.

Autoscalers change workloads in clusters. So the estimate depends on how long the workload has been
quiet: of past periods that lasted as long, how much longer did they last?
"""

from collections.abc import Callable, Mapping

import attrs

from kubedsm.model.model import Workload

#: Return for how many seconds a workload is expected to stay unchanged.
Lasting = Callable[[Workload], float]

#: Prior expectation in seconds; after a quiet time, that time longer.
#: (A Lomax distribution of shape 2: many short periods, some very long ones.)
ASSUMED = 60.0
#: Longest estimate in seconds.
FARTHEST = 3600.0
#: Weight of a period relative to the next one. The prior counts as the latest.
_FADING = 0.8
#: Periods remembered; earlier ones have almost no weight.
_REMEMBERED = 16
#: Seconds within which changes count as one.
_AT_ONCE = 1.0


def assume_prior(_: Workload) -> float:
    """Return the prior, without observations."""
    return ASSUMED


@attrs.frozen
class QuietPeriods:
    """Lengths of the periods in which a workload stayed unchanged, in seconds."""

    #: when the workload changed last
    since: float
    #: the latest first
    lengths: tuple[float, ...] = ()

    def end_period(self, now: float) -> "QuietPeriods":
        length = now - self.since
        if length < _AT_ONCE:
            return attrs.evolve(self, since=max(now, self.since))
        return QuietPeriods(now, (length, *self.lengths)[:_REMEMBERED])

    def lasting(self, now: float) -> float:
        """Return the mean residual length of a period that has lasted until now."""
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


@attrs.frozen
class Quiet:
    """Observations of all workloads, and of the edge, at one moment."""

    now: float = 0.0
    workloads: Mapping[Workload, QuietPeriods] = attrs.field(factory=dict)
    #: of all workloads together: when room on the edge comes free anyway, or is asked for
    edge: QuietPeriods | None = None

    def lasting(self, workload: Workload) -> float:
        """Return for how many seconds the workload and the edge are expected to stay unchanged."""
        known = (self.workloads.get(workload), self.edge)
        return min(ASSUMED if each is None else each.lasting(self.now) for each in known)
