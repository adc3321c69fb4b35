"""Groups of interchangeable movable pods of a workload, called items, for planning migrations of
the edge.

Rules between pods depend on the other migrations. `EdgeRules` has only verdicts of nodes and fixed
pods, and incompatible pairs of pods; `move_order` validates complete migration sets.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType

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
from kubedsm.model.node_index import FreeCapacity, Mask, NodeRows
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import axes_of
from kubedsm.optimizer.matching.problem import (
    UNLIMITED,
    Kind,
    merge_kinds,
)
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility
from kubedsm.plugins.plugins import fitting_nodes, open_nodes

#: Mask of nodes, N, and two incompatible items.
Clash = tuple[Mask, int, int]

#: Steps of work for a pair of items that may be incompatible.
_PAIR_STEPS = 15_000
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
        """Return the affinity, spread and other rules between pods; None if no such rule concerns
        the movable pods.
        """
        classes = snapshot.census.classes
        if not any(c.rules.anti_affinity or c.rules.speaks_of_others for c in classes):
            return None
        by_class = {(id(p.pod_class), p.scheduler_name): p for p in snapshot.pods.values()}
        if not any(
            rules.anti_affinity
            or (pod.scheduler_name == snapshot.scheduler_name and rules.speaks_of_others)
            for pod, rules in ((pod, pod.pod_class.rules) for pod in by_class.values())
        ):
            return None
        return cls(
            Feasibility.of(snapshot),
            Feasibility.of(snapshot.without(pod.uid for pod in movable)),
            Feasibility.of(snapshot.without(snapshot.placed)),
        )

    def look(self, pod: Pod) -> EquivalenceClass:
        """Return the pod's equivalence class by rules between pods, ignoring its resource requests,
        node rules and volumes.
        """
        seen = self.feasibility.equivalence(pod)
        rules = _NO_RULES
        if pod.pod_class.rules.speaks_of_others:
            rules = attrs.evolve(seen.rules, preferences=_NO_RULES.preferences, claims=())
        return attrs.evolve(seen, pod_class=PodClass(Resources(), rules))

    def open_to(self, pod: Pod) -> Mask:
        """Return the nodes where the pod would be feasible after some rearrangement of the movable
        pods.

        Capacity, affinity and spread constraints are ignored: other pods may migrate there.
        """
        kind = self.feasibility.equivalence(pod)
        if kind not in self._open_to:
            rules = attrs.evolve(pod.pod_class.rules, affinity=(), spread=())
            self._open_to[kind] = self._staying.taking(_with_rules(pod, rules))
        return self._open_to[kind]

    def clashes(
        self, pods: Sequence[Pod], nodes: Sequence[Node], deadline: Deadline
    ) -> list[Clash]:
        """Return pairs of pod groups that must not share a node or domain, each represented by a
        pod, with the nodes concerned.

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
                if deadline.spend(_PAIR_STEPS * len(pods)):
                    return found
                occupied = self._empty.with_pod(resident, name)
                found += [
                    (mask, coming, there)
                    for coming, pod in enumerate(pods)
                    if (repelling[coming] or repelling[there])
                    and occupied.rejection(_with_rules(pod, _exclusive_rules(pod)), name)
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
    """Return a copy of the pod with the given scheduling rules and without resource requests."""
    return attrs.evolve(pod, pod_class=PodClass(Resources(), rules))


def taking_no_room(pod: Pod) -> Pod:
    return _with_rules(pod, pod.pod_class.rules)


#: Pod class, or equivalence class with rules between pods.
Alike = PodClass | EquivalenceClass


def leaving_turn(pod: Pod) -> tuple[float, str, str]:
    """Sort key of interchangeable pods for leaving a node: the oldest migrates first, as the
    youngest has only just started.
    """
    return pod.created, pod.namespace, pod.name


@attrs.frozen(eq=False)
class Item:
    """Group of interchangeable movable pods of one workload; pods are sorted when first read."""

    #: representative pod
    like: Pod
    #: N: edge nodes accepting the pod, capacity aside
    open_to: Mask
    #: kind of `CloudHold`; None: no cloud node has room
    cloud_kind: int | None
    #: movable pods on the edge, movable pods in the cloud, and stranded pods, in any order
    on_edge: Sequence[Pod]
    in_cloud: Sequence[Pod]
    stranded: Sequence[Pod]
    #: maximum arrivals at some nodes, and maximum departures to the cloud, capacity aside
    at_most: Mapping[NodeName, int] = MappingProxyType({})
    away: int = UNLIMITED

    @property
    def workload(self) -> Workload:
        return self.like.workload

    @property
    def requests(self) -> Resources:
        return self.like.requests

    @cached_property
    def here(self) -> Mapping[NodeName, Sequence[Pod]]:
        """Movable pods of the group on the edge, by node."""
        return list_by_node(sorted(self.on_edge, key=leaving_turn))

    @cached_property
    def outside(self) -> tuple[Pod, ...]:
        """Movable pods of the group in the cloud, in the order in which they would migrate."""
        return tuple(sorted(self.in_cloud, key=leaving_turn))

    @cached_property
    def waiting(self) -> tuple[Pod, ...]:
        """Stranded pods of the group: pending pods without a feasible node."""
        return tuple(sorted(self.stranded, key=serving_order))

    @property
    def supply(self) -> int:
        """Number of the group's pods outside the edge that could migrate to, or be placed on, the
        edge.
        """
        return len(self.in_cloud) + len(self.stranded)

    @cached_property
    def pods(self) -> frozenset[Uid]:
        return frozenset(pod.uid for pod in (*self.on_edge, *self.in_cloud, *self.stranded))

    def leaving(self, node: NodeName, number: int) -> "Item":
        """Return the pod group restricted to the first `number` movable pods on the given node."""
        there = [pod for pod in self.outside if pod.node_name == node]
        kept = {pod.uid for pod in (*there[number:], *self.here.get(node, ())[number:])}
        on_edge, in_cloud = (
            [pod for pod in pods if pod.uid not in kept] for pods in (self.on_edge, self.in_cloud)
        )
        return attrs.evolve(self, on_edge=on_edge, in_cloud=in_cloud)

    def fetchable(self, number: int) -> Iterator[Pod]:
        """Yield the group's cloud pods that may migrate to the edge, if `number` pods of the group
        arrive there.
        """
        for pods in list_by_node(self.outside).values():
            yield from pods[: max(number - len(self.stranded), 0)]


def list_by_node(pods: Iterable[Pod]) -> dict[NodeName, list[Pod]]:
    found: dict[NodeName, list[Pod]] = {}
    for pod in pods:
        if pod.node_name is not None:
            found.setdefault(pod.node_name, []).append(pod)
    return found


#: Pods of a workload with equal class and equal relevance to rules between pods.
_Groups = Mapping[tuple[Workload, Alike], Sequence[Pod]]


def group_edge_pods(
    snapshot: Snapshot, movable: Movable, new: Container[Uid]
) -> tuple[tuple[Item, ...], tuple[Kind, ...], Sequence[Pod], EdgeRules | None]:
    """Group movable and stranded pods (pending without feasible node) by workload, requests and
    feasible nodes, in reproducible order.

    Return the items; the kinds of the pods for placement in the cloud, of representative pods only;
    the immovable pods of this scheduler, pending pods included; and the rules between pods.
    new: pods that are pending although the cloud would accept them.
    """
    moving: list[Pod] = []
    others: list[Pod] = []
    for pod in snapshot.pods.values():
        if pod.scheduler_name == snapshot.scheduler_name:
            (others if movable(pod) else moving).append(pod)
    rules = EdgeRules.of(snapshot, moving)
    groups: dict[tuple[Workload, Alike], list[Pod]] = {}
    for pod in (*moving, *_list_stranded(snapshot, others, rules, new)):
        alike = pod.pod_class if rules is None else rules.feasibility.equivalence(pod)
        groups.setdefault((pod.workload, alike), []).append(pod)
    open_to: dict[Alike, Mask] = {}
    for (_, alike), group in groups.items():
        if alike not in open_to:
            open_to[alike] = nodes_open_to(group[0], snapshot, rules)
    kinds, kind_of = _group_cloud_kinds(groups, snapshot.in_turn(Tier.CLOUD), open_to)
    items = _merge_groups(groups, snapshot.in_turn(Tier.EDGE), open_to, kind_of, rules)
    return items, kinds, others, rules


def nodes_open_to(pod: Pod, snapshot: Snapshot, rules: EdgeRules | None) -> Mask:
    """Return the nodes where the pod would be feasible after some rearrangement of the movable
    pods, ignoring capacity.
    """
    return open_nodes(pod.pod_class, snapshot.index) if rules is None else rules.open_to(pod)


def _list_stranded(
    snapshot: Snapshot, pods: Iterable[Pod], rules: EdgeRules | None, new: Container[Uid]
) -> Iterator[Pod]:
    """Yield pending pods without a feasible node, and `new` pods; others await scheduling.

    Pods exceeding every node are ignored.
    """

    @cache
    def fits_class(pod_class: PodClass) -> bool:
        return bool(fitting_nodes(pod_class, snapshot.index, snapshot.room).any())

    for pod in snapshot.schedulable(pods):
        if pod.counts_for_qos and not pod.requests.beyond_any_node:
            fits = rules.feasibility.feasible(pod) if rules else fits_class(pod.pod_class)
            if pod.uid in new or not fits:
                yield pod


def _group_cloud_kinds(
    groups: _Groups, cloud: NodeRows, open_to: Mapping[Alike, Mask]
) -> tuple[tuple[Kind, ...], Mapping[Alike, int]]:
    """Return the kinds of the pods in the cloud, and the kind of each equivalence class.

    Nodes count as empty. Classes without a cloud node are left out.
    """
    axes = axes_of(group[0].requests for group in groups.values())
    sizes = {axis: cloud.index.size(axis) for axis in axes}
    emptied = attrs.evolve(cloud, room=FreeCapacity(cloud.index, {}, sizes))
    one_of = {alike: group[0] for (_, alike), group in groups.items()}
    masks = {
        alike: cloud.mask & open_to[alike] & ~emptied.room.short(pod.requests)
        for alike, pod in one_of.items()
    }
    found = merge_kinds(
        (Kind(pod.requests, (pod,), masks[alike]), None) for alike, pod in one_of.items()
    )
    kind_of = {
        pod.uid: at for at, kind in enumerate(found) if kind.nodes.any() for pod in kind.pods
    }
    return found, {alike: kind_of[pod.uid] for alike, pod in one_of.items() if pod.uid in kind_of}


def _merge_groups(
    groups: _Groups,
    edge: NodeRows,
    open_to: Mapping[Alike, Mask],
    cloud_kinds: Mapping[Alike, int],
    rules: EdgeRules | None,
) -> tuple[Item, ...]:
    """Merge the equivalent groups of each workload's pods into items."""
    open_to = {alike: edge.mask & mask for alike, mask in open_to.items()}
    # By the names of the nodes: an index is in their order.
    distinct = {mask.tobytes(): mask for mask in open_to.values()}
    ordered = sorted(distinct, key=lambda mask: distinct[mask].nonzero()[0].tolist())
    turn = {mask: at for at, mask in enumerate(ordered)}
    merged: dict[tuple[object, ...], tuple[Alike, list[Pod]]] = {}
    for (workload, alike), group in groups.items():
        kind = cloud_kinds.get(alike)
        look = turn[open_to[alike].tobytes()], kind is None, kind or 0
        towards_others: tuple[object, ...] = ()
        if rules is not None:
            seen = rules.look(group[0])
            towards_others = seen.namespace, seen.labels, repr(seen.rules)
        key = workload, group[0].requests, *look, *towards_others
        merged.setdefault(key, (alike, []))[1].extend(group)
    names = {node.name for node in edge.nodes}
    items = []
    for key in sorted(merged):
        alike, pods = merged[key]
        on_edge = [pod for pod in pods if pod.node_name in names]
        stranded = [pod for pod in pods if pod.node_name is None]
        in_cloud = [pod for pod in pods if pod.node_name not in names and pod.node_name]
        like = min(on_edge or in_cloud or stranded, key=leaving_turn)
        kind = cloud_kinds.get(alike)
        items.append(Item(like, open_to[alike][edge.positions], kind, on_edge, in_cloud, stranded))
    return tuple(items)
