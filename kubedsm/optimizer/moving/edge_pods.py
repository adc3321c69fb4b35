"""The pods that moves are about: those that may be moved, and those that wait for room.

By workload, and by all that tells them apart to nodes and to other pods: what is said of one pod is
said of all that are alike.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Self

import attrs
import numpy as np

from kubedsm.model.model import Pod, PodClass, Resources, Tier, Workload
from kubedsm.model.node_index import Mask
from kubedsm.model.node_rows import NodeRows
from kubedsm.model.room import Room
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import axes_of
from kubedsm.optimizer.matching.problem import Kind, in_order, kinds
from kubedsm.optimizer.moving.edge_rules import EdgeRules
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.plugins.class_verdicts import fitting_nodes
from kubedsm.plugins.feasibility import EquivalenceClass

#: What pods that are alike have in common: their class, and what rules about pods see of them.
Alike = PodClass | EquivalenceClass


@attrs.frozen(eq=False)
class Group:
    """Pods of one workload that are alike."""

    #: on the edge, and in the cloud: those that may be moved
    here: list[Pod] = attrs.field(factory=list)
    outside: list[Pod] = attrs.field(factory=list)
    #: those that wait for a node and fit on none now
    waiting: list[Pod] = attrs.field(factory=list)

    @property
    def one(self) -> Pod:
        return (self.here or self.outside or self.waiting)[0]


@attrs.frozen(eq=False)
class EdgePods:
    groups: Mapping[tuple[Workload, Alike], Group]
    #: pods of ours that may not be moved: those that wait for a node among them
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
            groups = _told_apart(groups.values(), alike)
        for pod in _stranded(snapshot, others, rules):
            groups.setdefault((pod.workload, alike(pod)), Group()).waiting.append(pod)
        return cls(groups, others, rules)

    @cached_property
    def one_of(self) -> Mapping[Alike, Pod]:
        """One of all that are alike, of any workload."""
        return {alike: group.one for (_, alike), group in self.groups.items()}

    def kinds_on(self, rows: NodeRows) -> tuple[tuple[Kind, ...], Mapping[Alike, int]]:
        """The kinds of these pods on the nodes, and as which of them each goes there.

        Once all pods that may be moved from there are gone. Of a kind only some pods are named.
        """
        emptied, pods = attrs.evolve(rows, room=self._vacated(rows)), self.one_of.values()
        rules = self.rules
        found = kinds(pods, emptied) if rules is None else _ruled_kinds(pods, emptied, rules)
        kind_of = {pod.uid: at for at, kind in enumerate(found) for pod in kind.pods}
        return found, {alike: kind_of[pod.uid] for alike, pod in self.one_of.items()}

    def _vacated(self, rows: NodeRows) -> Room:
        """What would be free of what is asked for, if all pods in the cloud left that may."""
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


def _told_apart(
    groups: Iterable[Group], alike: Callable[[Pod], Alike]
) -> dict[tuple[Workload, Alike], Group]:
    """The same pods in groups of those that are alike."""
    found: dict[tuple[Workload, Alike], Group] = {}
    for group in groups:
        for pod in group.here:
            found.setdefault((pod.workload, alike(pod)), Group()).here.append(pod)
        for pod in group.outside:
            found.setdefault((pod.workload, alike(pod)), Group()).outside.append(pod)
    return found


def _stranded(snapshot: Snapshot, pods: Iterable[Pod], rules: EdgeRules | None) -> Iterable[Pod]:
    """Those that wait for us and fit on no node; the others only have not had their turn.

    Without those that no node can ever hold.
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


def _ruled_kinds(pods: Iterable[Pod], rows: NodeRows, rules: EdgeRules) -> tuple[Kind, ...]:
    """What `packing.kinds` gives, with the nodes that the rules about others leave open, too."""
    merged: dict[tuple[Resources, bytes], tuple[Mask, list[Pod]]] = {}
    for pod in pods:
        open_to = rows.mask & rules.open_to(pod)
        fitting = open_to & ~rows.room.short(pod.requests)
        merged.setdefault((pod.requests, fitting.tobytes()), (fitting, []))[1].append(pod)
    return in_order(
        Kind(requests, tuple(members), fitting)
        for (requests, _), (fitting, members) in merged.items()
    )
