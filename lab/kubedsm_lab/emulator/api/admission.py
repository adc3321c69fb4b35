"""Admission of new objects: namespace lifecycle, defaults, priorities, addresses and quotas.

The order is kube-apiserver's: namespace lifecycle, defaulting and mutating plugins, validation,
quota. Sources: the admission plugins Priority and ResourceQuota,
k8s.io/kubernetes/pkg/quota/v1/evaluator/core, and
k8s.io/kubernetes/pkg/registry/core/service/storage/alloc.go for one IPv4 family.
"""

import ipaddress
from collections.abc import Iterable

from kubedsm_lab.emulator.api.defaulting import (
    PREEMPTION_POLICIES,
    SYSTEM_PRIORITIES,
    new_pod_spec,
    with_defaults,
    with_initial_status,
)
from kubedsm_lab.emulator.api.errors import FieldError, forbidden, not_found
from kubedsm_lab.emulator.api.object_state import annotations_of, is_finished
from kubedsm_lab.emulator.api.policies import mutate_new
from kubedsm_lab.emulator.api.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STORAGE_CLASSES,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.store import Store
from kubedsm_lab.emulator.api.validation import validate_new
from kubedsm_lab.emulator.api.values import format_quantity, thousandths

#: namespaces of every cluster, and those of them that cannot be deleted
NAMESPACES_AT_START = ("default", "kube-node-lease", "kube-public", "kube-system")
_UNDELETABLE = frozenset({"default", "kube-public", "kube-system"})
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_NAME_LABEL = "kubernetes.io/metadata.name"
#: pod without a class, if none is the default
_NO_CLASS: Object = {"value": 0, "preemptionPolicy": PREEMPTION_POLICIES[0]}
_CLUSTER_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
#: lower addresses belong to the cluster's own services, kubernetes and DNS
_FIRST_OFFSET = 256
_NODE_PORTS = range(30_000, 32_768)
#: name in a quota → (requests or limits, resource)
_COMPUTE = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}


def admit(store: Store, resource: Resource, obj: Object) -> Object:
    """Admit a new object; return it as stored. Raises ApiError: 403 (quota, priority), 422."""
    if resource.kind == "Pod":
        _check_account(store, obj)
        spec = new_pod_spec(obj.get("spec") or {}, store.suffix())
        obj = {**obj, "spec": _with_priority(spec, store.list(PRIORITY_CLASSES))}
    else:
        obj = with_defaults(resource, obj)
    obj = mutate_new(store, resource, obj)
    if resource.kind == "Namespace":
        metadata = obj["metadata"]
        labels = {**metadata.get("labels", {}), _NAME_LABEL: metadata.get("name", "")}
        obj = {**obj, "metadata": {**metadata, "labels": labels}}
    if resource is PERSISTENT_VOLUME_CLAIMS:
        obj = _with_storage_class(obj, store.list(STORAGE_CLASSES))
    if resource.kind == "Service":
        obj = with_addresses(obj, store.list(SERVICES), None)
    obj = with_initial_status(resource, obj)
    check_among_others(store, resource, obj)
    validate_new(resource, obj)
    if resource.namespaced:
        _check_quotas(store, resource, obj)
    return obj


