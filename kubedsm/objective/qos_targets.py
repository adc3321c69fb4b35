"""QoS targets of workloads: the steps from configuration to decision, in order of application.

1. A latency target becomes the edge share at which the mean response time is that target:
   Q = (tC - target) / (tC - tE), clipped to 0..1 (arXiv 2501.07130v1).
2. Labels of pods set QoS factors and weights.
3. Tenants lower the targets of their own workloads, or raise them within the operator's limit.
4. If the objective weighs traffic, weights are multiplied by request rates: configured rates,
   then measured, then declared by tenants. The QoS is then that of requests, not of workloads.
5. Demand by site: configured, then measured, then declared by tenants. With a latency target,
   the near share counts requests within the target, and the QoS factor is 1. Resilience: the part
   of the targeted edge pods that the loss of a site must leave.
6. Namespace fairness: the workloads of one namespace share the weight of that namespace, unless
   no other namespace competes for capacity. Without this step, a tenant that divides one Deployment
   into four has four terms in the objective.
7. If the edge responds to a workload more slowly than the cloud, the edge receives no further
   pods of the workload.

Every step is a function from targets to targets. The policy applies all that its configuration
needs (`KubeDSM.qos_targets_in`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping

import attrs

from kubedsm.model.measured import Measured
from kubedsm.model.model import Pod, Share, Tier, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import GREATEST, QosTarget, QosTargets
from kubedsm.objective.site_demand import SiteGoal

#: Request rate of a workload in requests/s; None if unknown.
Rates = Callable[[Workload], float | None]
#: `qos` and `weight` that labels of pods set for a workload.
Labelled = Callable[[Workload, Mapping[str, str]], Mapping[str, float]]


def _override_targets(targets: QosTargets, changed: Mapping[Workload, QosTarget]) -> QosTargets:
    return (lambda workload: changed.get(workload) or targets(workload)) if changed else targets


@attrs.frozen(slots=True)
class ResponseTimes:
    """Response times of a workload at the edge and in the cloud, in seconds: tE and tC."""

    edge: float
    cloud: float

    @classmethod
    def of(cls, seconds: Mapping[Tier, float], configured: "ResponseTimes") -> "ResponseTimes":
        """Return the measured response times, or the configured time for unmeasured tiers."""
        edge, cloud = Tier.EDGE, Tier.CLOUD
        return cls(seconds.get(edge, configured.edge), seconds.get(cloud, configured.cloud))

    def mean(self, share: Share) -> float:
        """Return the mean response time at an edge share."""
        return share.ratio * self.edge + (1 - share.ratio) * self.cloud

    def qos(self, target: float) -> float:
        """Return the QoS factor (edge share) at which the mean response time meets the latency
        target, in seconds; requires tE < tC.
        """
        return min(1.0, max(0.0, (self.cloud - target) / (self.cloud - self.edge)))


@attrs.frozen
class LatencyGoal:
    """Latency targets by workload, and assumed response times for unmeasured workloads."""

    #: latency target in seconds; None for workloads with a QoS factor instead
    targets: Callable[[Workload], float | None]
    #: assumed response times for workloads without measurements
    configured: ResponseTimes

    def times(self, workload: Workload, measured: Measured) -> ResponseTimes:
        """Return the workload's measured response times by tier, or the configured times if the
        edge is not measured faster.
        """
        steady = measured.steady.get(workload, {})
        times = ResponseTimes.of(measured.list_reliable_times(steady), self.configured)
        return times if times.edge < times.cloud else self.configured


def apply_latency_targets(targets: QosTargets, goal: LatencyGoal, measured: Measured) -> QosTargets:
    """Replace the QoS factor of workloads with a latency target and known response times by the
    edge share meeting the target.
    """
    changed = {}
    for workload in measured.steady:
        target = goal.targets(workload)
        if target is not None:
            qos = goal.times(workload, measured).qos(target)
            changed[workload] = attrs.evolve(targets(workload), qos=qos)
    return _override_targets(targets, changed)


def apply_label_targets(targets: QosTargets, snapshot: Snapshot, labelled: Labelled) -> QosTargets:
    """Set QoS factors and weights from the `services` entries that match a label of each workload's
    newest pod.
    """
    changed = {}
    for workload, pod in newest_pods(snapshot, snapshot.census.shares).items():
        values = labelled(workload, pod.labels)
        if values:
            target = targets(workload)
            qos, weight = values.get("qos", target.qos), values.get("weight", target.weight)
            most = None if qos else target.most
            changed[workload] = attrs.evolve(target, qos=qos, weight=weight, most=most)
    return _override_targets(targets, changed)


def newest_requesting_pods(snapshot: Snapshot) -> dict[Workload, Pod]:
    """Return the newest pod of each workload for which any pod carries tenant annotations about
    QoS.
    """
    return newest_pods(snapshot, snapshot.census.wishing)


def newest_pods(snapshot: Snapshot, workloads: Collection[Workload]) -> dict[Workload, Pod]:
    """Return the newest pod of each of the workloads.

    During a rollout annotations and labels may differ between pods: the newest pod represents the
    tenant's current request.
    """
    newest: dict[Workload, Pod] = {}
    for pod in snapshot.pods.values() if workloads else ():
        if pod.workload not in workloads or pod.scheduler_name != snapshot.scheduler_name:
            continue
        known = newest.get(pod.workload)
        if known is None or (pod.created, pod.name) > (known.created, known.name):
            newest[pod.workload] = pod
    return newest


def apply_tenant_targets(targets: QosTargets, snapshot: Snapshot, max_qos: float) -> QosTargets:
    """Lower the QoS factors of workloads as tenants' pod annotations request, or raise the factors
    up to `max_qos`.
    """
    changed = {}
    for workload, pod in newest_requesting_pods(snapshot).items():
        if pod.wishes is not None and pod.wishes.qos is not None:
            target = targets(workload)
            qos = min(pod.wishes.qos, max(target.qos, max_qos))
            most = None if qos else target.most
            changed[workload] = attrs.evolve(target, qos=qos, most=most)
    return _override_targets(targets, changed)


def find_demand(
    goal: SiteGoal, snapshot: Snapshot, workloads: Iterable[Workload] | None = None
) -> dict[Workload, Mapping[str, float]]:
    """Return the demand of the given or all workloads by site, as weights: configured demand, else
    measured, else declared by tenants.
    """
    newest = newest_requesting_pods(snapshot)
    found: dict[Workload, Mapping[str, float]] = {}
    for workload in snapshot.census.shares if workloads is None else workloads:
        demand = None if goal.demand is None else goal.demand(workload)
        if demand is None:
            demand = snapshot.measured.demand.get(workload)
        wishes = newest[workload].wishes if workload in newest else None
        if demand is None and wishes is not None:
            demand = dict(wishes.demand)
        if demand:
            found[workload] = demand
    return found


def apply_demand(
    targets: QosTargets,
    goal: SiteGoal,
    snapshot: Snapshot,
    workloads: Iterable[Workload] | None = None,
) -> QosTargets:
    """Add users' demand by edge site, and resilience, to the QoS targets; with demand and a latency
    target, every request counts.
    """
    changed = {}
    goal = goal.with_latencies(snapshot.measured.latency)
    known: frozenset[str] | None = None
    weights = find_demand(goal, snapshot, workloads)
    if goal.kept is not None:
        present = snapshot.census.shares if workloads is None else workloads
        weights = {workload: {} for workload in present if goal.kept(workload)} | weights
    for workload, of_workload in weights.items():
        known = goal.known_sites(snapshot) if known is None else known
        demand = goal.demand_of(workload, of_workload, known)
        if demand is not None:
            target = targets(workload)
            counts_all = demand.parts and goal.targets(workload) is not None
            qos = 1.0 if counts_all else target.qos
            changed[workload] = attrs.evolve(target, demand=demand, qos=qos)
    return _override_targets(targets, changed)


def complete_rates(rates: Rates, snapshot: Snapshot, max_declared: float) -> Rates:
    """Complete configured request rates by measured rates, or else by tenants' declared rates.

    max_declared: upper limit of declared rates; 0: declarations are ignored.
    """
    newest = newest_requesting_pods(snapshot) if max_declared else {}

    def rate(workload: Workload) -> float | None:
        known, answers = rates(workload), snapshot.measured.steady.get(workload)
        if known is not None or answers is not None:
            return sum(each.rate for each in (answers or {}).values()) if known is None else known
        wishes = newest[workload].wishes if workload in newest else None
        return None if wishes is None or wishes.rate is None else min(wishes.rate, max_declared)

    return rate


def weigh_by_traffic(
    targets: QosTargets, shares: Mapping[Workload, Share], rates: Rates
) -> QosTargets:
    """Multiply weights by the workload's request rate, relative to the mean of present workloads.

    Workloads without a rate are assumed to have the mean rate per pod, because replicas follow
    load.
    Without any known rate, weights are unchanged.
    """
    asked = {workload: rates(workload) for workload in shares}
    known = {workload: rate for workload, rate in asked.items() if rate is not None}
    total = sum(known.values())
    if not total:
        return targets
    per_pod = total / sum(shares[workload].total for workload in known)
    assumed = {w: known.get(w, per_pod * share.total) for w, share in shares.items()}
    mean = sum(assumed.values()) / len(assumed)

    def weigh_target(workload: Workload) -> QosTarget:
        target = targets(workload)
        if workload not in assumed:
            return target
        return attrs.evolve(
            target, weight=min(target.weight * (assumed[workload] / mean), GREATEST)
        )

    return weigh_target


def share_namespace_weights(
    targets: QosTargets, present: Iterable[Workload], weights: Mapping[str, float]
) -> QosTargets:
    """Scale the weights of present workloads to sum up to the weight of their namespace.

    Unconfigured namespaces weigh 1. Workloads that target nothing, such as Jobs, share the weight
    among themselves.
    """
    total: dict[tuple[str, bool], float] = {}
    for workload in present:
        target = targets(workload)
        group = workload.namespace, target.qos > 0
        total[group] = total.get(group, 0.0) + target.weight

    def scale_target(workload: Workload) -> QosTarget:
        target, namespace = targets(workload), workload.namespace
        among = total.get((namespace, target.qos > 0))
        if among is None:
            return target
        part = target.weight / max(among, target.weight) if target.weight else 0.0
        return attrs.evolve(target, weight=part * weights.get(namespace, 1.0))

    return scale_target


def cap_slower_edge(targets: QosTargets, snapshot: Snapshot) -> QosTargets:
    """Cap workloads responding more slowly from the edge than from the cloud at their current
    number of pods at the edge.

    Current edge pods keep their benefit: none should leave, and no further pods should arrive.
    """
    shares = snapshot.census.shares
    return _override_targets(
        targets,
        {
            workload: attrs.evolve(targets(workload), most=shares[workload].edge)
            for workload in sorted(snapshot.measured.slower)
            if workload in shares
        },
    )


def without_caps(targets: QosTargets) -> QosTargets:
    """Return the QoS targets without the caps on edge pods of workloads that respond more slowly
    from the edge.
    """
    return lambda workload: attrs.evolve(targets(workload), most=None)


def is_capped(targets: QosTargets, workload: Workload) -> bool:
    """Return True if the workload has a cap below its target: no further pod of the workload may go
    to the edge.
    """
    target = targets(workload)
    return target.most is not None and target.qos > 0
