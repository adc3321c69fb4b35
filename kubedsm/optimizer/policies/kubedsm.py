"""KubeDSM itself: exact batches, as much of every service at the edge as its promise asks for."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import attrs

from kubedsm.model.deadline import NO_DEADLINE, Deadline, OutOfTimeError
from kubedsm.model.model import NodeName, Pod, Tier, Uid
from kubedsm.model.node_index import nodes_to_find
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Measure
from kubedsm.objective.lasting import Lasting, assumed
from kubedsm.objective.load import LoadGoal
from kubedsm.objective.objective import Objective, Promises
from kubedsm.objective.qos_targets import LatencyGoal, Rates, resolve_qos_targets
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS, suggest
from kubedsm.optimizer.moving.suggestion import Suggestion, SuggestLimits
from kubedsm.optimizer.packing.pack import Packed, pack
from kubedsm.optimizer.placing.batch_kinds import is_plain
from kubedsm.optimizer.placing.by_load import dealt_by_load
from kubedsm.optimizer.placing.cloud_window import Sampling
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.optimizer.programming.programme import Solver
from kubedsm.plugins.fit import shortages

if TYPE_CHECKING:
    import random

#: classes of pods, times nodes: what is more is not looked at in no time
_AT_ONCE = 40_000


@attrs.frozen
class KubeDSM:
    promises: Promises
    objective: Objective
    limits: SuggestLimits = attrs.field(factory=SuggestLimits)
    algorithm: Literal["exact", "paper"] = "exact"
    measure: Measure = Measure.UNUSABLE
    #: of namespaces, if the weights of their workloads are to add up to the same, or to these
    namespace_weights: Mapping[str, float] | None = None
    #: the edge share that tenants may promise their workloads, beside what these are promised
    most_wished: float = 0.0
    #: seconds, after which a pod that waits goes before newer ones of its priority
    patience: float = 60.0
    #: requests/s, if what a workload weighs is to go by what it answers of them
    rates: Rates | None = None
    #: the requests/s that tenants may say of workloads of which `rates` knows nothing
    most_declared: float = 0.0
    #: the replicas of a workload go as far apart as costs no QoS
    default_spread: bool = True
    #: who is asked beyond the bounds of what can be compared
    solver: Solver | None = None
    #: by whose answers promises go, if any are asked for
    latency: LatencyGoal | None = None
    #: how measured load counts, if any is asked for
    load: LoadGoal | None = None
    #: how much of a large cloud is looked at, as `nodes_to_find` takes it
    cloud_percentage: int = 100

    def promises_in(self, snapshot: Snapshot) -> Promises:
        """Return the QoS target of each workload of the snapshot."""
        return resolve_qos_targets(
            self.promises,
            snapshot,
            latency=self.latency,
            max_tenant_qos=self.most_wished,
            rates=self.rates,
            max_declared_rate=self.most_declared,
            namespace_weights=self.namespace_weights,
        )

    def place(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        rng: "random.Random",  # noqa: ARG002 - nothing is left to chance
        deadline: Deadline = NO_DEADLINE,
    ) -> Decision:
        return self.decide(snapshot, pods, deadline)

    def decide(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        deadline: Deadline = NO_DEADLINE,
        leaving: Collection[NodeName] = (),
        start: int = 0,
    ) -> Decision:
        """Decide on a batch.

        leaving: nodes with room that is not there yet; no pod goes there for load's sake. start:
        where in turn the search among the nodes of a large cloud begins.
        """
        promises, bounds = self.promises_in(snapshot), Bounds(deadline=deadline, solver=self.solver)
        decision = immediate_schedule(
            snapshot,
            pods,
            promises,
            self.objective,
            self.measure,
            bounds,
            self.patience,
            default_spread=self.default_spread,
            sampling=Sampling(self.cloud_percentage, start),
        )
        return dealt_by_load(
            decision,
            snapshot,
            self.load,
            self.measure,
            deadline,
            spread=self.default_spread,
            closed=leaving,
        )

    def decide_ahead(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        leaving: Collection[Uid],
        deadline: Deadline = NO_DEADLINE,
        start: int = 0,
    ) -> tuple[Decision, tuple[Pod, ...]]:
        """Decide as if those pods had left the edge; the pods that have to wait for that come last.

        None has to where rules of pods about pods matter: those that leave still count for them.
        """
        edge = {node.name for node in snapshot.of_tier(Tier.EDGE)}
        gone = [uid for uid in leaving if snapshot.placed.get(uid) in edge]
        sources = {snapshot.placed[uid] for uid in gone}
        ahead = None
        if gone:
            ahead = self.decide(snapshot.without(gone), pods, deadline, sources, start)
        if ahead is None or not ahead.plain:
            return self.decide(snapshot, pods, deadline, start=start), ()
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
        """Decide ahead, if that is done in time and a longer thought would gain nothing.

        It would not place more pods, nor come to a greater QoS. The solver is not asked.
        """
        classes = {pod.pod_class for pod in pods}
        if len(classes) * self._looked_at(snapshot, pods) > _AT_ONCE:
            return None
        hasty, strictly = attrs.evolve(self, solver=None), attrs.evolve(deadline, strict=True)
        try:
            decision, held = hasty.decide_ahead(snapshot, pods, leaving, strictly, start)
            strictly.check()
        except OutOfTimeError:
            return None
        proof = decision.proof
        enough = self.solver is None or len(pods) <= 1 or (proof.placed and proof.qos)
        return (decision, held) if enough else None

    def _looked_at(self, snapshot: Snapshot, pods: Sequence[Pod]) -> int:
        """How many nodes are looked at, about; each of the others is half as much work."""
        cloud, nodes = len(snapshot.index.of_tier(Tier.CLOUD)), len(snapshot.nodes)
        others = cloud - nodes_to_find(cloud, self.cloud_percentage)
        return nodes - others // 2 if others and is_plain(snapshot, pods) else nodes

    def suggest(
        self,
        snapshot: Snapshot,
        movable: Movable,
        deadline: Deadline = NO_DEADLINE,
        lasting: Lasting = assumed,
    ) -> Suggestion:
        return suggest(
            snapshot,
            self.promises_in(snapshot),
            self.objective,
            self.limits,
            algorithm=self.algorithm,
            measure=self.measure,
            bounds=attrs.evolve(SUGGEST_BOUNDS, deadline=deadline, solver=self.solver),
            movable=movable,
            lasting=lasting,
            load=self.load,
        )

    def pack(
        self,
        snapshot: Snapshot,
        movable: Movable,
        deadline: Deadline = NO_DEADLINE,
        *,
        tier_share: float = 0.6,
        allow_evictions: bool = False,
    ) -> Packed:
        """Find what has to move so that more of the pods that wait have a node."""
        return pack(
            snapshot,
            self.promises_in(snapshot),
            self.objective,
            Bounds(deadline=deadline, solver=self.solver),
            movable,
            tier_share=tier_share,
            allow_evictions=allow_evictions,
        )
