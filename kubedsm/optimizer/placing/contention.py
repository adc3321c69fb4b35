"""Whether pods can be placed at once, without those that may still come with them."""

from collections.abc import Sequence

import numpy as np

from kubedsm.model.model import Pod, PodClass, Tier
from kubedsm.model.node_rows import NodeRows
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import axes_of, rows
from kubedsm.optimizer.placing.batch_kinds import is_plain
from kubedsm.plugins.class_verdicts import fitting_nodes

#: to look at more would take as long as they would wait
_CLASSES = 8


def uncontended(snapshot: Snapshot, pods: Sequence[Pod], batch: int) -> bool:
    """Whether these pods lose nothing by not waiting for others, up to `batch` pods in all.

    They lose neither QoS nor a place to others of their classes if all find room on the edge,
    wherever the others have gone; or those of a class that the edge has no room for, in the cloud.
    Nor do they if they are replicas, all alike, of the only workload there is: which of them comes
    first makes no difference. What no node can ever hold neither gains nor takes anything.
    """
    classes = [c for c in {pod.pod_class for pod in pods} if not c.requests.beyond_any_node]
    if len(classes) > _CLASSES or not is_plain(snapshot, pods):
        return False
    if not classes:
        return True
    if len(classes) == len(snapshot.shares()) == len(snapshot.census.requests) == 1:
        return True
    axes = axes_of([pod_class.requests for pod_class in classes])
    requests = rows([pod_class.requests for pod_class in classes], axes)
    # Wherever a pod goes, there is room for so many fewer of each class at most.
    displaced = np.ceil(requests.max(axis=0) / np.maximum(requests, 1))
    needed = batch * np.where(requests > 0, displaced, 1).max(axis=1)
    edge, cloud = (
        np.array([_places(pod_class, snapshot.in_turn(tier)) for pod_class in classes])
        for tier in (Tier.EDGE, Tier.CLOUD)
    )
    return bool(np.all((edge >= needed) | ((edge == 0) & (cloud >= needed))))


def _places(pod_class: PodClass, nodes: NodeRows) -> int:
    """For how many such pods there is room, if no others come."""
    requests = {name: amount for name, amount in pod_class.requests.items() if amount}
    fitting = nodes.only(fitting_nodes(pod_class, nodes.index, nodes.room))
    free = fitting.free(tuple(requests))
    return int((free // np.array(list(requests.values()), dtype=np.int64)).min(axis=1).sum())
