"""KubeDSM policy: exact batch placement, migrations and packing by QoS targets of services."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Literal

import attrs

from kubedsm.model.deadline import NO_DEADLINE, Deadline, OutOfTimeError
from kubedsm.model.model import Node, NodeName, Pod, Tier, Uid, Workload
from kubedsm.model.node_index import Column, nodes_to_find, site_of
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective import qos_targets as steps
from kubedsm.objective.fragmentation import Measure
from kubedsm.objective.lasting import Lasting, assume_prior
from kubedsm.objective.load import LoadGoal
from kubedsm.objective.objective import Objective, QosTargets
from kubedsm.objective.qos_targets import Labelled, LatencyGoal, Rates
from kubedsm.objective.site_demand import SiteGoal, count_sites
from kubedsm.objective.site_shares import list_worst_losses
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import is_plain
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.plans import Towards
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS, suggest
from kubedsm.optimizer.moving.suggestion import Suggestion, SuggestLimits
from kubedsm.optimizer.packing.pack import Packed, pack_cluster
from kubedsm.optimizer.placing.by_load import balance_by_load
from kubedsm.optimizer.placing.cloud import WHOLE_CLOUD, Sampling
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.placing.immediate import immediate_schedule, is_uncontended
from kubedsm.optimizer.programming.programme import Solver
from kubedsm.plugins.fit import shortages

if TYPE_CHECKING:
    import random

#: pod classes times nodes: above this, decisions are for the planner
_AT_ONCE = 40_000


@attrs.frozen
class KubeDSM:
    qos_targets: QosTargets
    objective: Objective
    limits: SuggestLimits = attrs.field(factory=SuggestLimits)
    algorithm: Literal["exact", "paper"] = "exact"
    measure: Measure = Measure.UNUSABLE
    #: weights of namespaces; None: no namespace fairness
    namespace_weights: Mapping[str, float] | None = None
    #: edge share up to which tenants may raise their targets
    most_wished: float = 0.0
    #: seconds after which a pending pod goes before newer ones of its priority
    patience: float = 60.0
    #: requests/s of workloads; None: weights do not depend on traffic
    rates: Rates | None = None
    #: greatest requests/s that tenants may declare where `rates` knows none
    most_declared: float = 0.0
    #: whether replicas of a workload are spread as far as costs no QoS
    default_spread: bool = True
    #: for problems above the exact-search limit
    solver: Solver | None = None
    #: latency targets; None without any
    latency: LatencyGoal | None = None
    #: load balancing; None if off
    load: LoadGoal | None = None
    #: percentage of a large cloud to examine, as for `nodes_to_find`
    cloud_percentage: int = 100
    #: demand by site; None: the edge is one pool
    sites: SiteGoal | None = None
    #: QoS factors and weights set by labels of pods; None without any
    labelled: Labelled | None = None

    def qos_targets_in(
        self, snapshot: Snapshot, sited: Iterable[Workload] | None = None
    ) -> QosTargets:
        """Return the function from workloads of the snapshot to adjusted QoS targets, by all steps
        of `objective.qos_targets`; cached.

        sited: workloads whose users' edge sites count; None: all.
        """
        targets, shares = self.qos_targets, snapshot.census.shares
        if self.latency is not None:
            targets = steps.apply_latency_targets(targets, self.latency, snapshot.measured)
        if self.labelled is not None:
            targets = steps.apply_label_targets(targets, snapshot, self.labelled)
        if snapshot.census.wishing:
            targets = steps.apply_tenant_targets(targets, snapshot, self.most_wished)
        if self.rates is not None:
            rates = steps.complete_rates(self.rates, snapshot, self.most_declared)
            targets = steps.weigh_by_traffic(targets, shares, rates)
        if self.sites is not None and self.sites.may_apply(snapshot):
            targets = steps.apply_demand(targets, self.sites, snapshot, sited)
        if self.namespace_weights is not None and len({w.namespace for w in shares}) > 1:
            targets = steps.share_namespace_weights(targets, shares, self.namespace_weights)
        if snapshot.measured.slower:
            targets = steps.cap_slower_edge(targets, snapshot)
        return cache(targets)

    def site_of(self, node: Node) -> str:
        """Return the site of an edge node; empty without one."""
        return "" if self.sites is None else site_of(node, self.sites.labels)

    def resolve(
        self, snapshot: Snapshot, workloads: Collection[Workload] | None = None
    ) -> tuple[Snapshot, QosTargets]:
        """Return the QoS targets of a snapshot, and the snapshot with edge pods counted by site
        where users' sites are known.

        workloads: other workloads keep plain edge shares; None: all workloads matter.
        """
        targets = self.qos_targets_in(snapshot, workloads)
        if self.sites is not None and self.sites.may_apply(snapshot):
            shares = snapshot.census.shares
            matter = shares if workloads is None else shares.keys() & workloads
            sited = [workload for workload in matter if targets(workload).demand is not None]
            snapshot = count_sites(snapshot, self.sites.labels, sited)
        return snapshot, targets

    def is_uncontended(self, snapshot: Snapshot, pods: Sequence[Pod], batch: int) -> bool:
        """Determine whether up to `batch` pending pods can be placed now, without competition from
        later pods.
        """
        if self.sites is None or not self.sites.may_apply(snapshot):
            return is_uncontended(snapshot, pods, batch)
        targets = self.qos_targets_in(snapshot, {pod.workload for pod in pods})
        return is_uncontended(snapshot, pods, batch, targets, self.sites.labels)

    def place(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        rng: "random.Random",  # noqa: ARG002 - nothing is left to chance
        deadline: Deadline = NO_DEADLINE,
    ) -> Decision:
        return self.decide_batch(snapshot, pods, deadline)

    def decide_batch(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        deadline: Deadline = NO_DEADLINE,
        leaving: Collection[NodeName] = (),
        start: int = 0,
    ) -> Decision:
        """Decide on the placement of a batch of pending pods.

        leaving: nodes whose capacity is not yet released; load balancing assigns no pods there.
        start: round-robin position of the cloud sample.
        """
        bounds, percentage = Bounds(deadline=deadline, solver=self.solver), self.cloud_percentage
        snapshot, qos_targets = self.resolve(snapshot, {pod.workload for pod in pods})
        decision = immediate_schedule(
            snapshot,
            pods,
            qos_targets,
            self.objective,
            self.measure,
            bounds,
            self.patience,
            default_spread=self.default_spread,
            sampling=Sampling(percentage, start) if percentage < WHOLE_CLOUD else None,
            site_labels=() if self.sites is None else self.sites.labels,
        )
        if self.load is not None:
            decision = balance_by_load(
                decision,
                snapshot,
                self.load,
                deadline,
                spread=self.default_spread,
                closed=leaving,
                sites=None if self.sites is None else snapshot.index.site(self.sites.labels),
            )
        if self.sites is not None and self.sites.kept is not None:
            workloads = {pod.workload for pod in pods}
            worst = list_worst_losses(decision.shares_after, qos_targets, workloads)
            decision = attrs.evolve(decision, worst_losses=worst)
        if deadline.meter.out_of_time:
            decision = attrs.evolve(decision, out_of_time=True)
        return decision

    def decide_ahead(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        leaving: Collection[Uid],
        deadline: Deadline = NO_DEADLINE,
        start: int = 0,
    ) -> tuple[Decision, tuple[Pod, ...]]:
        """Decide on the placement of a batch as if pods about to leave the edge had left,
        anticipating released capacity.

        Return the placement decision, and the pods that must wait for the release. With constraints
        between pods no pod waits, because leaving pods still count for constraints.
        """
        edge = {node.name for node in snapshot.of_tier(Tier.EDGE)}
        gone = [uid for uid in leaving if snapshot.placed.get(uid) in edge]
        sources = {snapshot.placed[uid] for uid in gone}
        if not (gone and is_plain(snapshot, pods)):
            return self.decide_batch(snapshot, pods, deadline, start=start), ()
        ahead = self.decide_batch(snapshot.without(gone), pods, deadline, sources, start)
        bound, waiting, free = [], [], dict(snapshot.free)
        for binding in ahead.bindings:
            if shortages(binding.pod.requests, free[binding.node]):
                waiting.append(binding.pod)
            else:
                free[binding.node] -= binding.pod.requests
                bound.append(binding)
        return attrs.evolve(ahead, bindings=tuple(bound)), tuple(waiting)

    def at_once(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        leaving: Collection[Uid],
        deadline: Deadline,
        start: int = 0,
    ) -> tuple[Decision, tuple[Pod, ...]] | None:
        """Decide on a batch as `decide_ahead` does, but without the solver, for batches cheap
        enough for the event loop.

        Return None if the decision might exceed the deadline, or if solving longer could improve
        QoS.
        """
        classes = len({pod.pod_class for pod in pods})
        if (
            classes * len(snapshot.nodes) > _AT_ONCE
            and classes * self._count_examined(snapshot, pods) > _AT_ONCE
        ):
            return None
        hasty, strictly = self._without_solver, attrs.evolve(deadline, strict=True)
        try:
            if leaving:
                decision, held = hasty.decide_ahead(snapshot, pods, leaving, strictly, start)
            else:
                decision, held = hasty.decide_batch(snapshot, pods, strictly, start=start), ()
            strictly.spend(0)
        except OutOfTimeError:
            return None
        proof = decision.proof
        enough = self.solver is None or len(pods) <= 1 or (proof.placed and proof.qos)
        return (decision, held) if enough else None

    @cached_property
    def _without_solver(self) -> "KubeDSM":
        return attrs.evolve(self, solver=None)

    def _count_examined(self, snapshot: Snapshot, pods: Sequence[Pod]) -> int:
        """Estimate how many nodes a placement decision examines; cloud nodes outside the sample
        count half.
        """
        cloud, nodes = len(snapshot.index.of_tier(Tier.CLOUD)), len(snapshot.nodes)
        others = cloud - nodes_to_find(cloud, self.cloud_percentage)
        return nodes - others // 2 if others and is_plain(snapshot, pods) else nodes

    def suggest(
        self,
        snapshot: Snapshot,
        movable: Movable,
        deadline: Deadline = NO_DEADLINE,
        lasting: Lasting = assume_prior,
        towards: Towards | None = None,
        new: Collection[Uid] = (),
    ) -> Suggestion:
        snapshot, qos_targets = self.resolve(snapshot)
        found = suggest(
            snapshot,
            qos_targets,
            self.objective,
            self.limits,
            algorithm=self.algorithm,
            measure=self.measure,
            bounds=attrs.evolve(SUGGEST_BOUNDS, deadline=deadline, solver=self.solver),
            movable=movable,
            lasting=lasting,
            load=self.load,
            site_labels=() if self.sites is None else self.sites.labels,
            towards=towards,
            new=new,
        )
        return attrs.evolve(found, out_of_time=deadline.meter.out_of_time)

    def pack_pods(
        self,
        snapshot: Snapshot,
        movable: Movable,
        deadline: Deadline = NO_DEADLINE,
        *,
        tier_share: float = 0.6,
        allow_evictions: bool = False,
    ) -> Packed:
        """Return a plan of migrations and evictions that makes more of the unschedulable pods
        schedulable. Pods near their users stay at their site, unless more pods are placed without
        that.
        """
        snapshot, qos_targets = self.resolve(snapshot)

        def pack(deadline: Deadline, sites: Column | None = None) -> Packed:
            return pack_cluster(
                snapshot,
                qos_targets,
                self.objective,
                Bounds(deadline=deadline, solver=self.solver),
                movable,
                tier_share=tier_share,
                allow_evictions=allow_evictions,
                sites=sites,
            )

        if self.sites is None or all(s.sites is None for s in snapshot.census.shares.values()):
            packed = pack(deadline)
        else:
            packed = pack(deadline.part(0.5), snapshot.index.site(self.sites.labels))
            waiting = snapshot.schedulable(snapshot.pods.values())
            if len(packed.awaited) < len(waiting):
                packed = max(packed, pack(deadline), key=lambda each: each.rank)
        return attrs.evolve(packed, out_of_time=deadline.meter.out_of_time)
