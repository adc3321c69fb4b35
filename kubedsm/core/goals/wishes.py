"""Promises as tenants wish them: less than the operator promises, and no more than allowed."""

import attrs

from kubedsm.core.goals.objective import Promises
from kubedsm.core.world.model import Pod, Snapshot, Workload


def newest_wishing(snapshot: Snapshot) -> dict[Workload, Pod]:
    """The newest pod of each workload of which any pod asks for an edge share.

    During a rollout its pods may differ: what is newer is what its tenant has come to want.
    """
    ours = [pod for pod in snapshot.pods.values() if pod.wishes is not None]
    wishing = {pod.workload for pod in ours if pod.scheduler_name == snapshot.scheduler_name}
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
