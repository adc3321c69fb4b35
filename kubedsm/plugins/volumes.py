"""VolumeRestrictions, VolumeZone and NodeVolumeLimits, for volumes of pods.

NodeVolumeLimits counts each CSI volume once per node, and ignores migrated in-tree volumes. An
unbound claim counts as a volume of its provisioner.
"""

from collections.abc import Iterator

import numpy as np

from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Disk, NodeName, Pod, SchedulingRules
from kubedsm.model.node_index import Column, Ints, Mask, NodeIndex
from kubedsm.model.selectors import Requirement
from kubedsm.model.surroundings import (
    UNLIMITED,
    Claim,
    CSINode,
    CSIVolume,
    StorageClass,
    Surrounding,
    Surroundings,
    Volume,
)
from kubedsm.plugins.plugin import EquivalenceClass, Plugin, RejectedNodes, Scene

NO_DISK = "node(s) had no available disk"
ONCE_PER_POD = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)
NO_ZONE = "node(s) had no available volume zone"
#: never shared between pods, not even read-only
_NEVER_SHARED = frozenset({"awsElasticBlockStore"})
#: equivalent node label of each volume label
_ZONE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
#: separator between zones in a volume's label
_BETWEEN_ZONES = "__"


def _volumes_missing(rules: SchedulingRules, surroundings: Surroundings) -> str:
    if not surroundings.observes(Volume):
        return ""
    for claim in surroundings.claims_at(rules.claim_keys):
        if claim.volume and (claim.volume,) not in surroundings.of(Volume):
            return f'persistentvolume "{claim.volume}" not found'
    return ""


def is_shared_disk(disk: Disk) -> bool:
    """Return True if several pods on one node may share the disk read-only."""
    return disk.read_only and disk.kind not in _NEVER_SHARED


