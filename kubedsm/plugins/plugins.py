"""Plugin registry in kube-scheduler's order, SchedulingGates, DynamicResources, and class verdicts.

The first rejecting plugin determines the reasons. NodeName is omitted: pods with spec.nodeName are
already bound.
"""

from collections.abc import Iterable, Iterator, Mapping

from kubedsm.model.model import Node, NodeName, Pod, PodClass, Resources, SchedulingRules
from kubedsm.model.node_index import FreeCapacity, Mask, NodeIndex
from kubedsm.model.surroundings import Surroundings
from kubedsm.plugins import (
    fit,
    node_affinity,
    pod_affinity,
    spread,
    taints,
    volume_binding,
    volumes,
)
from kubedsm.plugins.fit import NODE_RESOURCES_FIT, node_resources_fit, shortages
from kubedsm.plugins.plugin import (
    EquivalenceClass,
    Filter,
    Plugin,
    RejectedNodes,
    Rejection,
    Scene,
    never,
)

NOT_ALLOCATED = "pod has ResourceClaims, whose devices KubeDSM does not allocate"


def gates_reason(pod: Pod) -> str:
    return f"waiting for scheduling gates: [{' '.join(pod.gates)}]" if pod.gated else ""


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
    pre_filter=lambda _rules, _surroundings: NOT_ALLOCATED,
    hint=never,
    hears=(),
    advice="leave the pod to a scheduler that allocates devices",
)


PLUGINS: tuple[Plugin, ...] = (
    SCHEDULING_GATES,
    taints.NODE_UNSCHEDULABLE,
    taints.TAINT_TOLERATION,
    node_affinity.NODE_AFFINITY,
    # After TaintToleration: control-plane nodes are rejected because of the taint.
    fit.TIER,
    fit.NODE_PORTS,
    fit.NODE_RESOURCES_FIT,
    volumes.VOLUME_RESTRICTIONS,
    volumes.NODE_VOLUME_LIMITS,
    volume_binding.VOLUME_BINDING,
    volumes.VOLUME_ZONE,
    spread.POD_TOPOLOGY_SPREAD,
    pod_affinity.INTER_POD_AFFINITY,
    DYNAMIC_RESOURCES,
)
#: independent of other pods. NodeResourcesFit last: permanent rejections precede capacity
NODE_PLUGINS = (*(plugin for plugin in PLUGINS if plugin.static), fit.NODE_RESOURCES_FIT)
BY_NAME: Mapping[str, Plugin] = {plugin.name: plugin for plugin in PLUGINS}

Filters = tuple[tuple[Plugin, Filter], ...]
#: filters depending only on class and node; exclusion by name comes first
STATIC_FILTERS: Filters = (
    *((plugin, plugin.first_filter) for plugin in PLUGINS if plugin.first_filter),
    *((plugin, plugin.filter) for plugin in PLUGINS if plugin.filter and plugin.static),
)
#: filters depending on other pods or capacity
DYNAMIC_FILTERS: Filters = tuple(
    (plugin, plugin.filter) for plugin in PLUGINS if plugin.filter and not plugin.static
)
PRE_ENQUEUES = tuple((plugin, plugin.pre_enqueue) for plugin in PLUGINS if plugin.pre_enqueue)
PRE_FILTERS = tuple((plugin, plugin.pre_filter) for plugin in PLUGINS if plugin.pre_filter)
SCORES = tuple((plugin, plugin.score) for plugin in PLUGINS if plugin.score)


Finding = tuple[Plugin, RejectedNodes]
_FILTERS: Filters = (*STATIC_FILTERS, (NODE_RESOURCES_FIT, node_resources_fit))
_NO_RULES = SchedulingRules()


def applies_to(plugin: Plugin, rules: SchedulingRules) -> bool:
    """Return True if the plugin may reject pods with these scheduling rules."""
    return not plugin.demands or any(
        getattr(rules, demand) != getattr(_NO_RULES, demand) for demand in plugin.demands
    )


def findings(filters: Filters, candidate: EquivalenceClass, scene: Scene) -> Iterator[Finding]:
    for plugin, rejects in filters:
        for rejected in rejects(candidate, scene) if applies_to(plugin, candidate.rules) else ():
            if rejected.nodes.any():
                yield plugin, rejected


def first_rejections(found: Iterable[Finding], nodes: NodeIndex) -> dict[NodeName, Rejection]:
    """Return the first rejection of each rejecting node, in name order, from plugin results in
    plugin order.
    """
    first: dict[int, Rejection] = {}
    left = nodes.every()
    for plugin, rejected in found:
        rejection = Rejection(plugin.name, rejected.reasons)
        first |= dict.fromkeys((rejected.nodes & left).nonzero()[0].tolist(), rejection)
        left &= ~rejected.nodes
    return {nodes.names[position]: first[position] for position in sorted(first)}


def open_nodes(pod_class: PodClass, nodes: NodeIndex) -> Mask:
    """Return the feasible nodes regardless of capacity; cached until a node changes."""
    known = nodes.open_to.get(pod_class)
    if known is None:
        known, scene = nodes.every(), Scene.bare(nodes, FreeCapacity(nodes, {}))
        for _, rejected in findings(STATIC_FILTERS, EquivalenceClass(pod_class), scene):
            known &= ~rejected.nodes
        nodes.open_to[pod_class] = known
    return known


def fitting_nodes(pod_class: PodClass, nodes: NodeIndex, room: FreeCapacity) -> Mask:
    """Return the mask of nodes that accept the pod class and have sufficient free capacity."""
    return open_nodes(pod_class, nodes) & ~room.short(pod_class.requests)


def rejections(
    pod_class: PodClass, nodes: NodeIndex, room: FreeCapacity
) -> dict[NodeName, Rejection]:
    """Return the rejection of the pod class by each infeasible node, in name order."""
    for plugin in NODE_PLUGINS:
        if plugin.pre_filter and (reason := plugin.pre_filter(pod_class.rules, Surroundings())):
            return dict.fromkeys(nodes.names, Rejection(plugin.name, (reason,), everywhere=True))
    found = findings(_FILTERS, EquivalenceClass(pod_class), Scene.bare(nodes, room))
    return first_rejections(found, nodes)


def accepts(pod_class: PodClass, node: Node, free: Resources) -> bool:
    """Return True if the node, with the given free capacity, is feasible for the pod class."""
    open_to = open_nodes(pod_class, NodeIndex.index_node(node))
    return bool(open_to[0]) and not shortages(pod_class.requests, free)


def rejection(pod_class: PodClass, node: Node, free: Resources) -> Rejection | None:
    """Return the rejection of the pod class by the node with the given free capacity, or None if
    feasible.
    """
    if accepts(pod_class, node, free):
        return None
    nodes = NodeIndex.index_node(node)
    return rejections(pod_class, nodes, FreeCapacity(nodes, {node.name: free}))[node.name]
