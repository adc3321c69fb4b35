"""Serving pods compared with wanted replicas, and evictions of unreachable nodes."""

from collections import Counter
from collections.abc import Iterable

from kubedsm_lab.emulator.api.object_state import (
    condition_of,
    labels_of,
    reason_of,
)
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, PODS, Object
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import EmulatedCluster


def list_wanted(cluster: EmulatedCluster) -> dict[str, int]:
    """Return the replicas of each Deployment."""
    deployments = cluster.api.list(DEPLOYMENTS)
    return {each["metadata"]["name"]: int(each["spec"]["replicas"]) for each in deployments}


def list_serving(cluster: EmulatedCluster) -> list[Object]:
    """Return the pods that serve, also on disconnected nodes."""
    up = cluster.serving()
    return [pod for pod in cluster.api.list(PODS) if pod["metadata"]["uid"] in up]


def up_to_wanted(pods: Iterable[Object], replicas: dict[str, int]) -> int:
    """Count the pods of each Deployment up to its replicas."""
    counts = Counter(labels_of(pod).get("app", "") for pod in pods)
    return sum(min(counts[name], number) for name, number in replicas.items())


def evicts_by_taint(change: ObjectChange) -> bool:
    """Return True if the taint manager begins to delete a pod of an unreachable node."""
    return (
        change.resource is PODS
        and change.type == "MODIFIED"
        and _by_taint(change.object)
        and not _by_taint(change.previous)
    )


def _by_taint(pod: Object | None) -> bool:
    found = None if pod is None else condition_of(pod, "DisruptionTarget")
    return reason_of(found) == "DeletionByTaintManager"
