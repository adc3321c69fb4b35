"""InterPodAffinity: required and preferred affinity and anti-affinity between pods.

Required affinity counts only pods satisfying all terms simultaneously.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Pod, PodAffinityTerm
from kubedsm.model.node_index import MISSING, Mask, Positions
from kubedsm.model.residents import Selection
from kubedsm.model.surroundings import Namespace
from kubedsm.plugins.plugin import (
    MAX_NODE_SCORE,
    EquivalenceClass,
    Plugin,
    RejectedNodes,
    Scene,
)

NO_AFFINITY = "node(s) didn't match pod affinity rules"
NO_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


def inter_pod_affinity(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    if candidate.rules.affinity:
        yield RejectedNodes(_nodes_not_near(candidate, scene), (NO_AFFINITY,), mendable=True)
    if candidate.rules.anti_affinity:
        yield RejectedNodes(_nodes_too_near(candidate, scene), (NO_ANTI_AFFINITY,))
    if scene.residents.holders:
        yield RejectedNodes(_repelled_nodes(candidate, scene), (OTHERS_ANTI_AFFINITY,))


def _nodes_not_near(candidate: EquivalenceClass, scene: Scene) -> Mask:
    terms = candidate.rules.affinity
    selections = tuple(Selection.of(term) for term in terms)
    counts = scene.residents.counts(selections)
    labelled, near = scene.nodes.every(), scene.nodes.every()
    found = False
    for term in terms:
        column = scene.nodes.label(term.topology_key)
        there = column.sums(counts)
        found = found or bool(there.any())
        labelled &= column.present
        near &= there[column.codes] > 0
    if found or not _selects_itself(candidate, scene):
        return ~near
    # The first pod of an affinity group has no constraint.
    return ~labelled


def find_deserted(candidate: EquivalenceClass, scene: Scene, positions: Positions) -> Mask:
    """Return the positions of running pods whose required affinity is no longer satisfied."""
    terms = candidate.rules.affinity
    selections = tuple(Selection.of(term) for term in terms)
    counts = scene.residents.counts(selections)
    itself = _selects_itself(candidate, scene)
    alone, near = True, np.ones(len(positions), dtype=np.bool_)
    for term in terms:
        column = scene.nodes.label(term.topology_key)
        there = column.sums(counts)
        alone = alone and int(there.sum()) == itself
        near &= there[column.codes[positions]] > itself
    return ~near if not (alone and itself) else np.zeros(len(positions), dtype=np.bool_)


def _selects_itself(candidate: EquivalenceClass, scene: Scene) -> bool:
    terms = candidate.rules.affinity
    return all(candidate.is_selected(term, scene.surroundings) for term in terms)


def _nodes_too_near(candidate: EquivalenceClass, scene: Scene) -> Mask:
    near = scene.nodes.none()
    for term in candidate.rules.anti_affinity:
        column = scene.nodes.label(term.topology_key)
        there = column.sums(scene.residents.counts((Selection.of(term),)))
        near |= there[column.codes] > 0
    return near


def _repelled_nodes(candidate: EquivalenceClass, scene: Scene) -> Mask:
    away = scene.nodes.none()
    for term, holders in scene.residents.holders.items():
        if not candidate.is_selected(term, scene.surroundings):
            continue
        column = scene.nodes.label(term.topology_key)
        held = np.zeros(len(column.values), dtype=np.bool_)
        held[column.codes[scene.residents.where(holders)]] = True
        held[MISSING] = False
        away |= held[column.codes]
    return away


def scale_neighbours(scores: Sequence[int]) -> list[int]:
    """Normalise InterPodAffinity's scores linearly to 0..100."""
    least, greatest = min(scores, default=0), max(scores, default=0)
    if least == greatest:
        return [0] * len(scores)
    return [int(MAX_NODE_SCORE * ((score - least) / (greatest - least))) for score in scores]


def _score_neighbours(
    candidate: EquivalenceClass, scene: Scene, chosen: Positions
) -> list[int] | None:
    """Score nodes by the weighted affinity preferences of the pod, and of running pods about the
    pod (InterPodAffinity).
    """
    residents, preferences = scene.residents, candidate.rules.preferences
    if not (preferences.affinity or preferences.anti_affinity or residents.wishes):
        return None
    total = np.zeros(len(scene.nodes), dtype=np.int64)
    for sign, terms in ((1, preferences.affinity), (-1, preferences.anti_affinity)):
        for weight, term in terms:
            column = scene.nodes.label(term.topology_key)
            there = column.sums(residents.counts((Selection.of(term),)))
            total += sign * weight * there[column.codes]
    for (weight, term), holders in residents.wishes.items():
        if candidate.is_selected(term, scene.surroundings):
            column = scene.nodes.label(term.topology_key)
            total += weight * column.sums(residents.column(holders))[column.codes]
    return scale_neighbours(total[chosen].tolist()) if total.any() else None


def _neighbours_changed(change: Change, candidate: EquivalenceClass, mirror: ClusterMirror) -> bool:
    rules, surroundings = candidate.rules, mirror.surroundings
    thing = change.surrounding_after or change.surrounding_before
    if isinstance(thing, Namespace):
        terms = (*rules.affinity, *rules.anti_affinity)
        return thing.name == candidate.namespace or any(
            term.namespace_selector is not None for term in terms
        )
    if change.node_relabelled or change.node_left:
        return True
    before, after = change.there_before, change.there_after

    def covers(term: PodAffinityTerm, pod: Pod) -> bool:
        return Selection.of(term).covers(pod.namespace, pod.labels, surroundings)

    def wanted(pod: Pod | None) -> bool:
        return pod is not None and all(covers(term, pod) for term in rules.affinity)

    def in_the_way(pod: Pod | None) -> set[PodAffinityTerm]:
        """Return the anti-affinity terms, of either pod, that keep the candidate and the other pod
        apart.
        """
        if pod is None:
            return set()
        theirs = pod.pod_class.rules.anti_affinity
        return {term for term in rules.anti_affinity if covers(term, pod)} | {
            term for term in theirs if candidate.is_selected(term, surroundings)
        }

    # Departures are relevant, too: the first pod of a group has no constraint.
    if rules.affinity and wanted(before) != wanted(after):
        return True
    return not in_the_way(before) <= in_the_way(after)


INTER_POD_AFFINITY = Plugin(
    name="InterPodAffinity",
    filter=inter_pod_affinity,
    by_labels=True,
    hint=_neighbours_changed,
    hears=("pod", "node", "surrounding"),
    advice="migrate the pods that the affinity terms select, or change the terms",
    score=_score_neighbours,
    weight=2,
)
