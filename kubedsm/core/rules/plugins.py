"""All rules, in the order in which kube-scheduler runs its plugins.

The first that refuses a node gives the reasons. What a pod demands of no node in particular comes
before all of them. There is no NodeName here: a pod with spec.nodeName is bound already.
"""

from collections.abc import Mapping

from kubedsm.core.rules.fit import (
    NODE_AFFINITY,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
    TIER,
)
from kubedsm.core.rules.plugin import Filter, Plugin
from kubedsm.core.rules.pod_affinity import INTER_POD_AFFINITY
from kubedsm.core.rules.pod_rules import DYNAMIC_RESOURCES, SCHEDULING_GATES
from kubedsm.core.rules.ports import NODE_PORTS
from kubedsm.core.rules.spread import POD_TOPOLOGY_SPREAD
from kubedsm.core.rules.volume_limits import NODE_VOLUME_LIMITS
from kubedsm.core.rules.volumes import VOLUME_BINDING, VOLUME_RESTRICTIONS, VOLUME_ZONE

PLUGINS: tuple[Plugin, ...] = (
    SCHEDULING_GATES,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
    NODE_AFFINITY,
    # After those, so that a control plane is refused in the words that its taint is known by.
    TIER,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    VOLUME_RESTRICTIONS,
    NODE_VOLUME_LIMITS,
    VOLUME_BINDING,
    VOLUME_ZONE,
    POD_TOPOLOGY_SPREAD,
    INTER_POD_AFFINITY,
    DYNAMIC_RESOURCES,
)
BY_NAME: Mapping[str, Plugin] = {plugin.name: plugin for plugin in PLUGINS}

Filters = tuple[tuple[Plugin, Filter], ...]
#: what a pod class and a node decide between them; nodes ruled out by name come first of all
STATIC_FILTERS: Filters = (
    *((plugin, plugin.first_filter) for plugin in PLUGINS if plugin.first_filter),
    *((plugin, plugin.filter) for plugin in PLUGINS if plugin.filter and plugin.node_filter),
)
#: what depends on the other pods, too
DYNAMIC_FILTERS: Filters = tuple(
    (plugin, plugin.filter) for plugin in PLUGINS if plugin.filter and not plugin.node_filter
)
PRE_ENQUEUES = tuple((plugin, plugin.pre_enqueue) for plugin in PLUGINS if plugin.pre_enqueue)
PRE_FILTERS = tuple((plugin, plugin.pre_filter) for plugin in PLUGINS if plugin.pre_filter)
SCORES = tuple((plugin, plugin.score) for plugin in PLUGINS if plugin.score)
