"""Queueing hints: which changes of the cluster may let a node take a pod that none took before.

Every node refuses such a pod by one rule, the first that does. Nothing can come of trying the pod
again before one of those rules may speak otherwise of some node. So each rule has a hint: whether
a change may make it accept a node that it refused. A hint may say yes in vain, never no in vain.

Source: KEP-4247 (per-plugin callback functions for efficient requeueing in the scheduling queue),
and the EventsToRegister of kube-scheduler's plugins.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, Self

import attrs

from kubedsm.core.rules.cluster_view import node_labels
from kubedsm.core.rules.fit import ROOM_RULE, rejection, shortages
from kubedsm.core.rules.node_rules import TIER_RULE
from kubedsm.core.rules.ports import taken
from kubedsm.core.rules.residents import Selection
from kubedsm.core.rules.scene import EquivalenceClass
from kubedsm.core.world.change import Change, holds_room
from kubedsm.core.world.model import Node, NodeName, Pod, PodAffinityTerm, Resources
from kubedsm.core.world.selectors import selects
from kubedsm.core.world.surroundings import (
    UNLIMITED,
    Claim,
    CSINode,
    CSIVolume,
    Namespace,
    StorageClass,
    Surrounding,
    Surroundings,
    Volume,
)

#: by these, what others see of the pod decides
_LABEL_RULES = frozenset({"InterPodAffinity", "PodTopologySpread"})


class Cluster(Protocol):
    """The cluster as it is after the change."""

    @property
    def surroundings(self) -> Surroundings: ...

    def node(self, name: NodeName) -> Node | None: ...

    def free(self, name: NodeName) -> Resources: ...


@attrs.frozen(slots=True, cache_hash=True)
class Refused:
    """Interchangeable pods that no node takes, and the rules by which the nodes refuse them."""

    candidate: EquivalenceClass
    rules: frozenset[str]

    @classmethod
    def of(cls, pod: Pod, rules: frozenset[str]) -> Self:
        labels = tuple(sorted(pod.labels.items()))
        return cls(EquivalenceClass(pod.pod_class, pod.namespace, labels), rules)


def matters(change: Change) -> bool:
    """Whether it is a change at all, to anybody but a waiting pod itself."""
    if change.known is not None or change.freed is not None:
        return True
    if change.surrounding_before != change.surrounding_after:
        return True
    before, after = _there(change.pod_before), _there(change.pod_after)
    if before is not None and after is not None:
        return before.labels != after.labels or before.terminating != after.terminating
    return before is not after or change.node_before != change.node_after


def still_refused(refused: Refused, change: Change, cluster: Cluster) -> Refused | None:
    """What stands after the change; None if the pods are to be tried again."""
    if change.known is not None:
        return None
    candidate = refused.candidate
    if any(hint(change, candidate, cluster) for hint in {_hint_of(r) for r in refused.rules}):
        return None
    node = change.node_after
    if node is None or change.node_before is not None:
        return refused
    # A new node has not refused anybody yet, so that no hint knows of it.
    rejected = rejection(candidate.pod_class, node, cluster.free(node.name))
    if rejected is None:
        return None
    return attrs.evolve(refused, rules=refused.rules | {rejected.rule})


def still_refused_itself(refused: Refused, pod: Pod) -> Refused | None:
    """What stands after the pod itself has changed; None if it is to be tried again."""
    now = Refused.of(pod, refused.rules)
    if now.candidate.pod_class != refused.candidate.pod_class:
        return None
    if now != refused and not refused.rules.isdisjoint(_LABEL_RULES):
        return None
    return now


Hint = Callable[[Change, EquivalenceClass, Cluster], bool]


def _takes_it_now(change: Change, candidate: EquivalenceClass, cluster: Cluster) -> bool:
    """Whether the one node that changed, or that room came free on, refused and now accepts.

    By all rules that a class and a node, or its room, decide between them.
    """
    pod_class, freed = candidate.pod_class, change.freed
    before, after = change.node_before, change.node_after
    if after is not None:
        free = cluster.free(after.name)
        if rejection(pod_class, after, free) is not None or before is None:
            return False
        free_before = free - after.allocatable + before.allocatable
        return rejection(pod_class, before, free_before) is not None
    node = cluster.node(freed.node) if freed is not None else None
    if node is None or freed is None:
        return False
    free = cluster.free(node.name)
    return rejection(pod_class, node, free) is None and bool(
        shortages(pod_class.requests, free - freed.amount)
    )


def _port_freed(change: Change, candidate: EquivalenceClass, _: Cluster) -> bool:
    gone = _gone(change)
    return gone is not None and any(
        taken(wanted.ip, [port.ip])
        for wanted in candidate.rules.ports
        for port in gone.pod_class.rules.ports
        if (port.port, port.protocol) == (wanted.port, wanted.protocol)
    )


def _volume_left(change: Change, candidate: EquivalenceClass, cluster: Cluster) -> bool:
    if _node_left(change) or _volumes_changed(change, candidate, cluster):
        return True
    gone, rules = _gone(change), candidate.rules
    if gone is None:
        return False
    theirs = gone.pod_class.rules
    disks = {(disk.kind, disk.identity) for disk in theirs.disks}
    claims = {claim.key for claim in theirs.claims}
    return any((disk.kind, disk.identity) in disks for disk in rules.disks) or any(
        claim.key in claims for claim in rules.claims
    )


def _volumes_changed(change: Change, candidate: EquivalenceClass, cluster: Cluster) -> bool:
    return _relabelled(change) or _own_volumes_changed(change, candidate, cluster)


def _own_volumes_changed(change: Change, candidate: EquivalenceClass, cluster: Cluster) -> bool:
    thing = change.surrounding_after or change.surrounding_before
    keys = [claim.key for claim in candidate.rules.claims]
    known = list(cluster.surroundings.claims_at(keys))
    match thing:
        case Claim(namespace, name):
            return (namespace, name) in keys
        case Volume(name):
            return any(claim.volume == name for claim in known)
        case StorageClass(name):
            return any(claim.storage_class == name for claim in known)
    return False


def _attachable(change: Change, candidate: EquivalenceClass, cluster: Cluster) -> bool:
    """Whether fewer volumes are on a node, or more may be, or one is that the candidate wants."""
    if _own_volumes_changed(change, candidate, cluster):
        return True
    before, after = change.surrounding_before, change.surrounding_after
    surroundings = cluster.surroundings
    wanted = surroundings.csi_volumes_at(claim.key for claim in candidate.rules.claims)
    drivers = {volume.driver for volume in wanted}
    if isinstance(before or after, CSINode):
        return any(_limit(after, driver) > _limit(before, driver) for driver in drivers)
    had = set(_attached(_there(change.pod_before), before, surroundings))
    has = set(_attached(_there(change.pod_after), after, surroundings))
    left, came = had - has, has - had
    return any(volume.driver in drivers for _, volume in left) or any(
        volume in wanted for _, volume in came
    )


def _limit(csi_node: Surrounding | None, driver: str) -> int:
    return csi_node.limit(driver) if isinstance(csi_node, CSINode) else UNLIMITED


def _attached(
    pod: Pod | None, thing: Surrounding | None, surroundings: Surroundings
) -> Iterator[tuple[NodeName | None, CSIVolume]]:
    """The CSI volumes that a pod has on its node, or that a claim or a volume stands for."""
    if pod is not None:
        keys = (claim.key for claim in pod.pod_class.rules.claims)
        yield from ((pod.node_name, volume) for volume in surroundings.csi_volumes_at(keys))
    if isinstance(thing, Claim):
        thing = (surroundings.volumes or {}).get((thing.volume,))
    if isinstance(thing, Volume) and thing.csi is not None:
        yield None, thing.csi


def _spread_changed(change: Change, candidate: EquivalenceClass, _: Cluster) -> bool:
    node_before, node_after = change.node_before, change.node_after
    if node_before is not None or node_after is not None:
        if node_before is None or node_after is None:
            return True  # a domain may have come, or be no longer the emptiest
        seen = node_labels(candidate.rules)
        return node_before.taints != node_after.taints or any(
            node_before.labels.get(label) != node_after.labels.get(label) for label in seen
        )

    def counted(pod: Pod | None) -> list[bool]:
        # As the rule itself counts: nobody for a selector without requirements.
        return [
            pod is not None
            and not pod.terminating
            and pod.namespace == constraint.namespace
            and bool(constraint.selector)
            and selects(constraint.selector, pod.labels)
            for constraint in candidate.rules.spread
        ]

    return counted(_there(change.pod_before)) != counted(_there(change.pod_after))


def _neighbours_changed(change: Change, candidate: EquivalenceClass, cluster: Cluster) -> bool:
    rules, surroundings = candidate.rules, cluster.surroundings
    thing = change.surrounding_after or change.surrounding_before
    if isinstance(thing, Namespace):
        terms = (*rules.affinity, *rules.anti_affinity)
        return thing.name == candidate.namespace or any(
            term.namespace_selector is not None for term in terms
        )
    if _relabelled(change) or _node_left(change):
        return True
    before, after = _there(change.pod_before), _there(change.pod_after)

    def covers(term: PodAffinityTerm, pod: Pod) -> bool:
        return Selection.of(term).covers(pod.namespace, pod.labels, surroundings)

    def wanted(pod: Pod | None) -> bool:
        return pod is not None and all(covers(term, pod) for term in rules.affinity)

    def in_the_way(pod: Pod | None) -> set[PodAffinityTerm]:
        """The terms, on either side, that keep the two apart."""
        if pod is None:
            return set()
        labels = candidate.label_map()
        theirs = pod.pod_class.rules.anti_affinity
        return {term for term in rules.anti_affinity if covers(term, pod)} | {
            term
            for term in theirs
            if Selection.of(term).covers(candidate.namespace, labels, surroundings)
        }

    # One that goes may help as well: the first of a group may be anywhere.
    if rules.affinity and wanted(before) != wanted(after):
        return True
    return not in_the_way(before) <= in_the_way(after)


def _never(_change: Change, _candidate: EquivalenceClass, _cluster: Cluster) -> bool:
    return False


def _unsure(_change: Change, _candidate: EquivalenceClass, _cluster: Cluster) -> bool:
    return True


HINTS: Mapping[str, Hint] = {
    "NodeUnschedulable": _takes_it_now,
    "TaintToleration": _takes_it_now,
    "NodeAffinity": _takes_it_now,
    TIER_RULE: _takes_it_now,
    "NodePorts": _port_freed,
    ROOM_RULE: _takes_it_now,
    "VolumeRestrictions": _volume_left,
    "NodeVolumeLimits": _attachable,
    "VolumeBinding": _volumes_changed,
    "VolumeZone": _volumes_changed,
    "PodTopologySpread": _spread_changed,
    "InterPodAffinity": _neighbours_changed,
    # Only another pod would do.
    "DynamicResources": _never,
}


def _hint_of(rule: str) -> Hint:
    return HINTS.get(rule, _unsure)


def _there(pod: Pod | None) -> Pod | None:
    """The pod, if the rules about other pods count it."""
    return pod if pod is not None and holds_room(pod) else None


def _gone(change: Change) -> Pod | None:
    """The pod that was on a node and no longer is."""
    return _there(change.pod_before) if _there(change.pod_after) is None else None


def _node_left(change: Change) -> bool:
    return change.node_before is not None and change.node_after is None


def _relabelled(change: Change) -> bool:
    before, after = change.node_before, change.node_after
    return before is not None and after is not None and before.labels != after.labels
