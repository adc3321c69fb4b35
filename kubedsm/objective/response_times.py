"""Promises by what a workload really answers in at each tier, where that is measured.

A latency target means the edge share at which the mean response time is that target:
Q = (tC - target) / (tC - tE), clipped to 0..1 (arXiv 2501.07130v1).
"""

from collections.abc import Callable, Mapping

import attrs

from kubedsm.model.measured import Measured
from kubedsm.model.model import Tier, Workload
from kubedsm.objective.objective import Promises
from kubedsm.objective.traffic import Rates


@attrs.frozen(slots=True)
class ResponseTimes:
    """Of a workload at the tiers, seconds: tE and tC."""

    edge: float
    cloud: float

    @classmethod
    def of(cls, seconds: Mapping[Tier, float], configured: "ResponseTimes") -> "ResponseTimes":
        """As measured, and as configured of a tier that is not."""
        edge, cloud = Tier.EDGE, Tier.CLOUD
        return cls(seconds.get(edge, configured.edge), seconds.get(cloud, configured.cloud))

    def qos(self, target: float) -> float:
        """The QoS factor that the target means. Needs tE < tC."""
        return min(1.0, max(0.0, (self.cloud - target) / (self.cloud - self.edge)))


@attrs.frozen
class LatencyGoal:
    """Which workloads have a latency target, and what is believed of how they answer."""

    #: seconds; None where the promise is none of that kind
    targets: Callable[[Workload], float | None]
    #: those of workloads of which nothing is measured
    configured: ResponseTimes

    def times(self, workload: Workload, measured: Measured) -> ResponseTimes:
        """Its own: where the edge is no faster as measured, the configured ones."""
        steady = measured.steady.get(workload, {})
        found = ResponseTimes.of(measured.believed(steady), self.configured)
        return found if found.edge < found.cloud else self.configured

    def promises(self, promises: Promises, measured: Measured) -> Promises:
        """The promises; those of workloads with a target, by their own response times."""
        promised = {}
        for workload in measured.steady:
            target = self.targets(workload)
            if target is not None:
                qos = self.times(workload, measured).qos(target)
                promised[workload] = attrs.evolve(promises(workload), qos=qos)
        return lambda workload: promised.get(workload) or promises(workload)


def or_measured(rates: Rates, measured: Measured) -> Rates:
    """The rates, and of other workloads what was measured of their pods in all tiers."""

    def rate(workload: Workload) -> float | None:
        known = rates(workload)
        answers = measured.steady.get(workload)
        if known is not None or answers is None:
            return known
        return sum(each.rate for each in answers.values())

    return rate
