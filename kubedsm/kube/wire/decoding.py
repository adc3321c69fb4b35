"""From the API's JSON to values of the core: only the fields we need, in one pass.

A malformed object raises WireError, which names the object and the field, and nothing else does.
Unknown fields are skipped; a null is an absent field, as Go's encoder has it. What many pods have
in common, their class, is converted once and then shared.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from sys import intern
from typing import Any, Generic, Protocol, TypeVar

import attrs
import msgspec

from kubedsm.kube.client.api_errors import status_error
from kubedsm.kube.client.port import ApiStatusError
from kubedsm.kube.wire import pods, schema, surroundings
from kubedsm.kube.wire.errors import UNREADABLE, Source, WireError, unreadable, wire_error
from kubedsm.kube.wire.pod_requests import Amounts, FieldError, integers
from kubedsm.model.model import Node, NodeName, Pod, Resources, Taint
from kubedsm.model.surroundings import Claim, CSINode, Namespace, StorageClass, Volume

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
    """With its text data."""

    identity: Identity
    data: Mapping[str, str]
    #: see `move_request`; empty if nothing is
    requested_moves: str = ""

    def __str__(self) -> str:
        return f"{self.identity.namespace}/{self.identity.name}"


#: what one line of a watch says
Line = Applied[T] | Removed | Bookmark | Failed

_LIST = msgspec.json.Decoder(schema.List)
_SERVER_VERSION = msgspec.json.Decoder(schema.ServerVersion)
_CHANGES = (schema.Added, schema.Modified)


class HasMetadata(Protocol):
    @property
    def metadata(self) -> schema.Metadata: ...


Shape = TypeVar("Shape", bound=HasMetadata)


class Reader(Generic[Shape, T]):
    """Reads objects of one kind: JSON to the shape of it that we read, shape to value."""

    def __init__(self, kind: str, shape: type[Shape], make: Callable[[Shape], T]) -> None:
        self.kind = kind
        self._shape = shape
        self._make = make
        self._decoder: msgspec.json.Decoder[Shape] = msgspec.json.Decoder(shape)
        self._lines: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
            schema.Added[shape]  # type: ignore[valid-type]  # a type made of a type we are handed
            | schema.Modified[shape]  # type: ignore[valid-type]
            | schema.Deleted
            | schema.Bookmarked
            | schema.Erred
        )

    def value(self, source: Source) -> T:
        """One object from its JSON, or from a parsed dump.

        Raises WireError.
        """
        return self._made(source, _read(self.kind, source, self._decoder, self._shape))

    def item(self, source: Source) -> Applied[T]:
        """An object of a list.

        Raises WireError.
        """
        shape = _read(self.kind, source, self._decoder, self._shape)
        return Applied(_identity(shape.metadata), self._made(source, shape))

    def line(self, line: bytes) -> Line[T]:
        """One line of a watch.

        Raises WireError.
        """
        try:
            event = self._lines.decode(line)
        except UNREADABLE as error:
            raise unreadable(self.kind, error, line, "object") from None
        if isinstance(event, _CHANGES):
            shape = event.object
            return Applied(_identity(shape.metadata), self._made(line, shape, "object"))
        if isinstance(event, schema.Deleted):
            return Removed(_identity(event.object.metadata))
        if isinstance(event, schema.Bookmarked):
            return Bookmark(event.object.metadata.resource_version)
        return Failed(status_error(event.object, HTTPStatus.INTERNAL_SERVER_ERROR))

    def _made(self, source: Source, shape: Shape, inside: str = "") -> T:
        try:
            return self._make(shape)
        except FieldError as error:
            raise wire_error(self.kind, error.path, error.reason, source, inside) from None


def page(kind: str, body: bytes) -> Page:
    """One page of a list of that kind.

    Raises WireError if the body is no list; its items are not looked at.
    """
    shape = _read(kind, body, _LIST, schema.List)
    metadata = shape.metadata
    return Page(metadata.resource_version, metadata.continue_ or "", shape.items or ())


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


def _identity(metadata: schema.Metadata) -> Identity:
    return Identity(
        intern(metadata.namespace or ""),
        metadata.name,
        metadata.uid or "",
        metadata.resource_version or "",
    )


def node_of(shape: schema.Node) -> Node:
    spec = shape.spec or schema.NodeSpec()
    status = shape.status or schema.NodeStatus()
    allocatable = status.allocatable
    return Node(
        name=NodeName(shape.metadata.name),
        labels=shape.metadata.labels or {},
        allocatable=_allocatable(tuple(allocatable.items())) if allocatable else Resources(),
        taints=_taints(spec.taints) if spec.taints else (),
        unschedulable=bool(spec.unschedulable),
        addresses=tuple(a.address for a in status.addresses or () if a.address),
        images=_images(status.images) if status.images else {},
    )


@lru_cache(maxsize=1024)
def _allocatable(amounts: Amounts) -> Resources:
    return Resources.of(integers(amounts, "status.allocatable"))


@lru_cache(maxsize=1024)
def _images(images: tuple[schema.ContainerImage, ...]) -> Mapping[str, int]:
    return {intern(name): each.size_bytes or 0 for each in images for name in each.names or ()}


@lru_cache(maxsize=1024)
def _taints(taints: tuple[schema.Taint, ...]) -> tuple[Taint, ...]:
    return tuple(Taint(taint.key, taint.value or "", taint.effect) for taint in taints)


def _config_map(shape: schema.ConfigMap) -> ConfigMap:
    annotations = shape.metadata.annotations or schema.Annotations()
    requested = annotations.requested_moves or ""
    return ConfigMap(_identity(shape.metadata), shape.data or {}, requested)


PODS: Reader[schema.Pod, Pod] = Reader("Pod", schema.Pod, pods.made)
NODES: Reader[schema.Node, Node] = Reader("Node", schema.Node, node_of)
NAMESPACES: Reader[schema.Namespace, Namespace] = Reader(
    "Namespace", schema.Namespace, surroundings.namespace
)
CLAIMS: Reader[schema.Claim, Claim] = Reader(
    "PersistentVolumeClaim", schema.Claim, surroundings.claim
)
VOLUMES: Reader[schema.Volume, Volume] = Reader(
    "PersistentVolume", schema.Volume, surroundings.volume
)
STORAGE_CLASSES: Reader[schema.StorageClass, StorageClass] = Reader(
    "StorageClass", schema.StorageClass, surroundings.storage_class
)
CSI_NODES: Reader[schema.CSINode, CSINode] = Reader(
    "CSINode", schema.CSINode, surroundings.csi_node
)

CONFIG_MAPS: Reader[schema.ConfigMap, ConfigMap] = Reader(
    "ConfigMap", schema.ConfigMap, _config_map
)

config_map = CONFIG_MAPS.value
pod, pod_item, pod_line = PODS.value, PODS.item, PODS.line
node, node_item, node_line = NODES.value, NODES.item, NODES.line
