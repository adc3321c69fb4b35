"""A move so that no single node holds all of a workload.

The death of a node takes all of a workload that is nowhere else. Where another node of the same
tier has room, one pod goes there: no edge share changes, and one workload less is at risk. All
other moves raise the QoS, or put none at risk (see `take_groups`): so suggesting comes to an end.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

import attrs

from kubedsm.core.goals.fragmentation import Fragmentation
from kubedsm.core.goals.gains import Gains
from kubedsm.core.goals.objective import Promises
from kubedsm.core.moving.edge_items import leaving_turn
from kubedsm.core.moving.movable import Movable
from kubedsm.core.moving.move_groups import Order, legs_of
from kubedsm.core.moving.move_order import order_of
from kubedsm.core.moving.suggestion import Move, MoveKind, SuggestLimits
from kubedsm.core.placing.batch_kinds import is_plain
from kubedsm.core.placing.cloud import score_with
from kubedsm.core.rules.feasibility import Feasibility
from kubedsm.core.rules.fit import shortages
from kubedsm.core.world.deadline import Deadline
from kubedsm.core.world.model import (
    Node,
    NodeName,
    Pod,
    Resources,
    Tier,
    Uid,
    Workload,
)
from kubedsm.core.world.node_order import zone_of
from kubedsm.core.world.snapshot import Snapshot

_WITHIN = {Tier.EDGE: MoveKind.EDGE_TO_EDGE, Tier.CLOUD: MoveKind.CLOUD_TO_CLOUD}


def on_one_node(
    snapshot: Snapshot, moved: Mapping[Uid, NodeName] | None = None
) -> dict[Workload, list[Pod]]:
    """The workloads of two Ready pods or more that one node's death would take whole; their pods.

    `moved`: where pods are that are not where the snapshot has them.
    """
    moved = moved or {}
    placed, scheduler_name = {**snapshot.placed, **moved}, snapshot.scheduler_name
    suspects = _suspects(snapshot, moved)
    pods: dict[Workload, list[Pod]] = {}
    for pod in snapshot.pods.values() if suspects else ():
        if pod.workload in suspects and pod.scheduler_name == scheduler_name and pod.counts_for_qos:
            pods.setdefault(pod.workload, []).append(pod)
    return {
        workload: members
        for workload, members in pods.items()
        if sum(pod.ready for pod in members) > 1
        and len({placed.get(pod.uid) for pod in members}) == 1
    }


def _suspects(snapshot: Snapshot, moved: Iterable[Uid]) -> set[Workload]:
    """The workloads that may be on one node, as far as it is told by how many pods are where."""
    standing = snapshot.census.standing
    suspects = {
        workload
        for workload, share in snapshot.shares().items()
        if share.total > 1
        and max(standing.get(workload, {}).values(), default=share.total) >= share.total
    }
    return suspects | {snapshot.pods[uid].workload for uid in moved}


@attrs.frozen(slots=False, eq=False)
class Rebalancing:
    """Looks for such moves, any of which can be carried out beside others, as if it were alone."""

    snapshot: Snapshot
    movable: Movable
    limits: SuggestLimits
    fragmentation: Fragmentation
    deadline: Deadline
    #: with those of pods that wait
    others: Collection[Move]

    def possible(self, gains: Gains, promises: Promises) -> Iterator[Move]:
        """One of each workload: of highest priority, then of most weight, then of most pods."""
        if legs_of(self.others) >= self.limits.max_moves:
            return
        at_risk = on_one_node(self.snapshot)

        def turn(workload: Workload) -> tuple[int, float, int, Workload]:
            level, weight = gains.level[workload], promises(workload).weight
            return level, -weight, -len(at_risk[workload]), workload

        moving = {move.pod.workload for move in self.others}
        for workload in sorted(at_risk.keys() - moving, key=turn):
            # Of those that nodes and rules treat alike the youngest.
            pods = {p.pod_class: p for p in sorted(at_risk[workload], key=leaving_turn)[::-1]}
            for pod in sorted(pods.values(), key=leaving_turn):
                if self.deadline.passed:
                    return
                if not self.movable(pod) and (move := self._of(pod)):
                    yield move
                    break

    def _of(self, pod: Pod) -> Move | None:
        """To another zone rather, then where it costs least."""
        source = self.snapshot.nodes[self.snapshot.placed[pod.uid]]
        if source.tier is None or not self._within_limits(source.tier):
            return None
        if self.others and not is_plain(self.snapshot, [pod]):
            return None  # where it may go could depend on them
        targets = self._open_to(pod, source, source.tier)
        costs = self._costs(pod, targets, source.tier)
        ranked = sorted(
            (zone_of(node) == zone_of(source), cost, turn, node.name)
            for turn, (node, cost) in enumerate(zip(targets, costs, strict=True))
        )
        kind = _WITHIN[source.tier]
        moves = (Move(pod, source.name, name, kind, rebalances=True) for *_, name in ranked)
        return next(filter(self._kept, moves), None)

    def _within_limits(self, tier: Tier) -> bool:
        inside = sum(move.kind is MoveKind.EDGE_TO_EDGE for move in self.others)
        return tier is not Tier.EDGE or inside < self.limits.max_edge_reorder

    def _open_to(self, pod: Pod, source: Node, tier: Tier) -> list[Node]:
        """The other nodes of the tier that take the pod now, and that it likes no less."""
        without = self._feasibility.without_pod(pod.uid)
        taking = set(without.feasible(pod))
        found = [
            node
            for node in self.snapshot.in_turn(tier).nodes
            if node.name in taking
            and node.name != source.name
            and not shortages(pod.requests, self._room[node.name])
        ]
        here, *there = without.penalties(pod, [source.name, *(node.name for node in found)])
        return [node for node, penalty in zip(found, there, strict=True) if penalty <= here]

    def _costs(self, pod: Pod, nodes: list[Node], tier: Tier) -> list[int]:
        """What each of these nodes is ranked by, as for new pods, the least first."""
        if tier is Tier.EDGE:
            return self.fragmentation.added(pod.requests, nodes, self._room)
        return [-score_with(pod.requests, node, self._room[node.name]) for node in nodes]

    def _kept(self, move: Move) -> bool:
        """Whether no rule that others have is broken by it."""
        return isinstance(order_of(self._feasibility, [move], self._room), Order)

    @cached_property
    def _feasibility(self) -> Feasibility:
        return Feasibility.of(self.snapshot)

    @cached_property
    def _room(self) -> Mapping[NodeName, Resources]:
        """What is free beside all that comes, as long as nothing has left."""
        room = dict(self.snapshot.free)
        for move in self.others:
            for name in {move.target, move.stopover or move.target}:
                room[name] -= move.pod.requests
        return room
