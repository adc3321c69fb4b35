"""InterPodAffinity: near to some pods, far from others, and never where others want it far.

Source: "Inter-pod affinity and anti-affinity" in the Kubernetes documentation. Only required
terms; a pod counts towards affinity if it satisfies all terms at once.
"""

from collections.abc import Iterator

import numpy as np

from kubedsm.core.rules.node_index import MISSING
from kubedsm.core.rules.rejection import Mask, Refusal
from kubedsm.core.rules.residents import Selection
from kubedsm.core.rules.scene import EquivalenceClass, Scene

NO_AFFINITY = "node(s) didn't match pod affinity rules"
NO_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


def inter_pod_affinity(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    if candidate.rules.affinity:
        yield Refusal(_not_near(candidate, scene), (NO_AFFINITY,))
    if candidate.rules.anti_affinity:
        yield Refusal(_too_near(candidate, scene), (NO_ANTI_AFFINITY,))
    if scene.residents.holders:
        yield Refusal(_kept_away(candidate, scene), (OTHERS_ANTI_AFFINITY,))


def _not_near(candidate: EquivalenceClass, scene: Scene) -> Mask:
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
    if found or not _selects_itself(candidate, selections, scene):
        return ~near
    # The first of a group that wants to be together may go anywhere: there is nobody to join.
    return ~labelled


def deserted(candidate: EquivalenceClass, scene: Scene, position: int) -> bool:
    """Whether a pod that is on that node already has not those near it that its affinity asks for.

    What `_not_near` says of the node, had the pod not come yet.
    """
    terms = candidate.rules.affinity
    selections = tuple(Selection.of(term) for term in terms)
    counts = scene.residents.counts(selections)
    itself = _selects_itself(candidate, selections, scene)
    alone, near = True, True
    for term in terms:
        column = scene.nodes.label(term.topology_key)
        there = column.sums(counts)
        alone = alone and int(there.sum()) == itself
        near = near and int(there[column.codes[position]]) > itself
    return not (near or (alone and itself))


def _selects_itself(
    candidate: EquivalenceClass, selections: tuple[Selection, ...], scene: Scene
) -> bool:
    labels = candidate.label_map()
    return all(s.covers(candidate.namespace, labels, scene.surroundings) for s in selections)


def _too_near(candidate: EquivalenceClass, scene: Scene) -> Mask:
    near = scene.nodes.none()
    for term in candidate.rules.anti_affinity:
        column = scene.nodes.label(term.topology_key)
        there = column.sums(scene.residents.counts((Selection.of(term),)))
        near |= there[column.codes] > 0
    return near


def _kept_away(candidate: EquivalenceClass, scene: Scene) -> Mask:
    away = scene.nodes.none()
    labels = candidate.label_map()
    for term, holders in scene.residents.holders.items():
        if not Selection.of(term).covers(candidate.namespace, labels, scene.surroundings):
            continue
        column = scene.nodes.label(term.topology_key)
        positions = np.fromiter(holders.keys(), np.intp, len(holders))
        held = np.zeros(len(column.values), dtype=np.bool_)
        held[column.codes[positions]] = True
        held[MISSING] = False
        away |= held[column.codes]
    return away
