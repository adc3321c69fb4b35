"""VolumeBinding: nodes on which all volume claims of a pod are bound, or can be.

A claim whose StorageClass has volumeBindingMode WaitForFirstConsumer is bound after the choice of
the node: to the smallest suitable PersistentVolume, or to a volume that the provisioner creates for
that node. Until then the claims of placed pods occupy volumes and storage capacity: `assign_claims`
derives these assignments from the pods' nodes.
Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding.
"""

from collections.abc import Collection, Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from kubedsm.model.events import Change
from kubedsm.model.model import ClaimReference, NodeName, SchedulingRules
from kubedsm.model.node_index import Ints, Mask, NodeIndex
from kubedsm.model.selectors import NodeSelectorTerm, selects
from kubedsm.model.surroundings import (
    Claim,
    CSIDriver,
    Key,
    StorageCapacity,
    StorageClass,
    Surroundings,
    Volume,
)
from kubedsm.plugins.plugin import Cluster, EquivalenceClass, Plugin, RejectedNodes, Scene
from kubedsm.plugins.volumes import has_own_volume_changed

UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_STORAGE = "node(s) did not have enough free storage"
FAILED_BEFORE = "node(s) recently failed to provision the pod's volume"
UNOBSERVED = (
    "pod has unbound PersistentVolumeClaims, and KubeDSM may not list {}:"
    " grant what `kubedsm rbac` prints"
)
#: provisioner of classes with static volumes only
_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


class Assignment(NamedTuple):
    """Node, and static PersistentVolume or else dynamic provisioning, of an unbound claim."""

    claim: Claim
    node: NodeName
    #: empty: the provisioner creates a volume
    volume: str


def _claims_rejected(rules: SchedulingRules, surroundings: Surroundings) -> str:
    """Return the reason why the pod's volume claims make all nodes infeasible; empty without a
    reason.
    """
    if surroundings.claims is None:
        return ""
    unbound = []
    for reference in rules.claims:
        claim = surroundings.claims.get(reference.key)
        if claim is None:
            return _missing_claim(reference)
        if reason := _unusable_claim(claim):
            return reason
        if not claim.bound:
            unbound.append(claim)
    if not unbound:
        return ""
    for kind, known in (
        ("StorageClasses", surroundings.storage_classes),
        ("PersistentVolumes", surroundings.volumes),
    ):
        if known is None:
            return UNOBSERVED.format(kind)
    return "" if all(map(surroundings.waits, unbound)) else UNBOUND


def _unusable_claim(claim: Claim) -> str:
    if claim.lost:
        return (
            f'persistentvolumeclaim "{claim.name}" bound to non-existent'
            f' persistentvolume "{claim.volume}"'
        )
    return f'persistentvolumeclaim "{claim.name}" is being deleted' if claim.terminating else ""


def _missing_claim(reference: ClaimReference) -> str:
    if reference.ephemeral:
        return (
            "waiting for ephemeral volume controller to create the"
            f' persistentvolumeclaim "{reference.name}"'
        )
    return f'persistentvolumeclaim "{reference.name}" not found'


