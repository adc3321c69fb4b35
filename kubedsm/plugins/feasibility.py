"""Which nodes would take a pod: every rule, with all the other pods where they are.

A `Feasibility` is a value. Taking a pod away, or adding one, gives another, which shares with the
first all that did not change: so a batch is checked pod by pod, each seeing those before it, and
a migration without the pod that leaves. A pod is asked about as one that is nowhere yet; of one
that is on a node already, take it away first.

Costs, for N nodes: a new class a few vector operations on N a rule; a known class is remembered; a
pod added or taken away, copies of N. Making one of what the mirror keeps along costs nothing; of
another snapshot, a look at all its pods.
"""

from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from kubedsm.model.model import Node, NodeName, Pod, PodAffinityTerm, Uid
from kubedsm.model.node_index import Ints, Mask, NodeIndex, Positions
from kubedsm.model.room import Room
from kubedsm.model.snapshot import Snapshot
from kubedsm.plugins.broken_rules import BrokenRules, broken_rules
from kubedsm.plugins.class_verdicts import first_rejections
from kubedsm.plugins.cluster_view import ClusterView, Verdict
from kubedsm.plugins.fit import TIER
from kubedsm.plugins.plugins import PRE_ENQUEUES
from kubedsm.plugins.pod_affinity import deserted, spoken_of
from kubedsm.plugins.preferences import indifferent, penalties, ratings
from kubedsm.plugins.rejection import Rejection
from kubedsm.plugins.scene import EquivalenceClass, Scene
from kubedsm.plugins.skews import Skews

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
