"""A batch of pods that are to be placed, and what is known of where they could go."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

from kubedsm.core.goals.fragmentation import Fragmentation
from kubedsm.core.goals.objective import Objective, Promises, quality
from kubedsm.core.goals.replica_spread import ReplicaSpread
from kubedsm.core.packing.match import Bounds
from kubedsm.core.packing.problem import NO_RANK, Kind, Packing, Rank, Turn, kinds
from kubedsm.core.placing.alone import place_alone
from kubedsm.core.placing.beyond.integer_choice import PLACED, QOS
from kubedsm.core.placing.beyond.shortfalls import amounts, shortfalls
from kubedsm.core.placing.decision import Binding, Choice, Decision, make_decision, room_after
from kubedsm.core.placing.proof import Proof, plain_proof
from kubedsm.core.placing.replica_ladders import ReplicaLadders
from kubedsm.core.rules.class_verdicts import rejections
from kubedsm.core.rules.rejection import Rejection
from kubedsm.core.solving.in_order import Certificate
from kubedsm.core.world.model import (
    NodeName,
    Pod,
    PodClass,
    Share,
    Tier,
    Uid,
    Workload,
    shares_after,
)
from kubedsm.core.world.node_rows import NodeRows
from kubedsm.core.world.serving_order import levels_of
from kubedsm.core.world.snapshot import Snapshot


@attrs.frozen(eq=False)
class Batch:
    snapshot: Snapshot
    #: in the order in which they are served
    pods: Sequence[Pod]
    shares: Mapping[Workload, Share]
    promises: Promises
    objective: Objective
    fragmentation: Fragmentation
    bounds: Bounds
    #: None if no pod goes before others
    ranks: Mapping[Uid, Rank] | None
    #: of the workloads of the batch, without it; None if it does not matter
    spread: ReplicaSpread | None
    edge: NodeRows = attrs.field(init=False)
    cloud: NodeRows = attrs.field(init=False)

    @edge.default
    def _edge(self) -> NodeRows:
        return self.snapshot.in_turn(Tier.EDGE)

    @cloud.default
    def _cloud(self) -> NodeRows:
        return self.snapshot.in_turn(Tier.CLOUD)

    def alone(self, pod: Pod) -> Choice:
        share, promise = self.shares.get(pod.workload, Share()), self.promises(pod.workload)
        return place_alone(
            pod,
            self.edge,
            self.cloud,
            self.objective.gain(share, promise),
            self.fragmentation,
            self.spread,
        )

    def plain_choice(self) -> Choice:
        return self.choice(kinds(self.pods, self.edge + self.cloud, self.ranks))

    def choice(self, batch_kinds: Sequence[Kind]) -> Choice:
        measured = [vector for vector, _ in self.fragmentation.mix]
        replicas = at_edge = in_cloud = None
        if self.spread is not None:
            replicas = ReplicaLadders.of(batch_kinds, self.edge + self.cloud, self.spread)
            at_edge, in_cloud = replicas.on(self.edge), replicas.on(self.cloud)
        return make_decision(
            Packing.of(batch_kinds, self.edge, measured, at_edge),
            Packing.of(batch_kinds, self.cloud, ladders=in_cloud),
            self.shares,
            self.promises,
            self.objective,
            self.fragmentation,
            self.bounds,
            replicas,
        )

    def bindings(self, choice: Choice) -> tuple[Binding, ...]:
        """In the order in which the pods are served."""
        placed = {
            pod.uid: Binding(pod, node, tier)
            for tier, targets in ((Tier.EDGE, choice.edge), (Tier.CLOUD, choice.cloud))
            for pod, node in targets
        }
        return tuple(placed[pod.uid] for pod in self.pods if pod.uid in placed)

    def shares_after(self, bindings: Iterable[Binding]) -> dict[Workload, Share]:
        more = Counter(b.pod.workload for b in bindings if b.tier is Tier.EDGE)
        return shares_after(self.shares, more)

    def standing(self, bindings: Sequence[Binding]) -> tuple[list[int], list[int]]:
        """What they are worth before preferences: pods by their turn, then QoS by level."""
        placed, worth = self.by_turn(bindings), self.by_level(bindings)
        return (
            [placed[turn] for turn in sorted(placed, reverse=True)],
            [worth[level] for level in sorted(worth, reverse=True)],
        )

    def by_turn(self, bindings: Iterable[Binding]) -> dict[Turn, int]:
        """How many of their pods have each turn of the batch."""
        placed = dict.fromkeys(map(self.turn, self.pods), 0)
        for binding in bindings:
            placed[self.turn(binding.pod)] += 1
        return placed

    def by_level(self, bindings: Iterable[Binding]) -> dict[int, int]:
        """The QoS of the workloads of the batch that have each level."""
        after, levels = self.shares_after(bindings), levels_of(self.pods) or {}
        by_level: dict[int, dict[Workload, Share]] = {}
        for pod in self.pods:
            if pod.workload in after:
                level = by_level.setdefault(levels.get(pod.workload, 0), {})
                level[pod.workload] = after[pod.workload]
        return {
            level: quality(of_level, self.promises, self.objective)
            for level, of_level in by_level.items()
        }

    def certificates(
        self, bindings: Sequence[Binding], most: Choice, proof: Proof
    ) -> tuple[Certificate, ...]:
        """Of what is not proven; `most` is no worse than any placement, but for its own."""
        known = {PLACED: proof.placed, QOS: proof.qos}
        if all(known.values()):
            return ()
        none = self.by_level(())
        reached, best = (
            amounts(self.by_turn(of), {at: n - none[at] for at, n in self.by_level(of).items()})
            for of in (bindings, self.bindings(most))
        )
        found = shortfalls(reached, best, most.certificates)
        return tuple(each for each in found if not known[each.goal])

    def turn(self, pod: Pod) -> Turn:
        """Pods with a greater one are placed before any number with a lesser."""
        return (self.ranks[pod.uid] if self.ranks else NO_RANK).turn

    def plain_proof(self, bindings: Sequence[Binding]) -> Proof:
        on_edge = sum(binding.tier is Tier.EDGE for binding in bindings)
        return plain_proof(len(self.pods), len(bindings), on_edge)

    def decision(
        self,
        bindings: tuple[Binding, ...],
        unplaced: Mapping[Uid, Mapping[NodeName, Rejection]],
        fragmentation: int,
        proof: Proof,
    ) -> Decision:
        after = self.shares_after(bindings)
        before = quality(self.shares, self.promises, self.objective)
        changed = {binding.pod.workload for binding in bindings} & after.keys()
        then, now = (
            quality({workload: of[workload] for workload in changed}, self.promises, self.objective)
            for of in (self.shares, after)
        )
        return Decision(
            bindings=bindings,
            unplaced=unplaced,
            score_before=before,
            score_after=before - then + now,
            fragmentation=fragmentation,
            proof=proof,
            shares_before=self.shares,
            shares_after=after,
        )

    def why_not(
        self, bindings: Sequence[Binding], unplaced: Sequence[Pod]
    ) -> dict[Uid, Mapping[NodeName, Rejection]]:
        """What each node has against each of these pods, once the bindings are carried out."""
        snapshot = self.snapshot
        if not unplaced:
            return {}
        free = room_after(snapshot.free, bindings)
        room = snapshot.room.now(free, {binding.node for binding in bindings})
        known: dict[PodClass, Mapping[NodeName, Rejection]] = {}
        answers: dict[Uid, Mapping[NodeName, Rejection]] = {}
        for pod in unplaced:
            if pod.pod_class not in known:
                known[pod.pod_class] = rejections(pod.pod_class, snapshot.index, room)
            answers[pod.uid] = known[pod.pod_class]
        return answers


def others(pods: Iterable[Pod], bindings: Iterable[Binding]) -> list[Pod]:
    """Those that have none of the bindings."""
    placed = {binding.pod.uid for binding in bindings}
    return [pod for pod in pods if pod.uid not in placed]
