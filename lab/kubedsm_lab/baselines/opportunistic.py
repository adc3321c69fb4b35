"""Opportunistic batching: the scores of one pod serve the next ones like it, for a moment.

kube-scheduler's way since Kubernetes 1.35 ("Opportunistic Batching", KEP-5598). It is for pods of
which a node takes one only, and of which none has a say in where the next would rather be: else
what was scored for the first does not hold for the second.
"""

from typing import Self

import attrs

from kubedsm.model.model import Node, NodeName, Pod
from kubedsm.plugins.plugin import EquivalenceClass
from kubedsm_lab.baselines.in_turn import Room

#: seconds
LASTS = 0.5
Signature = tuple[EquivalenceClass, tuple[str, ...]]


@attrs.frozen(slots=True)
class Ranking:
    """Cached ranking after a pod was placed on the highest-scoring node."""

    like: Signature
    used: NodeName
    #: remaining nodes by descending score
    left: tuple[NodeName, ...]
    #: seconds, by `Snapshot.at`
    since: float

    def next(self, pod: Pod, room: Room) -> Self | None:
        """Advance the ranking by one pod and one node; None if the cached ranking is invalid for
        that pod.
        """
        if not self.left or room.at > self.since + LASTS or signature(pod, room) != self.like:
            return None
        nodes, taking = room.feasibility.index.positions, room.feasibility.taking(pod)
        best, *left = self.left
        known = self.used in nodes and best in nodes
        if not known or taking[nodes[self.used]] or not taking[nodes[best]]:
            return None
        return attrs.evolve(self, used=best, left=tuple(left))

    def node(self, room: Room) -> Node:
        return room.nodes[self.used]


def signature(pod: Pod, room: Room) -> Signature | None:
    """Return the equivalence signature of a pod; None for pods with inter-pod constraints.

    Pods with resource claims have no signature either, and are unschedulable here.
    """
    rules = pod.pod_class.rules
    liked = rules.preferences
    about_pods = rules.affinity or rules.anti_affinity or liked.affinity or liked.anti_affinity
    if about_pods or rules.spread or liked.spread:
        return None
    if room.feasibility.has_interested_pods(pod):
        return None
    return room.feasibility.equivalence(pod), pod.images