def _check_account(store: Store, pod: Object) -> None:
    """Raise ApiError (403) if the pod's ServiceAccount does not exist; `default` always does."""
    spec = pod.get("spec") or {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    metadata = pod["metadata"]
    namespace = metadata["namespace"]
    if account != "default" and store.get(SERVICE_ACCOUNTS, namespace, account) is None:
        why = f'looking up service account {namespace}/{account}: serviceaccount "{account}"'
        raise forbidden(PODS, metadata["name"], f"error {why} not found")


def check_deletable(resource: Resource, name: str) -> None:
    """Raise ApiError (403) if the object is indispensable and may not be deleted, such as the
    namespace default.
    """
    if resource.kind == "Namespace" and name in _UNDELETABLE:
        raise forbidden(resource, name, "this namespace may not be deleted")
    if resource is PRIORITY_CLASSES and name in SYSTEM_PRIORITIES:
        why = "this is a system priority class and cannot be deleted"
        raise forbidden(resource, name, why)


def check_among_others(store: Store, resource: Resource, obj: Object) -> None:
    """Raise ApiError (403) if the object would be a second PriorityClass with globalDefault."""
    if resource is not PRIORITY_CLASSES or not obj.get("globalDefault"):
        return
    name = obj["metadata"]["name"]
    for other in store.list(PRIORITY_CLASSES):
        if other.get("globalDefault") and other["metadata"]["name"] != name:
            raise forbidden(
                resource,
                name,
                f"PriorityClass {other['metadata']['name']} is already marked as default. "
                "Only one default can exist",
            )


def check_namespace(store: Store, resource: Resource, name: str, of: str) -> None:
    """Check that the namespace accepts new objects, Bindings and Evictions.

    `of` is the requested object name, for messages. Raises ApiError: 404 for a missing namespace,
    403 for a terminating one.
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


def _with_priority(spec: Object, classes: list[Object]) -> Object:
    """Return the pod spec with priority and preemptionPolicy of its PriorityClass.

    Raises ApiError (403).
    """
    name = spec.get("priorityClassName") or ""
    if name:
        found = next((c for c in classes if c["metadata"]["name"] == name), None)
        if found is None:
            raise forbidden(PODS, "", f"no PriorityClass with name {name} was found")
    else:
        found = next((c for c in classes if c.get("globalDefault")), _NO_CLASS)
    computed = {"priority": found["value"], "preemptionPolicy": found["preemptionPolicy"]}
    for field, what in (
        ("priority", "integer value of priority"),
        ("preemptionPolicy", "string value of PreemptionPolicy"),
    ):
        given = spec.get(field)
        if given not in (None, computed[field]):
            raise forbidden(
                PODS,
                "",
                f"the {what} ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {computed[field]} from the given PriorityClass name",
            )
    named = {"priorityClassName": found["metadata"]["name"]} if "metadata" in found else {}
    return {**spec, **named, **computed}


def _with_storage_class(claim: Object, classes: list[Object]) -> Object:
    """Return the claim with the default StorageClass in place of a missing one."""
    spec = claim.get("spec") or {}
    if spec.get("storageClassName") is not None:
        return claim
    default = next((c for c in classes if annotations_of(c).get(DEFAULT_CLASS) == "true"), None)
    if default is None:
        return claim
    return {**claim, "spec": {**spec, "storageClassName": default["metadata"]["name"]}}


# Addresses of Services.


def with_addresses(service: Object, others: Iterable[Object], previous: Object | None) -> Object:
    """Return the Service with clusterIP and nodePorts: kept, requested, or newly allocated."""
    spec = service["spec"]
    kind = spec["type"]
    if kind == "ExternalName":
        return service
    before = (previous or {}).get("spec") or {}
    used = [other["spec"] for other in others]
    address = spec.get("clusterIP") or before.get("clusterIP")
    if not address:
        offsets = range(_FIRST_OFFSET, _CLUSTER_NETWORK.num_addresses - 1)
        taken = {other.get("clusterIP") for other in used}
        addresses = (str(_CLUSTER_NETWORK[offset]) for offset in offsets)
        address = next(a for a in addresses if a not in taken)
    addressed = {
        **spec,
        "clusterIP": address,
        "clusterIPs": [address],
        "ipFamilies": spec.get("ipFamilies") or ["IPv4"],
        "ipFamilyPolicy": spec.get("ipFamilyPolicy") or "SingleStack",
    }
    if kind in ("NodePort", "LoadBalancer") and spec.get("ports"):
        own = {port.get("port"): port.get("nodePort") for port in before.get("ports") or ()}
        ports = {p.get("nodePort") for other in (*used, spec) for p in other.get("ports") or ()}
        free = (port for port in _NODE_PORTS if port not in ports)
        addressed["ports"] = [
            {
                **port,
                "nodePort": port.get("nodePort") or own.get(port.get("port")) or next(free),
            }
            for port in spec["ports"]
        ]
    return {**service, "spec": addressed}


# Quotas: consumption is counted from the store, so it is never stale.


def _check_quotas(store: Store, resource: Resource, obj: Object) -> None:
    """Raise ApiError (403) if the object exceeds a ResourceQuota of the namespace."""
    metadata = obj["metadata"]
    for quota in store.list(RESOURCE_QUOTAS, metadata["namespace"]):
        hard = (quota.get("spec") or {}).get("hard") or {}
        name = quota["metadata"]["name"]
        _check_specified(resource, obj, name, hard)
        #: requested, used and limit by constraint
        exceeded: dict[str, tuple[int, int, int]] = {}
        for constraint in sorted(hard):
            requested = usage(resource, [obj], constraint)
            if not requested:
                continue
            used = usage(resource, store.list(resource, metadata["namespace"]), constraint)
            limit = thousandths(hard[constraint])
            if used + requested > limit:
                exceeded[constraint] = requested, used, limit
        if exceeded:
            parts = (
                f"{what}: "
                + ",".join(f"{key}={format_quantity(n[at])}" for key, n in exceeded.items())
                for at, what in enumerate(("requested", "used", "limited"))
            )
            why = f"exceeded quota: {name}, {', '.join(parts)}"
            raise forbidden(resource, metadata["name"], why)


def usage(resource: Resource, objects: Iterable[Object], constraint: str) -> int:
    """Return how much of a ResourceQuota's constraint, such as requests.cpu, the objects use, in
    thousandths of the unit.
    """
    counted = {f"count/{resource.qualified}", *([] if resource.group else [resource.plural])}
    if resource.kind != "Pod":
        return 1000 * sum(1 for _ in objects) if constraint in counted else 0
    live = [pod for pod in objects if not is_finished(pod)]
    if constraint in counted:
        return 1000 * len(live)
    if constraint not in _COMPUTE:
        return 0
    kind, name = _COMPUTE[constraint]

    def amount(container: Object) -> int:
        return thousandths(((container.get("resources") or {}).get(kind) or {}).get(name, 0))

    return sum(
        max(
            sum(map(amount, pod["spec"].get("containers") or ())),
            *map(amount, pod["spec"].get("initContainers") or ()),
            0,
        )
        for pod in live
    )


def _check_specified(resource: Resource, obj: Object, quota: str, hard: Object) -> None:
    """Raise ApiError (403) for a pod without a request or limit that a quota requires."""
    if resource.qualified != PODS.qualified:
        return
    missing: dict[str, list[str]] = {}
    for constraint in sorted(set(hard) & set(_COMPUTE)):
        kind, name = _COMPUTE[constraint]
        for container in obj["spec"]["containers"]:
            if name not in (container["resources"].get(kind) or {}):
                missing.setdefault(constraint, []).append(container["name"])
    if missing:
        listed = "; ".join(f"{key} for: {','.join(names)}" for key, names in missing.items())
        why = f"failed quota: {quota}: must specify {listed}"
        raise forbidden(resource, obj["metadata"]["name"], why)
