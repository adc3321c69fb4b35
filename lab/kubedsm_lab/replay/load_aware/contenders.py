"""Who is compared: kube-scheduler and KubeDSM, each with and without measured load."""

import math
from collections.abc import Callable, Mapping

import attrs

from kubedsm.config.load_aware import LoadAware, NodeCapacity
from kubedsm.config.settings import Configuration
from kubedsm.objective.load import Capacity, LoadGoal
from kubedsm.optimizer.policies.policy import Policy
from kubedsm_lab.baselines.in_turn import Choose, InTurn
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from kubedsm_lab.baselines.load_aware import load_aware
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.load_aware.application import CAPACITY, Resource

_NET, _DISK = (int(CAPACITY[resource]) for resource in (Resource.NET, Resource.DISK))
#: The model is asked whatever the address.
_MEASURED = Configuration(
    load_aware=LoadAware(
        prometheus="http://model", move=True, capacity=(NodeCapacity(net=_NET, disk=_DISK),)
    )
)
_PLAIN = Configuration()
#: as published: no node is too busy
PAPERS = LoadGoal(high_usage=math.inf, capacity=(Capacity(net=_NET, disk=_DISK),))


@attrs.frozen
class Contender:
    configuration: Configuration
    #: None: the configured KubeDSM
    policy: Callable[[Configuration], Policy] | None = None
    #: whether the paper's descheduler runs beside it
    deschedules: bool = False


def _in_turn(choose: Choose, load: LoadGoal | None = None) -> Callable[[Configuration], Policy]:
    def policy(configuration: Configuration) -> Policy:
        return InTurn(choose, configuration.promise, configuration.objective_function, load)

    return policy


DEFAULT, PAPER, OURS = "kube-scheduler", "+ score + descheduler", "kubedsm + load"
CONTENDERS: Mapping[str, Contender] = {
    DEFAULT: Contender(_PLAIN, _in_turn(kube_scheduler)),
    "+ score": Contender(_MEASURED, _in_turn(load_aware, PAPERS)),
    PAPER: Contender(_MEASURED, _in_turn(load_aware, PAPERS), deschedules=True),
    KUBEDSM: Contender(_PLAIN),
    OURS: Contender(_MEASURED),
}
