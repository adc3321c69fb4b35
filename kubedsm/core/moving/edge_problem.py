"""What may change on the edge, as arrays: the problem that both forms of `suggest` solve.

Pods of one workload that all nodes, and all other pods, treat alike are an *item*. A change of the
edge is a matrix of integers, one row a node and one column an item: how many pods of the item come
(above zero) or leave. Its column sums are what the edge gains or loses, and that is all QoS depends
on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Self

import attrs
import numpy as np

from kubedsm.core.goals.fragmentation import Fragmentation, Ints, axes_of
from kubedsm.core.moving.edge_items import Item, items_of, ruled_kinds, stranded
from kubedsm.core.moving.edge_rules import Clash, EdgeRules
from kubedsm.core.moving.edge_spread import EdgeSpread
from kubedsm.core.moving.movable import Movable
from kubedsm.core.packing.match import Bounds
from kubedsm.core.packing.problem import Packing, kinds
from kubedsm.core.placing.cloud_hold import CloudHold
from kubedsm.core.world.model import (
    MOST_OF_A_NODE,
    Node,
    NodeName,
    Pod,
    Resources,
    Tier,
    Workload,
)
from kubedsm.core.world.room import Room
from kubedsm.core.world.snapshot import Snapshot

#: More pods than there are.
_ALL = 2**31


def signed_row(amounts: Resources, axes: tuple[str, ...]) -> list[int]:
    """The amounts as a row of an array. Free room below zero stays so: it takes leaving to mend."""
    named = dict(amounts.items())
    return [min(max(named.get(name, 0), -MOST_OF_A_NODE), MOST_OF_A_NODE) for name in axes]


@attrs.frozen(eq=False)
class EdgeProblem:
    """I items, N edge nodes with room for R resources."""

    items: tuple[Item, ...]
    #: the first ones are filled first, where nothing else tells them apart
    nodes: tuple[Node, ...]
    axes: tuple[str, ...]
    #: I x R
    requests: Ints
    #: N x R; below zero on a node that is over-committed
    free: Ints
    #: N x R
    allocatable: Ints
    #: N x I: pods that may leave
    present: Ints
    #: N x I: how many may come, room aside
    most: Ints
    #: I
    supply: Ints
    #: I: how many may go to the cloud, room aside
    away: Ints
    fragmentation: Fragmentation
    spread: EdgeSpread
    cloud: CloudHold
    #: what is free now, on nodes of every tier
    room: Mapping[NodeName, Resources]
    #: None if no rule about other pods concerns ours
    rules: EdgeRules | None = None
    clashes: tuple[Clash, ...] = ()

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        movable: Movable,
        fragmentation: Fragmentation,
        bounds: Bounds,
        *,
        spread: bool = False,
    ) -> Self:
        """`spread`: whether it counts how the replicas of a workload stand together."""
        nodes = snapshot.in_turn(Tier.EDGE).nodes
        cloud_rows = snapshot.in_turn(Tier.CLOUD)
        at_edge = {node.name for node in nodes}
        here: list[Pod] = []
        outside: list[Pod] = []
        for pod in snapshot.pods.values():
            if pod.scheduler_name == snapshot.scheduler_name and not movable(pod):
                (here if pod.node_name in at_edge else outside).append(pod)
        rules = EdgeRules.of(snapshot, [*here, *outside])
        waiting = stranded(snapshot, [*nodes, *cloud_rows.nodes], rules)
        pods = [*here, *outside, *waiting]
        room = Room(cloud_rows.index, _vacated(snapshot.free, outside))
        vacated = attrs.evolve(cloud_rows, room=room)
        packing = Packing.of(
            kinds(pods, vacated) if rules is None else ruled_kinds(pods, vacated, rules), cloud_rows
        )
        cloud = CloudHold(attrs.evolve(packing, counts=_count(packing, here)), bounds)
        items = items_of(nodes, cloud, rules, here, outside, waiting)
        axes = axes_of(
            [*(item.requests for item in items), *(vector for vector, _ in fragmentation.mix)]
        )
        return cls(
            items=items,
            nodes=nodes,
            axes=axes,
            requests=_rows((item.requests for item in items), axes),
            free=_rows((snapshot.free[node.name] for node in nodes), axes),
            allocatable=_rows((node.allocatable for node in nodes), axes),
            present=_by_node(nodes, items, lambda item, name: len(item.here.get(name, ()))),
            most=_by_node(nodes, items, lambda item, name: _ALL * (name in item.edge_nodes)),
            supply=np.array([item.supply for item in items], dtype=np.int64),
            away=np.full(len(items), _ALL),
            fragmentation=fragmentation,
            spread=EdgeSpread.of(snapshot, items, nodes)
            if spread
            else EdgeSpread.none(len(nodes), len(items)),
            cloud=cloud,
            room=snapshot.free,
            rules=rules,
            clashes=tuple(
                rules.clashes([item.pods[0] for item in items], nodes, bounds.deadline)
                if rules
                else ()
            ),
        )

    def only(self, workloads: Iterable[Workload]) -> "EdgeProblem":
        """The same, with all pods of other workloads left where they are."""
        wanted = frozenset(workloads)
        kept = [i for i, item in enumerate(self.items) if item.workload in wanted]
        return attrs.evolve(
            self,
            items=tuple(self.items[i] for i in kept),
            requests=self.requests[kept],
            present=self.present[:, kept],
            most=self.most[:, kept],
            supply=self.supply[kept],
            away=self.away[kept],
            spread=self.spread.only(kept),
            clashes=tuple(
                (on, kept.index(one), kept.index(other))
                for on, one, other in self.clashes
                if one in kept and other in kept
            ),
        )

    def item_of(self, pod: Pod) -> int:
        """The index of its item; it must be of one."""
        return next(at for at, item in enumerate(self.items) if pod in item.pods)

    def at_most(self, pod: Pod, node: NodeName, number: int) -> "EdgeProblem":
        """The same with no more than so many pods of that pod's item sent to that node.

        For a node that is none of the edge: to the cloud.
        """
        item = self.item_of(pod)
        names = [one.name for one in self.nodes]
        most, away = self.most.copy(), self.away.copy()
        if node in names:
            most[names.index(node), item] = number
        else:
            away[item] = number
        return attrs.evolve(self, most=most, away=away)

    def at_most_leaving(self, pod: Pod, node: NodeName, number: int) -> "EdgeProblem":
        """The same with all but so many pods of that pod's item on that node staying there."""
        at = self.item_of(pod)
        item = self.items[at].leaving(node, number)
        present, supply = self.present.copy(), self.supply.copy()
        present[:, at] = [len(item.here.get(one.name, ())) for one in self.nodes]
        supply[at] = item.supply
        items = (*self.items[:at], item, *self.items[at + 1 :])
        return attrs.evolve(self, items=items, present=present, supply=supply)

    def to_fill(self, headroom: float) -> Ints:
        """R: how much of the free room pods of the cloud may take.

        That part of all cpu and memory, which are the first two axes, is kept free.
        """
        room: Ints = np.maximum(self.free, 0).sum(axis=0)
        kept = np.zeros_like(room)
        kept[:2] = np.rint(self.allocatable.sum(axis=0)[:2] * headroom)
        left: Ints = np.maximum(room - kept, 0)
        return left

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        return tuple(dict.fromkeys(item.workload for item in self.items))

    def costs(self, nodes: Ints, room: Ints) -> Ints:
        """The fragmentation of T nodes, given by index, with that free room, T x R."""
        return self.fragmentation.costs(self.axes, self.allocatable[nodes], np.maximum(room, 0))

    def cloud_room(self, pods: Iterable[Pod]) -> Ints:
        """What these pods of the cloud hold there, as rows of its packing."""
        packing = self.cloud.packing
        at = {node.name: index for index, node in enumerate(packing.nodes)}
        room = np.zeros_like(packing.free)
        for pod in pods:
            if pod.node_name in at:
                room[at[pod.node_name]] += np.array(signed_row(pod.requests, packing.axes))
        return room

    def cloud_counts(self, leaving: Ints) -> Ints | None:
        """How many of each of the cloud's kinds leave, when so many of each item do.

        None if one of them has no place in the cloud at all.
        """
        counts = np.zeros(len(self.cloud.packing.kinds), dtype=np.int64)
        for item, number, most in zip(
            self.items, leaving.tolist(), self.away.tolist(), strict=True
        ):
            if number:
                if item.cloud_kind is None or number > most:
                    return None
                counts[item.cloud_kind] += number
        return counts


def _by_node(
    nodes: Sequence[Node], items: Sequence[Item], count: Callable[[Item, NodeName], int]
) -> Ints:
    """N x I."""
    counts = [[count(item, node.name) for item in items] for node in nodes]
    return np.array(counts, dtype=np.int64).reshape(len(nodes), len(items))


def _vacated(
    free: Mapping[NodeName, Resources], leaving: Iterable[Pod]
) -> Mapping[NodeName, Resources]:
    """What would be free if all of these left."""
    room = dict(free)
    for pod in leaving:
        if pod.node_name in room:
            room[pod.node_name] += pod.requests
    return room


def _count(packing: Packing, pods: Iterable[Pod]) -> Ints:
    """How many of the pods are of each kind."""
    uids = {pod.uid for pod in pods}
    return np.array(
        [sum(pod.uid in uids for pod in kind.pods) for kind in packing.kinds], dtype=np.int64
    )


def _rows(amounts: Iterable[Resources], axes: tuple[str, ...]) -> Ints:
    rows = [signed_row(amount, axes) for amount in amounts]
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(axes))
