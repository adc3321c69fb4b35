"""kube-scheduler's scoring of nodes, with a preferred node affinity of every pod to the edge.

As in the default profile, every Score plugin rates each feasible node, the ratings are normalised
to 0..100, and the highest weighted sum wins. Plugins that would rate all nodes alike
(VolumeBinding, NodePorts ...) are left out. Preemption is in `arrivals`.
Source: the plugins' documentation and code in Kubernetes 1.36, k8s.io/kubernetes/pkg/scheduler.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

import attrs
import numpy as np

from kubedsm.model.images import image_locality_score
from kubedsm.model.model import Node, NodeName, Pod, Resources, Tier
from kubedsm.model.node_index import NodeIndex, nodes_to_find, window
from kubedsm.optimizer.placing.cloud import allocation_score
from kubedsm.plugins.node_affinity import sum_preferences
from kubedsm.plugins.plugin import MAX_NODE_SCORE, EquivalenceClass, scale_scores
from kubedsm.plugins.plugins import SCORES
from kubedsm.plugins.spread import scale_spread, spread_score
from kubedsm_lab.baselines.in_turn import NodeUsage, pick

if TYPE_CHECKING:
    import random

#: plugin weights of the default profile
WEIGHTS: Mapping[str, int] = {
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    **{plugin.name: plugin.weight for plugin, _ in SCORES},
}
#: weight of the preferred node affinity to the edge, among a pod's preferences
_EDGE_WEIGHT = 100
_HOSTNAME = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
#: PodTopologySpread's default constraints, of pods that have none of their own and whose owner's
#: selector is known: key and maxSkew
_CONSTRAINTS = ((_HOSTNAME, 3), (_ZONE, 5))
_SPREAD_KINDS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")

#: LeastAllocated's default requests: per container in Kubernetes, here per pod
_DEFAULT_CPU, _DEFAULT_MEMORY = 100, 200 * 2**20

Scores = dict[str, list[int]]

# Opportunistic batching: consecutive identical pods reuse one node ranking for a short time.
# Follows kube-scheduler since Kubernetes 1.35 (KEP-5598, "Opportunistic Batching"). It requires
# pods that fill a node alone and that have no inter-pod constraints; otherwise placing the first
# pod changes the scores for the next.

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


@attrs.define
class KubeScheduler:
    """kube-scheduler's choice of a node on large clusters, where only percentageOfNodesToScore of
    the nodes are scored.

    Each scheduling cycle evaluates the next part of a rotation over all nodes.
    """

    #: percentageOfNodesToScore
    percentage: int = 0
    #: use opportunistic batching, and the profile it requires
    opportunistic: bool = False
    #: start index of the next search in the rotation order
    start: int = attrs.field(default=0, init=False)
    #: number of pods with a scoring round
    passes: int = attrs.field(default=0, init=False)
    _ranking: Ranking | None = attrs.field(default=None, init=False)

    def __call__(
        self, pod: Pod, fitting: Sequence[Node], room: NodeUsage, rng: "random.Random"
    ) -> Node:
        self._ranking = self._ranking and self._ranking.next(pod, room)
        if self._ranking is not None:
            return self._ranking.node(room)
        found = self._sample_nodes(pod, room) or fitting
        self.passes += len(found) > 1
        if not self.opportunistic:
            return kube_scheduler(pod, found, room, rng)
        best, *left = _ranked(pod, found, room, rng)
        like = signature(pod, room)
        if like is not None:
            self._ranking = Ranking(like, best.name, tuple(node.name for node in left), room.at)
        return best

    def interrupted(self, _pod: Pod) -> None:
        """Discard the cached ranking after an unschedulable pod (opportunistic batching)."""
        self._ranking = None

    def _sample_nodes(self, pod: Pod, room: NodeUsage) -> list[Node]:
        """Return the feasible nodes among those that this scheduling cycle evaluates
        (percentageOfNodesToScore); empty if all nodes are evaluated.
        """
        index = room.feasibility.index
        wanted = nodes_to_find(len(index), self.percentage)
        if wanted == len(index):
            return []
        taking = room.feasibility.taking(pod)
        found, self.start = window(index.interleaved, self.start, taking, wanted)
        return [index.nodes[at] for at in found.tolist()]


def kube_scheduler(
    pod: Pod, fitting: Sequence[Node], room: NodeUsage, rng: "random.Random"
) -> Node:
    """Choose the feasible node with kube-scheduler's highest total score, at random among equal
    scores.
    """
    if len(fitting) == 1:
        return fitting[0]
    totals = total_scores(scores(pod, fitting, room))
    best = max(totals)
    return pick(rng, [n for n, t in zip(fitting, totals, strict=True) if t == best])


def _ranked(pod: Pod, nodes: Sequence[Node], room: NodeUsage, rng: "random.Random") -> list[Node]:
    """Return the nodes by descending total score of the Score plugins; equal scores are in random
    order.
    """
    totals = total_scores(scores(pod, nodes, room, batching=True))
    order = sorted(range(len(nodes)), key=lambda at: (-totals[at], rng.random()))
    return [nodes[at] for at in order]


def total_scores(rated: Scores) -> list[int]:
    """Return the weighted sum of all Score plugins' scores, one number per node."""
    weighted = ([WEIGHTS[plugin] * score for score in rated[plugin]] for plugin in rated)
    return [sum(of_node) for of_node in zip(*weighted, strict=True)]


