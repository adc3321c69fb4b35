"""What we ask of an API server, request by request.

Each function sends one request, and raises what `Cluster.request` raises, or the ApiStatusError of
an answer that is no success. None of them tries again: whether that is right, only the caller
knows, and what came of a write, only the watch.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, TypeVar

import attrs
import msgspec

from kubedsm.kube.client.api_errors import body_of
from kubedsm.kube.client.paths import CORE, EVENTS, path_of
from kubedsm.kube.client.port import Cluster, NotFound, Request
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.errors import UNREADABLE, unreadable
from kubedsm.kube.wire.live_schema import Items
from kubedsm.model.model import NodeName, Pod
from kubedsm.terminal.echo import escape_unprintable

MERGE = "application/merge-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
CONTROLLER = "kubedsm"
#: events.k8s.io/v1 takes notes of so many bytes
NOTE_BYTES = 1024
#: of the object's name, so many characters begin the Event's; 253 are allowed, with an ending
_EVENT_PREFIX = 200


class _Metadata(msgspec.Struct, frozen=True):
    name: str


class _Named(msgspec.Struct, frozen=True):
    metadata: _Metadata


class _Identity(msgspec.Struct, frozen=True):
    uid: str


class _Identified(msgspec.Struct, frozen=True):
    metadata: _Identity


class WrittenEvent(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An Event in its core/v1 form; what else is read of it, its reader knows."""

    reporting_component: str | None = None


E = TypeVar("E", bound=WrittenEvent)


@attrs.frozen(slots=True)
class Regarding:
    """The object an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, about: Pod | decoding.ConfigMap) -> "Regarding":
        kind, named = ("Pod", about) if isinstance(about, Pod) else ("ConfigMap", about.identity)
        return cls("v1", kind, named.namespace, named.name, named.uid)


async def bind(
    cluster: Cluster,
    pod: Pod,
    node: NodeName,
    *,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    timeout: float,
) -> None:
    """Bind the pod, and no successor of the same name, to the node.

    The API server copies the Binding's annotations and labels to the pod. It checks neither the
    node nor its room. Raises Conflict if the pod is bound, deleted or another one; NotFound if
    it is gone.
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
    path = pod_path(pod.namespace, pod.name, "binding")
    body_of(await cluster.request(Request("POST", path, body=binding), timeout=timeout))


async def set_pod_condition(
    cluster: Cluster, pod: Pod, reason: str, message: str, *, since: float, timeout: float
) -> None:
    """Say on the pod that it cannot be placed, and why: its condition PodScheduled.

    `reason`: Unschedulable if no node takes it, which autoscalers look for, else SchedulerError.
    `since` is when that began, in seconds since the epoch. Raises Invalid if the name now
    belongs to another pod.
    """
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": escape_unprintable(message),
        "lastTransitionTime": datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
    path = pod_path(pod.namespace, pod.name, "status")
    body_of(
        await cluster.request(Request("PATCH", path, {}, patch, STRATEGIC_MERGE), timeout=timeout)
    )


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
    timeout: float,
) -> str:
    """Leave an Event: `reason` such as Scheduled, `action` such as Binding. Return its name.

    `instance` tells replicas apart; `at` is in seconds since the epoch. A note too long for the
    API is cut. Raises WireError if the answer cannot be read.
    """
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "generateName": f"{regarding.name[:_EVENT_PREFIX]}-",
            "namespace": regarding.namespace,
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "eventTime": _micro_time(at),
        "reportingController": CONTROLLER,
        "reportingInstance": instance,
        "reason": reason,
        "action": action,
        "note": _cut(escape_unprintable(note)),
        "type": "Warning" if warning else "Normal",
        "regarding": {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
        },
    }
    path = path_of(EVENTS, regarding.namespace, "events")
    body = body_of(await cluster.request(Request("POST", path, body=event), timeout=timeout))
    try:
        return msgspec.json.decode(body, type=_Named).metadata.name
    except UNREADABLE as error:
        raise unreadable("Event", error, body) from None


async def count_event(
    cluster: Cluster, namespace: str, name: str, *, count: int, at: float, timeout: float
) -> None:
    """Say on an Event that it has happened `count` times, at least 2, and the last time then.

    Nothing else of an Event may change. Raises NotFound if it is gone: an API server keeps each
    for an hour from its last change.
    """
    patch = {"series": {"count": count, "lastObservedTime": _micro_time(at)}}
    request = Request("PATCH", path_of(EVENTS, namespace, "events", name), {}, patch, MERGE)
    body_of(await cluster.request(request, timeout=timeout))


async def our_events(
    cluster: Cluster, namespace: str, uid: str, shape: type[Items[E]], *, timeout: float
) -> list[E]:
    """The Events that we wrote about an object. Raises WireError if they cannot be read."""
    query = {"fieldSelector": f"involvedObject.uid={uid}"}
    path = path_of(CORE, namespace, "events")
    body = body_of(await cluster.request(Request("GET", path, query), timeout=timeout))
    try:
        listed = msgspec.json.decode(body, type=shape).items or ()
    except UNREADABLE as error:
        raise unreadable("EventList", error, body) from None
    return [event for event in listed if event.reporting_component == CONTROLLER]


async def get_pod(cluster: Cluster, namespace: str, name: str, *, timeout: float) -> Pod:
    """The pod as it is now.

    Raises NotFound if there is none, and WireError if it cannot be read.
    """
    return decoding.pod(
        body_of(await cluster.request(Request("GET", pod_path(namespace, name)), timeout=timeout))
    )


async def get_config_map(
    cluster: Cluster, namespace: str, name: str, *, timeout: float
) -> decoding.ConfigMap:
    """The ConfigMap as it is now.

    Raises NotFound if there is none, and WireError if it cannot be read.
    """
    path = path_of(CORE, namespace, "configmaps", name)
    return decoding.config_map(
        body_of(await cluster.request(Request("GET", path), timeout=timeout))
    )


async def version(cluster: Cluster, *, timeout: float) -> str:
    """The API server's version, such as v1.36.2: shows that it is there and lets us in.

    Raises OutcomeUnknown or WireError if what answers is no API server.
    """
    return decoding.server_version(
        body_of(await cluster.request(Request("GET", "/version"), timeout=timeout))
    )


async def cluster_uid(cluster: Cluster, *, timeout: float) -> str:
    """Return the uid of the namespace kube-system, which identifies a cluster.

    Needs the right to list namespaces. Raises NotFound if there is no such namespace, WireError if
    the answer cannot be read.
    """
    query = {"fieldSelector": "metadata.name=kube-system"}
    request = Request("GET", f"{CORE}/namespaces", query)
    body = body_of(await cluster.request(request, timeout=timeout))
    try:
        listed = msgspec.json.decode(body, type=Items[_Identified]).items or ()
    except UNREADABLE as error:
        raise unreadable("NamespaceList", error, body) from None
    if not listed:
        raise NotFound(HTTPStatus.NOT_FOUND, "NotFound", "there is no namespace kube-system")
    return listed[0].metadata.uid


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """Raises Invalid for what cannot be a pod's name."""
    return path_of(CORE, namespace, "pods", name, subresource)


def _micro_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _cut(note: str) -> str:
    encoded = note.encode()
    if len(encoded) <= NOTE_BYTES:
        return note
    ellipsis = "…"
    return encoded[: NOTE_BYTES - len(ellipsis.encode())].decode(errors="ignore") + ellipsis
