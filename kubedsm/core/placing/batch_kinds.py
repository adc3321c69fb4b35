"""The kinds of a batch whose pods, or the pods around it, have rules or wishes about each other.

What `problem.kinds` is for pods that a class and a node decide about. A kind's nodes are those that
may take such a pod in the end: all that take it now, and those that might once others of the batch
are in place, where its affinity or its spread constraints look at them. So no placement that the
rules allow is lost, and the best that `match` finds is the best there is, if it passes the rules.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kubedsm.core.packing.problem import NO_RANK, Kind, Rank, in_order
from kubedsm.core.rules.feasibility import EquivalenceClass, Feasibility
from kubedsm.core.rules.scene import speaks_of_others
from kubedsm.core.rules.taints import PREFERS_NO_PODS
from kubedsm.core.rules.volumes import shared_disk
from kubedsm.core.world.model import Node, NodeName, Pod, Resources, Uid
from kubedsm.core.world.node_index import Mask
from kubedsm.core.world.residents import Selection, wishes_of
from kubedsm.core.world.serving_order import serving_order
from kubedsm.core.world.snapshot import Snapshot
from kubedsm.core.world.surroundings import Surroundings

#: What a kind has in common: requests, nodes, rank, penalties, and what a node takes only once.
_Key = tuple[
    Resources,
    bytes,
    Rank,
    tuple[tuple[NodeName, int], ...],
    EquivalenceClass | None,
]


def is_plain(snapshot: Snapshot, batch: Sequence[Pod]) -> bool:
    """Whether a class and a node, each by itself, say all there is to say of these pods.

    None of them has rules or wishes about others, no pod has any that are about one of them, and
    no node would rather not have them.
    """
    if any(speaks_of_others(pod.pod_class) or pod.pod_class.rules.preferences for pod in batch):
        return False
    if any(t.effect == PREFERS_NO_PODS for n in snapshot.nodes.values() for t in n.taints):
        return False
    rules = [pod_class.rules for pod_class in snapshot.census.classes]
    terms = {term for of_pod in rules for term in of_pod.anti_affinity}
    terms.update(term for of_pod in rules for _, term in wishes_of(of_pod))
    return not any(
        Selection.of(term).covers(pod.namespace, pod.labels, snapshot.surroundings)
        for term in terms
        for pod in batch
    )


def judged_kinds(
    pods: Iterable[Pod],
    feasibility: Feasibility,
    surroundings: Surroundings,
    ranks: Mapping[Uid, Rank] | None = None,
    *,
    preferences: bool = True,
) -> tuple[Kind, ...]:
    """The kinds of these pods on the nodes of `feasibility`, in canonical order.

    Pods of which a node takes no two are only of a kind with their like. Others may be of a kind
    though rules look at them differently: whether those are kept is seen afterwards, pod by pod.
    """
    alike: dict[tuple[EquivalenceClass, Rank], list[Pod]] = {}
    for pod in pods:
        key = (feasibility.equivalence(pod), ranks[pod.uid] if ranks else NO_RANK)
        alike.setdefault(key, []).append(pod)
    candidates = {candidate for candidate, _ in alike}
    labels = {node.name: node.labels.keys() for node in feasibility.nodes}
    merged: dict[_Key, tuple[Mask, Mask | None, list[Pod]]] = {}
    for (candidate, rank), members in alike.items():
        pod = members[0]
        nodes = feasibility.feasible(pod)
        if _waits_for_others(candidate, candidates, surroundings):
            keys = {term.topology_key for term in candidate.rules.affinity}
            nodes = [n for n in feasibility.openable(pod) if keys <= labels[n]]
        open_to = feasibility.index.named(nodes)
        once = open_to & feasibility.index.named(_once(candidate, feasibility.nodes, surroundings))
        found = zip(nodes, feasibility.penalties(pod, nodes) if preferences else (), strict=False)
        disliked = tuple((name, penalty) for name, penalty in found if penalty)
        kind = (
            candidate.pod_class.requests,
            open_to.tobytes(),
            rank,
            disliked,
            candidate if once.any() else None,
        )
        merged.setdefault(kind, (open_to, once if once.any() else None, []))[2].extend(members)
    return in_order(
        Kind(requests, tuple(sorted(members, key=serving_order)), nodes, rank, once, dict(disliked))
        for (requests, _, rank, disliked, _), (nodes, once, members) in merged.items()
    )


def _waits_for_others(
    candidate: EquivalenceClass, candidates: Iterable[EquivalenceClass], surroundings: Surroundings
) -> bool:
    """Whether one of these pods, once it has a node, may open others to the candidate."""
    rules = candidate.rules
    looks = [tuple(Selection.of(term) for term in rules.affinity)] if rules.affinity else []
    looks += [(Selection(c.selector, (c.namespace,)),) for c in rules.spread]
    return any(
        all(s.covers(other.namespace, other.label_map(), surroundings) for s in look)
        for look in looks
        for other in candidates
    )


def _once(
    candidate: EquivalenceClass, nodes: Iterable[Node], surroundings: Surroundings
) -> Iterator[NodeName]:
    """The nodes that reject a second pod like this one: whatever it is, the first is as near."""
    rules = candidate.rules
    if rules.ports or any(not shared_disk(disk) for disk in rules.disks):
        yield from (node.name for node in nodes)
        return
    labels = candidate.label_map()
    for term in rules.anti_affinity:
        if Selection.of(term).covers(candidate.namespace, labels, surroundings):
            yield from (node.name for node in nodes if term.topology_key in node.labels)
