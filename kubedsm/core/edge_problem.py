"""What may change on the edge, as arrays: the problem that both forms of `suggest` solve.

Pods of one workload that all nodes treat alike are an *item*. A change of the edge is a matrix of
integers, one row a node and one column an item: how many pods of the item come (above zero) or
leave. Its column sums are what the edge gains or loses, and that is all QoS depends on.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Self

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.core.cloud_hold import CloudHold
from kubedsm.core.fit import reasons, static_reasons
from kubedsm.core.fragmentation import Fragmentation, Ints, axes_of, canonical
from kubedsm.core.match import Bounds
from kubedsm.core.model import Node, NodeName, Pod, PodClass, Resources, Snapshot, Tier, Workload
from kubedsm.core.movable import Movable
from kubedsm.core.packing import Packing, kinds, turn

#: Larger amounts could overflow when a few of them are added.
_LARGEST = 2**58


def signed_row(amounts: Resources, axes: tuple[str, ...]) -> list[int]:
    """The amounts as a row of an array. Free room below zero stays so: it takes leaving to mend."""
    named = dict(amounts.items())
    return [min(max(named.get(name, 0), -_LARGEST), _LARGEST) for name in axes]


def leaving_turn(pod: Pod) -> tuple[float, str, str]:
    """The order in which pods of an item are moved: the youngest, that did the least yet, first."""
    return -pod.created, pod.namespace, pod.name


@attrs.frozen(eq=False)
class Item:
    workload: Workload
    requests: Resources
    #: the edge nodes that would take such a pod if they had room
    edge_nodes: frozenset[NodeName]
    #: as which kind of `CloudHold` such a pod goes to the cloud; None: no cloud node has room
    cloud_kind: int | None
    #: pods on the edge that may be moved, by node
    here: Mapping[NodeName, tuple[Pod, ...]]
    #: pods in the cloud that may be moved
    outside: tuple[Pod, ...]
    #: pods that wait for a node and fit on none now
    waiting: tuple[Pod, ...]

    @property
    def supply(self) -> int:
        """How many could come to the edge."""
        return len(self.outside) + len(self.waiting)


@attrs.frozen(eq=False)
class EdgeProblem:
    """I items, N edge nodes with room for R resources."""

    items: tuple[Item, ...]
    #: in name order
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
    #: N x I: room aside
    may_run: NDArray[np.bool_]
    #: I
    supply: Ints
    fragmentation: Fragmentation
    cloud: CloudHold

    @classmethod
    def of(
        cls, snapshot: Snapshot, movable: Movable, fragmentation: Fragmentation, bounds: Bounds
    ) -> Self:
        nodes = tuple(snapshot.of_tier(Tier.EDGE))
        cloud_nodes = snapshot.of_tier(Tier.CLOUD)
        at_edge = {node.name for node in nodes}
        here: list[Pod] = []
        outside: list[Pod] = []
        for pod in snapshot.pods.values():
            if pod.scheduler_name == snapshot.scheduler_name and not movable(pod):
                (here if pod.node_name in at_edge else outside).append(pod)
        waiting = _stranded(snapshot, [*nodes, *cloud_nodes])
        packing = Packing.of(
            kinds([*here, *outside, *waiting], cloud_nodes, snapshot.free),
            cloud_nodes,
            snapshot.free,
        )
        cloud = CloudHold(attrs.evolve(packing, counts=_count(packing, here)), bounds)
        items = _items(nodes, cloud, here, outside, waiting)
        axes = axes_of(
            [*(item.requests for item in items), *(vector for vector, _ in fragmentation.mix)]
        )
        shape = (len(nodes), len(items))
        return cls(
            items=items,
            nodes=nodes,
            axes=axes,
            requests=_rows((item.requests for item in items), axes),
            free=_rows((snapshot.free[node.name] for node in nodes), axes),
            allocatable=_rows((node.allocatable for node in nodes), axes),
            present=np.array(
                [[len(item.here.get(node.name, ())) for item in items] for node in nodes],
                dtype=np.int64,
            ).reshape(shape),
            may_run=np.array(
                [[node.name in item.edge_nodes for item in items] for node in nodes],
                dtype=np.bool_,
            ).reshape(shape),
            supply=np.array([item.supply for item in items], dtype=np.int64),
            fragmentation=fragmentation,
            cloud=cloud,
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
            may_run=self.may_run[:, kept],
            supply=self.supply[kept],
        )

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        return tuple(dict.fromkeys(item.workload for item in self.items))

    def costs(self, nodes: Ints, room: Ints) -> Ints:
        """The fragmentation of T nodes, given by index, with that free room, T x R."""
        return self.fragmentation.costs(self.axes, self.allocatable[nodes], np.maximum(room, 0))

    def cloud_counts(self, leaving: Ints) -> Ints | None:
        """How many of each of the cloud's kinds leave, when so many of each item do.

        None if one of them has no place in the cloud at all.
        """
        counts = np.zeros(len(self.cloud.packing.kinds), dtype=np.int64)
        for item, number in zip(self.items, leaving.tolist(), strict=True):
            if number:
                if item.cloud_kind is None:
                    return None
                counts[item.cloud_kind] += number
        return counts


def _count(packing: Packing, pods: Iterable[Pod]) -> Ints:
    """How many of the pods are of each kind."""
    uids = {pod.uid for pod in pods}
    return np.array(
        [sum(pod.uid in uids for pod in kind.pods) for kind in packing.kinds], dtype=np.int64
    )


def _rows(amounts: Iterable[Resources], axes: tuple[str, ...]) -> Ints:
    rows = [signed_row(amount, axes) for amount in amounts]
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(axes))


def _stranded(snapshot: Snapshot, nodes: list[Node]) -> list[Pod]:
    """The pods that wait for us and fit on no node; the others only have not had their turn."""
    fits: dict[PodClass, bool] = {}
    found = []
    for pod in snapshot.schedulable(snapshot.pods.values()):
        if pod.pod_class not in fits:
            fits[pod.pod_class] = any(
                not reasons(pod.pod_class, node, snapshot.free[node.name]) for node in nodes
            )
        if pod.counts_for_qos and not fits[pod.pod_class]:
            found.append(pod)
    return found


def _items(
    nodes: tuple[Node, ...],
    cloud: CloudHold,
    here: list[Pod],
    outside: list[Pod],
    waiting: list[Pod],
) -> tuple[Item, ...]:
    """In canonical order: by workload, then by what they request and where they may run."""
    taking: dict[PodClass, frozenset[NodeName]] = {}
    kind_of = {p.pod_class: i for i, kind in enumerate(cloud.packing.kinds) for p in kind.pods}
    usable = [bool(column.any()) for column in cloud.packing.feasible.T]
    parts: dict[
        tuple[Workload, Resources, frozenset[NodeName], int | None], tuple[list[Pod], ...]
    ] = {}
    for part, pods in enumerate((here, outside, waiting)):
        for pod in pods:
            pod_class = pod.pod_class
            if pod_class not in taking:
                # Amounts that nobody has would overflow the sums.
                absurd = any(amount > _LARGEST for _, amount in pod_class.requests.items())
                taking[pod_class] = frozenset(
                    n.name for n in nodes if not absurd and not static_reasons(pod_class, n)
                )
            kind = kind_of[pod_class]
            goes = kind if usable[kind] else None
            key = (pod.workload, pod_class.requests, taking[pod_class], goes)
            parts.setdefault(key, ([], [], []))[part].append(pod)
    ordered = sorted(
        parts.items(),
        key=lambda e: (e[0][0], canonical(e[0][1]), sorted(e[0][2]), e[0][3] is None, e[0][3] or 0),
    )
    return tuple(_item(key, *lists) for key, lists in ordered)


def _item(
    key: tuple[Workload, Resources, frozenset[NodeName], int | None],
    here: list[Pod],
    outside: list[Pod],
    waiting: list[Pod],
) -> Item:
    by_node: dict[NodeName, list[Pod]] = {}
    for pod in sorted(here, key=leaving_turn):
        if pod.node_name is not None:
            by_node.setdefault(pod.node_name, []).append(pod)
    return Item(
        *key,
        here={name: tuple(pods) for name, pods in by_node.items()},
        outside=tuple(sorted(outside, key=leaving_turn)),
        waiting=tuple(sorted(waiting, key=turn)),
    )
