"""Items: movable pods of one workload that all nodes and all other pods treat alike.

Rules between pods depend on the other migrations. `EdgeRules` has only verdicts of nodes and fixed
pods, and pairs of pods that can never share a node; `move_order` checks complete migration sets.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Self

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    SchedulingRules,
    Tier,
    Toleration,
    Uid,
    Workload,
    serving_order,
)
from kubedsm.model.node_index import Mask, NodeRows, Room
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import axes_of, canonical
from kubedsm.optimizer.matching.problem import (
    NO_RANK,
    UNLIMITED,
    Kind,
    group_kinds,
    merge_kinds,
)
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility
from kubedsm.plugins.plugin import speaks_of_others
from kubedsm.plugins.plugins import fitting_nodes, open_nodes

#: Mask of nodes, N, and two items that exclude each other there.
Clash = tuple[Mask, int, int]

_NO_RULES = SchedulingRules()
_TOLERANT = (Toleration(operator="Exists"),)


@attrs.frozen(eq=False)
class EdgeRules:
    #: with all running pods
    feasibility: Feasibility
    #: without movable pods
    _staying: Feasibility
    #: without any pod
    _empty: Feasibility
    _open_to: dict[EquivalenceClass, Mask] = attrs.field(factory=dict)
    _clashes: dict[tuple[Uid, ...], list[Clash]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, movable: Iterable[Pod]) -> "EdgeRules | None":
        """Return the rules; None if no rule between pods concerns our pods."""
        classes = snapshot.census.classes
        if not any(c.rules.anti_affinity or speaks_of_others(c) for c in classes):
            return None
        by_class = {(id(p.pod_class), p.scheduler_name): p for p in snapshot.pods.values()}
        if not any(
            pod.pod_class.rules.anti_affinity
            or (pod.scheduler_name == snapshot.scheduler_name and speaks_of_others(pod.pod_class))
            for pod in by_class.values()
        ):
            return None
        return cls(
            Feasibility.of(snapshot),
            Feasibility.of(snapshot.without(pod.uid for pod in movable)),
            Feasibility.of(snapshot.without(snapshot.placed)),
        )

    def look(self, pod: Pod) -> EquivalenceClass:
        """Return the equivalence class towards other pods, nodes and volume claims aside."""
        seen = self.feasibility.equivalence(pod)
        rules = _NO_RULES
        if speaks_of_others(pod.pod_class):
            rules = attrs.evolve(seen.rules, preferences=_NO_RULES.preferences, claims=())
        return attrs.evolve(seen, pod_class=PodClass(Resources(), rules))

    def open_to(self, pod: Pod) -> Mask:
        """Return the nodes that may accept the pod for some positions of the movable pods.

        Capacity aside. Affinity and spread are left out: other pods may come near.
        """
        kind = self.feasibility.equivalence(pod)
        if kind not in self._open_to:
            rules = attrs.evolve(pod.pod_class.rules, affinity=(), spread=())
            self._open_to[kind] = self._staying.taking(_with_rules(pod, rules))
        return self._open_to[kind]

    def clashes(
        self, pods: Sequence[Pod], nodes: Sequence[Node], deadline: Deadline
    ) -> list[Clash]:
        """Return the pairs of items, one pod each, that cannot share a node, and on which nodes.

        Nodes with equal topology labels are alike. After the deadline the list is incomplete: every
        migration is checked again.
        """
        known = tuple(pod.uid for pod in pods)
        if known not in self._clashes:
            self._clashes[known] = self._find_clashes(pods, nodes, deadline)
        return self._clashes[known]

    def _find_clashes(
        self, pods: Sequence[Pod], nodes: Sequence[Node], deadline: Deadline
    ) -> list[Clash]:
        repelling = [_repels_pods(pod) for pod in pods]
        if not any(repelling):
            return []
        keys = {term.topology_key for p in pods for term in p.pod_class.rules.anti_affinity}
        alike: dict[frozenset[str], list[int]] = {}
        for at, node in enumerate(nodes):
            alike.setdefault(frozenset(keys & node.labels.keys()), []).append(at)
        found: list[Clash] = []
        for positions in alike.values():
            mask = np.zeros(len(nodes), dtype=np.bool_)
            mask[positions] = True
            name = nodes[positions[0]].name
            for there, resident in enumerate(pods):
                if deadline.passed:
                    return found
                occupied = self._empty.with_pod(resident, name)
                found += [
                    (mask, coming, there)
                    for coming, pod in enumerate(pods)
                    if (repelling[coming] or repelling[there])
                    and occupied.rejection(
                        _with_rules(pod, _exclusive_rules(pod)), name, tier=False
                    )
                ]
        return found


def _repels_pods(pod: Pod) -> bool:
    rules = pod.pod_class.rules
    return bool(rules.anti_affinity or rules.ports or rules.disks)


def _exclusive_rules(pod: Pod) -> SchedulingRules:
    rules = pod.pod_class.rules
    return SchedulingRules(
        tolerations=_TOLERANT,
        ports=rules.ports,
        anti_affinity=rules.anti_affinity,
        disks=rules.disks,
    )


def _with_rules(pod: Pod, rules: SchedulingRules) -> Pod:
    """Return the pod without requests and with only the rules."""
    return attrs.evolve(pod, pod_class=PodClass(Resources(), rules))


def taking_no_room(pod: Pod) -> Pod:
    return _with_rules(pod, pod.pod_class.rules)


#: Pod class, or equivalence class with rules between pods.
Alike = PodClass | EquivalenceClass


@attrs.frozen(eq=False)
class Group:
    """Pods of one workload with equal class and equal relevance to rules between pods."""

    #: movable pods on the edge, and in the cloud
    here: list[Pod] = attrs.field(factory=list)
    outside: list[Pod] = attrs.field(factory=list)
    #: stranded pods: pending, and no node has room
    waiting: list[Pod] = attrs.field(factory=list)

    @property
    def one(self) -> Pod:
        return (self.here or self.outside or self.waiting)[0]


@attrs.frozen(eq=False)
class EdgePods:
    """Movable pods and stranded pods, by workload and equivalence."""

    groups: Mapping[tuple[Workload, Alike], Group]
    #: fixed pods of ours, pending ones included
    others: Sequence[Pod]
    #: None if no rule about other pods concerns ours
    rules: EdgeRules | None

    @classmethod
    def of(cls, snapshot: Snapshot, movable: Movable) -> Self:
        edge = {node.name for node in snapshot.of_tier(Tier.EDGE)}
        groups: dict[tuple[Workload, Alike], Group] = {}
        others: list[Pod] = []
        name = snapshot.scheduler_name
        for pod in snapshot.pods.values():
            if pod.scheduler_name != name:
                continue
            if movable(pod):
                others.append(pod)
                continue
            key = pod.workload, pod.pod_class
            group = groups.get(key) or groups.setdefault(key, Group())
            (group.here if pod.node_name in edge else group.outside).append(pod)
        rules = EdgeRules.of(
            snapshot, (pod for g in groups.values() for pod in (*g.here, *g.outside))
        )

        def alike(pod: Pod) -> Alike:
            return pod.pod_class if rules is None else rules.feasibility.equivalence(pod)

        if rules is not None:
            split: dict[tuple[Workload, Alike], Group] = {}
            for group in groups.values():
                for pod in group.here:
                    split.setdefault((pod.workload, alike(pod)), Group()).here.append(pod)
                for pod in group.outside:
                    split.setdefault((pod.workload, alike(pod)), Group()).outside.append(pod)
            groups = split
        for pod in _list_stranded(snapshot, others, rules):
            groups.setdefault((pod.workload, alike(pod)), Group()).waiting.append(pod)
        return cls(groups, others, rules)

    @cached_property
    def one_of(self) -> Mapping[Alike, Pod]:
        """One pod of each equivalence class, of any workload."""
        return {alike: group.one for (_, alike), group in self.groups.items()}

    def kinds_on(self, rows: NodeRows) -> tuple[tuple[Kind, ...], Mapping[Alike, int]]:
        """Return the kinds of the pods on the nodes, and the kind of each equivalence class.

        Capacity of movable pods on the nodes counts as free. A kind names only some of its pods.
        """
        emptied = attrs.evolve(rows, room=self._free_after_leaving(rows))
        pods, rules = self.one_of.values(), self.rules
        if rules is None:
            found = group_kinds(pods, emptied)
        else:
            open_to = ((emptied.mask & rules.open_to(pod), pod) for pod in pods)
            found = merge_kinds(
                (mask & ~emptied.room.short(pod.requests), NO_RANK, [pod]) for mask, pod in open_to
            )
        kind_of = {pod.uid: at for at, kind in enumerate(found) for pod in kind.pods}
        return found, {alike: kind_of[pod.uid] for alike, pod in self.one_of.items()}

    def _free_after_leaving(self, rows: NodeRows) -> Room:
        """Return the capacity once all movable pods have left the cloud."""
        groups = [group for group in self.groups.values() if group.outside]
        positions = rows.index.positions
        left = np.array(
            [positions[pod.node_name] for g in groups for pod in g.outside if pod.node_name],
            dtype=np.intp,
        )
        number = [len(group.outside) for group in groups]
        columns = {}
        for axis in axes_of(pod.requests for pod in self.one_of.values()):
            amounts = np.array([group.one.requests.amount(axis) for group in groups], np.int64)
            columns[axis] = rows.room.column(axis).copy()
            np.add.at(columns[axis], left, np.repeat(amounts, number))
        return Room(rows.index, {}, columns)


def _list_stranded(
    snapshot: Snapshot, pods: Iterable[Pod], rules: EdgeRules | None
) -> Iterable[Pod]:
    """Yield our pending pods fitting on no node; other pending pods only await their turn.

    Pods larger than any node are left out.
    """
    fits: dict[PodClass, bool] = {}
    for pod in snapshot.schedulable(pods):
        if pod.requests.beyond_any_node:
            continue
        if rules is not None:
            fitting = bool(rules.feasibility.feasible(pod))
        else:
            if pod.pod_class not in fits:
                nodes = fitting_nodes(pod.pod_class, snapshot.index, snapshot.room)
                fits[pod.pod_class] = bool(nodes.any())
            fitting = fits[pod.pod_class]
        if pod.counts_for_qos and not fitting:
            yield pod


def leaving_turn(pod: Pod) -> tuple[float, str, str]:
    """Sort key of pods of an item: the youngest, with the least work done, moves first."""
    return -pod.created, pod.namespace, pod.name


@attrs.frozen(eq=False)
class Item:
    """One item; its pods are sorted when first used."""

    workload: Workload
    requests: Resources
    #: N: edge nodes accepting the pod, capacity aside
    open_to: Mask
    #: kind of `CloudHold`; None: no cloud node has room
    cloud_kind: int | None
    #: all its pods
    groups: tuple[Group, ...]
    #: most pods that may come to some nodes, and go to the cloud, capacity aside
    at_most: Mapping[NodeName, int] = MappingProxyType({})
    away: int = UNLIMITED
    #: pods excluded from migration
    kept: frozenset[Uid] = frozenset()
    #: cloud pods coming first
    first: tuple[Pod, ...] = ()

    @cached_property
    def here(self) -> Mapping[NodeName, tuple[Pod, ...]]:
        """Movable pods on the edge, by node."""
        found: dict[NodeName, list[Pod]] = {}
        for pod in sorted(self._here, key=leaving_turn):
            if pod.node_name is not None:
                found.setdefault(pod.node_name, []).append(pod)
        return {name: tuple(pods) for name, pods in found.items()}

    @cached_property
    def outside(self) -> tuple[Pod, ...]:
        """Movable pods in the cloud."""
        others = (pod for pod in self._outside if pod not in self.first)
        return (*self.first, *sorted(others, key=leaving_turn))

    @cached_property
    def waiting(self) -> tuple[Pod, ...]:
        """Stranded pods."""
        return tuple(sorted((p for g in self.groups for p in g.waiting), key=serving_order))

    @cached_property
    def like(self) -> Pod:
        """One pod of the item."""
        here, outside = (
            (p for g in self.groups for p in g.here),
            (p for g in self.groups for p in g.outside),
        )
        movable = min(here, key=leaving_turn, default=None) or min(
            outside, key=leaving_turn, default=None
        )
        return movable or self.waiting[0]

    @property
    def supply(self) -> int:
        """Number of pods that may come to the edge."""
        return len(self._outside) + sum(len(group.waiting) for group in self.groups)

    @property
    def leavers(self) -> int:
        """Number of pods that may leave the edge."""
        return len(self._here)

    @cached_property
    def _here(self) -> list[Pod]:
        return [p for group in self.groups for p in group.here if p.uid not in self.kept]

    @cached_property
    def _outside(self) -> list[Pod]:
        return [p for group in self.groups for p in group.outside if p.uid not in self.kept]

    def leaving(self, node: NodeName, number: int) -> "Item":
        """Return the item with at most the first `number` pods of that node movable."""
        there = [pod for pod in self.outside if pod.node_name == node]
        kept = (*there[number:], *self.here.get(node, ())[number:])
        return attrs.evolve(self, kept=self.kept.union(pod.uid for pod in kept))

    def fetchable(self, number: int) -> Iterator[Pod]:
        """Yield the cloud pods that may be among those that come, if `number` come to the edge."""
        number -= len(self.waiting)
        for pods in self._outside_by_node.values():
            yield from pods[: max(number, 0)]

    def fetching(self, number: int) -> Iterator["Item"]:
        """Yield variants with other cloud pods first: all ways to take `number` pods from nodes."""
        by_node = self._outside_by_node
        for names in product(by_node, repeat=max(number - len(self.waiting), 0)):
            losing = Counter(names)
            if all(losing[name] <= len(by_node[name]) for name in losing):
                pods = {name: iter(by_node[name]) for name in losing}
                yield attrs.evolve(self, first=tuple(next(pods[name]) for name in names))

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


@attrs.frozen(eq=False)
class _Look:
    """Properties of equivalent pods that nodes see."""

    open_to: Mask
    cloud_kind: int | None
    #: sort key, equal for pods of one item
    canonical: tuple[object, ...]


def group_items(
    pods: EdgePods, edge: NodeRows, cloud_kinds: Mapping[Alike, int | None]
) -> tuple[Item, ...]:
    """Return the items in canonical order: by workload, requests, and feasible nodes.

    cloud_kinds: kind of each in the cloud; None without a cloud node.
    """
    looks = _look_up_classes(pods, edge, cloud_kinds)
    merged: dict[tuple[Workload, tuple[object, ...]], tuple[_Look, list[Group]]] = {}
    for (workload, alike), group in pods.groups.items():
        look = looks[alike]
        merged.setdefault((workload, look.canonical), (look, []))[1].append(group)
    items = []
    for key in sorted(merged):
        look, groups = merged[key]
        requests = groups[0].one.requests
        items.append(Item(key[0], requests, look.open_to, look.cloud_kind, tuple(groups)))
    return tuple(items)


def _look_up_classes(
    pods: EdgePods, edge: NodeRows, cloud_kinds: Mapping[Alike, int | None]
) -> dict[Alike, _Look]:
    open_to: dict[Alike, Mask] = {}
    for alike, pod in pods.one_of.items():
        mask = edge.mask & open_nodes(pod.pod_class, edge.index)
        if pods.rules is not None:
            mask &= pods.rules.open_to(pod)
        open_to[alike] = mask
    # By the names of the nodes: an index is in their order.
    distinct = {mask.tobytes(): mask for mask in open_to.values()}
    ordered = sorted(distinct, key=lambda look: distinct[look].nonzero()[0].tolist())
    turn = {look: at for at, look in enumerate(ordered)}
    shown = {look: distinct[look][edge.positions] for look in distinct}
    found = {}
    for alike, pod in pods.one_of.items():
        look, kind = open_to[alike].tobytes(), cloud_kinds[alike]
        told: tuple[object, ...] = ("", (), "")
        if pods.rules is not None:
            seen = pods.rules.look(pod)
            told = seen.namespace, seen.labels, repr(seen.rules)
        requests = canonical(pod.requests)
        key = (requests, turn[look], kind is None, kind or 0, *told)
        found[alike] = _Look(shown[look], kind, key)
    return found
