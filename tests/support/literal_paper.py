"""Algorithms 2, 3, 5 and 6 of the paper in literal form: oracle of `core.moving.paper`.

Subsets are enumerated, and candidates sorted again in each step. The cloud is unlimited, as in the
paper.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import attrs

from kubedsm.model.model import Node, NodeName, Pod, Resources, Share, Tier, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation
from kubedsm.objective.objective import Objective, QosTargets, quality
from kubedsm.optimizer.matching.best_fit import pod_size
from kubedsm.optimizer.moving.movable import Movable
from support.literal_match import literal_fragmentation, literal_match

Shares = Mapping[Workload, Share]
Free = Mapping[NodeName, Resources]


@attrs.frozen
class LiteralReorder:
    #: of all edge nodes
    fragmentation: int
    moves: int


@attrs.frozen(eq=False)
class LiteralDecision:
    chosen: tuple[Pod, ...]
    freed: tuple[Pod, ...]
    #: nano-units
    qos: int
    reorder: LiteralReorder

    @property
    def rank(self) -> tuple[int, int]:
        return self.qos, -len(self.chosen) - len(self.freed)


@attrs.frozen(eq=False)
class LiteralPaper:
    snapshot: Snapshot
    qos_targets: QosTargets
    objective: Objective
    fragmentation: Fragmentation
    movable: Movable

    @property
    def edge(self) -> list[Node]:
        return self.snapshot.of_tier(Tier.EDGE)

    def pods(self, tier: Tier) -> list[Pod]:
        """Return the movable pods of a tier."""
        names = {node.name for node in self.snapshot.of_tier(tier)}
        return sorted(
            (
                p
                for p in self.snapshot.pods.values()
                if p.node_name in names and not self.movable(p)
            ),
            key=_canonical_turn,
        )

    def size(self, pod: Pod) -> float:
        return pod_size(
            pod.requests,
            Resources(
                cpu=max(node.allocatable.cpu for node in self.edge),
                memory=max(node.allocatable.memory for node in self.edge),
            ),
        )

    def room(self) -> Resources:
        """Return the total free capacity of all edge nodes."""
        total = Resources()
        for node in self.edge:
            free = self.snapshot.free[node.name].items()
            total += Resources.of({name: max(0, amount) for name, amount in free})
        return total

    def gain(self, shares: Shares, pod: Pod, change: int) -> float:
        """Return the change of QoS per pod size if the workload's edge pods change by `change`."""
        after = quality(_changed(shares, pod, change), self.qos_targets, self.objective)
        return (after - quality(shares, self.qos_targets, self.objective)) / self.size(pod)

    def candidates(self, most: int) -> list[Pod]:
        """Algorithm 2: return cloud pods that fit into the edge's total free capacity."""
        shares: Shares = self.snapshot.census.shares
        room, left = self.room(), self.pods(Tier.CLOUD)
        found: list[Pod] = []
        while left and len(found) < most:
            left.sort(key=lambda pod: (-self.gain(shares, pod, 1), _canonical_turn(pod)))
            pod = left.pop(0)
            if self.gain(shares, pod, 1) <= 0:
                break
            if _covers(room, pod.requests):
                found.append(pod)
                room -= pod.requests
                shares = _changed(shares, pod, 1)
        return found

    def free_edge(self, need: Resources) -> list[Pod] | None:
        """Algorithm 5 (freeEdgeAsNeeded): return edge pods to evict for `need`, or None."""
        shares: Shares = self.snapshot.census.shares
        room, left = self.room(), self.pods(Tier.EDGE)
        freed: list[Pod] = []
        while not _covers(room, need):
            if not left:
                return None
            left.sort(key=lambda pod: (-self.gain(shares, pod, -1), _canonical_turn(pod)))
            pod = left.pop(0)
            freed.append(pod)
            room += pod.requests
            shares = _changed(shares, pod, -1)
        return freed

    def reorder(self, free: Free, pods: Sequence[Pod], most: int) -> LiteralReorder:
        """Algorithm 6 (reorderEdge): move up to `most` edge pods to reduce fragmentation."""
        costs: dict[tuple[NodeName, Resources], int] = {}

        def cost(node: Node, room: Resources) -> int:
            key = (node.name, room)
            if key not in costs:
                costs[key] = literal_fragmentation(self.fragmentation, node, room)
            return costs[key]

        best = LiteralReorder(sum(cost(node, free[node.name]) for node in self.edge), 0)
        for number in range(1, most + 1):
            for taken in combinations(pods, number):
                room = dict(free)
                for pod in taken:
                    if pod.node_name is not None:
                        room[pod.node_name] += pod.requests
                found = literal_match(taken, self.edge, room, self.fragmentation).costs[-1]
                if found is not None and found < best.fragmentation:
                    best = LiteralReorder(found, number)
        return best

    def subset(self, candidates: Sequence[Pod], mask: int, reorders: int) -> LiteralDecision | None:
        """Return the decision that migrates a subset of the candidates to the edge; None if
        infeasible.
        """
        chosen = [pod for at, pod in enumerate(candidates) if mask >> at & 1]
        need, after = Resources(), self.snapshot.census.shares
        for pod in chosen:
            need += pod.requests
            after = _changed(after, pod, 1)
        freed = self.free_edge(need)
        if freed is None:
            return None
        free = dict(self.snapshot.free)
        for pod in freed:
            after = _changed(after, pod, -1)
            if pod.node_name is not None:
                free[pod.node_name] += pod.requests
        staying = [pod for pod in self.pods(Tier.EDGE) if pod not in freed]
        return LiteralDecision(
            tuple(chosen),
            tuple(freed),
            quality(after, self.qos_targets, self.objective),
            self.reorder(free, staying, reorders),
        )

    def decide(self, candidates: Sequence[Pod], reorders: int) -> LiteralDecision:
        """Algorithm 3 with migration: return the best decision over all subsets."""
        best: LiteralDecision | None = None
        for mask in range(1 << len(candidates)):
            found = self.subset(candidates, mask, reorders)
            if found is not None and (best is None or found.rank > best.rank):
                best = found
        if best is None:
            raise AssertionError("the empty subset needs no room")
        return best


def _canonical_turn(pod: Pod) -> tuple[object, ...]:
    return (
        pod.workload,
        pod.requests,
        pod.node_name if pod.node_name is not None else "",
        -pod.created,
        pod.namespace,
        pod.name,
    )


def _changed(shares: Shares, pod: Pod, change: int) -> dict[Workload, Share]:
    share = shares[pod.workload]
    return {**shares, pod.workload: Share(share.edge + change, share.total)}


def _covers(room: Resources, need: Resources) -> bool:
    return all(amount <= room.amount(name) for name, amount in need.items() if amount)
