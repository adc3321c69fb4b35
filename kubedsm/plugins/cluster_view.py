"""One state of the cluster, and what the rules say of a pod in it."""

from collections.abc import Iterator, Mapping
from typing import Self

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, PodClass, Uid
from kubedsm.model.node_index import Mask
from kubedsm.model.residents import Residents, keys_looked_at
from kubedsm.model.snapshot import Snapshot
from kubedsm.plugins.class_verdicts import Finding, asked, findings
from kubedsm.plugins.fit import NODE_RESOURCES_FIT, TIER
from kubedsm.plugins.plugins import DYNAMIC_FILTERS, PRE_FILTERS, STATIC_FILTERS
from kubedsm.plugins.rejection import Rejection
from kubedsm.plugins.scene import EquivalenceClass, Scene
from kubedsm.plugins.spread import POD_TOPOLOGY_SPREAD

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
