"""Decoding of watched Kubernetes objects: API paths, conversion from JSON to `model` values, and
mirror events.

A malformed object raises WireError with object and field, and no other exception. Unknown fields
are skipped. A null is an absent field, as in Go's encoder. Shared pod classes are converted once.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from sys import intern
from typing import Any, Generic, TypeVar

import attrs
import msgspec

from kubedsm.kube.client.api_errors import status_error
from kubedsm.kube.client.port import CORE, path_of
from kubedsm.kube.wire import pods, schema
from kubedsm.kube.wire.errors import UNREADABLE, FieldError, Source, unreadable, wire_error
from kubedsm.kube.wire.pod_requests import Amounts, parse_amounts
from kubedsm.model.events import (
    ClusterEvent,
    HistoryRewound,
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
    SurroundingDeleted,
)
from kubedsm.model.model import Node, NodeName, Pod, Resources, Taint, Uid
from kubedsm.model.quantities import QuantityError, parse_units
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.model.surroundings import (
    NAMESPACED,
    VERSIONED,
    Claim,
    CSIDriver,
    CSINode,
    CSIVolume,
    Namespace,
    StorageCapacity,
    StorageClass,
    Surrounding,
    Volume,
)

T = TypeVar("T")
S = TypeVar("S")
E = TypeVar("E")


# Structs for every event: construction takes a third of the time of an attrs class.


class Identity(msgspec.Struct, frozen=True, gc=False):
    """Identity and version of an object: namespace, name, uid and resourceVersion."""

    namespace: str
    name: str
    uid: str
    resource_version: str


class Applied(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """ADDED or MODIFIED watch event: the current state of an object."""

    identity: Identity
    object: T


class Removed(msgspec.Struct, frozen=True, gc=False):
    identity: Identity


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """BOOKMARK watch event: all changes up to the resourceVersion were delivered."""

    resource_version: str


@attrs.frozen(slots=True)
class ConfigMap:
    """ConfigMap with text data and an optional request to migrate pods."""

    identity: Identity
    data: Mapping[str, str]
    #: annotation, see `annotations.MoveRequest`; empty without a request
    requested_moves: str = ""

    def __str__(self) -> str:
        return f"{self.identity.namespace}/{self.identity.name}"


#: one line of a watch
Line = Applied[T] | Removed | Bookmark

_CHANGES = (schema.Added, schema.Modified)


Shape = TypeVar("Shape", bound=schema.AnyObject)


class Reader(Generic[Shape, T]):
    """Decoder for one kind of API object: from JSON to a schema struct, then to a `model` value."""

    def __init__(self, kind: str, shape: type[Shape], make: Callable[[Shape], T]) -> None:
        self.kind = kind
        self._make = make
        self._decoder: msgspec.json.Decoder[Shape] = msgspec.json.Decoder(shape)
        self._lines: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
            schema.Added[shape]  # type: ignore[valid-type]  # a type made of a type we are handed
            | schema.Modified[shape]  # type: ignore[valid-type]
            | schema.Deleted
            | schema.Bookmarked
            | schema.Erred
        )

    def value(self, source: Source | Mapping[str, Any]) -> T:
        """Decode one API object, from JSON or a parsed dump, to a `model` value. Raises
        WireError.
        """
        if not isinstance(source, bytes | msgspec.Raw):
            # A field without a JSON form is none that the schema has.
            source = msgspec.json.encode(source, enc_hook=lambda _: None)
        return self._convert_shape(source, self._read_shape(source))

    def item(self, source: Source) -> Applied[T]:
        """Decode one Kubernetes object from a list response. Raises WireError."""
        shape = self._read_shape(source)
        return Applied(_identity(shape.metadata), self._convert_shape(source, shape))

    def line(self, line: bytes) -> Line[T]:
        """Decode one line of a watch stream. Raises WireError, or the server's ApiStatusError."""
        try:
            event = self._lines.decode(line)
        except UNREADABLE as error:
            raise unreadable(self.kind, error, line, "object") from None
        if isinstance(event, _CHANGES):
            shape = event.object
            return Applied(_identity(shape.metadata), self._convert_shape(line, shape, "object"))
        if isinstance(event, schema.Deleted):
            return Removed(_identity(event.object.metadata))
        if isinstance(event, schema.Bookmarked):
            return Bookmark(event.object.metadata.resource_version)
        raise status_error(event.object, HTTPStatus.INTERNAL_SERVER_ERROR)

    def _read_shape(self, source: Source) -> Shape:
        try:
            return self._decoder.decode(source)
        except UNREADABLE as error:
            raise unreadable(self.kind, error, source) from None

    def _convert_shape(self, source: Source, shape: Shape, inside: str = "") -> T:
        try:
            return self._make(shape)
        except FieldError as error:
            raise wire_error(self.kind, error.path, error.reason, source, inside) from None


