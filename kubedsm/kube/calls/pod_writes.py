"""The writes to a pod: detach it from its owner, give it back, label it, evict it.

What a real API server 1.36 makes of them is recorded in the contract test's scenes
detach-make-before-break, eviction-and-pdb and rollout-while-detached.
"""

from typing import Any

from kubedsm.kube.calls.verbs import MERGE, STRATEGIC_MERGE, pod_path
from kubedsm.kube.client.api_errors import body_of
from kubedsm.kube.client.port import Cluster, Request
from kubedsm.kube.wire.move_mark import MOVE_ANNOTATION, MoveMark
from kubedsm.model.model import MIGRATING_LABEL, TEMPLATE_HASH_LABEL, Pod


async def detach(
    cluster: Cluster, pod: Pod, template_hash: str, mark: MoveMark, *, timeout: float
) -> None:
    """Take the pod from its ReplicaSet, which makes a replacement; Services go on selecting it.

    Raises Conflict if the pod is not in the state that `pod` shows, Invalid if it is another one.
    """
    metadata = {
        "uid": pod.uid,
        "resourceVersion": pod.resource_version,
        "labels": {TEMPLATE_HASH_LABEL: None, MIGRATING_LABEL: template_hash},
        "annotations": {MOVE_ANNOTATION: str(mark)},
    }
    await _patch(cluster, pod, metadata, timeout)


async def reattach(cluster: Cluster, pod: Pod, template_hash: str, *, timeout: float) -> None:
    """Give the pod back: its ReplicaSet adopts it, and deletes what is then too many.

    Raises Invalid if the name belongs to another pod by now.
    """
    metadata = {
        "uid": pod.uid,
        "labels": {TEMPLATE_HASH_LABEL: template_hash, MIGRATING_LABEL: None},
        "annotations": {MOVE_ANNOTATION: None},
    }
    await _patch(cluster, pod, metadata, timeout)


async def leave_to_collector(
    cluster: Cluster, pod: Pod, replica_set: str, uid: str, *, timeout: float
) -> None:
    """Make the pod a dependent of its ReplicaSet that is gone, so that it is garbage-collected.

    The garbage collector deletes a pod none of whose owners exists, and asks no disruption budget.
    A ReplicaSet that does exist under this uid keeps the pod: the reference makes it no controller.
    `blockOwnerDeletion` would need the right to change the owner's finalizers, and is left out.
    Raises Invalid if the name belongs to another pod by now.
    """
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": uid}
    metadata = {"uid": pod.uid, "ownerReferences": [owner]}
    await _patch(cluster, pod, metadata, timeout, STRATEGIC_MERGE)


async def annotate(
    cluster: Cluster,
    pod: Pod,
    labels: dict[str, str],
    annotations: dict[str, str],
    *,
    timeout: float,
) -> None:
    """Set labels and annotations. Raises Invalid if the name belongs to another pod by now."""
    metadata = {"uid": pod.uid, "labels": labels, "annotations": annotations}
    await _patch(cluster, pod, metadata, timeout)


async def _patch(
    cluster: Cluster, pod: Pod, metadata: dict[str, Any], timeout: float, content_type: str = MERGE
) -> None:
    path = pod_path(pod.namespace, pod.name)
    request = Request("PATCH", path, body={"metadata": metadata}, content_type=content_type)
    body_of(await cluster.request(request, timeout=timeout))


async def evict(cluster: Cluster, pod: Pod, *, timeout: float, dry_run: bool = False) -> None:
    """Ask for the pod's graceful deletion, by leave of the budgets that cover it.

    With `dry_run`, only ask for the leave.

    Raises DisruptionBudgetExceeded if one refuses for now, Conflict if the name belongs to
    another pod by now, ServerError if several budgets cover it, which no retry will mend.
    """
    options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
    if dry_run:
        options["dryRun"] = ["All"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": options,
    }
    path = pod_path(pod.namespace, pod.name, "eviction")
    body_of(await cluster.request(Request("POST", path, body=body), timeout=timeout))
