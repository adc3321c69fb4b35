"""Whether a pod may run on a node: the verdict on one class, one node and its free room.

The rules themselves are in `rules`. Those that look at other pods, at ports in use or at volumes
are not asked here: `feasibility` asks them all.
"""

from collections import Counter
from collections.abc import Mapping

from kubedsm.core.rules.node_rules import CONFLICT, NODE_RULES, NOT_NAMED, named_nodes
from kubedsm.core.rules.rejection import Rejection
from kubedsm.core.rules.resources import shortages
from kubedsm.core.world.model import Node, NodeName, PodClass, Resources

__all__ = [
    "ROOM_RULE", "Rejection", "counted_reasons", "reasons", "rejection", "shortages",
    "static_reasons", "static_rejection", "unschedulable_message",
]  # fmt: skip

#: Asked after all that a node is whatever is on it: one that never could is not short of anything.
ROOM_RULE = "NodeResourcesFit"


def static_rejection(pod_class: PodClass, node: Node) -> Rejection | None:
    """The first rule, room aside, by which the node is no place for the pod."""
    if pod_class.rules.node_affinity:
        names = named_nodes(pod_class.rules)
        if names is not None and node.name not in names:
            return Rejection("NodeAffinity", (NOT_NAMED if names else CONFLICT,), not names)
    for name, rule in NODE_RULES.items():
        reason = rule(pod_class, node)
        if reason:
            return Rejection(name, (reason,))
    return None


def rejection(pod_class: PodClass, node: Node, free: Resources) -> Rejection | None:
    """The first rule by which the pod does not fit on the node with that free room."""
    rejected = static_rejection(pod_class, node)
    if rejected is None and (short := shortages(pod_class.requests, free)):
        rejected = Rejection(ROOM_RULE, short)
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


def counted_reasons(rejections: Mapping[NodeName, Rejection]) -> str:
    """How many nodes have which reason, as in `2 Insufficient cpu, 1 Insufficient memory`."""
    counts = Counter(reason for rejected in rejections.values() for reason in rejected.reasons)
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
