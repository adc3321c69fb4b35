"""Node plugins in their literal form: one pod class, one node, its free capacity."""

from collections.abc import Iterable, Mapping

from kubedsm.model.model import Node, PodClass, Resources, SchedulingRules, Taint
from kubedsm.model.selectors import NodeSelectorTerm, is_name_field, selects
from kubedsm.plugins.fit import NO_TIER, shortages
from kubedsm.plugins.node_affinity import CONFLICT, NO_MATCH, NOT_NAMED, list_named_nodes
from kubedsm.plugins.plugin import Rejection
from kubedsm.plugins.taints import UNSCHEDULABLE

_CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def term_selects(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    return (
        bool(term.expressions or term.fields)
        and selects(term.expressions, labels)
        and all(is_name_field(r) and r.accepts(name) for r in term.fields)
    )


def any_selects(terms: Iterable[NodeSelectorTerm], name: str, labels: Mapping[str, str]) -> bool:
    return any(term_selects(term, name, labels) for term in terms)


def _tolerates(rules: SchedulingRules, taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in rules.tolerations)


def node_unschedulable(rules: SchedulingRules, node: Node) -> str:
    return UNSCHEDULABLE if node.unschedulable and not _tolerates(rules, _CORDONED) else ""


def taint_toleration(rules: SchedulingRules, node: Node) -> str:
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not _tolerates(rules, taint):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def node_affinity(rules: SchedulingRules, node: Node) -> str:
    if any(node.labels.get(label) != value for label, value in rules.node_selector):
        return NO_MATCH
    terms = rules.node_affinity
    return "" if terms is None or any_selects(terms, node.name, node.labels) else NO_MATCH


def static_rejection(pod_class: PodClass, node: Node) -> Rejection | None:
    """Return the first plugin, capacity aside, that rejects the node."""
    rules = pod_class.rules
    names = list_named_nodes(rules)
    if names is not None and node.name not in names:
        return Rejection("NodeAffinity", (NOT_NAMED if names else CONFLICT,), everywhere=not names)
    verdicts = {
        "NodeUnschedulable": node_unschedulable(rules, node),
        "TaintToleration": taint_toleration(rules, node),
        "NodeAffinity": node_affinity(rules, node),
        "Tier": "" if node.tier is not None else NO_TIER,
    }
    return next((Rejection(name, (why,)) for name, why in verdicts.items() if why), None)


def rejection(pod_class: PodClass, node: Node, free: Resources) -> Rejection | None:
    rejected = static_rejection(pod_class, node)
    if rejected is None and (short := shortages(pod_class.requests, free)):
        rejected = Rejection("NodeResourcesFit", short)
    return rejected


def static_reasons(pod_class: PodClass, node: Node) -> tuple[str, ...]:
    rejected = static_rejection(pod_class, node)
    return rejected.reasons if rejected else ()


def reasons(pod_class: PodClass, node: Node, free: Resources) -> tuple[str, ...]:
    rejected = rejection(pod_class, node, free)
    return rejected.reasons if rejected else ()
