"""Where a pod may go within its tier, beside what else is moved, without a share of the edge."""

from collections.abc import Collection, Mapping
from functools import cached_property

import attrs

from kubedsm.model.model import Node, NodeName, Pod, Resources, Tier
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.moving.migration_graph import Order
from kubedsm.optimizer.moving.move_order import order_of
from kubedsm.optimizer.moving.suggestion import Move, MoveKind, SuggestLimits, count_legs
from kubedsm.optimizer.placing.batch_kinds import is_plain
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.fit import shortages

WITHIN = {Tier.EDGE: MoveKind.EDGE_TO_EDGE, Tier.CLOUD: MoveKind.CLOUD_TO_CLOUD}


@attrs.frozen(slots=False, eq=False)
class Beside:
    snapshot: Snapshot
    limits: SuggestLimits
    #: that are made anyway, with those of pods that wait
    others: Collection[Move] = ()

    def one_more(self, tier: Tier) -> bool:
        """Whether the limits leave one."""
        inside = sum(move.kind is MoveKind.EDGE_TO_EDGE for move in self.others)
        return count_legs(self.others) < self.limits.max_moves and (
            tier is not Tier.EDGE or inside < self.limits.max_edge_reorder
        )

    def open_to(self, pod: Pod) -> list[Node]:
        """The other nodes of its tier that take the pod now, and that it likes no less; in turn."""
        source = self.snapshot.nodes[self.snapshot.placed[pod.uid]]
        if source.tier is None or not self.one_more(source.tier):
            return []
        if self.others and not is_plain(self.snapshot, [pod]):
            return []  # where it may go could depend on them
        without = self._feasibility.without_pod(pod.uid)
        taking = set(without.feasible(pod))
        found = [
            node
            for node in self.snapshot.in_turn(source.tier).nodes
            if node.name in taking
            and node.name != source.name
            and not shortages(pod.requests, self.room[node.name])
        ]
        here, *there = without.penalties(pod, [source.name, *(node.name for node in found)])
        return [node for node, penalty in zip(found, there, strict=True) if penalty <= here]

    def kept(self, move: Move) -> bool:
        """Whether no rule that others have is broken by it."""
        return isinstance(order_of(self._feasibility, [move], self.room), Order)

    @cached_property
    def _feasibility(self) -> Feasibility:
        return Feasibility.of(self.snapshot)

    @cached_property
    def room(self) -> Mapping[NodeName, Resources]:
        """What is free beside all that comes, as long as nothing has left."""
        room = dict(self.snapshot.free)
        for move in self.others:
            for name in {move.target, move.stopover or move.target}:
                room[name] -= move.pod.requests
        return room
