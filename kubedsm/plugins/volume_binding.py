"""VolumeBinding: nodes on which all volume claims of a pod are bound, or can be.

A claim whose StorageClass has volumeBindingMode WaitForFirstConsumer is bound after the choice of
the node: to the smallest suitable PersistentVolume, or to a volume that the provisioner creates for
that node. Until then the claims of placed pods occupy volumes and storage capacity (`storage`).
Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import ClaimReference, SchedulingRules
from kubedsm.model.node_index import Mask
from kubedsm.model.surroundings import (
    Claim,
    CSIDriver,
    Key,
    StorageCapacity,
    StorageClass,
    Surroundings,
    Volume,
)
from kubedsm.plugins.plugin import EquivalenceClass, Plugin, RejectedNodes, Scene
from kubedsm.plugins.storage import Assignment
from kubedsm.plugins.volumes import count_attachable, has_own_volume_changed, is_reached_anywhere

UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_STORAGE = "node(s) did not have enough free storage"
FAILED_BEFORE = "node(s) recently failed to provision the pod's volume"
UNOBSERVED = (
    "pod has PersistentVolumeClaims that may be unbound, and KubeDSM may not list {}:"
    " grant what `kubedsm rbac` prints"
)


def _claims_rejected(rules: SchedulingRules, surroundings: Surroundings) -> str:
    """Return the reason why the pod's volume claims make all nodes infeasible; empty without a
    reason.
    """
    if not surroundings.observes(Claim):
        return UNOBSERVED.format("PersistentVolumeClaims") if rules.claims else ""
    unbound = []
    for reference in rules.claims:
        claim = surroundings.of(Claim).get(reference.key)
        if claim is None:
            return _missing_claim(reference)
        if reference.owner and reference.owner != claim.owner:
            # left by a former pod of the name, or created by a user
            return f'persistentvolumeclaim "{claim.name}" was not created for the pod'
        if reason := _unusable_claim(claim):
            return reason
        if not claim.bound:
            unbound.append(claim)
    if not unbound:
        return ""
    for name, kind in (("StorageClasses", StorageClass), ("PersistentVolumes", Volume)):
        if not surroundings.observes(kind):
            return UNOBSERVED.format(name)
    immediate = [claim for claim in unbound if not surroundings.waits(claim)]
    names = ", ".join(_name_unbound(claim, surroundings) for claim in immediate)
    return f"{UNBOUND}: {names}" if immediate else ""


def _name_unbound(claim: Claim, surroundings: Surroundings) -> str:
    """Return the claim's name, with the name of its StorageClass if that does not exist."""
    if (claim.storage_class,) in surroundings.of(StorageClass) or claim.volume:
        return claim.name
    return f'{claim.name} (no StorageClass "{claim.storage_class}")'


def _unusable_claim(claim: Claim) -> str:
    if claim.lost:
        return (
            f'persistentvolumeclaim "{claim.name}" bound to non-existent'
            f' persistentvolume "{claim.volume}"'
        )
    return f'persistentvolumeclaim "{claim.name}" is being deleted' if claim.terminating else ""


def _missing_claim(reference: ClaimReference) -> str:
    if reference.owner is not None:
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
    storage = scene.storage
    assigned = storage.assign(scene.residents)
    for claim in waiting:
        given = assigned.by_claim.get(claim.key)
        node = claim.selected_node if given is None else given.node
        if given is not None and given.volume:
            static: Volume = surroundings.of(Volume)[given.volume,]
            reached = nodes.every() if static.nodes is None else nodes.match_terms(static.nodes)
            yield RejectedNodes(~reached, (NO_VOLUME,))
        elif node:
            yield RejectedNodes(~nodes.match_names((node,)), (NO_VOLUME,))
        elif claim.failed_on:
            yield RejectedNodes(nodes.match_names(claim.failed_on), (FAILED_BEFORE,))
    free = [claim for claim in waiting if claim.key not in assigned.by_claim]
    matches = _match_volumes(free, assigned.volumes, scene)
    for claim, matched in zip(free, matches, strict=True):
        dynamic = ~matched
        yield RejectedNodes(dynamic & ~storage.provisionable(claim), (NO_VOLUME,))
        enough = storage.find_sufficient(claim, assigned)
        yield RejectedNodes(dynamic & ~enough, (NO_STORAGE,))


def list_waiting(surroundings: Surroundings, keys: Collection[Key]) -> list[Claim]:
    """Return the unbound claims that wait for their first consumer, smallest first, as volumes are
    assigned to them.
    """
    claims = surroundings.claims_at(surroundings.sort_claims(keys))
    return list(filter(surroundings.waits, claims))


def assign_claims(scene: Scene) -> Mapping[Key, Assignment]:
    """Return the assignment of each waiting claim that a placed pod uses, in placing order."""
    return scene.storage.assign(scene.residents).by_claim


def are_unrestricted(claims: Mapping[Key, int], scene: Scene) -> bool:
    """Return True if the volume claims exclude no node, whatever nodes their pods get.

    So is a claim that every node reaches, with storage and attachments for all of the claims.
    claims: number of pending pods with each claim. A claim that waits for its first consumer ties
    several pods to one node.
    """
    surroundings, storage = scene.surroundings, scene.storage
    if not surroundings.observes(Claim):
        return not claims
    drivers = Counter(volume.driver for volume in surroundings.csi_volumes_at(claims))
    if any((count_attachable(driver, scene) < drivers[driver]).any() for driver in drivers):
        return False
    storage_needed: Counter[str] = Counter()
    for key, pods in claims.items():
        claim = surroundings.of(Claim).get(key)
        if claim is None or _unusable_claim(claim) or claim.once_per_pod:
            return False
        if not claim.bound:
            if pods > 1 or key in scene.residents.claims or not _is_provisioned(claim, scene):
                return False
            storage_needed[claim.storage_class] += claim.storage
        elif surroundings.observes(Volume):
            volume = surroundings.of(Volume).get((claim.volume,))
            if volume is None or not is_reached_anywhere(volume):
                return False
    assigned = storage.assign(scene.residents)
    return all(storage.is_ample(of, size, assigned) for of, size in storage_needed.items())


def _is_provisioned(claim: Claim, scene: Scene) -> bool:
    """Return True if a volume for the unbound claim can be provisioned wherever its pod goes."""
    surroundings, storage = scene.surroundings, scene.storage
    if not (surroundings.observes(Volume) and surroundings.waits(claim)):
        return False
    if claim.selected_node or claim.failed_on or storage.static_volumes(claim).names:
        return False
    return bool(storage.provisionable(claim).all())


def _match_volumes(claims: Sequence[Claim], taken: Collection[str], scene: Scene) -> Iterator[Mask]:
    """Yield for each claim the nodes on which a static volume is left, if each claim before gets
    the smallest one.

    taken: names of volumes that are assigned to claims of other pods.
    """
    given: dict[str, Mask] = {}
    for number, claim in enumerate(claims, start=1):
        volumes = scene.storage.static_volumes(claim)
        free = volumes.find_free(taken, given)
        left: Mask = np.logical_or.reduce(free, axis=0)
        yield left
        names = volumes.names if number < len(claims) else ()
        smallest = free.argmax(axis=0) if names else left
        for row, name in enumerate(names):
            mask = left & (smallest == row)
            given[name] = given[name] | mask if name in given else mask


def _may_bind(change: Change, candidate: EquivalenceClass, cluster: ClusterMirror) -> bool:
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
