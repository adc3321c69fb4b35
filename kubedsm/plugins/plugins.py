"""All rules, in the order in which kube-scheduler runs its plugins.

The first that rejects a node gives the reasons. What a pod demands of no node in particular comes
before all of them. There is no NodeName here: a pod with spec.nodeName is bound already.
"""

from collections.abc import Mapping

from kubedsm.plugins import (
    fit,
    node_affinity,
    pod_affinity,
    pod_rules,
    ports,
    spread,
    taints,
    volume_limits,
    volumes,
)
from kubedsm.plugins.plugin import Filter, Plugin

PLUGINS: tuple[Plugin, ...] = (
    pod_rules.SCHEDULING_GATES,
    taints.NODE_UNSCHEDULABLE,
    taints.TAINT_TOLERATION,
    node_affinity.NODE_AFFINITY,
    # After those, so that a control plane is rejected in the words that its taint is known by.
    fit.TIER,
    ports.NODE_PORTS,
    fit.NODE_RESOURCES_FIT,
    volumes.VOLUME_RESTRICTIONS,
    volume_limits.NODE_VOLUME_LIMITS,
    volumes.VOLUME_BINDING,
    volumes.VOLUME_ZONE,
    spread.POD_TOPOLOGY_SPREAD,
    pod_affinity.INTER_POD_AFFINITY,
    pod_rules.DYNAMIC_RESOURCES,
)
#: need no other pods to decide. NodeResourcesFit is last: a node that never fits lacks nothing
NODE_PLUGINS = (*(plugin for plugin in PLUGINS if plugin.static), fit.NODE_RESOURCES_FIT)
BY_NAME: Mapping[str, Plugin] = {plugin.name: plugin for plugin in PLUGINS}

Filters = tuple[tuple[Plugin, Filter], ...]
#: what a pod class and a node decide between them; nodes ruled out by name come first of all
STATIC_FILTERS: Filters = (
    *((plugin, plugin.first_filter) for plugin in PLUGINS if plugin.first_filter),
    *((plugin, plugin.filter) for plugin in PLUGINS if plugin.filter and plugin.static),
)
#: what depends on the other pods, too
DYNAMIC_FILTERS: Filters = tuple(
    (plugin, plugin.filter) for plugin in PLUGINS if plugin.filter and not plugin.static
)
PRE_ENQUEUES = tuple((plugin, plugin.pre_enqueue) for plugin in PLUGINS if plugin.pre_enqueue)
PRE_FILTERS = tuple((plugin, plugin.pre_filter) for plugin in PLUGINS if plugin.pre_filter)
SCORES = tuple((plugin, plugin.score) for plugin in PLUGINS if plugin.score)
