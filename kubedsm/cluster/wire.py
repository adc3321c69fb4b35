"""From the API's JSON to values of the core: only the fields we need, in one pass.

A malformed object raises WireError, which names the object and the field, and nothing else does.
Unknown fields are skipped; a null is an absent field, as Go's encoder has it. What many pods have
in common, their class, is converted once and then shared.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import attrs
import msgspec

from kubedsm.cluster import wire_schema as schema
from kubedsm.cluster.api_errors import status_error
from kubedsm.cluster.pod_requests import Amounts, FieldError, integers, pod_requests
from kubedsm.cluster.port import ApiStatusError
from kubedsm.cluster.wire_errors import UNREADABLE, Source, WireError, unreadable, wire_error
from kubedsm.core.model import (
    MIGRATING_LABEL,
    TEMPLATE_HASH_LABEL,
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    SchedulingRules,
    Taint,
    Toleration,
    Uid,
    Workload,
)

__all__ = [
    "Applied", "Bookmark", "ConfigMap", "Failed", "Identity", "Line", "Page", "Removed",
    "WireError", "config_map", "node", "node_item", "node_line", "page", "pod", "pod_item",
    "pod_line", "server_version",
]  # fmt: skip

T = TypeVar("T")
S = TypeVar("S")


# Structs, as these are made for every event: a third of the time an attrs class takes.


class Identity(msgspec.Struct, frozen=True, gc=False):
    """Which object, and which state of it."""

    namespace: str
    name: str
    uid: str
    resource_version: str


class Applied(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object as it is now."""

    identity: Identity
    object: T


class Removed(msgspec.Struct, frozen=True, gc=False):
    identity: Identity


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """Everything up to this version has been sent."""

    resource_version: str


class Failed(msgspec.Struct, frozen=True):
    """An ERROR event: the last of its stream."""

    error: ApiStatusError


@attrs.frozen(slots=True)
class Page:
    """A page of a list; its items are still JSON, so that one bad item spoils only itself."""

    resource_version: str
    continue_token: str
    items: tuple[msgspec.Raw, ...]


@attrs.frozen(slots=True)
class ConfigMap:
    identity: Identity
    data: Mapping[str, str]


#: what one line of a watch says
Line = Applied[T] | Removed | Bookmark | Failed

_POD = msgspec.json.Decoder(schema.Pod)
_NODE = msgspec.json.Decoder(schema.Node)
_LIST = msgspec.json.Decoder(schema.List)
_CONFIG_MAP = msgspec.json.Decoder(schema.ConfigMap)
_SERVER_VERSION = msgspec.json.Decoder(schema.ServerVersion)
_POD_LINE = msgspec.json.Decoder(
    schema.Added[schema.Pod]
    | schema.Modified[schema.Pod]
    | schema.Deleted
    | schema.Bookmarked
    | schema.Erred
)
_NODE_LINE = msgspec.json.Decoder(
    schema.Added[schema.Node]
    | schema.Modified[schema.Node]
    | schema.Deleted
    | schema.Bookmarked
    | schema.Erred
)


def pod(source: Source) -> Pod:
    """A pod from its JSON, or from a parsed dump.

    Raises WireError.
    """
    return _made("Pod", source, _read("Pod", source, _POD, schema.Pod), _pod)


def node(source: Source) -> Node:
    """A node from its JSON, or from a parsed dump.

    Raises WireError.
    """
    return _made("Node", source, _read("Node", source, _NODE, schema.Node), _node)


def pod_item(source: Source) -> Applied[Pod]:
    """A pod of a list.

    Raises WireError.
    """
    shape = _read("Pod", source, _POD, schema.Pod)
    return Applied(_identity(shape.metadata), _made("Pod", source, shape, _pod))


def node_item(source: Source) -> Applied[Node]:
    """A node of a list.

    Raises WireError.
    """
    shape = _read("Node", source, _NODE, schema.Node)
    return Applied(_identity(shape.metadata), _made("Node", source, shape, _node))


def pod_line(line: bytes) -> Line[Pod]:
    """One line of a watch on pods.

    Raises WireError.
    """
    return _line("Pod", line, _POD_LINE, _pod)


def node_line(line: bytes) -> Line[Node]:
    """One line of a watch on nodes.

    Raises WireError.
    """
    return _line("Node", line, _NODE_LINE, _node)


def page(kind: str, body: bytes) -> Page:
    """One page of a list of that kind.

    Raises WireError if the body is no list; its items are not looked at.
    """
    shape = _read(kind, body, _LIST, schema.List)
    metadata = shape.metadata
    return Page(metadata.resource_version, metadata.continue_ or "", shape.items or ())


def config_map(source: Source) -> ConfigMap:
    """A ConfigMap's text data.

    Raises WireError.
    """
    shape = _read("ConfigMap", source, _CONFIG_MAP, schema.ConfigMap)
    return ConfigMap(_identity(shape.metadata), shape.data or {})


def server_version(body: bytes) -> str:
    """The API server's version, such as v1.36.2.

    Raises WireError.
    """
    return _read("Version", body, _SERVER_VERSION, schema.ServerVersion).git_version


def _read(kind: str, source: Source, decoder: "msgspec.json.Decoder[S]", shape: type[S]) -> S:
    try:
        if isinstance(source, bytes | msgspec.Raw):
            return decoder.decode(source)
        return msgspec.convert(source, shape)
    except UNREADABLE as error:
        raise unreadable(kind, error, source) from None


def _made(kind: str, source: Source, shape: S, make: Callable[[S], T]) -> T:
    try:
        return make(shape)
    except FieldError as error:
        raise wire_error(kind, error.path, error.reason, source) from None


