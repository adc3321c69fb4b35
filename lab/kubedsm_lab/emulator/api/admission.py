"""Whether and how a new object may come in: its namespace, its defaults, quotas, validity.

In kube-apiserver's order: namespace lifecycle, defaulting and mutating plugins, validation, quota.
"""

from kubedsm_lab.emulator.api.defaulting import with_defaults, with_initial_status
from kubedsm_lab.emulator.api.errors import FieldError, forbidden, not_found
from kubedsm_lab.emulator.api.pod_defaults import with_pod_defaults
from kubedsm_lab.emulator.api.priorities import (
    check_class_deletable,
    check_only_default,
    with_priority,
)
from kubedsm_lab.emulator.api.quota import check_quotas
from kubedsm_lab.emulator.api.resources import (
    NAMESPACES,
    PRIORITY_CLASSES,
    SERVICES,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.service_addresses import with_addresses
from kubedsm_lab.emulator.api.store import Store
from kubedsm_lab.emulator.api.validation import validate_new

#: they exist from the start
NAMESPACES_AT_START = ("default", "kube-node-lease", "kube-public", "kube-system")
#: and may not be deleted
_IMMORTAL = frozenset({"default", "kube-public", "kube-system"})
_NAME_LABEL = "kubernetes.io/metadata.name"


def admitted(store: Store, resource: Resource, obj: Object) -> Object:
    """The new object as it is to be stored.

    Raises ApiError: 403 for a full quota or by priority, 422 for an invalid object.
    """
    obj = _mutated(store, resource, obj)
    check_among_others(store, resource, obj)
    validate_new(resource, obj)
    if resource.namespaced:
        check_quotas(store, resource, obj)
    return obj


def check_deletable(resource: Resource, name: str) -> None:
    """Raises ApiError (403) for what a cluster cannot do without."""
    if resource.kind == "Namespace" and name in _IMMORTAL:
        raise forbidden(resource, name, "this namespace may not be deleted")
    if resource is PRIORITY_CLASSES:
        check_class_deletable(name)


def check_among_others(store: Store, resource: Resource, obj: Object) -> None:
    """Raises ApiError (403) for a new or changed object that others of its kind do not allow."""
    if resource is PRIORITY_CLASSES:
        check_only_default(obj, store.list(PRIORITY_CLASSES))


def check_namespace(store: Store, resource: Resource, name: str, of: str) -> None:
    """Whether anything may be created in the namespace: for a pod, a Binding or Eviction too.

    `of` is how the request named it: no name has been generated yet. Raises ApiError: 404 for a
    missing namespace, 403 for a terminating one.
    """
    namespace = store.get(NAMESPACES, "", name)
    if namespace is None:
        raise not_found(NAMESPACES, name)
    if namespace["metadata"].get("deletionTimestamp"):
        cause = FieldError(
            "NamespaceTerminating", "metadata.namespace", f"namespace {name} is being terminated"
        )
        why = f"unable to create new content in namespace {name} because it is being terminated"
        raise forbidden(resource, of, why, [cause])


def _mutated(store: Store, resource: Resource, obj: Object) -> Object:
    if resource.kind == "Pod":
        spec = with_pod_defaults(obj.get("spec") or {}, store.suffix())
        obj = {**obj, "spec": with_priority(spec, store.list(PRIORITY_CLASSES))}
    else:
        obj = with_defaults(resource, obj)
    if resource.kind == "Namespace":
        metadata = obj["metadata"]
        labels = {**metadata.get("labels", {}), _NAME_LABEL: metadata.get("name", "")}
        obj = {**obj, "metadata": {**metadata, "labels": labels}}
    if resource.kind == "Service":
        obj = with_addresses(obj, store.list(SERVICES), None)
    return with_initial_status(resource, obj)
