"""All plugins in kube-scheduler's order, and SchedulingGates and DynamicResources.

The first plugin that rejects a node gives the reasons. NodeName is missing: a pod with
spec.nodeName is bound already.
"""

from collections.abc import Mapping

from kubedsm.model.model import Pod, SchedulingRules
from kubedsm.model.surroundings import Surroundings
from kubedsm.plugins import (
    fit,
    node_affinity,
    pod_affinity,
    ports,
    spread,
    taints,
    volumes,
)
from kubedsm.plugins.plugin import Filter, Plugin, never

NOT_ALLOCATED = "pod has ResourceClaims, whose devices KubeDSM does not allocate"


def gates_reason(pod: Pod) -> str:
    return f"waiting for scheduling gates: [{' '.join(pod.gates)}]" if pod.gated else ""


def _resource_claims(_rules: SchedulingRules, _: Surroundings) -> str:
    return NOT_ALLOCATED


SCHEDULING_GATES = Plugin(
    name="SchedulingGates",
    pre_enqueue=gates_reason,
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


PLUGINS: tuple[Plugin, ...] = (
    SCHEDULING_GATES,
    taints.NODE_UNSCHEDULABLE,
    taints.TAINT_TOLERATION,
    node_affinity.NODE_AFFINITY,
    # After TaintToleration: a control plane is rejected for its taint.
    fit.TIER,
    ports.NODE_PORTS,
    fit.NODE_RESOURCES_FIT,
    volumes.VOLUME_RESTRICTIONS,
    volumes.NODE_VOLUME_LIMITS,
    volumes.VOLUME_BINDING,
    volumes.VOLUME_ZONE,
    spread.POD_TOPOLOGY_SPREAD,
    pod_affinity.INTER_POD_AFFINITY,
    DYNAMIC_RESOURCES,
)
#: need no other pods to decide. NodeResourcesFit is last: a node that never fits lacks nothing
NODE_PLUGINS = (*(plugin for plugin in PLUGINS if plugin.static), fit.NODE_RESOURCES_FIT)
BY_NAME: Mapping[str, Plugin] = {plugin.name: plugin for plugin in PLUGINS}

Filters = tuple[tuple[Plugin, Filter], ...]
#: filters that depend on class and node alone; exclusion by name comes first
STATIC_FILTERS: Filters = (
    *((plugin, plugin.first_filter) for plugin in PLUGINS if plugin.first_filter),
    *((plugin, plugin.filter) for plugin in PLUGINS if plugin.filter and plugin.static),
)
#: filters that depend on other pods or capacity
DYNAMIC_FILTERS: Filters = tuple(
    (plugin, plugin.filter) for plugin in PLUGINS if plugin.filter and not plugin.static
)
PRE_ENQUEUES = tuple((plugin, plugin.pre_enqueue) for plugin in PLUGINS if plugin.pre_enqueue)
PRE_FILTERS = tuple((plugin, plugin.pre_filter) for plugin in PLUGINS if plugin.pre_filter)
SCORES = tuple((plugin, plugin.score) for plugin in PLUGINS if plugin.score)
