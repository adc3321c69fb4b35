"""Rules about a pod class and a node, whatever else is there.

Each is a function that says for one node why it is no place for the pod, or "". `NodeIndex` puts
the same conditions to all nodes at once.
"""

from collections.abc import Callable, Iterable, Mapping

from kubedsm.core.world.model import Node, PodClass, SchedulingRules, Taint, Toleration
from kubedsm.core.world.selectors import NodeSelectorTerm, any_selects

CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
#: The rule that is ours; all others go by their kube-scheduler plugin's name.
TIER_RULE = "Tier"
UNSCHEDULABLE = "node(s) were unschedulable"
NO_MATCH = "node(s) didn't match Pod's node affinity/selector"
#: of nodes that the pod rules out by name: kube-scheduler does not even look at them
NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
CONFLICT = "pod affinity terms conflict"
NO_TIER = "node(s) had no label that makes them edge or cloud"
PREFERS_NO_PODS = "PreferNoSchedule"
_KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")

#: The reason why the node is no place for the pod, or "".
NodeRule = Callable[[PodClass, Node], str]


def tolerated(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> str:
    """Why the pod may not go where these taints are: the first it does not tolerate, named."""
    for taint in taints:
        if taint.effect in _KEEPS_PODS_AWAY and not tolerated(tolerations, taint):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def disliked_taints(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> int:
    """How many taints would rather have the pod elsewhere, and are not tolerated."""
    listed = tuple(tolerations)
    return sum(t.effect == PREFERS_NO_PODS and not tolerated(listed, t) for t in taints)


def node_unschedulable(pod_class: PodClass, node: Node) -> str:
    if not node.unschedulable or tolerated(pod_class.rules.tolerations, CORDONED):
        return ""
    return UNSCHEDULABLE


def taint_toleration(pod_class: PodClass, node: Node) -> str:
    return untolerated(pod_class.rules.tolerations, node.taints)


def node_affinity(pod_class: PodClass, node: Node) -> str:
    rules = pod_class.rules
    labels = node.labels
    if any(labels.get(label) != value for label, value in rules.node_selector):
        return NO_MATCH
    if rules.node_affinity is None or any_selects(rules.node_affinity, node.name, labels):
        return ""
    return NO_MATCH


def tier(_: PodClass, node: Node) -> str:
    return "" if node.tier is not None else NO_TIER


NODE_RULES: Mapping[str, NodeRule] = {
    "NodeUnschedulable": node_unschedulable,
    "TaintToleration": taint_toleration,
    "NodeAffinity": node_affinity,
    # Last, so that a control plane is refused in the words that its taint is known by.
    TIER_RULE: tier,
}


def named_nodes(rules: SchedulingRules) -> frozenset[str] | None:
    """The only nodes that the terms leave, by their names; None if there is a term without names.

    An empty set means that the terms contradict themselves.
    """
    if not rules.node_affinity:
        return None
    names: set[str] = set()
    for term in rules.node_affinity:
        of_term = _names(term)
        if of_term is None:
            return None
        names |= of_term
    return frozenset(names)


def _names(term: NodeSelectorTerm) -> frozenset[str] | None:
    names: frozenset[str] | None = None
    for field in term.fields:
        if field.key == "metadata.name" and field.operator == "In":
            allowed = frozenset(field.values)
            names = allowed if names is None else names & allowed
    return names
