"""How much a pod would rather be elsewhere: what it, and others of it, prefer but do not demand.

The scores of plugins are normalised over the nodes in question and weighted as by kube-scheduler's
default profile. Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins, Kubernetes 1.36.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from kubedsm.model.model import PodAffinityTerm
from kubedsm.model.node_index import Ints, Positions
from kubedsm.model.residents import Selection
from kubedsm.plugins.plugin import Plugin
from kubedsm.plugins.plugins import SCORES
from kubedsm.plugins.scene import EquivalenceClass, Scene
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
