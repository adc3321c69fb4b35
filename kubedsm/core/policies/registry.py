"""The policies by name."""

from collections.abc import Callable, Mapping

from kubedsm.core.goals.objective import Objective, Promises
from kubedsm.core.policies.biggest_edge_first import BiggestEdgeFirst
from kubedsm.core.policies.cloud_first import CloudFirst
from kubedsm.core.policies.kube_scheduler import KubeScheduler
from kubedsm.core.policies.kubedsm import KubeDSM
from kubedsm.core.policies.policy import Policy
from kubedsm.core.policies.random_node import RandomNode
from kubedsm.core.policies.smallest_edge_first import SmallestEdgeFirst

KUBEDSM = "kubedsm"

#: What is promised to workloads, and how keeping it is scored, is handed to each of them: those
#: that do not act on it are still judged by it.
POLICIES: Mapping[str, Callable[[Promises, Objective], Policy]] = {
    KUBEDSM: KubeDSM,
    "kube-scheduler": KubeScheduler,
    "smallest-edge-first": SmallestEdgeFirst,
    "biggest-edge-first": BiggestEdgeFirst,
    "random": RandomNode,
    "cloud-first": CloudFirst,
}
