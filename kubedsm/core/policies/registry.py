"""The policies by name."""

from collections.abc import Callable, Mapping
from functools import partial

from kubedsm.core.goals.load import LoadGoal
from kubedsm.core.goals.objective import Objective, Promises
from kubedsm.core.policies import sencillo
from kubedsm.core.policies.in_turn import InTurn
from kubedsm.core.policies.kube_scheduler import kube_scheduler
from kubedsm.core.policies.kubedsm import KubeDSM
from kubedsm.core.policies.load_aware import load_aware
from kubedsm.core.policies.policy import Policy

KUBEDSM = "kubedsm"
#: where nothing is measured it is kube-scheduler
LOAD_AWARE = "load-aware"

#: What is promised to workloads, and how keeping it is scored, is handed to each of them: those
#: that do not act on it are still judged by it.
POLICIES: Mapping[str, Callable[[Promises, Objective], Policy]] = {
    KUBEDSM: KubeDSM,
    "kube-scheduler": partial(InTurn, kube_scheduler),
    LOAD_AWARE: partial(InTurn, load_aware, load=LoadGoal()),
    "smallest-edge-first": partial(InTurn, sencillo.smallest_edge_first),
    "biggest-edge-first": partial(InTurn, sencillo.biggest_edge_first),
    "random": partial(InTurn, sencillo.random_node),
    "cloud-first": partial(InTurn, sencillo.cloud_first),
}
