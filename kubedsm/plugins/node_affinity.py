"""NodeAffinity: node selector, and required and preferred node affinity of a pod."""

from collections.abc import Iterator

import numpy as np

from kubedsm.model.model import SchedulingRules
from kubedsm.model.node_index import Ints, NodeIndex, Positions
from kubedsm.model.selectors import NodeSelectorTerm
from kubedsm.model.surroundings import Surroundings
from kubedsm.plugins.plugin import EquivalenceClass, Plugin, RejectedNodes, Scene, scale_scores

NO_MATCH = "node(s) didn't match Pod's node affinity/selector"
#: reason for nodes excluded by name, skipped early by kube-scheduler
NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
CONFLICT = "pod affinity terms conflict"


def node_affinity(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    yield RejectedNodes(~scene.nodes.match_affinity(candidate.rules), (NO_MATCH,))


def list_named_nodes(rules: SchedulingRules) -> frozenset[str] | None:
    """Return the nodes selected by name, as NodeAffinity's PreFilter in kube-scheduler does.

    None unless every term selects by name. An empty set means contradictory terms.
    """
    if not rules.node_affinity:
        return None
    names: set[str] = set()
    for term in rules.node_affinity:
        of_term = _names_of(term)
        if of_term is None:
            return None
        names |= of_term
    return frozenset(names)


def _names_of(term: NodeSelectorTerm) -> frozenset[str] | None:
    names: frozenset[str] | None = None
    for field in term.fields:
        if field.key == "metadata.name" and field.operator == "In":
            allowed = frozenset(field.values)
            names = allowed if names is None else names & allowed
    return names


def _conflicting_terms(rules: SchedulingRules, _: Surroundings) -> str:
    return CONFLICT if list_named_nodes(rules) == frozenset() else ""


def _filter_named(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    names = list_named_nodes(candidate.rules)
    if names is not None:
        yield RejectedNodes(~scene.nodes.match_names(names), (NOT_NAMED,))


def sum_preferences(rules: SchedulingRules, nodes: NodeIndex) -> Ints:
    """Return, for each node, the total weight of satisfied preferred node affinity terms."""
    total = np.zeros(len(nodes), dtype=np.int64)
    for weight, term in rules.preferences.node_affinity:
        # A term without any conditions selects nothing.
        total += weight * nodes.match_terms((term,))
    return total


def _score_affinity(
    candidate: EquivalenceClass, scene: Scene, chosen: Positions
) -> list[int] | None:
    """Score nodes by the total weight of satisfied preferred node affinity terms, normalised as by
    kube-scheduler.
    """
    if not candidate.rules.preferences.node_affinity:
        return None
    return scale_scores(sum_preferences(candidate.rules, scene.nodes)[chosen].tolist())


NODE_AFFINITY = Plugin(
    name="NodeAffinity",
    demands=("node_selector", "node_affinity"),
    pre_filter=_conflicting_terms,
    first_filter=_filter_named,
    filter=node_affinity,
    static=True,
    hint=None,
    hears=("room", "node"),
    advice="change the labels of the node, or the node selector or affinity of the pod",
    score=_score_affinity,
    weight=2,
)
