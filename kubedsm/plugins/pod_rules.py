"""SchedulingGates and DynamicResources: pods that are not placed, whatever the nodes are."""

from kubedsm.model.model import Pod, SchedulingRules
from kubedsm.model.surroundings import Surroundings
from kubedsm.plugins.plugin import Plugin, never

NOT_ALLOCATED = "pod has ResourceClaims, whose devices KubeDSM does not allocate"


def gated(pod: Pod) -> str:
    return f"waiting for scheduling gates: [{' '.join(pod.gates)}]" if pod.gated else ""


def _resource_claims(_rules: SchedulingRules, _: Surroundings) -> str:
    return NOT_ALLOCATED


SCHEDULING_GATES = Plugin(
    name="SchedulingGates",
    pre_enqueue=gated,
    hint=never,
    hears=(),
    advice="remove the pod's scheduling gates",
)
DYNAMIC_RESOURCES = Plugin(
    name="DynamicResources",
    demands=("resource_claims",),
    pre_filter=_resource_claims,
    hint=never,
    hears=(),
    advice="leave the pod to a scheduler that allocates devices",
)
