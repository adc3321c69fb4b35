"""What tenants say of their own workloads, as far as they are allowed to.

Promises as they wish them: less than the operator promises, and no more than allowed. Rates that
they declare, where the operator knows none.
"""

import attrs

from kubedsm.model.model import Pod, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import Promises
from kubedsm.objective.traffic import Rates


def newest_wishing(snapshot: Snapshot) -> dict[Workload, Pod]:
    """The newest pod of each workload of which any pod asks for something.

    During a rollout its pods may differ: what is newer is what its tenant has come to want.
    """
    wishing = snapshot.census.wishing
    newest: dict[Workload, Pod] = {}
    if not wishing:
        return newest
    for pod in snapshot.pods.values():
        if pod.workload not in wishing or pod.scheduler_name != snapshot.scheduler_name:
            continue
        known = newest.get(pod.workload)
        if known is None or (pod.created, pod.name) > (known.created, known.name):
            newest[pod.workload] = pod
    return newest


def as_wished(promises: Promises, snapshot: Snapshot, most: float) -> Promises:
    """The promises, those of wishing workloads lowered, or raised up to `most`."""
    wished = {}
    for workload, pod in newest_wishing(snapshot).items():
        if pod.wishes is not None and pod.wishes.qos is not None:
            promise = promises(workload)
            qos = min(pod.wishes.qos, max(promise.qos, most))
            wished[workload] = attrs.evolve(promise, qos=qos)
    return (lambda workload: wished.get(workload) or promises(workload)) if wished else promises


def or_declared(rates: Rates, snapshot: Snapshot, most: float) -> Rates:
    """The rates, and those that tenants declare of other workloads, up to `most`; if 0, none."""
    declared = {
        workload: min(pod.wishes.rate, most)
        for workload, pod in newest_wishing(snapshot).items()
        if most and pod.wishes is not None and pod.wishes.rate is not None
    }

    def rate(workload: Workload) -> float | None:
        known = rates(workload)
        return declared.get(workload) if known is None else known

    return rate