def _line(
    kind: str, line: bytes, decoder: "msgspec.json.Decoder[Any]", make: Callable[[Any], T]
) -> Line[T]:
    try:
        event = decoder.decode(line)
    except UNREADABLE as error:
        raise unreadable(kind, error, line, "object") from None
    match event:
        case schema.Added() | schema.Modified():
            try:
                value = make(event.object)
            except FieldError as error:
                raise wire_error(kind, error.path, error.reason, line, "object") from None
            return Applied(_identity(event.object.metadata), value)
        case schema.Deleted():
            return Removed(_identity(event.object.metadata))
        case schema.Bookmarked():
            return Bookmark(event.object.metadata.resource_version)
    return Failed(status_error(event.object, HTTPStatus.INTERNAL_SERVER_ERROR))


def _identity(metadata: schema.Metadata) -> Identity:
    return Identity(
        metadata.namespace or "",
        metadata.name,
        metadata.uid or "",
        metadata.resource_version or "",
    )


def _pod(shape: schema.Pod) -> Pod:
    metadata, spec = shape.metadata, shape.spec
    if not metadata.uid:
        raise FieldError("metadata.uid", "missing")
    if not metadata.namespace:
        raise FieldError("metadata.namespace", "missing")
    labels, status = metadata.labels or {}, shape.status
    return Pod(
        uid=Uid(metadata.uid),
        namespace=metadata.namespace,
        name=metadata.name,
        workload=_workload(metadata, metadata.namespace, labels),
        pod_class=_pod_class(
            tuple(map(_requests, spec.containers)) if spec.containers else (),
            tuple(map(_init_requests, spec.init_containers)) if spec.init_containers else (),
            tuple(spec.overhead.items()) if spec.overhead else (),
            _requests(spec) if spec.resources else (),
            tuple(spec.node_selector.items()) if spec.node_selector else (),
            spec.tolerations or (),
            spec.priority or 0,
        ),
        scheduler_name=spec.scheduler_name or "default-scheduler",
        node_name=NodeName(spec.node_name) if spec.node_name else None,
        phase=(status.phase if status else None) or "Pending",
        ready=bool(status and status.conditions and _ready(status.conditions)),
        terminating=metadata.deletion_timestamp is not None,
        detached=MIGRATING_LABEL in labels,
        gated=bool(spec.scheduling_gates),
        created=metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0,
        labels=labels,
        resource_version=metadata.resource_version or "",
    )


def _ready(conditions: Iterable[schema.Condition]) -> bool:
    for condition in conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def _requests(asking: schema.Container | schema.PodSpec) -> Amounts:
    resources = asking.resources
    return tuple(resources.requests.items()) if resources and resources.requests else ()


def _init_requests(container: schema.Container) -> tuple[Amounts, bool]:
    return _requests(container), container.restart_policy == "Always"


@lru_cache(maxsize=8192)
def _pod_class(
    containers: tuple[Amounts, ...],
    init_containers: tuple[tuple[Amounts, bool], ...],
    overhead: Amounts,
    pod_level: Amounts,
    node_selector: tuple[tuple[str, str], ...],
    tolerations: tuple[schema.Toleration, ...],
    priority: int,
) -> PodClass:
    requests = pod_requests(containers, init_containers, overhead, pod_level)
    # Neither order nor repetition means anything, and interchangeable pods must compare equal.
    tolerated = {
        (t.key or "", t.operator or "Equal", t.value or "", t.effect or "") for t in tolerations
    }
    rules = SchedulingRules(
        tuple(sorted(node_selector)), tuple(Toleration(*t) for t in sorted(tolerated))
    )
    return PodClass(requests, rules, priority)


def _workload(metadata: schema.Metadata, namespace: str, labels: Mapping[str, str]) -> Workload:
    """Whose pod it is: while a migration detaches it, too.

    The template hash is in one label before a pod is detached and in the other one after it. The
    ReplicaSet's ownerReference goes a moment later, and then only generateName tells.
    """
    template = labels.get(TEMPLATE_HASH_LABEL) or labels.get(MIGRATING_LABEL) or ""
    for owner in metadata.owner_references or ():
        if owner.controller:
            return _owner(namespace, owner.kind, owner.name, template)
    if template and MIGRATING_LABEL in labels and metadata.generate_name:
        replica_set = metadata.generate_name.removesuffix("-")
        owner_workload = _owner(namespace, "ReplicaSet", replica_set, template)
        if owner_workload.kind == "Deployment":
            return owner_workload
    return Workload(namespace, "Pod", metadata.name)


@lru_cache(maxsize=8192)
def _owner(namespace: str, kind: str, name: str, template: str) -> Workload:
    deployment = name.removesuffix(f"-{template}")
    if template and kind == "ReplicaSet" and deployment not in ("", name):
        return Workload(namespace, "Deployment", deployment)
    return Workload(namespace, kind, name)


def _node(shape: schema.Node) -> Node:
    spec = shape.spec or schema.NodeSpec()
    allocatable = shape.status.allocatable if shape.status else None
    return Node(
        name=NodeName(shape.metadata.name),
        labels=shape.metadata.labels or {},
        allocatable=_allocatable(tuple(allocatable.items())) if allocatable else Resources(),
        taints=_taints(spec.taints) if spec.taints else (),
        unschedulable=bool(spec.unschedulable),
    )


@lru_cache(maxsize=8192)
def _allocatable(amounts: Amounts) -> Resources:
    return Resources.of(integers(amounts, "status.allocatable"))


@lru_cache(maxsize=1024)
def _taints(taints: tuple[schema.Taint, ...]) -> tuple[Taint, ...]:
    return tuple(Taint(taint.key, taint.value or "", taint.effect) for taint in taints)
