"""Registry of baseline scheduling policies (functions that choose a node) by name."""

from collections.abc import Callable, Mapping
from functools import partial

from kubedsm.objective.load import LoadGoal
from kubedsm.objective.objective import Objective, QosTargets
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.policies.policy import Policy
from kubedsm_lab.baselines import sencillo
from kubedsm_lab.baselines.cache_scheduler import CacheScheduler
from kubedsm_lab.baselines.in_turn import InTurn
from kubedsm_lab.baselines.kube_scheduler import KubeScheduler, kube_scheduler
from kubedsm_lab.baselines.load_aware import load_aware

KUBEDSM = "kubedsm"
#: without measurements equal to kube-scheduler
LOAD_AWARE = "load-aware"

KUBE_SCHEDULER_ALL_NODES = "kube-scheduler-all-nodes"
CACHE_SCHEDULER = "cache-scheduler"
KUBE_SCHEDULER_OPPORTUNISTIC = "kube-scheduler-opportunistic"
#: policies that are compared only on explicit selection
ON_REQUEST = (KUBE_SCHEDULER_ALL_NODES, KUBE_SCHEDULER_OPPORTUNISTIC, CACHE_SCHEDULER)


def _opportunistic(qos_targets: QosTargets, objective: Objective) -> Policy:
    scheduler = KubeScheduler(opportunistic=True)
    return InTurn(scheduler, qos_targets, objective, on_unplaced=scheduler.interrupted)


#: Constructors of policies, one instance per run. Every policy receives QoS targets and objective,
#: by which its decisions are judged even if the policy ignores them.
POLICIES: Mapping[str, Callable[[QosTargets, Objective], Policy]] = {
    KUBEDSM: KubeDSM,
    "kube-scheduler": lambda *goals: InTurn(KubeScheduler(), *goals),
    KUBE_SCHEDULER_OPPORTUNISTIC: _opportunistic,
    KUBE_SCHEDULER_ALL_NODES: partial(InTurn, kube_scheduler),
    CACHE_SCHEDULER: lambda *goals: InTurn(CacheScheduler(), *goals),
    LOAD_AWARE: partial(InTurn, load_aware, load=LoadGoal()),
    "smallest-edge-first": partial(InTurn, partial(sencillo.edge_first, 1)),
    "biggest-edge-first": partial(InTurn, partial(sencillo.edge_first, -1)),
    "random": partial(InTurn, sencillo.random_node),
    "cloud-first": partial(InTurn, sencillo.cloud_first),
}