def read_json(kind: str, body: bytes, shape: type[S]) -> S:
    """Decode the JSON body of an API response. Raises WireError."""
    try:
        return msgspec.json.decode(body, type=shape)
    except UNREADABLE as error:
        raise unreadable(kind, error, body) from None


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
        allocatable=_read_allocatable(tuple(allocatable.items())) if allocatable else Resources(),
        taints=_read_taints(spec.taints) if spec.taints else (),
        unschedulable=bool(spec.unschedulable),
        addresses=tuple(a.address for a in status.addresses or () if a.address),
        images=_read_images(status.images) if status.images else {},
    )


@lru_cache(maxsize=1024)
def _read_allocatable(amounts: Amounts) -> Resources:
    return Resources.of(parse_amounts(amounts, "status.allocatable"))


def _read_images(images: tuple[schema.ContainerImage, ...]) -> Mapping[str, int]:
    return {intern(name): each.size_bytes or 0 for each in images for name in each.names or ()}


@lru_cache(maxsize=1024)
def _read_taints(taints: tuple[schema.Taint, ...]) -> tuple[Taint, ...]:
    return tuple(Taint(taint.key, taint.value or "", taint.effect) for taint in taints)


def _config_map(shape: schema.ConfigMap) -> ConfigMap:
    annotations = shape.metadata.annotations or schema.Annotations()
    requested = annotations.requested_moves or ""
    return ConfigMap(_identity(shape.metadata), shape.data or {}, requested)


def _read_namespace(shape: schema.Namespace) -> Namespace:
    metadata, status = shape.metadata, shape.status or schema.Phase()
    terminating = metadata.deletion_timestamp is not None or status.phase == "Terminating"
    return Namespace(metadata.name, metadata.labels or {}, terminating)


def _read_claim(shape: schema.Claim) -> Claim:
    """Convert a PersistentVolumeClaim to a `model` value. Raises FieldError."""
    metadata = shape.metadata
    if not metadata.namespace:
        raise FieldError("metadata.namespace", "missing")
    spec, status = shape.spec or schema.ClaimSpec(), shape.status or schema.Phase()
    annotations = metadata.annotations or schema.Annotations()
    modes = tuple(sorted(spec.access_modes or ()))
    owner = pods.controller_of(metadata)
    requests = (spec.resources.requests if spec.resources else None) or {}
    return Claim(
        namespace=metadata.namespace,
        name=metadata.name,
        volume=spec.volume_name or "",
        bound=bool(spec.volume_name)
        and (annotations.bind_completed is not None or status.phase == "Bound"),
        lost=status.phase == "Lost",
        terminating=metadata.deletion_timestamp is not None,
        once_per_pod="ReadWriteOncePod" in modes,
        storage_class=annotations.storage_class or spec.storage_class_name or "",
        storage=_read_bytes(requests.get("storage"), "spec.resources.requests.storage") or 0,
        access_modes=modes,
        block=spec.volume_mode == "Block",
        attributes_class=spec.volume_attributes_class_name or "",
        selector=pods.selector_of(spec.selector),
        selected_node=annotations.selected_node or "",
        owner=(owner.uid or "") if owner else "",
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
    )


def _read_bytes(quantity: str | float | None, path: str) -> int | None:
    """Return an amount of storage in bytes; None if absent. Raises FieldError."""
    if quantity is None:
        return None
    try:
        return parse_units(quantity)
    except QuantityError as error:
        raise FieldError(path, str(error)) from None


def _read_volume(shape: schema.Volume) -> Volume:
    metadata, spec = shape.metadata, shape.spec or schema.VolumeSpec()
    required = spec.node_affinity.required if spec.node_affinity else None
    csi, claim, annotations = spec.csi, spec.claim_ref, metadata.annotations or schema.Annotations()
    return Volume(
        metadata.name,
        None if required is None else pods.node_selector_terms(required),
        metadata.labels or {},
        CSIVolume(csi.driver, csi.volume_handle)
        if csi and csi.driver and csi.volume_handle
        else None,
        capacity=_read_bytes((spec.capacity or {}).get("storage"), "spec.capacity.storage") or 0,
        access_modes=tuple(sorted(spec.access_modes or ())),
        block=spec.volume_mode == "Block",
        attributes_class=spec.volume_attributes_class_name or "",
        storage_class=annotations.storage_class or spec.storage_class_name or "",
        claim=(claim.namespace or "", claim.name or "", claim.uid or "") if claim else None,
        available=shape.status is not None and shape.status.phase == "Available",
        terminating=metadata.deletion_timestamp is not None,
        resource_version=metadata.resource_version or "",
    )


def _storage_class(shape: schema.StorageClass) -> StorageClass:
    waits = shape.volume_binding_mode == "WaitForFirstConsumer"
    topologies = tuple(
        NodeSelectorTerm(
            tuple(
                Requirement(each.key, "In", each.values or ())
                for each in term.match_label_expressions or ()
            )
        )
        for term in shape.allowed_topologies or ()
    )
    name, provisioner = shape.metadata.name, shape.provisioner or ""
    return StorageClass(name, waits, provisioner, topologies or None)


