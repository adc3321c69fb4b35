"""Arithmetic of kube-scheduler's Score plugins.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins, Kubernetes 1.36: noderesources,
helper.DefaultNormalizeScore, imagelocality, interpodaffinity, podtopologyspread. LeastAllocated is
in `kubedsm.optimizer.placing.cloud`.
"""

import math
from collections.abc import Iterable, Sequence

MAX_NODE_SCORE = 100


def scale_scores(scores: Sequence[int], *, reverse: bool = False) -> list[int]:
    """Scale scores so that the greatest is 100; reversed, so that it is 0."""
    greatest = max(scores, default=0)
    if not greatest:
        return [MAX_NODE_SCORE if reverse else score for score in scores]
    scaled = [MAX_NODE_SCORE * score // greatest for score in scores]
    return [MAX_NODE_SCORE - score for score in scaled] if reverse else scaled


def scale_neighbours(scores: Sequence[int]) -> list[int]:
    """Scale InterPodAffinity's scores from least to greatest, to 0..100."""
    least, greatest = min(scores, default=0), max(scores, default=0)
    if least == greatest:
        return [0] * len(scores)
    return [int(MAX_NODE_SCORE * ((score - least) / (greatest - least))) for score in scores]


def spread_score(terms: Iterable[tuple[int, int, int]]) -> int:
    """Return PodTopologySpread's raw score of a node; less is better.

    terms: per constraint, matching pods in the node's domain, maxSkew, and number of domains.
    """
    total = sum(count * math.log(size + 2) + (max_skew - 1) for count, max_skew, size in terms)
    return math.floor(total + 0.5)


def scale_spread(scores: Sequence[int]) -> list[int]:
    """Invert raw scores to 0..100."""
    least, greatest = min(scores, default=0), max(scores, default=0)
    if not greatest:
        return [MAX_NODE_SCORE] * len(scores)
    return [MAX_NODE_SCORE * (greatest + least - score) // greatest for score in scores]
