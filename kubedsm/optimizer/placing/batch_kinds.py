"""Kinds of a batch with rules or preferences between pods.

A kind's nodes are those that accept the pod now, and those that might once other pods of the batch
are in place, by affinity or spread. So no allowed placement is lost.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kubedsm.model.model import NodeName, Pod, Resources, Uid, serving_order
from kubedsm.model.node_index import Mask, NodeIndex
from kubedsm.model.residents import Selection, wishes_of
from kubedsm.model.snapshot import Snapshot
from kubedsm.model.surroundings import Surroundings
from kubedsm.optimizer.matching.problem import NO_RANK, Kind, Rank, sort_kinds
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility
from kubedsm.plugins.plugin import speaks_of_others
from kubedsm.plugins.taints import PREFERS_NO_PODS
from kubedsm.plugins.volumes import is_shared_disk

#: Key of a kind: requests, nodes, rank, penalties, and class of exclusive pods.
_Key = tuple[
    Resources,
    bytes,
    Rank,
    tuple[tuple[NodeName, int], ...],
    EquivalenceClass | None,
]


def is_plain(snapshot: Snapshot, batch: Sequence[Pod]) -> bool:
    """Return whether a class and a node alone decide about the pods.

    None has rules or preferences about other pods, or is subject to any, and no node repels softly.
    """
    if any(speaks_of_others(pod.pod_class) or pod.pod_class.rules.preferences for pod in batch):
        return False
    if any(t.effect == PREFERS_NO_PODS for of in snapshot.index.taints.values for t in of or ()):
        return False
    keys = snapshot.census.looked_at
    if keys is None:
        return True
    seen = {
        (pod.namespace, tuple((key, pod.labels[key]) for key in sorted(keys & pod.labels.keys())))
        for pod in batch
    }
    rules = [pod_class.rules for pod_class in snapshot.census.classes]
    terms = {term for of_pod in rules for term in of_pod.anti_affinity}
    terms.update(term for of_pod in rules for _, term in wishes_of(of_pod))
    return not any(
        Selection.of(term).covers(namespace, dict(labels), snapshot.surroundings)
        for term in terms
        for namespace, labels in seen
    )


def group_ruled_kinds(
    pods: Iterable[Pod],
    feasibility: Feasibility,
    surroundings: Surroundings,
    ranks: Mapping[Uid, Rank] | None = None,
    *,
    preferences: bool = True,
    told_apart: bool = False,
) -> tuple[Kind, ...]:
    """Return the kinds of the pods in canonical order.

    Pods of which a node accepts no second are a kind with their equals only. Other kinds may mix
    equivalence classes, unless told_apart: rules are checked pod by pod afterwards.
    """
    alike: dict[tuple[EquivalenceClass, Rank], list[Pod]] = {}
    for pod in pods:
        key = (feasibility.equivalence(pod), ranks[pod.uid] if ranks else NO_RANK)
        alike.setdefault(key, []).append(pod)
    candidates = {candidate for candidate, _ in alike}
    index = feasibility.index
    merged: dict[_Key, tuple[Mask, Mask | None, list[Pod]]] = {}
    for (candidate, rank), members in alike.items():
        pod = members[0]
        open_to = feasibility.taking(pod)
        if _waits_for_others(candidate, candidates, surroundings):
            open_to = feasibility.openable(pod)
            for term in candidate.rules.affinity:
                open_to = open_to & index.label(term.topology_key).present
        once = open_to & _exclusive_nodes(candidate, index, surroundings)
        disliked = _penalised_nodes(pod, feasibility, open_to) if preferences else ()
        kind = (
            candidate.pod_class.requests,
            open_to.tobytes(),
            rank,
            disliked,
            candidate if told_apart or once.any() else None,
        )
        merged.setdefault(kind, (open_to, once if once.any() else None, []))[2].extend(members)
    return sort_kinds(
        Kind(requests, tuple(sorted(members, key=serving_order)), nodes, rank, once, dict(disliked))
        for (requests, _, rank, disliked, _), (nodes, once, members) in merged.items()
    )


def _waits_for_others(
    candidate: EquivalenceClass, candidates: Iterable[EquivalenceClass], surroundings: Surroundings
) -> bool:
    """Return whether one of the pods, once placed, may open nodes to the candidate."""
    rules = candidate.rules
    looks = [tuple(Selection.of(term) for term in rules.affinity)] if rules.affinity else []
    looks += [(Selection(c.selector, (c.namespace,)),) for c in rules.spread]
    return any(
        all(s.covers(other.namespace, other.label_map(), surroundings) for s in look)
        for look in looks
        for other in candidates
    )


def _exclusive_nodes(
    candidate: EquivalenceClass, index: NodeIndex, surroundings: Surroundings
) -> Mask:
    """Return the nodes that reject a second pod like the candidate."""
    rules = candidate.rules
    if rules.ports or any(not is_shared_disk(disk) for disk in rules.disks):
        return index.every()
    labels, once = candidate.label_map(), index.none()
    for term in rules.anti_affinity:
        if Selection.of(term).covers(candidate.namespace, labels, surroundings):
            once |= index.label(term.topology_key).present
    return once


def _penalised_nodes(
    pod: Pod, feasibility: Feasibility, open_to: Mask
) -> tuple[tuple[NodeName, int], ...]:
    """Return the nodes with a penalty, in name order."""
    nodes, names = np.flatnonzero(open_to), feasibility.index.names
    penalties = feasibility.penalties_at(pod, nodes)
    found = zip(nodes[penalties > 0].tolist(), penalties[penalties > 0].tolist(), strict=True)
    return tuple((names[at], penalty) for at, penalty in found)
