"""What a namespace can gain by having many workloads: nothing, if its weight is shared by them.

The objective is a sum over workloads of what their shares are worth. A tenant that splits a
workload of four pods into four of one has four shares in the sum, and each pod counts four times as
much.
"""

from collections.abc import Iterable, Mapping

import attrs

from kubedsm.core.goals.objective import Promise, Promises
from kubedsm.core.world.model import Workload


def per_namespace(
    promises: Promises, present: Iterable[Workload], weights: Mapping[str, float]
) -> Promises:
    """The promises, with weights that add up, over the present workloads, to their namespace's.

    A namespace that has no weight of its own weighs 1. Among the workloads of one namespace the
    weights are to each other as they were.
    """
    given = {workload: promises(workload) for workload in present}
    total: dict[str, float] = {}
    for workload, promise in given.items():
        total[workload.namespace] = total.get(workload.namespace, 0.0) + promise.weight

    def shared(workload: Workload, promise: Promise) -> Promise:
        part = promise.weight / (total[workload.namespace] or 1.0)
        return attrs.evolve(promise, weight=part * weights.get(workload.namespace, 1.0))

    fair = {workload: shared(workload, promise) for workload, promise in given.items()}
    return lambda workload: fair.get(workload) or promises(workload)
