"""NodeVolumeLimits: a CSI driver attaches no more volumes to a node than its CSINode allows.

A volume is attached once, however many pods of the node use it, and so it is counted once. Volumes
count that claims of pods are bound to; neither those that would be provisioned (VolumeBinding
refuses their pods) nor those of in-tree types that a CSI driver has taken over.

Source: kubernetes.io, "Node-specific Volume Limits", and kube-scheduler's plugin of that name.
"""

from collections.abc import Iterator

import numpy as np

from kubedsm.model.change import Change
from kubedsm.model.model import NodeName, Pod
from kubedsm.model.surroundings import (
    UNLIMITED,
    Claim,
    CSINode,
    CSIVolume,
    Surrounding,
    Surroundings,
    Volume,
)
from kubedsm.plugins.plugin import Cluster, Plugin
from kubedsm.plugins.rejection import RejectedNodes
from kubedsm.plugins.scene import EquivalenceClass, Scene
from kubedsm.plugins.volumes import own_volumes_changed

TOO_MANY = "node(s) exceed max volume count"


def node_volume_limits(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    residents = scene.residents
    if not scene.surroundings.csi_nodes:
        return
    wanted = scene.surroundings.csi_volumes_at(candidate.rules.claim_keys)
    for driver in {volume.driver for volume in wanted}:
        new = np.zeros(len(scene.nodes), dtype=np.int64)
        for volume in wanted:
            if volume.driver == driver:
                new += 1
                new[residents.where(residents.volumes.get(volume, {}))] -= 1
        count = residents.column(residents.attached.get(driver, {})) + new
        yield RejectedNodes((new > 0) & (count > scene.volume_limits(driver)), (TOO_MANY,))


def _attachable(change: Change, candidate: EquivalenceClass, cluster: Cluster) -> bool:
    """Whether fewer volumes are on a node, or more may be, or one is that the candidate wants."""
    if own_volumes_changed(change, candidate, cluster):
        return True
    before, after = change.surrounding_before, change.surrounding_after
    surroundings = cluster.surroundings
    wanted = surroundings.csi_volumes_at(candidate.rules.claim_keys)
    drivers = {volume.driver for volume in wanted}
    if isinstance(before or after, CSINode):
        return any(_limit(after, driver) > _limit(before, driver) for driver in drivers)
    had = set(_attached(change.there_before, before, surroundings))
    has = set(_attached(change.there_after, after, surroundings))
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
        volumes = surroundings.csi_volumes_at(pod.pod_class.rules.claim_keys)
        yield from ((pod.node_name, volume) for volume in volumes)
    if isinstance(thing, Claim):
        thing = (surroundings.volumes or {}).get((thing.volume,))
    if isinstance(thing, Volume) and thing.csi is not None:
        yield None, thing.csi


NODE_VOLUME_LIMITS = Plugin(
    name="NodeVolumeLimits",
    demands=("claims",),
    filter=node_volume_limits,
    hint=_attachable,
    hears=("pod", "surrounding"),
    advice="take a pod with volumes of the same CSI driver from the node",
)
