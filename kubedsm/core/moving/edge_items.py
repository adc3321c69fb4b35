"""The items: pods of one workload that all nodes, and all other pods, treat alike."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product

import attrs

from kubedsm.core.goals.fragmentation import canonical
from kubedsm.core.moving.edge_rules import EdgeRules
from kubedsm.core.packing.problem import Kind, in_order
from kubedsm.core.placing.cloud_hold import CloudHold
from kubedsm.core.rules.feasibility import EquivalenceClass
from kubedsm.core.rules.fit import reasons, static_reasons
from kubedsm.core.world.model import (
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    Workload,
)
from kubedsm.core.world.node_index import Mask
from kubedsm.core.world.node_rows import NodeRows
from kubedsm.core.world.serving_order import serving_order
from kubedsm.core.world.snapshot import Snapshot


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

    def leaving(self, node: NodeName, number: int) -> "Item":
        """The same with no more than the first so many of that node that may be moved."""
        there = [pod for pod in self.outside if pod.node_name == node]
        outside = tuple(pod for pod in self.outside if pod not in there[number:])
        here = {name: pods[: number if name == node else None] for name, pods in self.here.items()}
        return attrs.evolve(self, here=here, outside=outside)

    def fetchable(self, number: int) -> Iterator[Pod]:
        """The pods in the cloud that may be among those that come, if so many come to the edge."""
        number -= len(self.waiting)
        for pods in self._outside_by_node.values():
            yield from pods[: max(number, 0)]

    def fetching(self, number: int) -> Iterator["Item"]:
        """The same with other pods of the cloud first: all ways in which nodes may lose so many."""
        by_node = self._outside_by_node
        for names in product(by_node, repeat=max(number - len(self.waiting), 0)):
            losing = Counter(names)
            if all(losing[name] <= len(by_node[name]) for name in losing):
                pods = {name: iter(by_node[name]) for name in losing}
                first = tuple(next(pods[name]) for name in names)
                others = (pod for pod in self.outside if pod not in first)
                yield attrs.evolve(self, outside=(*first, *others))

    @cached_property
    def _outside_by_node(self) -> Mapping[NodeName, tuple[Pod, ...]]:
        found: dict[NodeName, tuple[Pod, ...]] = {}
        for pod in self.outside:
            if pod.node_name is not None:
                found[pod.node_name] = (*found.get(pod.node_name, ()), pod)
        return found

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        return (*(p for pods in self.here.values() for p in pods), *self.outside, *self.waiting)


def stranded(snapshot: Snapshot, nodes: list[Node], rules: EdgeRules | None) -> list[Pod]:
    """The pods that wait for us and fit on no node; the others only have not had their turn.

    Without those that no node can ever hold.
    """
    fits: dict[PodClass, bool] = {}
    found = []
    for pod in snapshot.schedulable(snapshot.pods.values()):
        if pod.requests.beyond_any_node:
            continue
        if rules is not None:
            fitting = bool(rules.feasibility.feasible(pod))
        else:
            if pod.pod_class not in fits:
                fits[pod.pod_class] = any(
                    not reasons(pod.pod_class, node, snapshot.free[node.name]) for node in nodes
                )
            fitting = fits[pod.pod_class]
        if pod.counts_for_qos and not fitting:
            found.append(pod)
    return found


def ruled_kinds(pods: Iterable[Pod], rows: NodeRows, rules: EdgeRules) -> tuple[Kind, ...]:
    """What `packing.kinds` gives, with the nodes that the rules about others leave open, too."""
    merged: dict[tuple[Resources, bytes], tuple[Mask, list[Pod]]] = {}
    for pod in pods:
        open_to = rows.mask & rows.index.named(rules.open_to(pod))
        fitting = open_to & ~rows.room.short(pod.requests)
        merged.setdefault((pod.requests, fitting.tobytes()), (fitting, []))[1].append(pod)
    return in_order(
        Kind(requests, tuple(sorted(members, key=serving_order)), fitting)
        for (requests, _), (fitting, members) in merged.items()
    )


@attrs.frozen
class _Look:
    """What the pods of an item have in common."""

    workload: Workload
    requests: Resources
    edge_nodes: frozenset[NodeName]
    cloud_kind: int | None
    #: None if no rule about other pods concerns ours
    seen: EquivalenceClass | None

    @property
    def canonical(self) -> tuple[object, ...]:
        kind, seen = self.cloud_kind, self.seen
        told = ("", (), "") if seen is None else (seen.namespace, seen.labels, repr(seen.rules))
        nodes = sorted(self.edge_nodes)
        return self.workload, canonical(self.requests), nodes, kind is None, kind or 0, *told


def items_of(
    nodes: tuple[Node, ...],
    cloud: CloudHold,
    rules: EdgeRules | None,
    here: list[Pod],
    outside: list[Pod],
    waiting: list[Pod],
) -> tuple[Item, ...]:
    """In canonical order: by workload, then by what they request and where they may run."""
    taking: dict[PodClass, frozenset[NodeName]] = {}
    kind_of = {p.uid: i for i, kind in enumerate(cloud.packing.kinds) for p in kind.pods}
    usable = [bool(column.any()) for column in cloud.packing.feasible.T]
    parts: dict[_Look, tuple[list[Pod], ...]] = {}
    for part, pods in enumerate((here, outside, waiting)):
        for pod in pods:
            pod_class = pod.pod_class
            if pod_class not in taking:
                taking[pod_class] = frozenset(
                    n.name for n in nodes if not static_reasons(pod_class, n)
                )
            edge_nodes, seen = taking[pod_class], None
            if rules is not None:
                edge_nodes, seen = edge_nodes & rules.open_to(pod), rules.look(pod)
            kind = kind_of[pod.uid]
            goes = kind if usable[kind] else None
            look = _Look(pod.workload, pod_class.requests, edge_nodes, goes, seen)
            parts.setdefault(look, ([], [], []))[part].append(pod)
    ordered = sorted(parts.items(), key=lambda entry: entry[0].canonical)
    return tuple(_item(look, *lists) for look, lists in ordered)


def _item(look: _Look, here: list[Pod], outside: list[Pod], waiting: list[Pod]) -> Item:
    by_node: dict[NodeName, list[Pod]] = {}
    for pod in sorted(here, key=leaving_turn):
        if pod.node_name is not None:
            by_node.setdefault(pod.node_name, []).append(pod)
    return Item(
        look.workload,
        look.requests,
        look.edge_nodes,
        look.cloud_kind,
        here={name: tuple(pods) for name, pods in by_node.items()},
        outside=tuple(sorted(outside, key=leaving_turn)),
        waiting=tuple(sorted(waiting, key=serving_order)),
    )
