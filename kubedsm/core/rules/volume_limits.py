"""NodeVolumeLimits: a CSI driver attaches no more volumes to a node than its CSINode allows.

A volume is attached once, however many pods of the node use it, and so it is counted once. Volumes
count that claims of pods are bound to; neither those that would be provisioned (VolumeBinding
refuses their pods) nor those of in-tree types that a CSI driver has taken over.

Source: kubernetes.io, "Node-specific Volume Limits", and kube-scheduler's plugin of that name.
"""

from collections.abc import Iterator

import numpy as np

from kubedsm.core.rules.rejection import Refusal
from kubedsm.core.rules.scene import EquivalenceClass, Scene

TOO_MANY = "node(s) exceed max volume count"


def node_volume_limits(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    claims, residents = candidate.rules.claims, scene.residents
    if not claims or not scene.surroundings.csi_nodes:
        return
    wanted = scene.surroundings.csi_volumes_at(claim.key for claim in claims)
    for driver in {volume.driver for volume in wanted}:
        new = np.zeros(len(scene.nodes), dtype=np.int64)
        for volume in wanted:
            if volume.driver == driver:
                new += 1
                new[list(residents.volumes.get(volume, ()))] -= 1
        count = residents.attached_by(driver) + new
        yield Refusal((new > 0) & (count > scene.volume_limits(driver)), (TOO_MANY,))
