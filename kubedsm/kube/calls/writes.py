"""Writes to the API server, one request each: binds, evictions, labels, Events, ConfigMaps.

Each function raises the exceptions of `Cluster.request`, or ApiStatusError for an unsuccessful
response. No function retries: only the caller can decide about safe retries. The watch confirms the
outcome of a write.

Responses of a real API server 1.36 are recorded in the contract test's scenes
detach-make-before-break, eviction-and-pdb and rollout-while-detached.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kubedsm.kube.client.api_errors import send
from kubedsm.kube.client.port import CORE, EVENTS, Cluster, path_of
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.annotations import (
    MOVE_ANNOTATION,
    REQUEST_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    MoveMark,
)
from kubedsm.kube.wire.decoding import ConfigMap, config_map, read_json
from kubedsm.kube.wire.schema import AnyObject
from kubedsm.model.model import MIGRATING_LABEL, TEMPLATE_HASH_LABEL, NodeName, Pod
from kubedsm.model.surroundings import Claim, Volume
from kubedsm.process.clock import rfc3339
from kubedsm.terminal.echo import escape_unprintable

MERGE = "application/merge-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
#: reporting controller of our Events
CONTROLLER = "kubedsm"
#: limit of a note in events.k8s.io/v1
NOTE_BYTES = 1024
#: annotation of a PersistentVolume whose claimRef no user wrote
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
#: prefix length of Event names; the limit is 253 characters with the generated suffix
_EVENT_PREFIX = 200


class Regarding(msgspec.Struct, frozen=True, rename="camel"):
    """Reference to the object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, about: Pod | ConfigMap) -> "Regarding":
        kind, named = ("Pod", about) if isinstance(about, Pod) else ("ConfigMap", about.identity)
        return cls("v1", kind, named.namespace, named.name, named.uid)


async def bind(
    cluster: Cluster,
    pod: Pod,
    node: NodeName,
    *,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
) -> None:
    """Bind the pod to the node; the uid excludes a later pod of the same name.

    The API server copies the Binding's annotations and labels to the pod, without validating the
    node or free capacity. Raises Conflict if the pod is already bound, terminating or replaced;
    NotFound if deleted.
    """
    metadata: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if labels:
        metadata["labels"] = dict(labels)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = path_of(CORE, pod.namespace, "pods", pod.name, "binding")
    await send(cluster, "POST", path, binding)


async def set_pod_condition(
    cluster: Cluster, pod: Pod, reason: str, message: str, *, since: float
) -> None:
    """Set the pod's condition PodScheduled to False, with the reason.

    `reason`: Unschedulable (observed by autoscalers) without a feasible node, else SchedulerError.
    `since`: transition time in seconds since the epoch. Raises Invalid if the pod was replaced.
    """
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": escape_unprintable(message),
        "lastTransitionTime": rfc3339(since, micro=False),
    }
    patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
    path = path_of(CORE, pod.namespace, "pods", pod.name, "status")
    await send(cluster, "PATCH", path, patch, content_type=STRATEGIC_MERGE)


async def create_event(
    cluster: Cluster,
    regarding: Regarding,
    *,
    reason: str,
    action: str,
    note: str,
    instance: str,
    at: float,
    warning: bool = False,
    annotations: Mapping[str, str] | None = None,
) -> str:
    """Create an Event: `reason` such as Scheduled, `action` such as Binding. Return the name.

    `instance` distinguishes replicas; `at` is in seconds since the epoch. Oversized notes are
    truncated. Raises WireError for a malformed response.
    """
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "generateName": f"{regarding.name[:_EVENT_PREFIX]}-",
            "namespace": regarding.namespace,
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "eventTime": rfc3339(at),
        "reportingController": CONTROLLER,
        "reportingInstance": instance,
        "reason": reason,
        "action": action,
        "note": _truncate_note(escape_unprintable(note)),
        "type": "Warning" if warning else "Normal",
        "regarding": msgspec.to_builtins(regarding),
    }
    path = path_of(EVENTS, regarding.namespace, "events")
    return read_json("Event", await send(cluster, "POST", path, event), AnyObject).metadata.name


async def count_event(
    cluster: Cluster, namespace: str, name: str, *, count: int, at: float
) -> None:
    """Update the series of an Event: `count` occurrences, at least 2, the latest at time `at`.

    All other fields are immutable. Raises NotFound for an expired Event: API servers keep Events
    for an hour after the last change.
    """
    patch = {"series": {"count": count, "lastObservedTime": rfc3339(at)}}
    await send(
        cluster, "PATCH", path_of(EVENTS, namespace, "events", name), patch, content_type=MERGE
    )


async def detach(cluster: Cluster, pod: Pod, template_hash: str, mark: MoveMark) -> None:
    """Detach the pod from the ReplicaSet, which creates a replacement; Services keep the pod.

    Raises Conflict if the pod has changed since reading, Invalid for another uid.
    """
    metadata = {
        "uid": pod.uid,
        "resourceVersion": pod.resource_version,
        "labels": {TEMPLATE_HASH_LABEL: None, MIGRATING_LABEL: template_hash},
        "annotations": {MOVE_ANNOTATION: str(mark)},
    }
    await _patch_pod(cluster, pod, metadata)


