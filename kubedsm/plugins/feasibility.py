"""Feasibility: verdicts of all plugins on all nodes, in one state of the cluster.

A `Feasibility` is a value. Adding or removing a pod gives another, which shares unchanged parts. So
a batch is checked pod by pod, and a migration without the pod that leaves. Verdicts are about a pod
without a node: remove a running pod first. Costs, for N nodes: a new class a few vector operations
a plugin; a known class a lookup; adding or removing a pod, copies of N.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

import attrs
import numpy as np

from kubedsm.model.model import Node, NodeName, Pod, PodAffinityTerm, PodClass, Uid
from kubedsm.model.node_index import Ints, Mask, NodeIndex, Positions, Room
from kubedsm.model.residents import Residents, Selection, keys_looked_at
from kubedsm.model.snapshot import Snapshot
from kubedsm.plugins.broken_rules import BrokenRules, broken_rules
from kubedsm.plugins.class_verdicts import Finding, asked, findings, first_rejections
from kubedsm.plugins.fit import NODE_RESOURCES_FIT, TIER
from kubedsm.plugins.plugin import Plugin
from kubedsm.plugins.plugins import (
    DYNAMIC_FILTERS,
    PRE_ENQUEUES,
    PRE_FILTERS,
    SCORES,
    STATIC_FILTERS,
)
from kubedsm.plugins.pod_affinity import deserted, spoken_of
from kubedsm.plugins.scene import EquivalenceClass, Rejection, Scene
from kubedsm.plugins.spread import POD_TOPOLOGY_SPREAD, Skews
from kubedsm.plugins.taints import disliked_taints


def ratings(
    candidate: EquivalenceClass, scene: Scene, chosen: Positions
) -> Iterator[tuple[Plugin, list[int]]]:
    """Yield the scores of each Score plugin that applies, for these nodes."""
    for plugin, score in SCORES:
        given = score(candidate, scene, chosen)
        if given is not None:
            yield plugin, given


def penalties(candidate: EquivalenceClass, scene: Scene, chosen: Positions) -> Ints:
    """Return the weighted score of each node below that of the best of these nodes, 0..900."""
    total = np.zeros(len(chosen), dtype=np.int64)
    for plugin, given in ratings(candidate, scene, chosen):
        total += plugin.weight * np.array(given, dtype=np.int64)
    found: Ints = total.max(initial=0) - total
    return found


def indifferent(
    candidate: EquivalenceClass, scene: Scene, wishes: Iterable[PodAffinityTerm]
) -> bool:
    """Return whether all penalties are zero, wherever pods with these preferences come."""
    rules = candidate.rules
    if rules.preferences or any(
        disliked_taints(rules.tolerations, taints or ()) for taints in scene.nodes.taints.values
    ):
        return False
    labels = candidate.label_map()
    terms = {*wishes, *(term for _, term in scene.residents.wishes)}
    return not any(
        Selection.of(term).covers(candidate.namespace, labels, scene.surroundings) for term in terms
    )


#: a pod and the position of its node
Placed = tuple[Pod, int]


@attrs.frozen(slots=True, eq=False)
class Verdict:
    """Verdict of the plugins on every node."""

    everywhere: Rejection | None
    findings: tuple[Finding, ...]
    #: nodes that kube-scheduler's rules accept
    accepted: Mask
    #: those of them that are of a tier
    tiered: Mask

    @property
    def openable(self) -> Mask:
        """Nodes that are rejected, if at all, for reasons that arriving pods may remove."""
        mask = np.full_like(self.tiered, self.everywhere is None)
        for _, rejected in self.findings:
            if not rejected.mendable:
                mask &= ~rejected.nodes
        return mask

    @property
    def otherwise_open(self) -> Mask:
        """Nodes that are rejected, if at all, for capacity or uneven spread."""
        mask = np.full_like(self.tiered, self.everywhere is None)
        for plugin, rejected in self.findings:
            uneven = plugin is POD_TOPOLOGY_SPREAD and rejected.mendable
            if plugin is not NODE_RESOURCES_FIT and not uneven:
                mask &= ~rejected.nodes
        return mask

    def rejection(self, position: int, *, tier: bool) -> Rejection | None:
        if self.everywhere is not None:
            return self.everywhere
        for plugin, rejected in self.findings:
            if rejected.nodes[position] and (tier or plugin is not TIER):
                return Rejection(plugin.name, rejected.reasons)
        return None


@attrs.frozen(slots=True, eq=False)
class ClusterView:
    """State of the cluster, immutable; verdicts are cached."""

    scene: Scene
    #: as the snapshot has them
    pods: Mapping[Uid, Pod]
    placed: Mapping[Uid, NodeName]
    #: where they are otherwise; None is nowhere
    moved: Mapping[Uid, Placed | None] = attrs.field(factory=dict)
    _static: dict[PodClass, tuple[Finding, ...]] = attrs.field(factory=dict)
    _verdicts: dict[EquivalenceClass, Verdict] = attrs.field(factory=dict)
    #: classes whose pods look at no other labels than are told apart
    _told_apart: set[PodClass] = attrs.field(factory=set)
    _widened: dict[frozenset[str], Self] = attrs.field(factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        scene = Scene(snapshot.index, snapshot.room, snapshot.residents, snapshot.surroundings)
        return cls(scene, snapshot.pods, snapshot.placed)

    def place(self, uid: Uid) -> Placed | None:
        """Return the pod and the position of its node; None without a node."""
        if uid in self.moved:
            return self.moved[uid]
        pod, node, positions = self.pods.get(uid), self.placed.get(uid), self.scene.nodes.positions
        if pod is None or pod.finished or node is None or node not in positions:
            return None
        return pod, positions[node]

    def changed(self, pod: Pod, position: int, by: int) -> Self:
        """Return the state with the pod on the node (by = 1) or removed (by = -1)."""
        room, node = self.scene.room, self.scene.nodes.names[position]
        free = room.of(position)
        scene = attrs.evolve(
            self.scene,
            room=room.changed(position, free - pod.requests if by > 0 else free + pod.requests),
            residents=self.scene.residents.after(((pod, node, by),)),
        )
        moved = {**self.moved, pod.uid: (pod, position) if by > 0 else None}
        return attrs.evolve(self, scene=scene, moved=moved, verdicts={}, widened={})

    def telling_apart(self, pod: Pod) -> Self:
        """Return the state with pods distinguished by all labels that this pod's rules
        select on.
        """
        if pod.pod_class in self._told_apart:
            return self
        looked_at = keys_looked_at((pod.pod_class,))
        known = self.scene.residents.keys
        if looked_at is None or (known is not None and looked_at.issubset(known)):
            self._told_apart.add(pod.pod_class)
            return self
        keys = looked_at.union(known or ())
        wide = self._widened.get(keys)
        if wide is None:
            nodes, surroundings = self.scene.nodes, self.scene.surroundings
            residents = Residents.of(nodes, surroundings, keys, self._all_placed())
            scene = attrs.evolve(self.scene, residents=residents)
            wide = attrs.evolve(self, scene=scene, verdicts={}, widened={})
            self._widened[keys] = wide
        return wide

    def _all_placed(self) -> Iterator[tuple[Pod, NodeName]]:
        names = self.scene.nodes.names
        for uid in {**self.placed, **self.moved}:
            place = self.place(uid)
            if place is not None:
                yield place[0], names[place[1]]

    def equivalence(self, pod: Pod) -> EquivalenceClass:
        namespace, labels = self.scene.residents.visible(pod)
        return EquivalenceClass(pod.pod_class, namespace, labels)

    def verdict(self, pod: Pod) -> Verdict:
        candidate = self.equivalence(pod)
        verdict = self._verdicts.get(candidate)
        if verdict is None:
            verdict = self._verdicts[candidate] = self._judge_class(candidate)
        return verdict

    def _judge_class(self, candidate: EquivalenceClass) -> Verdict:
        nodes = self.scene.nodes
        rules = candidate.rules
        for plugin, pre_filter in PRE_FILTERS:
            if asked(plugin, rules) and (reason := pre_filter(rules, self.scene.surroundings)):
                everywhere = Rejection(plugin.name, (reason,), everywhere=True)
                return Verdict(everywhere, (), nodes.none(), nodes.none())
        found = (
            *self._static_findings(candidate),
            *findings(DYNAMIC_FILTERS, candidate, self.scene),
        )
        accepted, tiered = nodes.every(), nodes.every()
        for plugin, rejected in found:
            tiered &= ~rejected.nodes
            if plugin is not TIER:
                accepted &= ~rejected.nodes
        return Verdict(None, found, accepted, tiered)

    def _static_findings(self, candidate: EquivalenceClass) -> tuple[Finding, ...]:
        known = self._static.get(candidate.pod_class)
        if known is None:
            known = tuple(findings(STATIC_FILTERS, candidate, self.scene))
            self._static[candidate.pod_class] = known
        return known


__all__ = ["EquivalenceClass", "Feasibility", "Rejection"]


@attrs.frozen(slots=True, eq=False)
class Feasibility:
    """Verdicts over one state of the cluster. `tier=False`: kube-scheduler's plugins alone."""

    _view: ClusterView

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Feasibility":
        return cls(ClusterView.of(snapshot))

    @property
    def scene(self) -> Scene:
        return self._view.scene

    @property
    def index(self) -> NodeIndex:
        return self._view.scene.nodes

    @property
    def room(self) -> Room:
        return self._view.scene.room

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes in name order."""
        return self._view.scene.nodes.nodes

    def equivalence(self, pod: Pod) -> EquivalenceClass:
        """Return the equivalence class: equal for pods that nodes and other pods cannot
        tell apart.
        """
        return self._view.telling_apart(pod).equivalence(pod)

    def rejection(self, pod: Pod, node: NodeName, *, tier: bool = True) -> Rejection | None:
        """Return why the node rejects the pod.

        None if it accepts. Raise KeyError for an unknown node.
        """
        position = self._view.scene.nodes.positions[node]
        return _gated_rejection(pod) or self._verdict_on(pod).rejection(position, tier=tier)

    def rejections(self, pod: Pod, *, tier: bool = True) -> dict[NodeName, Rejection]:
        """Return why each rejecting node rejects the pod, in name order."""
        verdict, nodes = self._verdict_on(pod), self.index
        if everywhere := _gated_rejection(pod) or verdict.everywhere:
            return dict.fromkeys(nodes.names, everywhere)
        return first_rejections(
            (found for found in verdict.findings if tier or found[0] is not TIER), nodes
        )

    def feasible(self, pod: Pod, *, tier: bool = True) -> list[NodeName]:
        """Return the nodes that accept the pod, in name order."""
        names = self._view.scene.nodes.names
        return [names[at] for at in self.taking(pod, tier=tier).nonzero()[0].tolist()]

    def taking(self, pod: Pod, *, tier: bool = True) -> Mask:
        """Return the nodes that accept the pod; not to be changed."""
        if _gated_rejection(pod):
            return self.index.none()
        verdict = self._verdict_on(pod)
        return verdict.tiered if tier else verdict.accepted

    def openable(self, pod: Pod) -> Mask:
        """Return the nodes that accept the pod, or are rejected only by its spread or affinity."""
        return self.index.none() if _gated_rejection(pod) else self._verdict_on(pod).openable

    def otherwise_open(self, pod: Pod) -> Mask:
        """Return the nodes that accept the pod, capacity and spread aside."""
        if _gated_rejection(pod):
            return self.index.none()
        return self._verdict_on(pod).otherwise_open

    def indifferent(self, pod: Pod, wishes: Iterable[PodAffinityTerm]) -> bool:
        """Return whether the pod has no penalties, wherever pods with these preferences come."""
        view = self._view.telling_apart(pod)
        return indifferent(view.equivalence(pod), view.scene, wishes)

    def penalties(self, pod: Pod, nodes: Sequence[NodeName]) -> list[int]:
        """Return the penalty of each node, relative to the best of these nodes."""
        positions = [self.index.positions[name] for name in nodes]
        found: list[int] = self.penalties_at(pod, np.array(positions, dtype=np.intp)).tolist()
        return found

    def penalties_at(self, pod: Pod, nodes: Positions) -> Ints:
        """Return the penalties at these positions."""
        view = self._view.telling_apart(pod)
        return penalties(view.equivalence(pod), view.scene, nodes)

    def ratings(self, pod: Pod, nodes: Positions) -> Mapping[str, list[int]]:
        """Return the scores of each applicable Score plugin, by name."""
        view = self._view.telling_apart(pod)
        rated = ratings(view.equivalence(pod), view.scene, nodes)
        return {plugin.name: given for plugin, given in rated}

    def spoken_of(self, pod: Pod) -> bool:
        """Return whether some running pod has rules or preferences about this pod."""
        view = self._view.telling_apart(pod)
        return spoken_of(view.equivalence(pod), view.scene)

    def deserted(self, pod: Pod) -> bool:
        """Return whether the affinity of a running pod is broken. Raise KeyError if it has
        no node.
        """
        place = self._view.place(pod.uid)
        if place is None:
            raise KeyError(pod.uid)
        position = np.array([place[1]], dtype=np.intp)
        return bool(deserted(self.equivalence(pod), self._view.scene, position)[0])

    def broken_rules(self, pods: Iterable[Pod]) -> BrokenRules:
        """Return broken rules of these pods, or about them."""
        return broken_rules(map(self.equivalence, pods), self._view.scene)

    def skews(self, pods: Iterable[Pod]) -> Skews:
        """Return the spread constraints of these pending pods."""
        return Skews(dict.fromkeys(map(self.equivalence, pods)), self._view.scene)

    def with_pod(self, pod: Pod, node: NodeName) -> "Feasibility":
        """Return the state with the pod on the node, whether it fits or not.

        Raise KeyError for an unknown node, ValueError for a pod with a node.
        """
        position = self._view.scene.nodes.positions[node]
        if self._view.place(pod.uid) is not None:
            raise ValueError(f"{pod} is on a node already")
        return Feasibility(self._view.telling_apart(pod).changed(pod, position, 1))

    def without_pod(self, uid: Uid) -> "Feasibility":
        """Return the state without the pod. Raise KeyError if it has no node."""
        place = self._view.place(uid)
        if place is None:
            raise KeyError(uid)
        pod, position = place
        return Feasibility(self._view.telling_apart(pod).changed(pod, position, -1))

    def _verdict_on(self, pod: Pod) -> Verdict:
        return self._view.telling_apart(pod).verdict(pod)


def _gated_rejection(pod: Pod) -> Rejection | None:
    for plugin, held_back in PRE_ENQUEUES:
        if reason := held_back(pod):
            return Rejection(plugin.name, (reason,), everywhere=True)
    return None
