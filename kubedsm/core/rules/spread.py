"""PodTopologySpread: pods of a kind are spread over zones, nodes, ... as evenly as asked for.

Source: "Pod Topology Spread Constraints" in the Kubernetes documentation. The skew of a node's
domain is the number of matching pods there, the new one included, less the least number in any
eligible domain (0 if there are fewer domains than minDomains).
"""

from collections.abc import Iterator

import attrs

from kubedsm.core.rules.node_index import Column
from kubedsm.core.rules.rejection import Mask, Refusal
from kubedsm.core.rules.residents import Ints, Selection
from kubedsm.core.rules.scene import EquivalenceClass, Scene
from kubedsm.core.world.model import SpreadConstraint
from kubedsm.core.world.selectors import selects

UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{UNEVEN} (missing required label)"


@attrs.frozen(slots=True, eq=False)
class Domains:
    """The nodes as a constraint of some kind of pod divides them."""

    column: Column
    #: the nodes whose pods count
    counted: Mask
    #: by code of the column: whether there is such a domain
    present: Mask
    #: there are as many domains as it asks for
    enough: bool
    #: whom it looks at
    selection: Selection

    def matching(self, scene: Scene) -> Ints:
        """How many pods it looks at, by domain."""
        return self.column.sums(scene.residents.counts((self.selection,)), self.counted)

    def least(self, matching: Ints) -> int:
        return int(matching[self.present].min()) if self.enough else 0


def domains_of(
    candidate: EquivalenceClass, scene: Scene
) -> Iterator[tuple[SpreadConstraint, Domains]]:
    """Its constraints, each with the domains."""
    constraints = candidate.rules.spread
    columns = [scene.nodes.label(constraint.topology_key) for constraint in constraints]
    labelled = scene.nodes.every()
    for column in columns:
        labelled &= column.present
    for constraint, column in zip(constraints, columns, strict=True):
        counted = labelled & eligible(candidate, constraint, scene)
        present = column.sums(counted.astype("int64")) > 0
        enough = bool(present.sum() >= constraint.min_domains)
        # kube-scheduler counts nobody for a selector without requirements.
        selection = Selection(constraint.selector or None, (constraint.namespace,), living=True)
        yield constraint, Domains(column, counted, present, enough, selection)


def pod_topology_spread(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    if not candidate.rules.spread:
        return
    own = candidate.label_map()
    for constraint, domains in domains_of(candidate, scene):
        column = domains.column
        yield Refusal(~column.present, (NO_LABEL,))
        matching = domains.matching(scene)
        newcomer = selects(constraint.selector, own)
        skew = matching[column.codes] + newcomer - domains.least(matching)
        yield Refusal(skew > constraint.max_skew, (UNEVEN,))


def eligible(candidate: EquivalenceClass, constraint: SpreadConstraint, scene: Scene) -> Mask:
    """The nodes whose pods count."""
    nodes = scene.nodes.every()
    if constraint.honor_affinity:
        nodes &= scene.nodes.affine(candidate.rules)
    if constraint.honor_taints:
        nodes &= scene.nodes.tolerable(candidate.rules.tolerations)
    return nodes