async def reattach(
    cluster: Cluster, pod: Pod, template_hash: str, replica_set: str, replica_set_uid: str
) -> None:
    """Reattach a detached pod: the ReplicaSet adopts the pod and deletes a surplus pod.

    The pod is also made a dependent of the ReplicaSet, as by `leave_to_collector`: the owner may
    have been deleted since it was read. Raises Invalid if the pod was replaced.
    """
    metadata = {
        "uid": pod.uid,
        "labels": {TEMPLATE_HASH_LABEL: template_hash, MIGRATING_LABEL: None},
        "annotations": {MOVE_ANNOTATION: None},
        "ownerReferences": [_dependence(replica_set, replica_set_uid)],
    }
    await _patch_pod(cluster, pod, metadata, STRATEGIC_MERGE)


async def leave_to_collector(cluster: Cluster, pod: Pod, replica_set: str, uid: str) -> None:
    """Make a detached pod a dependent of its deleted ReplicaSet, for deletion by the garbage
    collector.

    The garbage collector deletes pods without existing owners, regardless of disruption budgets. An
    existing ReplicaSet with this uid keeps the pod: the reference is not a controller reference.
    `blockOwnerDeletion` is omitted, since it requires the right to change the owner's finalizers.
    Raises Invalid if the pod was replaced.
    """
    metadata = {"uid": pod.uid, "ownerReferences": [_dependence(replica_set, uid)]}
    await _patch_pod(cluster, pod, metadata, STRATEGIC_MERGE)


def _dependence(replica_set: str, uid: str) -> dict[str, str]:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": uid}


async def annotate(
    cluster: Cluster,
    pod: Pod,
    labels: Mapping[str, str | None],
    annotations: Mapping[str, str | None],
) -> None:
    """Set labels and annotations on a pod; None removes one. Raises Invalid for another uid."""
    metadata = {"uid": pod.uid, "labels": dict(labels), "annotations": dict(annotations)}
    await _patch_pod(cluster, pod, metadata)


async def evict(
    cluster: Cluster, pod: Pod, *, dry_run: bool = False, unchanged: bool = False
) -> None:
    """Evict the pod gracefully, subject to PodDisruptionBudgets; `dry_run` only validates.

    With `unchanged`, the API server refuses if the pod has changed since reading. Raises
    DisruptionBudgetExceeded if a budget currently refuses, Conflict if the pod was replaced or has
    changed, and the permanent ServerError if several budgets cover the pod.
    """
    options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
    if unchanged:
        options["preconditions"]["resourceVersion"] = pod.resource_version
    if dry_run:
        options["dryRun"] = ["All"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": options,
    }
    path = path_of(CORE, pod.namespace, "pods", pod.name, "eviction")
    await send(cluster, "POST", path, body)


async def select_node(cluster: Cluster, claim: Claim, node: str | None) -> Claim:
    """Have the claim's volume provisioned for the node, or withdraw the node (None).

    Return the changed claim. Raises Conflict if the claim has changed since reading, or was
    replaced.
    """
    metadata = {
        "uid": claim.uid,
        "resourceVersion": claim.resource_version,
        "annotations": {SELECTED_NODE_ANNOTATION: node},
    }
    path = path_of(CORE, claim.namespace, "persistentvolumeclaims", claim.name)
    body = await send(cluster, "PATCH", path, {"metadata": metadata}, content_type=MERGE)
    return decoding.claim(body)


async def reserve_volume(cluster: Cluster, volume: Volume, claim: Claim) -> Volume:
    """Reserve a PersistentVolume for the claim, by which the PV controller binds both.

    As by kube-scheduler, an annotation says that no user reserved the volume: the PV controller
    then frees it, if the claim gets another one. Return the changed volume. Raises Conflict if the
    volume has changed since reading.
    """
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    }
    metadata: dict[str, Any] = {"resourceVersion": volume.resource_version}
    if volume.claim is None:
        metadata["annotations"] = {_BOUND_BY_CONTROLLER: "yes"}
    patch = {"metadata": metadata, "spec": {"claimRef": reference}}
    path = path_of(CORE, None, "persistentvolumes", volume.name)
    return decoding.volume(await send(cluster, "PATCH", path, patch, content_type=MERGE))


async def create_config_map(cluster: Cluster, namespace: str, name: str) -> ConfigMap:
    """Create an empty ConfigMap. Raises Conflict if present, NotFound without the namespace."""
    path, body = path_of(CORE, namespace, "configmaps"), {"metadata": {"name": name}}
    return config_map(await send(cluster, "POST", path, body))


async def put_request(cluster: Cluster, found: ConfigMap, request: str | None) -> None:
    """Set or remove the annotation on the ConfigMap that requests migrations from the scheduler.

    Raises Conflict if the ConfigMap has changed since reading.
    """
    identity = found.identity
    metadata = {
        "uid": identity.uid,
        "resourceVersion": identity.resource_version,
        "annotations": {REQUEST_ANNOTATION: request},
    }
    path = path_of(CORE, identity.namespace, "configmaps", identity.name)
    await send(cluster, "PATCH", path, {"metadata": metadata}, content_type=MERGE)


async def _patch_pod(
    cluster: Cluster, pod: Pod, metadata: dict[str, Any], content_type: str = MERGE
) -> None:
    path, patch = path_of(CORE, pod.namespace, "pods", pod.name), {"metadata": metadata}
    await send(cluster, "PATCH", path, patch, content_type=content_type)


def _truncate_note(note: str) -> str:
    encoded = note.encode()
    if len(encoded) <= NOTE_BYTES:
        return note
    ellipsis = "…"
    return encoded[: NOTE_BYTES - len(ellipsis.encode())].decode(errors="ignore") + ellipsis
