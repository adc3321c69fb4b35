"""Who is compared: kube-scheduler and KubeDSM, each with and without measured load."""

import math
from collections.abc import Callable, Mapping

import attrs

from kubedsm.configuration.settings import Configuration
from kubedsm.core.goals.load import Capacity, LoadGoal
from kubedsm.core.policies.in_turn import Choose, InTurn
from kubedsm.core.policies.kube_scheduler import kube_scheduler
from kubedsm.core.policies.load_aware import load_aware
from kubedsm.core.policies.policy import Policy
from kubedsm.core.policies.registry import KUBEDSM
from kubedsm.replay.load_aware.application import CAPACITY, Resource

_SIZE = Capacity(net=float(CAPACITY[Resource.NET]), disk=float(CAPACITY[Resource.DISK]))
#: as published: no node is too busy
PAPERS = LoadGoal(high_usage=math.inf, capacity=(_SIZE,))
_OURS = LoadGoal(move=True, capacity=(_SIZE,))


@attrs.frozen
class Contender:
    policy: Callable[[Configuration], Policy]
    #: whether it is told what is measured
    measures: bool = True
    #: whether the paper's descheduler runs beside it
    deschedules: bool = False


def _in_turn(choose: Choose, load: LoadGoal | None = None) -> Callable[[Configuration], Policy]:
    def policy(configuration: Configuration) -> Policy:
        return InTurn(choose, configuration.promise, configuration.objective_function, load)

    return policy


def _with_load(configuration: Configuration) -> Policy:
    return attrs.evolve(configuration.policy, load=_OURS)


DEFAULT, PAPER, OURS = "kube-scheduler", "+ score + descheduler", "kubedsm + load"
CONTENDERS: Mapping[str, Contender] = {
    DEFAULT: Contender(_in_turn(kube_scheduler), measures=False),
    "+ score": Contender(_in_turn(load_aware, PAPERS)),
    PAPER: Contender(_in_turn(load_aware, PAPERS), deschedules=True),
    KUBEDSM: Contender(lambda configuration: configuration.policy, measures=False),
    OURS: Contender(_with_load),
}
