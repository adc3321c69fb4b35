"""VolumeRestrictions, VolumeBinding and VolumeZone, for volumes that exist.

A claim whose volume would have to be made for the pod first is not for us: it is refused.
"""

from collections.abc import Iterator

from kubedsm.core.rules.node_index import Column, NodeIndex
from kubedsm.core.rules.rejection import Mask, Refusal, Rejection
from kubedsm.core.rules.scene import EquivalenceClass, Scene
from kubedsm.core.world.model import ClaimReference, Disk, SchedulingRules
from kubedsm.core.world.selectors import Requirement
from kubedsm.core.world.surroundings import Claim, Surroundings, Volume

NO_DISK = "node(s) had no available disk"
ONCE_PER_POD = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)
UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
NO_ZONE = "node(s) had no available volume zone"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NOT_PROVISIONED = (
    "pod has unbound WaitForFirstConsumer PersistentVolumeClaims,"
    " whose volumes KubeDSM does not have provisioned"
)
#: two pods of one node never share these, not even to read
_NEVER_SHARED = frozenset({"awsElasticBlockStore"})
#: each with what it may be called on a node besides
_ZONE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
#: in a volume's zone label, between several zones
_BETWEEN_ZONES = "__"


def claims_refused(rules: SchedulingRules, surroundings: Surroundings) -> Rejection | None:
    """Why a pod with these claims can go nowhere, as long as they are what they are."""
    if surroundings.claims is None:
        return None
    unbound = []
    for reference in rules.claims:
        claim = surroundings.claims.get(reference.key)
        if claim is None or (reason := _useless(claim)):
            why = _missing(reference) if claim is None else reason
            return Rejection("VolumeBinding", (why,), everywhere=True)
        if not claim.bound:
            unbound.append(claim)
    if unbound:
        waiting = all(not c.volume and _waits(c, surroundings) for c in unbound)
        why = NOT_PROVISIONED if waiting else UNBOUND
        return Rejection("VolumeBinding", (why,), everywhere=True)
    return _volumes_missing(rules, surroundings)


def _useless(claim: Claim) -> str:
    if claim.lost:
        return (
            f'persistentvolumeclaim "{claim.name}" bound to non-existent'
            f' persistentvolume "{claim.volume}"'
        )
    return f'persistentvolumeclaim "{claim.name}" is being deleted' if claim.terminating else ""


def _missing(reference: ClaimReference) -> str:
    if reference.ephemeral:
        return (
            "waiting for ephemeral volume controller to create the"
            f' persistentvolumeclaim "{reference.name}"'
        )
    return f'persistentvolumeclaim "{reference.name}" not found'


def _waits(claim: Claim, surroundings: Surroundings) -> bool:
    """Whether its volume is to be made once the pod's node was chosen."""
    if surroundings.storage_classes is None:
        return bool(claim.storage_class)
    known = surroundings.storage_classes.get((claim.storage_class,))
    return known is not None and known.waits_for_consumer


def _volumes_missing(rules: SchedulingRules, surroundings: Surroundings) -> Rejection | None:
    if surroundings.volumes is None:
        return None
    for claim in _claims(rules, surroundings):
        if (claim.volume,) not in surroundings.volumes:
            why = f'persistentvolume "{claim.volume}" not found'
            return Rejection("VolumeZone", (why,), everywhere=True)
    return None


def _claims(rules: SchedulingRules, surroundings: Surroundings) -> Iterator[Claim]:
    return surroundings.claims_at(claim.key for claim in rules.claims)


def _volumes(rules: SchedulingRules, surroundings: Surroundings) -> Iterator[Volume]:
    return surroundings.volumes_at(claim.key for claim in rules.claims)


def shared_disk(disk: Disk) -> bool:
    """Whether pods of one node may use it together, if all of them say the same of it."""
    return disk.read_only and disk.kind not in _NEVER_SHARED


def volume_restrictions(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    rules, residents = candidate.rules, scene.residents
    taken: set[int] = set()
    for disk in rules.disks:
        uses = residents.disks.get((disk.kind, disk.identity), {})
        shared = shared_disk(disk)
        taken.update(p for p, reading in uses.items() if not (shared and all(reading)))
    if taken:
        yield Refusal(scene.nodes.at(taken), (NO_DISK,))
    if any(
        claim.once_per_pod and (claim.namespace, claim.name) in residents.claims
        for claim in _claims(rules, scene.surroundings)
    ):
        yield Refusal(scene.nodes.every(), (ONCE_PER_POD,))


def volume_binding(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    for volume in _volumes(candidate.rules, scene.surroundings):
        if volume.nodes is not None:
            yield Refusal(~scene.nodes.selected(volume.nodes), (UNREACHABLE,))


def volume_zone(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    volumes = list(_volumes(candidate.rules, scene.surroundings))
    if not volumes:
        return
    zoned = scene.nodes.none()
    for label in _ZONE_LABELS:
        zoned |= scene.nodes.label(label).present
    for volume in volumes:
        for label, also in _ZONE_LABELS.items():
            zones = volume.labels.get(label, "").split(_BETWEEN_ZONES)
            if all(zones):
                allowed = Requirement(label, "In", tuple(zones))
                yield Refusal(zoned & ~_in_zone(scene.nodes, allowed, also), (NO_ZONE,))


def _in_zone(nodes: NodeIndex, allowed: Requirement, also: str) -> Mask:
    named: Column = nodes.label(allowed.key)
    other = nodes.label(also)
    return named.accepted(allowed) | (~named.present & other.accepted(allowed))
