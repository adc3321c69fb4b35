"""Arithmetic of kube-scheduler's Score plugins.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins, Kubernetes 1.36: noderesources,
helper.DefaultNormalizeScore, imagelocality, interpodaffinity, podtopologyspread. LeastAllocated is
in `kubedsm.optimizer.placing.cloud`.
"""

import math
from collections.abc import Iterable, Sequence

from kubedsm.model.model import Resources

MAX_NODE_SCORE = 100
#: what a container without a request counts as in LeastAllocated; here, a pod without one
_DEFAULT_CPU, _DEFAULT_MEMORY = 100, 200 * 2**20
#: bytes of images that count for nothing in all, and for as much as there is, a container
_SMALL_IMAGE, _LARGE_IMAGE = 23 * 2**20, 1000 * 2**20


def or_default(requests: Resources) -> tuple[int, int]:
    """Millicores and bytes that a pod counts as."""
    return requests.cpu or _DEFAULT_CPU, requests.memory or _DEFAULT_MEMORY


def balanced_allocation_score(
    allocatable: tuple[int, int], without: tuple[int, int], with_pod: tuple[int, int]
) -> int:
    """The score 50..100 of what the pod does to a node's balance; 75 if it changes nothing.

    allocatable, without, with_pod: cpu and memory, what is requested without and with the pod.
    Since Kubernetes 1.36 (kubernetes/kubernetes#135573); before, the balance with the pod was all.
    """
    half = MAX_NODE_SCORE // 2
    gain = _balance_of(allocatable, with_pod) - _balance_of(allocatable, without)
    return half + (half + gain) // 2


def _balance_of(allocatable: tuple[int, int], requested: tuple[int, int]) -> int:
    """50..100: (1 - standard deviation of the two requested fractions) * 100, cut off.

    A resource that the node does not have is left out, and a single one deviates from nothing.
    """
    fractions = [
        min(1.0, asked / size) for size, asked in zip(allocatable, requested, strict=True) if size
    ]
    deviation = (max(fractions) - min(fractions)) / 2 if fractions else 0.0
    return int((1 - deviation) * MAX_NODE_SCORE)


def normalized(scores: Sequence[int], *, reverse: bool = False) -> list[int]:
    """Scale scores so that the greatest is 100; reversed, so that it is 0."""
    greatest = max(scores, default=0)
    if not greatest:
        return [MAX_NODE_SCORE if reverse else score for score in scores]
    scaled = [MAX_NODE_SCORE * score // greatest for score in scores]
    return [MAX_NODE_SCORE - score for score in scaled] if reverse else scaled


def normalized_neighbours(scores: Sequence[int]) -> list[int]:
    """Scale InterPodAffinity's scores from least to greatest, to 0..100."""
    least, greatest = min(scores, default=0), max(scores, default=0)
    if least == greatest:
        return [0] * len(scores)
    return [int(MAX_NODE_SCORE * ((score - least) / (greatest - least))) for score in scores]


def image_locality_score(present: Iterable[tuple[int, float]], containers: int) -> int:
    """0..100: how much of what the containers run is on a node already.

    present: for each image that is, its bytes and the share of all nodes that have it, so that not
    all pods of a kind go where the first one went.
    """
    bytes_there = sum(int(size * share) for size, share in present)
    most = _LARGE_IMAGE * containers
    counted = min(max(bytes_there, _SMALL_IMAGE), most)
    return MAX_NODE_SCORE * (counted - _SMALL_IMAGE) // (most - _SMALL_IMAGE)


def spread_score(terms: Iterable[tuple[int, int, int]]) -> int:
    """Return PodTopologySpread's raw score of a node; less is better.

    terms: per constraint, matching pods in the node's domain, maxSkew, and number of domains.
    """
    total = sum(count * math.log(size + 2) + (max_skew - 1) for count, max_skew, size in terms)
    return math.floor(total + 0.5)


def normalized_spread(scores: Sequence[int]) -> list[int]:
    """Invert raw scores to 0..100."""
    least, greatest = min(scores, default=0), max(scores, default=0)
    if not greatest:
        return [MAX_NODE_SCORE] * len(scores)
    return [MAX_NODE_SCORE * (greatest + least - score) // greatest for score in scores]