def scores(pod: Pod, nodes: Sequence[Node], room: NodeUsage, *, batching: bool = False) -> Scores:
    """Return the pod's score on each node by Score plugin: normalised to 0..100, before weighting.

    With `batching`, use the profile required by opportunistic batching: no default topology spread,
    and preferences of running pods about the new pod are ignored
    (ignorePreferredTermsOfExistingPods).
    """
    rules, index = pod.pod_class.rules, room.feasibility.index
    at = np.array([index.positions[node.name] for node in nodes], dtype=np.intp)
    edge = np.array([node.tier is Tier.EDGE for node in nodes])
    found = {
        "NodeResourcesFit": [_least_allocated(pod, node, room.pods[node.name]) for node in nodes],
        "TaintToleration": [MAX_NODE_SCORE] * len(nodes),
        **room.feasibility.ratings(pod, at),
        "NodeAffinity": scale_scores(
            (_EDGE_WEIGHT * edge + sum_preferences(rules, index)[at]).tolist()
        ),
    }
    if pod.images and index.images:
        found["ImageLocality"] = [_local(pod, node, index) for node in nodes]
    if pod.requests.cpu or pod.requests.memory:
        found["NodeResourcesBalancedAllocation"] = [_balanced(pod, node, room) for node in nodes]
    if batching and not (rules.preferences.affinity or rules.preferences.anti_affinity):
        found.pop("InterPodAffinity", None)
    by_default = not (batching or rules.spread or rules.preferences.spread)
    if by_default and pod.workload.kind in _SPREAD_KINDS:
        found["PodTopologySpread"] = scale_spread(_spread(pod, nodes, room))
    return found


def _least_allocated(pod: Pod, node: Node, pods: Sequence[Pod]) -> int:
    """Return the node's LeastAllocated score (0..100) after placing the pod.

    Pods without requests count with kube-scheduler's non-zero defaults.
    """
    requested = [effective_requests(other.requests) for other in (*pods, pod)]
    size = node.allocatable
    return allocation_score(
        [size.cpu, size.memory], [sum(amounts) for amounts in zip(*requested, strict=True)]
    )


def _balanced(pod: Pod, node: Node, room: NodeUsage) -> int:
    size, free, more = node.allocatable, room.free[node.name], pod.requests
    cpu, memory = size.cpu - free.cpu, size.memory - free.memory
    return balanced_allocation_score(
        (size.cpu, size.memory), (cpu, memory), (cpu + more.cpu, memory + more.memory)
    )


def _local(pod: Pod, node: Node, index: NodeIndex) -> int:
    share = {image: index.images[image] / len(index) for image in pod.images}
    present = [(node.images[image], share[image]) for image in pod.images if image in node.images]
    return image_locality_score(present, len(pod.images))


def effective_requests(requests: Resources) -> tuple[int, int]:
    """Return CPU (millicores) and memory (bytes), with kube-scheduler's defaults for absent
    requests.
    """
    return requests.cpu or _DEFAULT_CPU, requests.memory or _DEFAULT_MEMORY


def balanced_allocation_score(
    allocatable: tuple[int, int], without: tuple[int, int], with_pod: tuple[int, int]
) -> int:
    """Return NodeResourcesBalancedAllocation's score of a node for a pod, 50..100; 75 is neutral.

    All arguments are (millicores, bytes): the allocatable amounts, and the requests on the node
    without and with the pod. The score compares both balances since Kubernetes 1.36
    (kubernetes/kubernetes#135573); earlier versions rated only the balance with the pod.
    """
    half = MAX_NODE_SCORE // 2
    gain = _balance_of(allocatable, with_pod) - _balance_of(allocatable, without)
    return half + (half + gain) // 2


def _balance_of(allocatable: tuple[int, int], requested: tuple[int, int]) -> int:
    """Return how balanced a node's CPU and memory utilisation are, 0..100: (1 - standard deviation)
    * 100.

    Deviation is that of the two requested fractions. A resource that the node lacks is omitted; a
    single resource is always balanced.
    """
    fractions = [
        min(1.0, asked / size) for size, asked in zip(allocatable, requested, strict=True) if size
    ]
    deviation = (max(fractions) - min(fractions)) / 2 if fractions else 0.0
    return int((1 - deviation) * MAX_NODE_SCORE)


def _spread(pod: Pod, nodes: Sequence[Node], room: NodeUsage) -> list[int]:
    alike = {
        name: sum(
            other.workload == pod.workload and not other.terminating for other in room.pods[name]
        )
        for name in room.nodes
    }
    domains = {
        key: _pods_by_value(key, {n.labels.get(key, "") for n in nodes}, alike, room.nodes)
        for key, _ in _CONSTRAINTS
    }
    sizes = [len(nodes) if key == _HOSTNAME else len(domains[key]) for key, _ in _CONSTRAINTS]
    rated = []
    for node in nodes:
        terms = [
            (
                alike[node.name] if key == _HOSTNAME else domains[key][node.labels[key]],
                max_skew,
                size,
            )
            for (key, max_skew), size in zip(_CONSTRAINTS, sizes, strict=True)
            if key in node.labels
        ]
        rated.append(spread_score(terms))
    return rated


def _pods_by_value(
    key: str, values: set[str], alike: Mapping[NodeName, int], nodes: Mapping[NodeName, Node]
) -> dict[str, int]:
    """Sum `alike`, the number of matching pods by node, over the nodes of each topology value of
    the candidate nodes.
    """
    counts = dict.fromkeys(sorted(values), 0)
    for name, node in nodes.items():
        value = node.labels.get(key, "")
        if value in counts:
            counts[value] += alike[name]
    return counts
