"""Namespaces, claims, volumes, storage classes and CSINodes from their JSON."""

from kubedsm.kube.wire import schema
from kubedsm.kube.wire.pod_requests import FieldError
from kubedsm.kube.wire.pod_rules import node_selector_terms
from kubedsm.model.surroundings import (
    Claim,
    CSINode,
    CSIVolume,
    Namespace,
    StorageClass,
    Volume,
)


def namespace(shape: schema.Namespace) -> Namespace:
    metadata, status = shape.metadata, shape.status or schema.NamespaceStatus()
    terminating = metadata.deletion_timestamp is not None or status.phase == "Terminating"
    return Namespace(metadata.name, metadata.labels or {}, terminating)


def claim(shape: schema.Claim) -> Claim:
    """Raises FieldError."""
    metadata = shape.metadata
    if not metadata.namespace:
        raise FieldError("metadata.namespace", "missing")
    spec, status = shape.spec or schema.ClaimSpec(), shape.status or schema.ClaimStatus()
    annotations = metadata.annotations or schema.Annotations()
    volume = spec.volume_name or ""
    return Claim(
        namespace=metadata.namespace,
        name=metadata.name,
        volume=volume,
        bound=bool(volume) and (annotations.bind_completed is not None or status.phase == "Bound"),
        lost=status.phase == "Lost",
        terminating=metadata.deletion_timestamp is not None,
        once_per_pod="ReadWriteOncePod" in (spec.access_modes or ()),
        storage_class=annotations.storage_class or spec.storage_class_name or "",
    )


def volume(shape: schema.Volume) -> Volume:
    spec = shape.spec or schema.VolumeSpec()
    required = spec.node_affinity.required if spec.node_affinity else None
    csi = spec.csi
    return Volume(
        shape.metadata.name,
        None if required is None else node_selector_terms(required),
        shape.metadata.labels or {},
        CSIVolume(csi.driver, csi.volume_handle)
        if csi and csi.driver and csi.volume_handle
        else None,
    )


def storage_class(shape: schema.StorageClass) -> StorageClass:
    waits = shape.volume_binding_mode == "WaitForFirstConsumer"
    return StorageClass(shape.metadata.name, waits)


def csi_node(shape: schema.CSINode) -> CSINode:
    drivers = shape.spec.drivers if shape.spec else None
    return CSINode(
        shape.metadata.name,
        {
            driver.name: driver.allocatable.count
            for driver in drivers or ()
            if driver.allocatable and driver.allocatable.count is not None
        },
    )
