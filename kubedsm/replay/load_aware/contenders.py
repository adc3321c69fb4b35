"""Who is compared: kube-scheduler and KubeDSM, each with and without measured load."""

from collections.abc import Callable, Mapping

import attrs

from kubedsm.configuration.settings import Configuration
from kubedsm.core.policies.policy import Policy
from kubedsm.core.policies.registry import KUBEDSM, POLICIES


@attrs.frozen
class Contender:
    policy: Callable[[Configuration], Policy]
    #: whether it is told what is measured
    measures: bool = False
    deschedules: bool = False


def _other(name: str) -> Callable[[Configuration], Policy]:
    return lambda configuration: POLICIES[name](
        configuration.promise, configuration.objective_function
    )


DEFAULT = "kube-scheduler"
CONTENDERS: Mapping[str, Contender] = {
    DEFAULT: Contender(_other(DEFAULT)),
    KUBEDSM: Contender(lambda configuration: configuration.policy),
}
