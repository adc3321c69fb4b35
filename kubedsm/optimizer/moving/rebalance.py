"""A move so that no single node holds all of a workload.

The death of a node takes all of a workload that is nowhere else. Where another node of the same
tier has room, one pod goes there: no edge share changes, and one workload less is at risk. All
other moves raise the QoS, or put none at risk (see `take_groups`): so suggesting comes to an end.
"""

from collections.abc import Iterable, Iterator, Mapping

import attrs

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Node, NodeName, Pod, Tier, Uid, Workload
from kubedsm.model.node_order import zone_of
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Promises
from kubedsm.optimizer.moving.beside import WITHIN, Beside
from kubedsm.optimizer.moving.edge_items import leaving_turn
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.suggestion import Move
from kubedsm.optimizer.placing.cloud import score_with


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


@attrs.frozen(eq=False)
class Rebalancing:
    """Looks for such moves, any of which can be carried out beside others, as if it were alone."""

    beside: Beside
    movable: Movable
    fragmentation: Fragmentation
    deadline: Deadline

    def possible(self, gains: Gains, promises: Promises) -> Iterator[Move]:
        """One of each workload: of highest priority, then of most weight, then of most pods."""
        if not self.beside.one_more(Tier.CLOUD):
            return
        at_risk = on_one_node(self.beside.snapshot)

        def turn(workload: Workload) -> tuple[int, float, int, Workload]:
            level, weight = gains.level[workload], promises(workload).weight
            return level, -weight, -len(at_risk[workload]), workload

        moving = {move.pod.workload for move in self.beside.others}
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
        snapshot = self.beside.snapshot
        source, targets = snapshot.nodes[snapshot.placed[pod.uid]], self.beside.open_to(pod)
        if source.tier is None or not targets:
            return None
        costs = self._costs(pod, targets, source.tier)
        ranked = sorted(
            (zone_of(node) == zone_of(source), cost, turn, node.name)
            for turn, (node, cost) in enumerate(zip(targets, costs, strict=True))
        )
        kind = WITHIN[source.tier]
        moves = (Move(pod, source.name, name, kind, rebalances=True) for *_, name in ranked)
        return next(filter(self.beside.kept, moves), None)

    def _costs(self, pod: Pod, nodes: list[Node], tier: Tier) -> list[int]:
        """What each of these nodes is ranked by, as for new pods, the least first."""
        room = self.beside.room
        if tier is Tier.EDGE:
            return self.fragmentation.added(pod.requests, nodes, room)
        return [-score_with(pod.requests, node, room[node.name]) for node in nodes]
