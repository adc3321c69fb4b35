"""Whether a pod may run on a node: the verdict on one class, one node and its free room.

The plugins that this takes are here. Those that look at other pods, at ports in use or at volumes
are not asked: `feasibility` asks them all.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from kubedsm.model.change import Change
from kubedsm.model.model import Node, NodeName, PodClass, Resources
from kubedsm.model.node_index import NodeIndex
from kubedsm.plugins import node_affinity, taints
from kubedsm.plugins.plugin import Cluster, Plugin
from kubedsm.plugins.rejection import RejectedNodes, Rejection
from kubedsm.plugins.resources import larger_than_any, node_resources_fit, shortages
from kubedsm.plugins.scene import EquivalenceClass, Scene

__all__ = [
    "Rejection", "counted_reasons", "reasons", "rejection", "shortages",
    "static_reasons", "static_rejection", "unschedulable_message",
    "why_unschedulable",
]  # fmt: skip

NO_TIER = "node(s) had no label that makes them edge or cloud"


def _takes_it_now(change: Change, candidate: EquivalenceClass, cluster: Cluster) -> bool:
    """Whether the one node that changed, or that room came free on, rejected and now accepts.

    By all rules that a class and a node, or its room, decide between them.
    """
    pod_class, freed = candidate.pod_class, change.freed
    before, after = change.node_before, change.node_after
    if after is not None:
        free = cluster.free(after.name)
        if rejection(pod_class, after, free) is not None or before is None:
            return False
        free_before = free - after.allocatable + before.allocatable
        return rejection(pod_class, before, free_before) is not None
    node = cluster.node(freed.node) if freed is not None else None
    if node is None or freed is None:
        return False
    free = cluster.free(node.name)
    return rejection(pod_class, node, free) is None and bool(
        shortages(pod_class.requests, free - freed.amount)
    )


def _tier(_: PodClass, node: Node) -> str:
    return "" if node.tier is not None else NO_TIER


def _tierless(_: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    yield RejectedNodes(scene.nodes.tierless, (NO_TIER,))


NODE_UNSCHEDULABLE = Plugin(
    name="NodeUnschedulable",
    filter=taints.cordoned,
    node_filter=taints.node_unschedulable,
    hint=_takes_it_now,
    hears=("room", "node"),
    advice="uncordon the node",
)
TAINT_TOLERATION = Plugin(
    name="TaintToleration",
    filter=taints.tainted,
    node_filter=taints.taint_toleration,
    hint=_takes_it_now,
    hears=("room", "node"),
    advice="remove the taint, or let the pod tolerate it",
    score=taints.fewest_disliked,
    weight=3,
)
NODE_AFFINITY = Plugin(
    name="NodeAffinity",
    demands=("node_selector", "node_affinity"),
    pre_filter=node_affinity.self_contradiction,
    first_filter=node_affinity.not_named,
    filter=node_affinity.not_affine,
    node_filter=node_affinity.node_affinity,
    hint=_takes_it_now,
    hears=("room", "node"),
    advice="let the node's labels and the pod's node selector and affinity agree",
    score=node_affinity.most_liked,
    weight=2,
)
#: the rule that is ours
TIER = Plugin(
    name="Tier",
    filter=_tierless,
    node_filter=_tier,
    hint=_takes_it_now,
    hears=("room", "node"),
    advice="give the node the label of a tier",
)
NODE_RESOURCES_FIT = Plugin(
    name="NodeResourcesFit",
    filter=node_resources_fit,
    hint=_takes_it_now,
    hears=("room", "node"),
    advice="free {lacking} on the node",
)
#: Room is asked of last: a node that never could is not short of anything.
NODE_PLUGINS = (NODE_UNSCHEDULABLE, TAINT_TOLERATION, NODE_AFFINITY, TIER, NODE_RESOURCES_FIT)
_NODE_FILTERS = tuple((p.name, p.node_filter) for p in NODE_PLUGINS if p.node_filter)


def static_rejection(pod_class: PodClass, node: Node) -> Rejection | None:
    """The first rule, room aside, by which the node is no place for the pod."""
    if pod_class.rules.node_affinity:
        names = node_affinity.named_nodes(pod_class.rules)
        if names is not None and node.name not in names:
            reason = node_affinity.NOT_NAMED if names else node_affinity.CONFLICT
            return Rejection(NODE_AFFINITY.name, (reason,), everywhere=not names)
    for name, rejects in _NODE_FILTERS:
        reason = rejects(pod_class, node)
        if reason:
            return Rejection(name, (reason,))
    return None


def rejection(pod_class: PodClass, node: Node, free: Resources) -> Rejection | None:
    """The first rule by which the pod does not fit on the node with that free room."""
    rejected = static_rejection(pod_class, node)
    if rejected is None and (short := shortages(pod_class.requests, free)):
        rejected = Rejection(NODE_RESOURCES_FIT.name, short)
    return rejected


def static_reasons(pod_class: PodClass, node: Node) -> tuple[str, ...]:
    """Why the node could not take the pod even if it were empty; nothing if it could."""
    rejected = static_rejection(pod_class, node)
    return rejected.reasons if rejected else ()


def reasons(pod_class: PodClass, node: Node, free: Resources) -> tuple[str, ...]:
    """Why the pod does not fit on the node with that free room; nothing if it fits."""
    rejected = rejection(pod_class, node, free)
    return rejected.reasons if rejected else ()


def unschedulable_message(rejections: Mapping[NodeName, Rejection]) -> str:
    """What kube-scheduler says in Events and in the condition PodScheduled."""
    if not rejections:
        return "no nodes available to schedule pods"
    everywhere = next((r for r in rejections.values() if r.everywhere), None)
    # What is about the pod is not counted.
    why = ", ".join(everywhere.reasons) if everywhere else counted_reasons(rejections)
    return f"0/{len(rejections)} nodes are available: {why}."


def why_unschedulable(
    requests: Resources, rejections: Mapping[NodeName, Rejection], nodes: NodeIndex
) -> str:
    """The same of a pod that requests so much; and whether no node ever had that."""
    said = unschedulable_message(rejections)
    if any(rejected.rule == NODE_RESOURCES_FIT.name for rejected in rejections.values()):
        said = f"{said} {larger_than_any(requests, nodes)}".rstrip()
    return said


def counted_reasons(rejections: Mapping[NodeName, Rejection]) -> str:
    """How many nodes have which reason, as in `2 Insufficient cpu, 1 Insufficient memory`."""
    counts = Counter(reason for rejected in rejections.values() for reason in rejected.reasons)
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
