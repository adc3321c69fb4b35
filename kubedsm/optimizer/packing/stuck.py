"""Which of the pods that no node takes packing could help at all."""

from collections.abc import Container

import numpy as np

from kubedsm.model.model import PodClass, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.plugins.class_verdicts import open_nodes


def stuck(snapshot: Snapshot, refused: Container[Uid]) -> frozenset[Uid]:
    """Those of the refused that wait still, for which there is room, in pieces.

    So it is if a node that is open to such a pod would hold it were it empty, and the free room of
    all nodes of a tier, wherever it is, together would do: moving pods makes no more of it.
    """
    waiting = snapshot.schedulable(snapshot.pods.values())
    waiting = [pod for pod in waiting if pod.uid in refused]
    helped = {c for c in {pod.pod_class for pod in waiting} if _room_in_all(snapshot, c)}
    return frozenset(pod.uid for pod in waiting if pod.pod_class in helped)


def _room_in_all(snapshot: Snapshot, pod_class: PodClass) -> bool:
    index, room = snapshot.index, snapshot.room
    asked = [(name, amount) for name, amount in pod_class.requests.items() if amount]
    large = open_nodes(pod_class, index) & ~index.tierless
    for name, amount in asked:
        large &= index.size(name) >= amount
    if not large.any():
        return False
    return all(
        # Not in whole numbers, whose sum may be beyond any.
        np.maximum(room.column(name)[~index.tierless], 0).sum(dtype=np.float64) >= amount
        for name, amount in asked
    )
