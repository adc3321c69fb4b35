"""Whether a pod may run on a node: the rules that kube-scheduler's Filter plugins apply.

One small function a rule. The table holds them under the plugins' own names and in the order in
which kube-scheduler runs them; the first that rejects a node gives the reasons, in its words.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import attrs

from kubedsm.core.model import Node, NodeName, PodClass, Resources, Taint, Toleration

_CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")

#: A rule that asks nothing about room: the reason why the node is no place for the pod, or "".
Rule = Callable[[PodClass, Node], str]


@attrs.frozen(slots=True)
class Rejection:
    """The rule that rejected a node, and why."""

    rule: str
    reasons: tuple[str, ...]


def _tolerated(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def _node_unschedulable(pod_class: PodClass, node: Node) -> str:
    if not node.unschedulable or _tolerated(pod_class.rules.tolerations, _CORDONED):
        return ""
    return "node(s) were unschedulable"


def _taint_toleration(pod_class: PodClass, node: Node) -> str:
    for taint in node.taints:
        if taint.effect in _KEEPS_PODS_AWAY and not _tolerated(pod_class.rules.tolerations, taint):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def _node_affinity(pod_class: PodClass, node: Node) -> str:
    if all(node.labels.get(label) == value for label, value in pod_class.rules.node_selector):
        return ""
    return "node(s) didn't match Pod's node affinity/selector"


def _tier(_: PodClass, node: Node) -> str:
    return "" if node.tier is not None else "node(s) had no label that makes them edge or cloud"


RULES: Mapping[str, Rule] = {
    "NodeUnschedulable": _node_unschedulable,
    "TaintToleration": _taint_toleration,
    "NodeAffinity": _node_affinity,
    # Last, so that a control plane is refused in the words that its taint is known by.
    "Tier": _tier,
}
#: Asked after all of RULES: a node that could never take the pod is not short of anything.
ROOM_RULE = "NodeResourcesFit"


def shortages(requests: Resources, free: Resources) -> tuple[str, ...]:
    """What the free room lacks. A pod that asks for none of a resource needs no room of it."""
    short = []
    if requests.pods and requests.pods > free.pods:
        short.append("Too many pods")
    if requests.cpu and requests.cpu > free.cpu:
        short.append("Insufficient cpu")
    if requests.memory and requests.memory > free.memory:
        short.append("Insufficient memory")
    if requests.other:
        room = dict(free.other)
        short += [f"Insufficient {name}" for name, n in requests.other if n > room.get(name, 0)]
    return tuple(short)


def static_rejection(pod_class: PodClass, node: Node) -> Rejection | None:
    """The first rule, room aside, by which the node is no place for the pod."""
    for name, rule in RULES.items():
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


def unschedulable_message(reasons_by_node: Mapping[NodeName, tuple[str, ...]]) -> str:
    """What kube-scheduler says in Events and in the condition PodScheduled."""
    if not reasons_by_node:
        return "no nodes available to schedule pods"
    counts = Counter(reason for given in reasons_by_node.values() for reason in given)
    histogram = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{len(reasons_by_node)} nodes are available: {histogram}."
