"""The scale subresource: how many replicas of anything, in one form (autoscaling/v1 Scale)."""

from kubedsm_lab.emulator.api.errors import invalid, invalid_value
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.selectors import label_selector_of

_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(workload: Object) -> Object:
    """The Scale of a Deployment, ReplicaSet or StatefulSet."""
    metadata, spec = workload["metadata"], workload["spec"]
    selector = label_selector_of(spec.get("selector") or {})
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _IDENTITY if key in metadata},
        "spec": {"replicas": spec["replicas"]} if spec["replicas"] else {},
        "status": {
            "replicas": (workload.get("status") or {}).get("replicas", 0),
            "selector": str(selector),
        },
    }


def as_workload(resource: Resource, scale: Object) -> Object:
    """What is applied to a Scale, as applied to the workload."""
    spec = scale.get("spec") or {}
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": scale.get("metadata") or {},
        "spec": {key: spec[key] for key in ("replicas",) if key in spec},
    }


def with_replicas(workload: Object, scale: Object) -> Object:
    """The workload with the Scale's replicas. Raises ApiError (422) for a negative number."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        error = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("Scale", "autoscaling", workload["metadata"]["name"], [error])
    return {**workload, "spec": {**workload["spec"], "replicas": replicas}}