def volume_binding(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    nodes, surroundings = scene.nodes, scene.surroundings
    for volume in surroundings.volumes_at(candidate.rules.claim_keys):
        if volume.nodes is not None:
            yield RejectedNodes(~nodes.match_terms(volume.nodes), (UNREACHABLE,))
    waiting = list_waiting(surroundings, candidate.rules.claim_keys)
    if not waiting:
        return
    assigned = assign_claims(scene)
    for claim in waiting:
        given = assigned.get(claim.key)
        node = claim.selected_node if given is None else given.node
        if given is not None and given.volume:
            static: Volume = surroundings.of(Volume)[given.volume,]
            yield RejectedNodes(~_reach(static.nodes, nodes), (NO_VOLUME,))
        elif node:
            yield RejectedNodes(~nodes.match_names((node,)), (NO_VOLUME,))
        else:
            yield RejectedNodes(nodes.match_names(claim.failed_on), (FAILED_BEFORE,))
    free = [claim for claim in waiting if claim.key not in assigned]
    taken = [each.volume for each in assigned.values() if each.volume]
    for claim, matched in zip(free, _match_volumes(free, taken, scene), strict=True):
        dynamic = ~matched.any(axis=0)
        yield RejectedNodes(dynamic & ~_find_provisionable(claim, scene), (NO_VOLUME,))
        enough = _find_storage(claim, assigned.values(), scene)
        yield RejectedNodes(dynamic & ~enough, (NO_STORAGE,))


def list_waiting(surroundings: Surroundings, keys: Collection[Key]) -> list[Claim]:
    """Return the unbound claims that wait for their first consumer, smallest first, as volumes are
    assigned to them.
    """
    claims = surroundings.claims_at(surroundings.sort_claims(keys))
    return list(filter(surroundings.waits, claims))


def assign_claims(scene: Scene) -> dict[Key, Assignment]:
    """Return the assignment of each waiting claim that a placed pod uses, in the order of placing.

    Of one pod's claims the smaller ones get volumes first, as by kube-scheduler.
    """
    found: dict[Key, Assignment] = {}
    mounted, taken = scene.residents.claims, list[str]()
    waiting = scene.surroundings.waiting_claims
    for claim in [waiting[key] for key in mounted if key in waiting]:
        users = scene.residents.where(mounted[claim.key])
        if not len(users):
            continue
        position = int(users.min())
        [static] = _match_volumes([claim], taken, scene, position)
        volumes = _list_volumes(claim, scene.surroundings)
        rows = static.any(axis=1)
        volume = volumes[int(rows.argmax())].name if rows.any() else ""
        taken.append(volume)
        found[claim.key] = Assignment(claim, scene.nodes.names[position], volume)
    return found


def _list_volumes(claim: Claim, surroundings: Surroundings) -> list[Volume]:
    """Return the PersistentVolumes suitable for the claim regardless of nodes, smallest first.

    A volume whose claimRef names the claim excludes all others.
    """
    if claim.selected_node:
        return []
    volumes = [volume for volume in surroundings.of(Volume).values() if _suits(volume, claim)]
    own = [volume for volume in volumes if volume.is_for(claim)]
    return sorted(own or volumes, key=attrgetter("capacity", "name"))


def _suits(volume: Volume, claim: Claim) -> bool:
    if (
        volume.capacity < claim.storage
        or volume.block is not claim.block
        or volume.terminating
        or not set(claim.access_modes).issubset(volume.access_modes)
    ):
        return False
    return volume.is_for(claim) or (
        volume.claim is None
        and volume.available
        and volume.storage_class == claim.storage_class
        and (claim.selector is None or selects(claim.selector, volume.labels))
    )


def _match_volumes(
    claims: Iterable[Claim], taken: Collection[str], scene: Scene, only: int | None = None
) -> Iterator[Mask]:
    """Yield for each claim the static volume on each node, as a mask (volumes x nodes).

    taken: names of volumes that are assigned to other claims. only: position of the only node to
    be matched.
    """
    given: dict[str, Mask] = {}
    for claim in claims:
        volumes = _list_volumes(claim, scene.surroundings)
        chosen = np.zeros((len(volumes), len(scene.nodes)), dtype=np.bool_)
        left = scene.nodes.every() if only is None else scene.nodes.at((only,))
        for row, volume in enumerate(volumes):
            if volume.name not in taken:
                known = given.get(volume.name, scene.nodes.none())
                chosen[row] = left & _reach(volume.nodes, scene.nodes) & ~known
                left &= ~chosen[row]
                given[volume.name] = known | chosen[row]
        yield chosen


def _reach(terms: tuple[NodeSelectorTerm, ...] | None, nodes: NodeIndex) -> Mask:
    return nodes.every() if terms is None else nodes.match_terms(terms)


def _find_provisionable(claim: Claim, scene: Scene) -> Mask:
    """Return the mask of nodes for which the claim's StorageClass can create volumes."""
    of = scene.surroundings.of(StorageClass).get((claim.storage_class,))
    if of is None or of.provisioner in _NO_PROVISIONER:
        return scene.nodes.none()
    if any(volume.is_for(claim) for volume in scene.surroundings.of(Volume).values()):
        return scene.nodes.none()  # the PV controller binds that volume, whatever is provisioned
    return _reach(of.topologies, scene.nodes)


def _find_storage(claim: Claim, assigned: Iterable[Assignment], scene: Scene) -> Mask:
    """Return the mask of nodes with sufficient storage capacity for the claim.

    Claims assigned to nodes of a topology segment reduce the segment's capacity.
    """
    nodes, surroundings = scene.nodes, scene.surroundings
    of = surroundings.of(StorageClass).get((claim.storage_class,))
    driver = None if of is None else surroundings.of(CSIDriver).get((of.provisioner,))
    if driver is None or not driver.reports_capacity or surroundings.capacities is None:
        return nodes.every()
    charged: Ints = np.zeros(len(nodes), dtype=np.int64)
    for other, node, volume in assigned:
        if not volume and other.storage_class == claim.storage_class:
            charged[nodes.positions[node]] += other.storage
    enough = nodes.none()
    for each in surroundings.capacities.values():
        if each.storage_class == claim.storage_class and each.nodes is not None:
            segment = _reach((NodeSelectorTerm(each.nodes),) if each.nodes else None, nodes)
            if _has_storage(each, claim.storage, int(charged[segment].sum())):
                enough |= segment
    return enough


def _has_storage(segment: StorageCapacity, size: int, charged: int) -> bool:
    limit = segment.capacity if segment.maximum is None else segment.maximum
    if limit is None or size > limit:
        return False
    return not charged or segment.capacity is None or size + charged <= segment.capacity


def _may_bind(change: Change, candidate: EquivalenceClass, cluster: Cluster) -> bool:
    """Queueing hint: True after a change of the pod's claims, or of storage for waiting claims."""
    if change.node_relabelled or has_own_volume_changed(change, candidate, cluster):
        return True
    waiting = list_waiting(cluster.surroundings, candidate.rules.claim_keys)
    classes = {claim.storage_class for claim in waiting}
    if change.gone is not None:
        return bool(waiting) and bool(change.gone.pod_class.rules.claims)
    match change.surrounding_after or change.surrounding_before:
        case Volume() as volume:
            return volume.storage_class in classes
        case StorageCapacity() as capacity:
            return capacity.storage_class in classes
        case CSIDriver():
            return bool(waiting)
    return False


VOLUME_BINDING = Plugin(
    name="VolumeBinding",
    demands=("claims",),
    pre_filter=_claims_rejected,
    filter=volume_binding,
    hint=_may_bind,
    hears=("pod", "node", "surrounding"),
    advice="bind the pod's claims to volumes that this node reaches, or free storage on the node",
)
