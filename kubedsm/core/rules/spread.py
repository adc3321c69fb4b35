"""PodTopologySpread: pods of a kind are spread over zones, nodes, ... as evenly as asked for.

Source: "Pod Topology Spread Constraints" in the Kubernetes documentation. The skew of a node's
domain is the number of matching pods there, the new one included, less the least number in any
eligible domain (0 if there are fewer domains than minDomains).
"""

from collections.abc import Iterator

from kubedsm.core.model import SpreadConstraint
from kubedsm.core.node_index import Column
from kubedsm.core.residents import Ints, Selection
from kubedsm.core.rules.rejection import Mask, Refusal
from kubedsm.core.rules.scene import EquivalenceClass, Scene
from kubedsm.core.selectors import selects

UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{UNEVEN} (missing required label)"


def pod_topology_spread(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    constraints = candidate.rules.spread
    if not constraints:
        return
    columns = [scene.nodes.label(constraint.topology_key) for constraint in constraints]
    labelled = scene.nodes.every()
    for column in columns:
        labelled &= column.present
    own = candidate.label_map()
    for constraint, column in zip(constraints, columns, strict=True):
        yield Refusal(~column.present, (NO_LABEL,))
        counted = labelled & eligible(candidate, constraint, scene)
        matching, least = _matching(constraint, column, counted, scene)
        newcomer = selects(constraint.selector, own)
        skew = matching[column.codes] + newcomer - least
        yield Refusal(skew > constraint.max_skew, (UNEVEN,))


def eligible(candidate: EquivalenceClass, constraint: SpreadConstraint, scene: Scene) -> Mask:
    """The nodes whose pods count."""
    nodes = scene.nodes.every()
    if constraint.honor_affinity:
        nodes &= scene.nodes.affine(candidate.rules)
    if constraint.honor_taints:
        nodes &= scene.nodes.tolerable(candidate.rules.tolerations)
    return nodes


def _matching(
    constraint: SpreadConstraint, column: Column, counted: Mask, scene: Scene
) -> tuple[Ints, int]:
    """Matching pods by domain, and the least number of them in one."""
    domains = column.sums(counted.astype("int64")) > 0
    # kube-scheduler counts nobody for a selector without requirements.
    selector = constraint.selector or None
    selection = Selection(selector, (constraint.namespace,), living=True)
    matching = column.sums(scene.residents.counts((selection,)), counted)
    if domains.sum() < constraint.min_domains:
        return matching, 0
    return matching, int(matching[domains].min())
