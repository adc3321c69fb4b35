"""How much a pod would rather be elsewhere: what it, and others of it, prefer but do not demand.

Four of kube-scheduler's Score plugins, normalised as it does over the nodes in question and with
the weights of its default profile: TaintToleration (PreferNoSchedule taints that are not
tolerated), NodeAffinity, InterPodAffinity (also what the pods on the nodes prefer) and
PodTopologySpread (ScheduleAnyway). Sources: "Scheduler Configuration", "Assigning Pods to Nodes",
"Taints and Tolerations" and "Pod Topology Spread Constraints" in the Kubernetes documentation, and
the plugins of Kubernetes 1.36, k8s.io/kubernetes/pkg/scheduler/framework/plugins.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kubedsm.core.rules.node_index import Column
from kubedsm.core.rules.node_scores import (
    normalized,
    normalized_neighbours,
    normalized_spread,
    spread_score,
)
from kubedsm.core.rules.rejection import Mask
from kubedsm.core.rules.residents import Ints, Selection
from kubedsm.core.rules.scene import EquivalenceClass, Scene
from kubedsm.core.rules.spread import eligible
from kubedsm.core.world.model import SpreadConstraint

#: of the default profile
WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
}
_HOSTNAME = "kubernetes.io/hostname"


def scores(
    candidate: EquivalenceClass, scene: Scene, positions: Sequence[int]
) -> dict[str, list[int]]:
    """What each plugin gives each of these nodes, 0..100; one that has nothing to say is left out.

    positions: of the nodes that can be chosen, T of them; each answer has T scores.
    """
    chosen = np.array(positions, dtype=np.intp)
    preferences = candidate.rules.preferences
    found = {}
    disliked = scene.nodes.disliked(candidate.rules.tolerations)[chosen]
    if disliked.any():
        found["TaintToleration"] = normalized(disliked.tolist(), reverse=True)
    if preferences.node_affinity:
        found["NodeAffinity"] = normalized(_liked(candidate, scene)[chosen].tolist())
    if preferences.affinity or preferences.anti_affinity or scene.residents.wishes:
        found["InterPodAffinity"] = normalized_neighbours(
            _neighbours(candidate, scene)[chosen].tolist()
        )
    if preferences.spread:
        found["PodTopologySpread"] = _spread(candidate, scene, chosen)
    return found


def penalties(candidate: EquivalenceClass, scene: Scene, positions: Sequence[int]) -> list[int]:
    """How much less than the best of these nodes each of them is liked; 0..900."""
    total = np.zeros(len(positions), dtype=np.int64)
    for plugin, given in scores(candidate, scene, positions).items():
        total += WEIGHTS[plugin] * np.array(given, dtype=np.int64)
    found: list[int] = (total.max(initial=0) - total).tolist()
    return found


def _liked(candidate: EquivalenceClass, scene: Scene) -> Ints:
    """The weights of the preferred terms that each node satisfies; one without any does not."""
    total = np.zeros(len(scene.nodes), dtype=np.int64)
    for weight, term in candidate.rules.preferences.node_affinity:
        total += weight * scene.nodes.selected((term,))
    return total


def _neighbours(candidate: EquivalenceClass, scene: Scene) -> Ints:
    """The weights of all wishes, by and about the pod, that each node would fulfil."""
    residents, preferences = scene.residents, candidate.rules.preferences
    total = np.zeros(len(scene.nodes), dtype=np.int64)
    for sign, terms in ((1, preferences.affinity), (-1, preferences.anti_affinity)):
        for weight, term in terms:
            column = scene.nodes.label(term.topology_key)
            there = column.sums(residents.counts((Selection.of(term),)))
            total += sign * weight * there[column.codes]
    labels = candidate.label_map()
    for (weight, term), holders in residents.wishes.items():
        if Selection.of(term).covers(candidate.namespace, labels, scene.surroundings):
            column = scene.nodes.label(term.topology_key)
            holding = np.zeros(len(scene.nodes), dtype=np.int64)
            holding[list(holders)] = list(holders.values())
            total += weight * column.sums(holding)[column.codes]
    return total


def _spread(
    candidate: EquivalenceClass, scene: Scene, chosen: "np.typing.NDArray[np.intp]"
) -> list[int]:
    """The more even, the better; nodes that lack a topology label score nothing."""
    constraints = candidate.rules.preferences.spread
    columns = [scene.nodes.label(constraint.topology_key) for constraint in constraints]
    labelled = scene.nodes.every()
    for column in columns:
        labelled &= column.present
    usable = chosen[labelled[chosen]]
    terms = [
        _terms(candidate, constraint, column, usable, labelled, scene)
        for constraint, column in zip(constraints, columns, strict=True)
    ]
    raw = [spread_score(of_node) for of_node in zip(*terms, strict=True)]
    rated = dict(zip(usable.tolist(), normalized_spread(raw), strict=True))
    return [rated.get(position, 0) for position in chosen.tolist()]


def _terms(
    candidate: EquivalenceClass,
    constraint: SpreadConstraint,
    column: Column,
    usable: "np.typing.NDArray[np.intp]",
    labelled: Mask,
    scene: Scene,
) -> list[tuple[int, int, int]]:
    """For each usable node what `spread_score` takes: matching pods, maxSkew, domains."""
    # kube-scheduler counts nobody for a selector without requirements.
    selection = Selection(constraint.selector or None, (constraint.namespace,), living=True)
    counts = scene.residents.counts((selection,))
    if constraint.topology_key == _HOSTNAME:
        matching, size = counts[usable], len(usable)
    else:
        codes = column.codes[usable]
        counted = labelled & eligible(candidate, constraint, scene)
        matching, size = column.sums(counts, counted)[codes], len(np.unique(codes))
    return [(count, constraint.max_skew, size) for count in matching.tolist()]
