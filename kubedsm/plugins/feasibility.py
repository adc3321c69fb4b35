"""Feasibility of pods on nodes: verdicts of all Filter plugins on all nodes, for one cluster state.

A `Feasibility` is immutable. Adding or removing a pod returns another instance with shared parts.
Hence a batch is validated pod by pod, and a migration without the migrated pod. Verdicts concern
unscheduled pods: remove a running pod first. Complexity for N nodes: a new equivalence class
requires a few vector operations per plugin; a known class, a dictionary lookup; adding or removing
a pod, copies of length N.

Broken rules: kube-scheduler evaluates affinity and spread only during scheduling. Subsequent pods
may break rules without evictions, but additional replicas may become unschedulable.
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
from kubedsm.model.node_index import FreeCapacity, Ints, Mask, NodeIndex, Positions, Step
from kubedsm.model.residents import Keeper, Residents, keys_looked_at
from kubedsm.model.selectors import selects
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
from kubedsm.plugins.pod_affinity import find_deserted
from kubedsm.plugins.spread import POD_TOPOLOGY_SPREAD, Skews, domains_of
from kubedsm.plugins.taints import count_disliked

__all__ = ["EquivalenceClass", "Feasibility", "Rejection"]

#: Pod with the rule, scheduling rule, and node position.
_Where = tuple[Keeper, tuple[PodAffinityTerm, ...] | SpreadConstraint, int]
#: Excess skew per broken constraint; 1 for affinity.
BrokenRules = Mapping[_Where, int]


def is_worse(before: BrokenRules, after: BrokenRules) -> bool:
    """Return True if the second record of violated scheduling rules contains an additional or an
    increased violation, compared with the first.
    """
    return any(amount > before.get(where, 0) for where, amount in after.items())


def _selects_pod(candidate: EquivalenceClass, pod: EquivalenceClass, scene: Scene) -> bool:
    rules = candidate.rules
    surroundings, labels = scene.surroundings, pod.label_map
    return any(pod.is_selected(term, surroundings) for term in rules.affinity) or any(
        c.namespace == pod.namespace and selects(c.selector, labels) for c in rules.spread
    )


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


#: pod and node position
Placed = tuple[Pod, int]


@attrs.frozen(slots=True, eq=False)
class Verdict:
    """Verdict of all Filter plugins on every node, for one equivalence class of interchangeable
    pods.
    """

    everywhere: Rejection | None
    findings: tuple[Finding, ...]
    #: nodes that every plugin accepts
    accepted: Mask

    @property
    def openable(self) -> Mask:
        """Mask of nodes that accept the pod now, or could accept the pod once further pods have
        arrived (affinity, spread).
        """
        mask = np.full_like(self.accepted, self.everywhere is None)
        for _, rejected in self.findings:
            if not rejected.mendable:
                mask &= ~rejected.nodes
        return mask

    @property
    def otherwise_open(self) -> Mask:
        """Nodes without rejections, except for insufficient capacity or uneven spread."""
        mask = np.full_like(self.accepted, self.everywhere is None)
        for plugin, rejected in self.findings:
            uneven = plugin is POD_TOPOLOGY_SPREAD and rejected.mendable
            if plugin is not NODE_RESOURCES_FIT and not uneven:
                mask &= ~rejected.nodes
        return mask

    def rejection(self, position: int) -> Rejection | None:
        if self.everywhere is not None:
            return self.everywhere
        for plugin, rejected in self.findings:
            if rejected.nodes[position]:
                return Rejection(plugin.name, rejected.reasons)
        return None


@attrs.frozen(slots=True, eq=False)
class Feasibility:
    """Verdicts of all Filter plugins for one cluster state."""

    scene: Scene
    #: pods and placements of the snapshot
    _pods: Mapping[Uid, Pod]
    _placed: Mapping[Uid, NodeName]
    #: pods added, or removed (None), since the snapshot
    _moved: Mapping[Uid, Placed | None] = attrs.field(factory=dict)
    _static: dict[PodClass, tuple[Finding, ...]] = attrs.field(factory=dict)
    _verdicts: dict[EquivalenceClass, Verdict] = attrs.field(factory=dict)
    _widened: dict[tuple[str, ...], Self] = attrs.field(factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        scene = Scene(snapshot.index, snapshot.room, snapshot.residents, snapshot.surroundings)
        return cls(scene, snapshot.pods, snapshot.placed)

    @property
    def index(self) -> NodeIndex:
        return self.scene.nodes

    @property
    def room(self) -> FreeCapacity:
        return self.scene.room

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes of the cluster state, in name order."""
        return self.scene.nodes.nodes

    def equivalence(self, pod: Pod) -> EquivalenceClass:
        """Return the pod's equivalence class: pods that nodes and other pods cannot distinguish."""
        return _class_in(self._widen(pod).scene, pod)

    def rejection(self, pod: Pod, node: NodeName) -> Rejection | None:
        """Return the rejection of the pod, or None. Raises KeyError for an unknown node."""
        return self.verdict(pod).rejection(self.index.positions[node])

    def rejections(self, pod: Pod, *, tier: bool = True) -> dict[NodeName, Rejection]:
        """Return the rejection of the pod by each infeasible node, in name order. `tier=False`:
        only by kube-scheduler's plugins.
        """
        verdict, nodes = self.verdict(pod), self.index
        if verdict.everywhere is not None:
            return dict.fromkeys(nodes.names, verdict.everywhere)
        return first_rejections(
            (found for found in verdict.findings if tier or found[0] is not TIER), nodes
        )

    def feasible(self, pod: Pod) -> list[NodeName]:
        """Return the names of the nodes feasible for the pod, in name order."""
        names = self.index.names
        return [names[at] for at in self.taking(pod).nonzero()[0].tolist()]

    def taking(self, pod: Pod) -> Mask:
        """Return the mask of nodes that are feasible for the pod; the mask is shared and therefore
        read-only.
        """
        return self.verdict(pod).accepted

    def indifferent(self, pod: Pod, wishes: Iterable[PodAffinityTerm]) -> bool:
        """Return True if all nodes score equally for the pod, given the preferences `wishes` of
        other pods about the pod.
        """
        scene = self._widen(pod).scene
        candidate = _class_in(scene, pod)
        rules = candidate.rules
        if rules.preferences or any(
            count_disliked(rules.tolerations, taints or ()) for taints in scene.nodes.taints.values
        ):
            return False
        terms = {*wishes, *(term for _, term in scene.residents.wishes)}
        return not any(candidate.is_selected(term, scene.surroundings) for term in terms)

    def penalties(self, pod: Pod, nodes: Sequence[NodeName]) -> list[int]:
        """Return the preference penalty of each given node for the pod: weighted Score plugins,
        relative to the best of the nodes.
        """
        positions = [self.index.positions[name] for name in nodes]
        found: list[int] = self.penalties_at(pod, np.array(positions, dtype=np.intp)).tolist()
        return found

    def penalties_at(self, pod: Pod, nodes: Positions) -> Ints:
        """Return each given node's weighted Score result, as difference to the best of the nodes,
        0..900.
        """
        total = np.zeros(len(nodes), dtype=np.int64)
        for plugin, given in self._rate_nodes(pod, nodes):
            total += plugin.weight * np.array(given, dtype=np.int64)
        found: Ints = total.max(initial=0) - total
        return found

    def ratings(self, pod: Pod, nodes: Positions) -> Mapping[str, list[int]]:
        """Return the scores of the given nodes for the pod by each applicable Score plugin, keyed
        by plugin name.
        """
        return {plugin.name: given for plugin, given in self._rate_nodes(pod, nodes)}

    def _rate_nodes(self, pod: Pod, nodes: Positions) -> Iterator[tuple[Plugin, list[int]]]:
        scene = self._widen(pod).scene
        candidate = _class_in(scene, pod)
        for plugin, score in SCORES:
            given = score(candidate, scene, nodes)
            if given is not None:
                yield plugin, given

    def has_interested_pods(self, pod: Pod) -> bool:
        """Return True if anti-affinity or preferences of running pods select the pod."""
        scene = self._widen(pod).scene
        candidate, residents = _class_in(scene, pod), scene.residents
        terms = (*residents.holders, *(term for _, term in residents.wishes))
        return any(candidate.is_selected(term, scene.surroundings) for term in terms)

    def is_affinity_violated(self, pod: Pod) -> bool:
        """Return True for violated affinity of a running pod. Raises KeyError without a node."""
        _, position = self._place_of(pod.uid)
        at = np.array([position], dtype=np.intp)
        return bool(find_deserted(self.equivalence(pod), self.scene, at)[0])

    def broken_rules(self, pods: Iterable[Pod]) -> BrokenRules:
        """Return the violated affinity and spread rules of these pods, and of other pods whose
        rules select these pods.
        """
        scene, known = self.scene, dict.fromkeys(map(self.equivalence, pods))
        found: dict[_Where, int] = {}
        for keeper, homes in scene.residents.keepers.items():
            candidate = EquivalenceClass(*keeper)
            if candidate in known or any(_selects_pod(candidate, pod, scene) for pod in known):
                positions = scene.residents.where(homes)
                found.update(_list_broken(keeper, candidate, positions, scene))
        return found

    def skews(self, pods: Iterable[Pod]) -> Skews:
        """Return a mutable record of topology-spread skews for the spread constraints of the given
        pending pods.
        """
        return Skews(dict.fromkeys(map(self.equivalence, pods)), self.scene)

    def with_pod(self, pod: Pod, node: NodeName) -> Self:
        """Return the cluster state with the pod added to the node, regardless of feasibility.

        Raises KeyError for an unknown node, ValueError for an already scheduled pod.
        """
        if self._find_place(pod.uid) is not None:
            raise ValueError(f"{pod} is on a node already")
        return self.after(((pod, node, 1),))

    def without_pod(self, uid: Uid) -> Self:
        """Return the cluster state with the pod removed from its node. Raises KeyError for an
        unscheduled pod.
        """
        pod, position = self._place_of(uid)
        return self.after(((pod, self.index.names[position], -1),))

    def after(self, steps: Sequence[Step]) -> Self:
        """Return the cluster state after arrivals and departures of pods at nodes, regardless of
        feasibility.
        """
        wide, moved = self, dict(self._moved)
        for pod, node, by in steps:
            wide = wide._widen(pod)
            moved[pod.uid] = (pod, self.index.positions[node]) if by > 0 else None
        scene = wide.scene
        scene = attrs.evolve(
            scene, room=scene.room.after(steps), residents=scene.residents.after(steps)
        )
        return attrs.evolve(wide, scene=scene, moved=moved, verdicts={}, widened={})

    def _find_place(self, uid: Uid) -> Placed | None:
        """Return the pod with its node position in the cluster state; None for an unscheduled
        pod.
        """
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

    def _widen(self, pod: Pod) -> Self:
        """Return the state distinguishing pods by all labels in the selectors of this pod."""
        looked_at, known = _keys_of(pod.pod_class), self.scene.residents.keys
        if looked_at is None or (known is not None and set(looked_at).issubset(known)):
            return self
        keys = tuple(sorted({*looked_at, *(known or ())}))
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
        rejection = Rejection(plugin.name, (reason,), everywhere=True)
        return Verdict(rejection, (), self.index.none())

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
        accepted = nodes.every()
        for _, rejected in found:
            accepted &= ~rejected.nodes
        return Verdict(None, found, accepted)


@lru_cache(maxsize=1024)
def _keys_of(pod_class: PodClass) -> tuple[str, ...] | None:
    return keys_looked_at((pod_class,))


def _class_in(scene: Scene, pod: Pod) -> EquivalenceClass:
    namespace, labels = scene.residents.visible_labels(pod)
    return EquivalenceClass(pod.pod_class, namespace, labels)
