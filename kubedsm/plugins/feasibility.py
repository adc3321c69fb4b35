"""Feasibility: verdicts of all plugins on all nodes, in one state of the cluster.

A `Feasibility` is a value. Adding or removing a pod gives another, which shares unchanged parts. So
a batch is checked pod by pod, and a migration without the pod that leaves. Verdicts are about a pod
without a node: remove a running pod first. Costs, for N nodes: a new class a few vector operations
a plugin; a known class a lookup; adding or removing a pod, copies of N.

Broken rules: kube-scheduler checks affinity and spread only when a pod comes. Later pods may break
them; no pod is evicted for that, but the next replica may find no node.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Self

import attrs
import numpy as np

from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    PodAffinityTerm,
    PodClass,
    SpreadConstraint,
    Uid,
)
from kubedsm.model.node_index import Ints, Mask, NodeIndex, Positions, Room
from kubedsm.model.residents import Keeper, Residents, Selection, keys_looked_at
from kubedsm.model.snapshot import Snapshot
from kubedsm.plugins.fit import NODE_RESOURCES_FIT, TIER
from kubedsm.plugins.plugin import EquivalenceClass, Plugin, Rejection, Scene
from kubedsm.plugins.plugins import (
    DYNAMIC_FILTERS,
    PRE_ENQUEUES,
    PRE_FILTERS,
    SCORES,
    STATIC_FILTERS,
    Finding,
    applies_to,
    findings,
    first_rejections,
)
from kubedsm.plugins.pod_affinity import find_deserted, is_spoken_of
from kubedsm.plugins.spread import POD_TOPOLOGY_SPREAD, Skews, domains_of
from kubedsm.plugins.taints import count_disliked

__all__ = ["EquivalenceClass", "Feasibility", "Rejection"]

#: Holder, rule, and position of the node.
_Where = tuple[Keeper, tuple[PodAffinityTerm, ...] | SpreadConstraint, int]
#: Excess skew of each broken rule; 1 for affinity.
BrokenRules = Mapping[_Where, int]


def is_worse(before: BrokenRules, after: BrokenRules) -> bool:
    """Return whether a rule is broken that was kept, or broken further."""
    return any(amount > before.get(where, 0) for where, amount in after.items())


def _selects_pod(candidate: EquivalenceClass, pod: EquivalenceClass, scene: Scene) -> bool:
    rules = candidate.rules
    selections = [Selection.of(term) for term in rules.affinity]
    selections += [Selection(c.selector, (c.namespace,)) for c in rules.spread]
    labels = pod.label_map()
    return any(s.covers(pod.namespace, labels, scene.surroundings) for s in selections)


def _list_broken(
    keeper: Keeper, candidate: EquivalenceClass, positions: Positions, scene: Scene
) -> Iterator[tuple[_Where, int]]:
    rules = candidate.rules
    if rules.affinity:
        for position in positions[find_deserted(candidate, scene, positions)].tolist():
            yield (keeper, rules.affinity, position), 1
    for constraint, domains in domains_of(candidate, scene):
        matching = domains.matching(scene)
        most = domains.least(matching) + constraint.max_skew
        excess = matching[domains.column.codes[positions]] - most
        for position, amount in zip(positions.tolist(), excess.tolist(), strict=True):
            if amount > 0:
                yield (keeper, constraint, position), amount


#: pod and position of the node
Placed = tuple[Pod, int]


@attrs.frozen(slots=True, eq=False)
class Verdict:
    """Verdict of the plugins on every node."""

    everywhere: Rejection | None
    findings: tuple[Finding, ...]
    #: nodes that kube-scheduler's plugins accept
    accepted: Mask
    #: accepted nodes of a tier
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
class Feasibility:
    """Verdicts over one state of the cluster. `tier=False`: kube-scheduler's plugins alone."""

    scene: Scene
    #: pods and their nodes in the snapshot
    _pods: Mapping[Uid, Pod]
    _placed: Mapping[Uid, NodeName]
    #: pods that were added, or removed (None)
    _moved: Mapping[Uid, Placed | None] = attrs.field(factory=dict)
    _static: dict[PodClass, tuple[Finding, ...]] = attrs.field(factory=dict)
    _verdicts: dict[EquivalenceClass, Verdict] = attrs.field(factory=dict)
    _widened: dict[frozenset[str], Self] = attrs.field(factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        scene = Scene(snapshot.index, snapshot.room, snapshot.residents, snapshot.surroundings)
        return cls(scene, snapshot.pods, snapshot.placed)

    @property
    def index(self) -> NodeIndex:
        return self.scene.nodes

    @property
    def room(self) -> Room:
        return self.scene.room

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes in name order."""
        return self.scene.nodes.nodes

    def equivalence(self, pod: Pod) -> EquivalenceClass:
        """Return the class of pods that nodes and other pods cannot tell apart."""
        return _class_in(self._widen(pod).scene, pod)

    def rejection(self, pod: Pod, node: NodeName, *, tier: bool = True) -> Rejection | None:
        """Return why the node rejects the pod; None if it accepts. Raise KeyError if unknown."""
        position = self.index.positions[node]
        return self.verdict(pod).rejection(position, tier=tier)

    def rejections(self, pod: Pod, *, tier: bool = True) -> dict[NodeName, Rejection]:
        """Return why each rejecting node rejects the pod, in name order."""
        verdict, nodes = self.verdict(pod), self.index
        if verdict.everywhere is not None:
            return dict.fromkeys(nodes.names, verdict.everywhere)
        return first_rejections(
            (found for found in verdict.findings if tier or found[0] is not TIER), nodes
        )

    def feasible(self, pod: Pod, *, tier: bool = True) -> list[NodeName]:
        """Return the nodes that accept the pod, in name order."""
        names = self.index.names
        return [names[at] for at in self.taking(pod, tier=tier).nonzero()[0].tolist()]

    def taking(self, pod: Pod, *, tier: bool = True) -> Mask:
        """Return the nodes that accept the pod; not to be changed."""
        verdict = self.verdict(pod)
        return verdict.tiered if tier else verdict.accepted

    def indifferent(self, pod: Pod, wishes: Iterable[PodAffinityTerm]) -> bool:
        """Return whether the pod has no penalties, wherever pods with these preferences come."""
        scene = self._widen(pod).scene
        candidate = _class_in(scene, pod)
        rules, labels = candidate.rules, candidate.label_map()
        if rules.preferences or any(
            count_disliked(rules.tolerations, taints or ()) for taints in scene.nodes.taints.values
        ):
            return False
        terms = {*wishes, *(term for _, term in scene.residents.wishes)}
        return not any(
            Selection.of(term).covers(candidate.namespace, labels, scene.surroundings)
            for term in terms
        )

    def penalties(self, pod: Pod, nodes: Sequence[NodeName]) -> list[int]:
        """Return the penalty of each node, relative to the best of these nodes."""
        positions = [self.index.positions[name] for name in nodes]
        found: list[int] = self.penalties_at(pod, np.array(positions, dtype=np.intp)).tolist()
        return found

    def penalties_at(self, pod: Pod, nodes: Positions) -> Ints:
        """Return the weighted score of each node below that of the best of these nodes, 0..900."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for plugin, given in self._rate_nodes(pod, nodes):
            total += plugin.weight * np.array(given, dtype=np.int64)
        found: Ints = total.max(initial=0) - total
        return found

    def ratings(self, pod: Pod, nodes: Positions) -> Mapping[str, list[int]]:
        """Return the scores of each applicable Score plugin, by name."""
        return {plugin.name: given for plugin, given in self._rate_nodes(pod, nodes)}

    def _rate_nodes(self, pod: Pod, nodes: Positions) -> Iterator[tuple[Plugin, list[int]]]:
        scene = self._widen(pod).scene
        candidate = _class_in(scene, pod)
        for plugin, score in SCORES:
            given = score(candidate, scene, nodes)
            if given is not None:
                yield plugin, given

    def spoken_of(self, pod: Pod) -> bool:
        """Return whether some running pod has rules or preferences about this pod."""
        scene = self._widen(pod).scene
        return is_spoken_of(_class_in(scene, pod), scene)

    def deserted(self, pod: Pod) -> bool:
        """Return whether the affinity of a running pod is broken; raise KeyError without a node."""
        _, position = self._place_of(pod.uid)
        at = np.array([position], dtype=np.intp)
        return bool(find_deserted(self.equivalence(pod), self.scene, at)[0])

    def broken_rules(self, pods: Iterable[Pod]) -> BrokenRules:
        """Return the broken rules of these pods, and of pods whose rules concern them."""
        scene, known = self.scene, dict.fromkeys(map(self.equivalence, pods))
        found: dict[_Where, int] = {}
        for keeper, homes in scene.residents.keepers.items():
            candidate = EquivalenceClass(*keeper)
            if candidate in known or any(_selects_pod(candidate, pod, scene) for pod in known):
                positions = scene.residents.where(homes)
                found.update(_list_broken(keeper, candidate, positions, scene))
        return found

    def skews(self, pods: Iterable[Pod]) -> Skews:
        """Return the spread constraints of these pending pods."""
        return Skews(dict.fromkeys(map(self.equivalence, pods)), self.scene)

    def with_pod(self, pod: Pod, node: NodeName) -> Self:
        """Return the state with the pod on the node, whether it fits or not.

        Raise KeyError for an unknown node, ValueError for a pod with a node.
        """
        position = self.index.positions[node]
        if self._find_place(pod.uid) is not None:
            raise ValueError(f"{pod} is on a node already")
        wide = self._widen(pod)
        return self._change(pod, position, 1) if wide is self else wide.with_pod(pod, node)

    def without_pod(self, uid: Uid) -> Self:
        """Return the state without the pod. Raise KeyError if it has no node."""
        pod, position = self._place_of(uid)
        wide = self._widen(pod)
        return self._change(pod, position, -1) if wide is self else wide.without_pod(uid)

    def _find_place(self, uid: Uid) -> Placed | None:
        """Return the pod and the position of its node; None without a node."""
        if uid in self._moved:
            return self._moved[uid]
        pod, node, positions = self._pods.get(uid), self._placed.get(uid), self.index.positions
        if pod is None or pod.finished or node is None or node not in positions:
            return None
        return pod, positions[node]

    def _place_of(self, uid: Uid) -> Placed:
        place = self._find_place(uid)
        if place is None:
            raise KeyError(uid)
        return place

    def _change(self, pod: Pod, position: int, by: int) -> Self:
        """Return the state with the pod on the node (by = 1) or removed (by = -1)."""
        room, node = self.scene.room, self.index.names[position]
        free = room.of(position)
        scene = attrs.evolve(
            self.scene,
            room=room.with_free(position, free - pod.requests if by > 0 else free + pod.requests),
            residents=self.scene.residents.after(((pod, node, by),)),
        )
        moved = {**self._moved, pod.uid: (pod, position) if by > 0 else None}
        return attrs.evolve(self, scene=scene, moved=moved, verdicts={}, widened={})

    def _widen(self, pod: Pod) -> Self:
        """Return the state in which all labels that this pod's rules select on distinguish pods."""
        looked_at, known = _keys_of(pod.pod_class), self.scene.residents.keys
        if looked_at is None or (known is not None and looked_at.issubset(known)):
            return self
        keys = looked_at.union(known or ())
        wide = self._widened.get(keys)
        if wide is None:
            places = filter(None, map(self._find_place, {**self._placed, **self._moved}))
            placed = ((there, self.index.names[position]) for there, position in places)
            residents = Residents.of(self.index, self.scene.surroundings, keys, placed)
            scene = attrs.evolve(self.scene, residents=residents)
            wide = attrs.evolve(self, scene=scene, verdicts={}, widened={})
            self._widened[keys] = wide
        return wide

    def verdict(self, pod: Pod) -> Verdict:
        for plugin, held_back in PRE_ENQUEUES:
            if reason := held_back(pod):
                return self._reject_everywhere(plugin, reason)
        wide = self._widen(pod)
        if wide is not self:
            return wide.verdict(pod)
        candidate = _class_in(self.scene, pod)
        verdict = self._verdicts.get(candidate)
        if verdict is None:
            verdict = self._verdicts[candidate] = self._judge_class(candidate)
        return verdict

    def _reject_everywhere(self, plugin: Plugin, reason: str) -> Verdict:
        none = self.index.none()
        return Verdict(Rejection(plugin.name, (reason,), everywhere=True), (), none, none)

    def _judge_class(self, candidate: EquivalenceClass) -> Verdict:
        nodes, rules = self.index, candidate.rules
        for plugin, pre_filter in PRE_FILTERS:
            if applies_to(plugin, rules) and (reason := pre_filter(rules, self.scene.surroundings)):
                return self._reject_everywhere(plugin, reason)
        static = self._static.get(candidate.pod_class)
        if static is None:
            static = tuple(findings(STATIC_FILTERS, candidate, self.scene))
            self._static[candidate.pod_class] = static
        found = (*static, *findings(DYNAMIC_FILTERS, candidate, self.scene))
        accepted, tiered = nodes.every(), nodes.every()
        for plugin, rejected in found:
            tiered &= ~rejected.nodes
            if plugin is not TIER:
                accepted &= ~rejected.nodes
        return Verdict(None, found, accepted, tiered)


@lru_cache(maxsize=1024)
def _keys_of(pod_class: PodClass) -> frozenset[str] | None:
    return keys_looked_at((pod_class,))


def _class_in(scene: Scene, pod: Pod) -> EquivalenceClass:
    namespace, labels = scene.residents.visible_labels(pod)
    return EquivalenceClass(pod.pod_class, namespace, labels)
