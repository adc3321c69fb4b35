"""Namespace fairness: the workloads of one namespace share the weight of that namespace.

The objective is a sum over workloads. Without this step, a tenant that splits one Deployment of
four pods into four Deployments of one pod has four terms in the sum, and each pod weighs four times
as much. Within a single namespace the weights stay as configured.
"""

from collections.abc import Iterable, Mapping

import attrs

from kubedsm.model.model import Workload
from kubedsm.objective.objective import Promise, Promises


def per_namespace(
    promises: Promises, present: Iterable[Workload], weights: Mapping[str, float]
) -> Promises:
    """Scale the weights of present workloads: their sum is the weight of their namespace.

    A namespace without a configured weight weighs 1. If all workloads are in one namespace, return
    `promises` unchanged: there is no other namespace to take capacity from.
    """
    total: dict[str, float] = {}
    for workload in present:
        namespace = workload.namespace
        total[namespace] = total.get(namespace, 0.0) + promises(workload).weight
    if len(total) <= 1:
        return promises

    def scaled(workload: Workload) -> Promise:
        promise, namespace = promises(workload), workload.namespace
        if namespace not in total:
            return promise
        part = promise.weight / max(total[namespace], promise.weight) if promise.weight else 0.0
        return attrs.evolve(promise, weight=part * weights.get(namespace, 1.0))

    return scaled
