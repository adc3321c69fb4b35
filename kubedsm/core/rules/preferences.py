"""How much a pod would rather be elsewhere: what it, and others of it, prefer but do not demand.

Four of kube-scheduler's Score plugins, normalised as it does over the nodes in question and with
the weights of its default profile: TaintToleration (PreferNoSchedule taints that are not
tolerated), NodeAffinity, InterPodAffinity (also what the pods on the nodes prefer) and
PodTopologySpread (ScheduleAnyway). Sources: "Scheduler Configuration", "Assigning Pods to Nodes",
"Taints and Tolerations" and "Pod Topology Spread Constraints" in the Kubernetes documentation, and
the plugins of Kubernetes 1.36, k8s.io/kubernetes/pkg/scheduler/framework/plugins.
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
