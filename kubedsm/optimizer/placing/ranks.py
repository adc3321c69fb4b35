"""Which pods of a batch go before others: those of higher priority, then those kept waiting."""

import math
from collections.abc import Mapping, Sequence

from kubedsm.model.model import Pod, Uid
from kubedsm.model.serving_order import levels_of
from kubedsm.optimizer.matching.problem import Rank


def ranks_of(batch: Sequence[Pod], now: float, patience: float) -> Mapping[Uid, Rank] | None:
    """The rank of each pod; None if all have the same.

    A pod that has waited for longer than `patience`, in seconds, goes before any number of newer
    ones, and then each time that it has waited for twice as long. `now` is at least when the newest
    was created.
    """
    now = max([now, *(pod.created for pod in batch)])
    levels = levels_of(batch)
    overdue = {pod.uid: _overdue(pod, now, patience) for pod in batch}
    if levels is None and len(set(overdue.values())) <= 1:
        return None
    levels = levels or {}
    return {
        pod.uid: Rank(pod.pod_class.priority, levels.get(pod.workload, 0), overdue[pod.uid])
        for pod in batch
    }


def _overdue(pod: Pod, now: float, patience: float) -> int:
    """How often it has been so long, doubled each time; 0 if nobody knows when it was created."""
    if not pod.created or now - pod.created <= patience:
        return 0
    return 1 + int(math.log2((now - pod.created) / patience))
