"""Updates of objects: immutable fields, and the fields that each subresource may change.

Source: PrepareForUpdate of the strategies and k8s.io/apiserver/pkg/registry/rest/update.go.
"""

from kubedsm_lab.emulator.api.defaulting import add_tolerations, with_defaults
from kubedsm_lab.emulator.api.errors import (
    STALE,
    Verbatim,
    conflict,
    invalid,
    invalid_value,
)
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.statuses import initial_status

_CHANGEABLE = ("labels", "annotations", "ownerReferences", "finalizers")
#: kinds whose metadata.generation counts changes of the spec
WITH_GENERATION = frozenset({
    "Pod", "Deployment", "ReplicaSet", "StatefulSet", "PodDisruptionBudget", "PriorityClass",
    "CronJob", "Job", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
})  # fmt: skip
#: kinds whose PUT needs a resourceVersion
_CONDITIONAL = frozenset({"Lease", "PodDisruptionBudget"})


def check_version(resource: Resource, current: Object, given: Object) -> None:
    """Raise ApiError (409, 422) unless the submitted resourceVersion is the current one."""
    name, version = current["metadata"]["name"], given.get("resourceVersion")
    if not version:
        if resource.kind in _CONDITIONAL:
            why = "must be specified for an update"
            error = invalid_value("metadata.resourceVersion", Verbatim("0x0"), why)
            raise invalid(resource.kind, resource.group, name, [error])
    elif version != current["metadata"]["resourceVersion"]:
        raise conflict(resource, name, STALE)


def check_immutable(resource: Resource, current: Object, given: Object) -> None:
    """Raise ApiError (422) if a patch changes the object's uid, or sets a deletionTimestamp."""
    metadata = current["metadata"]
    for field, free in (("uid", ()), ("deletionTimestamp", (None,))):
        if given.get(field) not in (*free, metadata.get(field)):
            error = invalid_value(f"metadata.{field}", given.get(field), "field is immutable")
            raise invalid(resource.kind, resource.group, metadata["name"], [error])


def updated(resource: Resource, current: Object, given: Object, subresource: str) -> Object:
    """Return the object to store after an update request; `current` itself if the update changes
    nothing.
    """
    metadata = _metadata(current["metadata"], given.get("metadata") or {})
    if subresource == "status":
        obj = _with_status(resource, current, given, metadata)
    elif subresource == "resize":
        obj = _resize_pod(current, given)
    elif subresource == "finalize":
        finalizers = (given.get("spec") or {}).get("finalizers") or []
        spec = {**(current.get("spec") or {}), "finalizers": finalizers}
        obj = {**current, "metadata": metadata, "spec": spec}
    else:
        obj = _with_body(resource, current, given, metadata)
    return current if obj == current else obj


def _metadata(current: Object, given: Object) -> Object:
    """Return the current metadata with the submitted labels, annotations, owner references and
    finalizers.
    """
    if all(given.get(field) == current.get(field) for field in _CHANGEABLE):
        return current
    metadata = {key: value for key, value in current.items() if key not in _CHANGEABLE}
    for field in _CHANGEABLE:
        if given.get(field):
            metadata[field] = given[field]
    return metadata


def _with_status(resource: Resource, current: Object, given: Object, metadata: Object) -> Object:
    status = initial_status(resource.kind, given.get("status") or {})
    kept = {}
    if resource.kind == "Pod":
        kept["ownerReferences"] = current["metadata"].get("ownerReferences")
    elif resource.kind == "Deployment":
        kept["labels"] = current["metadata"].get("labels")
    changed = {field for field, value in kept.items() if metadata.get(field) != value}
    if changed:
        metadata = {key: value for key, value in metadata.items() if key not in changed}
        metadata |= {field: kept[field] for field in changed if kept[field]}
    return {**current, "metadata": metadata, "status": status}


def _resize_pod(current: Object, given: Object) -> Object:
    """Return the pod with the submitted container resources (subresource `resize`)."""
    spec, wanted = current["spec"], given.get("spec") or {}
    changed = {
        field: [_with_resources(container, wanted.get(field)) for container in spec[field]]
        for field in ("containers", "initContainers")
        if spec.get(field)
    }
    if all(spec[field] == containers for field, containers in changed.items()):
        return current
    metadata = current["metadata"]
    generation = metadata.get("generation", 0) + 1
    return {
        **current,
        "metadata": {**metadata, "generation": generation},
        "spec": {**spec, **changed},
    }


def _with_resources(container: Object, given: list[Object] | None) -> Object:
    same = next((c for c in given or () if c.get("name") == container["name"]), container)
    return {**container, "resources": same.get("resources") or {}}


def _with_body(resource: Resource, current: Object, given: Object, metadata: Object) -> Object:
    obj: Object = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": metadata,
        **{k: v for k, v in given.items() if k not in ("kind", "apiVersion", "metadata", "status")},
    }
    if "status" in resource.subresources and "status" in current:
        obj["status"] = current["status"]
    before = current.get("spec")
    if resource.kind == "Namespace":
        # finalizers change through the subresource `finalize` only
        obj["spec"] = before
    changed = False
    if before is None or obj.get("spec") is not before:
        obj = with_defaults(resource, obj)
        if resource.kind == "Pod":
            spec = obj["spec"]
            tolerations = add_tolerations(spec.get("tolerations") or [])
            obj["spec"] = {**spec, "tolerations": tolerations}
        changed = obj.get("spec") != before
        if not changed and before is not None:
            obj["spec"] = before
    if resource.kind == "Deployment":
        annotations = current["metadata"].get("annotations")
        changed = changed or metadata.get("annotations") != annotations
    if changed and resource.kind in WITH_GENERATION:
        generation = current["metadata"].get("generation", 0) + 1
        obj["metadata"] = {**metadata, "generation": generation}
    return obj
