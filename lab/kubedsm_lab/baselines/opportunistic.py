"""Opportunistic batching: consecutive identical pods reuse one node ranking for a short time.

Follows kube-scheduler since Kubernetes 1.35 (KEP-5598, "Opportunistic Batching"). Batching requires
pods that fill a node alone and that have no inter-pod constraints; otherwise placing the first pod
changes the scores for the next.
"""

from typing import Self

import attrs

from kubedsm.model.model import Node, NodeName, Pod
from kubedsm.plugins.plugin import EquivalenceClass
from kubedsm_lab.baselines.in_turn import NodeUsage

#: seconds
LASTS = 0.5
Signature = tuple[EquivalenceClass, tuple[str, ...]]


@attrs.frozen(slots=True)
class Ranking:
    """Ranking of nodes for the previous pod (opportunistic batching). An identical next pod reuses
    the ranking if the best node has no capacity for a further pod.
    """

    like: Signature
    used: NodeName
    #: remaining nodes by descending score
    left: tuple[NodeName, ...]
    #: seconds, by `Snapshot.at`
    since: float

    def next(self, pod: Pod, room: NodeUsage) -> Self | None:
        """Return the ranking for the next pod, without the node used last; None if the nodes must
        be scored again.
        """
        if not self.left or room.at > self.since + LASTS or signature(pod, room) != self.like:
            return None
        nodes, taking = room.feasibility.index.positions, room.feasibility.taking(pod)
        best, *left = self.left
        known = self.used in nodes and best in nodes
        if not known or taking[nodes[self.used]] or not taking[nodes[best]]:
            return None
        return attrs.evolve(self, used=best, left=tuple(left))

    def node(self, room: NodeUsage) -> Node:
        return room.nodes[self.used]


def signature(pod: Pod, room: NodeUsage) -> Signature | None:
    """Return the key that identical pods share, to reuse one node ranking; None for pods with
    inter-pod constraints.

    Pods with resource claims are unschedulable here and have no key either.
    """
    rules = pod.pod_class.rules
    liked = rules.preferences
    about_pods = rules.affinity or rules.anti_affinity or liked.affinity or liked.anti_affinity
    if about_pods or rules.spread or liked.spread:
        return None
    if room.feasibility.has_interested_pods(pod):
        return None
    return room.feasibility.equivalence(pod), pod.images
