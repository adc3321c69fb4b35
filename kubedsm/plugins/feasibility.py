"""How much a pod would rather be elsewhere: what it, and others of it, prefer but do not demand.

The scores of plugins are normalised over the nodes in question and weighted as by kube-scheduler's
default profile. Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins, Kubernetes 1.36.
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
    """What each plugin that has something to say gives each of these nodes, which can be chosen."""
    for plugin, score in SCORES:
        given = score(candidate, scene, chosen)
        if given is not None:
            yield plugin, given


def penalties(candidate: EquivalenceClass, scene: Scene, chosen: Positions) -> Ints:
    """How much less than the best of these nodes each of them is liked; 0..900.

    chosen: the nodes that can be.
    """
    total = np.zeros(len(chosen), dtype=np.int64)
    for plugin, given in ratings(candidate, scene, chosen):
        total += plugin.weight * np.array(given, dtype=np.int64)
    found: Ints = total.max(initial=0) - total
    return found


def indifferent(
    candidate: EquivalenceClass, scene: Scene, wishes: Iterable[PodAffinityTerm]
) -> bool:
    """Whether all penalties are zero, and stay so wherever pods come that have these wishes."""
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
    """What the rules say of every node, in their order."""

    everywhere: Rejection | None
    findings: tuple[Finding, ...]
    #: nodes that kube-scheduler's rules accept
    accepted: Mask
    #: those of them that are of a tier
    tiered: Mask

    @property
    def openable(self) -> Mask:
        """The nodes that are refused, if at all, for what other pods may mend by coming."""
        mask = np.full_like(self.tiered, self.everywhere is None)
        for _, rejected in self.findings:
            if not rejected.mendable:
                mask &= ~rejected.nodes
        return mask

    @property
    def otherwise_open(self) -> Mask:
        """The nodes that are refused, if at all, for want of room or of evenness."""
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
    """It never changes: a pod that comes or goes makes another. Verdicts are remembered."""

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
        """The pod of that uid and the position of its node; None if it is on none."""
        if uid in self.moved:
            return self.moved[uid]
        pod, node, positions = self.pods.get(uid), self.placed.get(uid), self.scene.nodes.positions
        if pod is None or pod.finished or node is None or node not in positions:
            return None
        return pod, positions[node]

    def changed(self, pod: Pod, position: int, by: int) -> Self:
        """The same with that pod on that node (by = 1), or no longer there (by = -1)."""
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
        """The same, with pods told apart by all labels that this pod's rules look at, too."""
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
            residents = Residents.of(nodes, surroundings, keys, self._everybody())
            scene = attrs.evolve(self.scene, residents=residents)
            wide = attrs.evolve(self, scene=scene, verdicts={}, widened={})
            self._widened[keys] = wide
        return wide

    def _everybody(self) -> Iterator[tuple[Pod, NodeName]]:
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
            verdict = self._verdicts[candidate] = self._judged(candidate)
        return verdict

    def _judged(self, candidate: EquivalenceClass) -> Verdict:
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
    """The rules over one state of the cluster. `tier=False` asks kube-scheduler's rules alone."""

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
        """In name order."""
        return self._view.scene.nodes.nodes

    def equivalence(self, pod: Pod) -> EquivalenceClass:
        """What its feasibility depends on; equal for pods that are interchangeable.

        Interchangeable to the nodes, to each other, and to all pods of the snapshot.
        """
        return self._view.telling_apart(pod).equivalence(pod)

    def rejection(self, pod: Pod, node: NodeName, *, tier: bool = True) -> Rejection | None:
        """The first rule by which the node is no place for the pod; None if it is one.

        Raises KeyError for a node that is not there.
        """
        position = self._view.scene.nodes.positions[node]
        return _held_back(pod) or self._verdict(pod).rejection(position, tier=tier)

    def rejections(self, pod: Pod, *, tier: bool = True) -> dict[NodeName, Rejection]:
        """For every node that would not take the pod: why not. In name order."""
        verdict, nodes = self._verdict(pod), self.index
        if everywhere := _held_back(pod) or verdict.everywhere:
            return dict.fromkeys(nodes.names, everywhere)
        return first_rejections(
            (found for found in verdict.findings if tier or found[0] is not TIER), nodes
        )

    def feasible(self, pod: Pod, *, tier: bool = True) -> list[NodeName]:
        """The nodes that would take the pod, in name order."""
        names = self._view.scene.nodes.names
        return [names[at] for at in self.taking(pod, tier=tier).nonzero()[0].tolist()]

    def taking(self, pod: Pod, *, tier: bool = True) -> Mask:
        """The nodes that would take the pod; not to be changed."""
        if _held_back(pod):
            return self.index.none()
        verdict = self._verdict(pod)
        return verdict.tiered if tier else verdict.accepted

    def openable(self, pod: Pod) -> Mask:
        """Those nodes, and the ones that would take the pod if certain others were in place.

        Nodes, that is, that only spread constraints or its own affinity reject.
        """
        return self.index.none() if _held_back(pod) else self._verdict(pod).openable

    def otherwise_open(self, pod: Pod) -> Mask:
        """The nodes that would take the pod if they had the room and its spread were even."""
        if _held_back(pod):
            return self.index.none()
        return self._verdict(pod).otherwise_open

    def indifferent(self, pod: Pod, wishes: Iterable[PodAffinityTerm]) -> bool:
        """Whether the pod likes all nodes alike, wherever pods come that have these wishes."""
        view = self._view.telling_apart(pod)
        return indifferent(view.equivalence(pod), view.scene, wishes)

    def penalties(self, pod: Pod, nodes: Sequence[NodeName]) -> list[int]:
        """How much less than the best of these nodes the pod likes each; see `preferences`."""
        positions = [self.index.positions[name] for name in nodes]
        found: list[int] = self.penalties_at(pod, np.array(positions, dtype=np.intp)).tolist()
        return found

    def penalties_at(self, pod: Pod, nodes: Positions) -> Ints:
        """The same of the nodes at these positions."""
        view = self._view.telling_apart(pod)
        return penalties(view.equivalence(pod), view.scene, nodes)

    def ratings(self, pod: Pod, nodes: Positions) -> Mapping[str, list[int]]:
        """What each Score plugin that has something to say gives those nodes, by its name."""
        view = self._view.telling_apart(pod)
        rated = ratings(view.equivalence(pod), view.scene, nodes)
        return {plugin.name: given for plugin, given in rated}

    def spoken_of(self, pod: Pod) -> bool:
        """Whether a pod on some node would have this one near it, or far from it."""
        view = self._view.telling_apart(pod)
        return spoken_of(view.equivalence(pod), view.scene)

    def deserted(self, pod: Pod) -> bool:
        """Whether a pod that is on a node has not those near it that its affinity asks for.

        Raises KeyError for a pod that is on none of the nodes.
        """
        place = self._view.place(pod.uid)
        if place is None:
            raise KeyError(pod.uid)
        position = np.array([place[1]], dtype=np.intp)
        return bool(deserted(self.equivalence(pod), self._view.scene, position)[0])

    def broken_rules(self, pods: Iterable[Pod]) -> BrokenRules:
        """What others have broken of the rules that these pods have, or that look at them."""
        return broken_rules(map(self.equivalence, pods), self._view.scene)

    def skews(self, pods: Iterable[Pod]) -> Skews:
        """The spread constraints of these pods, which are on no node yet."""
        return Skews(dict.fromkeys(map(self.equivalence, pods)), self._view.scene)

    def with_pod(self, pod: Pod, node: NodeName) -> "Feasibility":
        """The same with this pod on that node, whether it fits or not.

        Raises KeyError for a node that is not there, ValueError for a pod that is on one.
        """
        position = self._view.scene.nodes.positions[node]
        if self._view.place(pod.uid) is not None:
            raise ValueError(f"{pod} is on a node already")
        return Feasibility(self._view.telling_apart(pod).changed(pod, position, 1))

    def without_pod(self, uid: Uid) -> "Feasibility":
        """The same with that pod gone, and its room free.

        Raises KeyError for a pod that is on none of the nodes.
        """
        place = self._view.place(uid)
        if place is None:
            raise KeyError(uid)
        pod, position = place
        return Feasibility(self._view.telling_apart(pod).changed(pod, position, -1))

    def _verdict(self, pod: Pod) -> Verdict:
        return self._view.telling_apart(pod).verdict(pod)


def _held_back(pod: Pod) -> Rejection | None:
    for plugin, held_back in PRE_ENQUEUES:
        if reason := held_back(pod):
            return Rejection(plugin.name, (reason,), everywhere=True)
    return None
