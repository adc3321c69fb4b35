"""How long a workload can be expected to stay as it is, learned from how long it stayed before.

An autoscaler changes its workload in clusters: some steps within seconds, then nothing for a while.
What tells how long the quiet goes on is hence not how often it changes, but how long it has been
quiet already: of the quiet periods that lasted so long, how much longer did they last?
"""

from collections.abc import Callable, Mapping

import attrs

from kubedsm.model.model import Workload

#: For how many seconds a workload is expected to stay as it is.
Lasting = Callable[[Workload], float]

#: Seconds that a workload of which nothing is known is expected to stay as it is; and as long again
#: as it did already. (A Lomax distribution of shape 2: many short periods, some very long ones.)
ASSUMED = 60.0
#: Seconds. Nothing is said of what comes later.
FARTHEST = 3600.0
#: What a period counts beside the next one. What is assumed counts as much as the latest.
_FADING = 0.8
#: Periods remembered: what comes before counts next to nothing.
_REMEMBERED = 16
#: Seconds. What changes so soon after a change is part of it.
_AT_ONCE = 1.0


def assumed(_: Workload) -> float:
    """Where nothing was learned."""
    return ASSUMED


@attrs.frozen
class QuietPeriods:
    """The lengths of the periods in which a workload stayed as it was. Times are in seconds."""

    #: when the workload changed last
    since: float
    #: the latest first
    lengths: tuple[float, ...] = ()

    def changed(self, now: float) -> "QuietPeriods":
        length = now - self.since
        if length < _AT_ONCE:
            return attrs.evolve(self, since=max(now, self.since))
        return QuietPeriods(now, (length, *self.lengths)[:_REMEMBERED])

    def lasting(self, now: float) -> float:
        """The mean of what is left of such a period after it has lasted until now."""
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
    """What was learned of workloads, and of the edge that they share, as it is at one moment."""

    now: float = 0.0
    workloads: Mapping[Workload, QuietPeriods] = attrs.field(factory=dict)
    #: of all workloads together: when room on the edge comes free anyway, or is asked for
    edge: QuietPeriods | None = None

    def lasting(self, workload: Workload) -> float:
        """For how many seconds the workload, and the edge about it, are expected to stay so."""
        known = (self.workloads.get(workload), self.edge)
        return min(ASSUMED if each is None else each.lasting(self.now) for each in known)
