"""Admission of new objects: namespace lifecycle, defaults, priorities, addresses and quotas.

The order is kube-apiserver's: namespace lifecycle, defaulting and mutating plugins, validation,
quota. Sources: the admission plugins Priority and ResourceQuota,
k8s.io/kubernetes/pkg/quota/v1/evaluator/core, and
k8s.io/kubernetes/pkg/registry/core/service/storage/alloc.go for one IPv4 family.
"""

import ipaddress
from collections.abc import Iterable, Sequence

from kubedsm_lab.emulator.api.defaulting import (
    PREEMPTION_POLICIES,
    SYSTEM_PRIORITIES,
    with_defaults,
    with_initial_status,
)
from kubedsm_lab.emulator.api.errors import (
    ApiError,
    FieldError,
    forbidden,
    not_found,
)
from kubedsm_lab.emulator.api.pod_defaults import with_pod_defaults
from kubedsm_lab.emulator.api.resources import (
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SERVICES,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.store import Store
from kubedsm_lab.emulator.api.validation import validate_new
from kubedsm_lab.emulator.api.values import shown_quantity, thousandths

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


#: of a pod where no class is the default
_NO_CLASS: Object = {"value": 0, "preemptionPolicy": PREEMPTION_POLICIES[0]}


def with_priority(spec: Object, classes: Sequence[Object]) -> Object:
    """A new pod's spec with what its class, or the default one, says.

    Raises ApiError (403) where there is no such class, or the spec says otherwise itself.
    """
    name = spec.get("priorityClassName") or ""
    if name:
        found = next((c for c in classes if c["metadata"]["name"] == name), None)
        if found is None:
            raise _priority_refused(f"no PriorityClass with name {name} was found")
    else:
        found = next((c for c in classes if c.get("globalDefault")), _NO_CLASS)
    given, priority = spec.get("priority"), found["value"]
    if given not in (None, priority):
        raise _priority_refused(_computed(f"integer value of priority ({given})", priority))
    given, policy = spec.get("preemptionPolicy"), found["preemptionPolicy"]
    if given not in (None, policy):
        raise _priority_refused(_computed(f"string value of PreemptionPolicy ({given})", policy))
    named = {"priorityClassName": found["metadata"]["name"]} if "metadata" in found else {}
    return {**spec, **named, "priority": priority, "preemptionPolicy": policy}


def check_only_default(priority_class: Object, others: Sequence[Object]) -> None:
    """Raises ApiError (403) if another class is the default already."""
    if not priority_class.get("globalDefault"):
        return
    name = priority_class["metadata"]["name"]
    for other in others:
        if other.get("globalDefault") and other["metadata"]["name"] != name:
            raise forbidden(
                PRIORITY_CLASSES,
                name,
                f"PriorityClass {other['metadata']['name']} is already marked as default. "
                "Only one default can exist",
            )


def check_class_deletable(name: str) -> None:
    """Raises ApiError (403) for those of every cluster."""
    if name in SYSTEM_PRIORITIES:
        why = "this is a system priority class and cannot be deleted"
        raise forbidden(PRIORITY_CLASSES, name, why)


def _computed(what: str, computed: object) -> str:
    return (
        f"the {what} must not be provided in pod spec; priority admission controller computed "
        f"{computed} from the given PriorityClass name"
    )


def _priority_refused(why: str) -> ApiError:
    return forbidden(PODS, "", why)


_CLUSTER_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
#: below are the addresses of the cluster's own services, kubernetes and DNS
_FIRST_OFFSET = 256
_NODE_PORTS = range(30_000, 32_768)


def with_addresses(service: Object, others: Iterable[Object], previous: Object | None) -> Object:
    """The Service with its addresses: those it had before, those it asks for, or free ones.

    Raises ApiError (500) when there is none left.
    """
    spec = service["spec"]
    kind = spec["type"]
    if kind == "ExternalName":
        return service
    before = (previous or {}).get("spec") or {}
    taken = [other["spec"] for other in others]
    address = spec.get("clusterIP") or before.get("clusterIP")
    if not address:
        address = _free_address({other.get("clusterIP") for other in taken})
    addressed = {
        **spec,
        "clusterIP": address,
        "clusterIPs": [address],
        "ipFamilies": spec.get("ipFamilies") or ["IPv4"],
        "ipFamilyPolicy": spec.get("ipFamilyPolicy") or "SingleStack",
    }
    if kind in ("NodePort", "LoadBalancer") and spec.get("ports"):
        addressed["ports"] = _with_node_ports(spec["ports"], before.get("ports") or (), taken)
    return {**service, "spec": addressed}


def _free_address(taken: set[str | None]) -> str:
    for offset in range(_FIRST_OFFSET, _CLUSTER_NETWORK.num_addresses - 1):
        address = str(_CLUSTER_NETWORK[offset])
        if address not in taken:
            return address
    raise _no_address_left(f"every address of {_CLUSTER_NETWORK} is taken")


def _free_port(used: set[int | None]) -> int:
    for port in _NODE_PORTS:
        if port not in used:
            return port
    raise _no_address_left("every node port is taken")


def _no_address_left(why: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {why}")


def _with_node_ports(
    ports: list[Object], before: Iterable[Object], taken: list[Object]
) -> list[Object]:
    mine = {port.get("port"): port.get("nodePort") for port in before}
    used = {port.get("nodePort") for spec in taken for port in spec.get("ports") or ()}
    used |= {port.get("nodePort") for port in ports}
    numbered = []
    for port in ports:
        number = port.get("nodePort") or mine.get(port.get("port"))
        if not number:
            number = _free_port(used)
            used.add(number)
        numbered.append({**port, "nodePort": number})
    return numbered


#: what a quota names → (requests or limits, resource)
_COMPUTE = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}
_TERMINAL = ("Succeeded", "Failed")


def check_quotas(store: Store, resource: Resource, obj: Object) -> None:
    """Raises ApiError (403) if a quota of the namespace has no room for the object."""
    metadata = obj["metadata"]
    for quota in store.list(RESOURCE_QUOTAS, metadata["namespace"]):
        hard = (quota.get("spec") or {}).get("hard") or {}
        name = quota["metadata"]["name"]
        _check_specified(resource, obj, name, hard)
        exceeded = []
        for constraint in sorted(hard):
            requested = usage(resource, [obj], constraint)
            if not requested:
                continue
            stored = store.list(resource, metadata["namespace"])
            used = usage(resource, stored, constraint)
            limit = thousandths(hard[constraint])
            if used + requested > limit:
                exceeded.append((constraint, requested, used, limit))
        if exceeded:
            raise forbidden(resource, metadata["name"], _excess(name, exceeded))


def usage(resource: Resource, objects: Iterable[Object], constraint: str) -> int:
    """How much of a quota's constraint the objects use, in thousandths."""
    counted = {f"count/{resource.qualified}", *([] if resource.group else [resource.plural])}
    if resource.kind != "Pod":
        return 1000 * sum(1 for _ in objects) if constraint in counted else 0
    live = [pod for pod in objects if (pod.get("status") or {}).get("phase") not in _TERMINAL]
    if constraint in counted:
        return 1000 * len(live)
    if constraint not in _COMPUTE:
        return 0
    kind, name = _COMPUTE[constraint]
    return sum(_of_pod(pod["spec"], kind, name) for pod in live)


def _of_pod(spec: Object, kind: str, name: str) -> int:
    """Its containers together, or its greediest init container if that is more."""

    def amount(container: Object) -> int:
        return thousandths(((container.get("resources") or {}).get(kind) or {}).get(name, 0))

    together = sum(map(amount, spec.get("containers") or ()))
    return max([together, *map(amount, spec.get("initContainers") or ())])


def _check_specified(resource: Resource, obj: Object, quota: str, hard: Object) -> None:
    """A pod must say how much it takes of what is limited."""
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


def _excess(quota: str, exceeded: list[tuple[str, int, int, int]]) -> str:
    requested = ",".join(f"{key}={shown_quantity(key, asked)}" for key, asked, _, _ in exceeded)
    used = ",".join(f"{key}={shown_quantity(key, now)}" for key, _, now, _ in exceeded)
    limited = ",".join(f"{key}={shown_quantity(key, limit)}" for key, _, _, limit in exceeded)
    return f"exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}"