def volume_restrictions(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    rules, residents = candidate.rules, scene.residents
    taken: set[int] = set()
    for disk in rules.disks:
        for other, users in residents.disks.items():
            shared = is_shared_disk(disk) and other.read_only
            if (disk.kind, disk.identity) == (other.kind, other.identity) and not shared:
                taken.update(residents.where(users).tolist())
    if taken:
        yield RejectedNodes(scene.nodes.at(taken), (NO_DISK,))
    if any(
        claim.once_per_pod
        and len(residents.where(residents.claims.get((claim.namespace, claim.name), {})))
        for claim in scene.surroundings.claims_at(rules.claim_keys)
    ):
        yield RejectedNodes(scene.nodes.every(), (ONCE_PER_POD,))


def is_reached_anywhere(volume: Volume) -> bool:
    """Return True if neither node affinity nor zone labels of the volume exclude a node."""
    return volume.nodes is None and _ZONE_LABELS.keys().isdisjoint(volume.labels)


def volume_zone(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    bound = scene.surroundings.volumes_at(candidate.rules.claim_keys)
    volumes = [volume for volume in bound if not _ZONE_LABELS.keys().isdisjoint(volume.labels)]
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
                yield RejectedNodes(zoned & ~_in_zone(scene.nodes, allowed, also), (NO_ZONE,))


def _in_zone(nodes: NodeIndex, allowed: Requirement, also: str) -> Mask:
    named: Column = nodes.label(allowed.key)
    other = nodes.label(also)
    return named.match_requirement(allowed) | (~named.present & other.match_requirement(allowed))


def _volume_left(change: Change, candidate: EquivalenceClass, cluster: ClusterMirror) -> bool:
    if change.node_left or _volumes_changed(change, candidate, cluster):
        return True
    gone, rules = change.gone, candidate.rules
    if gone is None:
        return False
    theirs = gone.pod_class.rules
    disks = {(disk.kind, disk.identity) for disk in theirs.disks}
    shared = any((disk.kind, disk.identity) in disks for disk in rules.disks)
    return shared or not set(theirs.claim_keys).isdisjoint(rules.claim_keys)


def _volumes_changed(change: Change, candidate: EquivalenceClass, cluster: ClusterMirror) -> bool:
    return change.node_relabelled or has_own_volume_changed(change, candidate, cluster)


def has_own_volume_changed(
    change: Change, candidate: EquivalenceClass, cluster: ClusterMirror
) -> bool:
    keys = candidate.rules.claim_keys
    known = list(cluster.surroundings.claims_at(keys))
    match change.surrounding_after or change.surrounding_before:
        case Claim(namespace, name):
            return (namespace, name) in keys
        case Volume(name):
            return any(claim.volume == name for claim in known)
        case StorageClass(name):
            return any(claim.storage_class == name for claim in known)
    return False


VOLUME_RESTRICTIONS = Plugin(
    name="VolumeRestrictions",
    demands=("claims", "disks"),
    filter=volume_restrictions,
    hint=_volume_left,
    hears=("pod", "node", "surrounding"),
    advice="wait until the other pod with this volume is gone",
)
VOLUME_ZONE = Plugin(
    name="VolumeZone",
    demands=("claims",),
    pre_filter=_volumes_missing,
    filter=volume_zone,
    hint=_volumes_changed,
    hears=("node", "surrounding"),
    advice="bind the pod's claims to volumes of this node's zone",
)


TOO_MANY = "node(s) exceed max volume count"


def node_volume_limits(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    residents = scene.residents
    if not scene.surroundings.of(CSINode):
        return
    wanted = scene.surroundings.csi_volumes_at(candidate.rules.claim_keys)
    for driver in {volume.driver for volume in wanted}:
        new = np.zeros(len(scene.nodes), dtype=np.int64)
        for volume in wanted:
            if volume.driver == driver:
                new += 1
                new[residents.where(residents.volumes.get(volume, {}))] -= 1
        too_many = (new > 0) & (new > count_attachable(driver, scene))
        yield RejectedNodes(too_many, (TOO_MANY,))


def count_attachable(driver: str, scene: Scene) -> Ints:
    """Return how many further volumes of the CSI driver may be attached to each node."""
    attached = scene.residents.column(scene.residents.attached.get(driver, {}))
    left: Ints = scene.storage.volume_limits(driver) - attached
    return left


def _may_attach(change: Change, candidate: EquivalenceClass, cluster: ClusterMirror) -> bool:
    """Queueing hint: True after a detachment, an increased limit, or attachment of the volume."""
    if has_own_volume_changed(change, candidate, cluster):
        return True
    before, after = change.surrounding_before, change.surrounding_after
    surroundings = cluster.surroundings
    wanted = surroundings.csi_volumes_at(candidate.rules.claim_keys)
    drivers = {volume.driver for volume in wanted}
    if isinstance(before or after, CSINode):
        return any(_limit_of(after, driver) > _limit_of(before, driver) for driver in drivers)
    had = set(_list_attached(change.there_before, before, surroundings))
    has = set(_list_attached(change.there_after, after, surroundings))
    left, came = had - has, has - had
    return any(volume.driver in drivers for _, volume in left) or any(
        volume in wanted for _, volume in came
    )


def _limit_of(csi_node: Surrounding | None, driver: str) -> int:
    return csi_node.limit(driver) if isinstance(csi_node, CSINode) else UNLIMITED


def _list_attached(
    pod: Pod | None, thing: Surrounding | None, surroundings: Surroundings
) -> Iterator[tuple[NodeName | None, CSIVolume]]:
    """Yield the CSI volumes used by a pod, a volume claim or a PersistentVolume."""
    if pod is not None:
        volumes = surroundings.csi_volumes_at(pod.pod_class.rules.claim_keys)
        yield from ((pod.node_name, volume) for volume in volumes)
    if isinstance(thing, Claim):
        thing = surroundings.of(Volume).get((thing.volume,))
    if isinstance(thing, Volume) and thing.csi is not None:
        yield None, thing.csi


NODE_VOLUME_LIMITS = Plugin(
    name="NodeVolumeLimits",
    demands=("claims",),
    filter=node_volume_limits,
    hint=_may_attach,
    hears=("pod", "surrounding"),
    advice="migrate a pod with volumes of the same CSI driver off the node",
)
