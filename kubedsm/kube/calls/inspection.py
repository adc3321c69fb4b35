"""Reads for `kubedsm check`, `status`, `logs` and `support-bundle`: an installation and its pods.

Raises as `kubedsm.kube.calls.reads`. All reads are single requests without retries.
"""

from datetime import datetime
from typing import Any

import attrs
import msgspec

from kubedsm.kube.calls.permissions import Right
from kubedsm.kube.client.api_errors import api_error, send
from kubedsm.kube.client.port import (
    APPS,
    CORE,
    TIMEOUT,
    Cluster,
    ObjectName,
    Request,
    path_of,
)
from kubedsm.kube.wire import schema
from kubedsm.kube.wire.decoding import read_json
from kubedsm.kube.wire.pods import mark_on
from kubedsm.kube.wire.schema import Items
from kubedsm.model.model import MIGRATING_LABEL

_AUTHORIZATION = "/apis/authorization.k8s.io/v1"
_AUTHENTICATION = "/apis/authentication.k8s.io/v1"
#: port of metrics and health checks in the manifests
METRICS_PORT = 10271


#: of an access review
Spec = dict[str, Any]


class _Allowed(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Allowed = _Allowed()


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""


class _SelfStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _UserInfo = _UserInfo()


class _Created(msgspec.Struct, frozen=True, rename="camel"):
    creation_timestamp: datetime | None = None


class _SelfReview(msgspec.Struct, frozen=True):
    metadata: _Created = _Created()
    status: _SelfStatus = _SelfStatus()


async def identify(cluster: Cluster) -> tuple[str, float | None]:
    """Return the name of this user, and the API server's clock in seconds since the epoch."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await send(cluster, "POST", f"{_AUTHENTICATION}/selfsubjectreviews", body)
    review = read_json("SelfSubjectReview", answer, _SelfReview)
    at = review.metadata.creation_timestamp
    return review.status.user_info.username, at.timestamp() if at else None


def service_account_name(name: ObjectName) -> str:
    return f"system:serviceaccount:{name.namespace}:{name.name}"


async def is_allowed(cluster: Cluster, right: Right, name: ObjectName, user: str) -> bool:
    """Ask the API server whether a ServiceAccount has a right; empty `user`: this client itself.

    name: of the scheduler; a right of its own is about objects of this name.
    """
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        **({"namespace": name.namespace} if right.own else {}),
        **({"name": name.name} if right.named else {}),
    }
    kind, spec = "SelfSubjectAccessReview", Spec(resourceAttributes=attributes)
    if user:
        kind = "SubjectAccessReview"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{name.namespace}"]
        spec |= {"user": user, "groups": [*groups, "system:authenticated"]}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    path = f"{_AUTHORIZATION}/{kind.lower()}s"
    answer = await send(cluster, "POST", path, body)
    return read_json(kind, answer, _Review).status.allowed


@attrs.frozen
class Installed:
    """Deployment of the scheduler."""

    images: tuple[str, ...] = ()
    replicas: int = 0
    ready: int = 0


async def read_installed(cluster: Cluster, name: ObjectName) -> Installed:
    """Read the scheduler's Deployment. Raises NotFound."""
    path = path_of(APPS, name.namespace, "deployments", name.name)
    found = read_json("Deployment", await send(cluster, "GET", path), schema.Workload)
    images = tuple(each.image or "" for each in found.spec.template.spec.containers or ())
    return Installed(images, found.wanted, found.status.ready_replicas or 0)


@attrs.frozen
class _NamedPod:
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@attrs.frozen
class WaitingPod(_NamedPod):
    """Pod without a node, of any scheduler."""

    scheduler: str
    #: seconds since the epoch
    created: float
    #: reason of the condition PodScheduled; empty without an attempt
    message: str = ""


async def list_waiting(cluster: Cluster) -> tuple[WaitingPod, ...]:
    """List the pods without a node, except finished, terminating and gated pods."""
    query = {"fieldSelector": "spec.nodeName="}
    body = await send(cluster, "GET", f"{CORE}/pods", query=query)
    pods = read_json("PodList", body, Items[schema.Pod]).items or ()
    return tuple(_waiting_pod(pod) for pod in pods if _is_waiting(pod))


def _is_waiting(pod: schema.Pod) -> bool:
    phase = pod.status.phase if pod.status else None
    ended = phase in ("Succeeded", "Failed") or pod.metadata.deletion_timestamp is not None
    return not (ended or pod.spec.scheduling_gates or pod.spec.node_name)


def _waiting_pod(pod: schema.Pod) -> WaitingPod:
    conditions = (pod.status.conditions if pod.status else None) or ()
    said = (c.message or c.reason for c in conditions if c.type == "PodScheduled")
    metadata, created = pod.metadata, pod.metadata.creation_timestamp
    return WaitingPod(
        metadata.namespace or "",
        metadata.name,
        metadata.uid or "",
        pod.spec.scheduler_name or "",
        created.timestamp() if created else 0.0,
        " ".join((next(said, "") or "").split()),
    )


@attrs.frozen
class DetachedPod(_NamedPod):
    """Pod that a migration has detached from its owner (ReplicaSet)."""

    source: str
    #: node of the replacement; empty for a forged label
    target: str
    #: start of the migration, in seconds since the epoch
    since: float


async def list_detached(cluster: Cluster) -> tuple[DetachedPod, ...]:
    """List the pods with the label of a migration, the oldest migration first."""
    query = {"labelSelector": MIGRATING_LABEL}
    body = await send(cluster, "GET", f"{CORE}/pods", query=query)
    found = []
    for pod in read_json("PodList", body, Items[schema.Pod]).items or ():
        metadata, mark = pod.metadata, mark_on(pod.metadata)
        target, since = (mark.target, mark.began) if mark else ("", 0.0)
        source = pod.spec.node_name or ""
        uid, namespace = metadata.uid or "", metadata.namespace or ""
        found.append(DetachedPod(namespace, metadata.name, uid, source, target, since))
    return tuple(sorted(found, key=lambda pod: (pod.since, pod.name)))


async def list_selected(cluster: Cluster, selector: str) -> dict[str, str]:
    """Return the pods that match a label selector: `namespace/name` by uid.

    Raises Invalid for a malformed selector.
    """
    query = {"labelSelector": selector}
    body = await send(cluster, "GET", f"{CORE}/pods", query=query)
    items = read_json("PodList", body, Items[schema.AnyObject]).items or ()
    found = (each.metadata for each in items)
    return {each.uid or "": f"{each.namespace}/{each.name}" for each in found}


async def read_of_scheduler(
    cluster: Cluster, namespace: str, pod: str, path: str
) -> tuple[int, str]:
    """Get a path of a scheduler pod's metrics port through the API server's proxy.

    Returns HTTP status and text. Raises ApiStatusError for a refusal of the API server itself.
    """
    proxied = f"{path_of(CORE, namespace, 'pods', pod)}:{METRICS_PORT}/proxy/{path}"
    query = {"verbose": ""} if path == "readyz" else {}
    answer = await cluster.request(Request("GET", proxied, query), timeout=TIMEOUT)
    if answer.body.lstrip().startswith(b"{"):
        raise api_error(answer)
    return answer.status, answer.body.decode(errors="replace")