def _csi_driver(shape: schema.CSIDriver) -> CSIDriver:
    reports = shape.spec is not None and shape.spec.storage_capacity is True
    return CSIDriver(shape.metadata.name, reports)


def _storage_capacity(shape: schema.StorageCapacity) -> StorageCapacity:
    """Convert a CSIStorageCapacity to a `model` value. Raises FieldError."""
    metadata = shape.metadata
    if not metadata.namespace:
        raise FieldError("metadata.namespace", "missing")
    return StorageCapacity(
        metadata.namespace,
        metadata.name,
        shape.storage_class_name,
        pods.selector_of(shape.node_topology),
        _read_bytes(shape.capacity, "capacity"),
        _read_bytes(shape.maximum_volume_size, "maximumVolumeSize"),
    )


def _csi_node(shape: schema.CSINode) -> CSINode:
    drivers = shape.spec.drivers if shape.spec else None
    return CSINode(
        shape.metadata.name,
        {
            driver.name: driver.allocatable.count
            for driver in drivers or ()
            if driver.allocatable and driver.allocatable.count is not None
        },
    )


_CONFIG_MAPS = Reader("ConfigMap", schema.ConfigMap, _config_map)
_STORAGE = "/apis/storage.k8s.io/v1"


@attrs.frozen(slots=True)
class Watched(Generic[T, E]):
    """Watched kind of API object: API path, decoder to values of type T, and mirror events of type
    E.
    """

    reader: Reader[Any, T]
    path: str
    applied: Callable[[T], E]
    deleted: Callable[[Identity], E]
    #: objects have a namespace
    namespaced: bool = False
    #: labelSelector and fieldSelector
    selectors: tuple[tuple[str, str], ...] = ()
    #: event preceding a rewound history, for consumers that remember versions
    rewound: E | None = None

    @property
    def kind(self) -> str:
        return self.reader.kind


PODS: Watched[Pod, ClusterEvent] = Watched(
    Reader("Pod", schema.Pod, pods.pod_of),
    f"{CORE}/pods",
    PodApplied,
    lambda pod: PodDeleted(Uid(pod.uid), pod.namespace, pod.name),
    namespaced=True,
    rewound=HistoryRewound(),
)
NODES: Watched[Node, ClusterEvent] = Watched(
    Reader("Node", schema.Node, node_of),
    f"{CORE}/nodes",
    NodeApplied,
    lambda node: NodeDeleted(NodeName(node.name)),
)


def _watch_surrounding(
    of: type[Surrounding], path: str, reader: Reader[Any, Any], *, namespaced: bool = False
) -> Watched[Any, ClusterEvent]:
    def deleted(gone: Identity) -> ClusterEvent:
        key = (gone.namespace, gone.name) if namespaced else (gone.name,)
        return SurroundingDeleted(of, key)

    rewound = HistoryRewound(of) if of in VERSIONED else None
    return Watched(reader, path, SurroundingApplied, deleted, namespaced, rewound=rewound)


SURROUNDINGS: Mapping[type[Surrounding], Watched[Any, ClusterEvent]] = {
    of: _watch_surrounding(of, path, reader, namespaced=of in NAMESPACED)
    for of, path, reader in (
        (Namespace, f"{CORE}/namespaces", Reader("Namespace", schema.Namespace, _read_namespace)),
        (
            Claim,
            f"{CORE}/persistentvolumeclaims",
            Reader("PersistentVolumeClaim", schema.Claim, _read_claim),
        ),
        (
            Volume,
            f"{CORE}/persistentvolumes",
            Reader("PersistentVolume", schema.Volume, _read_volume),
        ),
        (
            StorageClass,
            f"{_STORAGE}/storageclasses",
            Reader("StorageClass", schema.StorageClass, _storage_class),
        ),
        (CSINode, f"{_STORAGE}/csinodes", Reader("CSINode", schema.CSINode, _csi_node)),
        (CSIDriver, f"{_STORAGE}/csidrivers", Reader("CSIDriver", schema.CSIDriver, _csi_driver)),
        (
            StorageCapacity,
            f"{_STORAGE}/csistoragecapacities",
            Reader("CSIStorageCapacity", schema.StorageCapacity, _storage_capacity),
        ),
    )
}


def watch_config_map(namespace: str, name: str) -> Watched[ConfigMap, ConfigMap | None]:
    """Return the description for watching a single ConfigMap; deletion is reported as None.

    The field selector allows a role to limit the right to this name (`resourceNames`).
    """
    return Watched(
        _CONFIG_MAPS,
        path_of(CORE, namespace, "configmaps"),
        lambda found: found,
        lambda _: None,
        namespaced=True,
        selectors=(("fieldSelector", f"metadata.name={name}"),),
    )


pod, node, config_map = PODS.reader.value, NODES.reader.value, _CONFIG_MAPS.value
claim: Callable[[bytes], Claim] = SURROUNDINGS[Claim].reader.value
volume: Callable[[bytes], Volume] = SURROUNDINGS[Volume].reader.value
