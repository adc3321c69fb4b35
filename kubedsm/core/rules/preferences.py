"""How much a pod would rather be elsewhere: what it, and others of it, prefer but do not demand.

The scores of plugins are normalised over the nodes in question and weighted as by kube-scheduler's
default profile. Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins, Kubernetes 1.36.
"""

from collections.abc import Sequence

import numpy as np

from kubedsm.core.rules.plugins import SCORES
from kubedsm.core.rules.scene import EquivalenceClass, Scene


def penalties(candidate: EquivalenceClass, scene: Scene, positions: Sequence[int]) -> list[int]:
    """How much less than the best of these nodes each of them is liked; 0..900.

    positions: of the nodes that can be chosen.
    """
    chosen = np.array(positions, dtype=np.intp)
    total = np.zeros(len(chosen), dtype=np.int64)
    for plugin, score in SCORES:
        given = score(candidate, scene, chosen)
        if given is not None:
            total += plugin.weight * np.array(given, dtype=np.int64)
    found: list[int] = (total.max(initial=0) - total).tolist()
    return found
