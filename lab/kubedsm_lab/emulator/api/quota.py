"""ResourceQuota admission: a new object must fit into every quota of its namespace.

Use is counted from what is stored, so that it is never behind. Source: the ResourceQuota admission
plugin and k8s.io/kubernetes/pkg/quota/v1/evaluator/core.
"""

from collections.abc import Iterable

from kubedsm_lab.emulator.api.errors import forbidden
from kubedsm_lab.emulator.api.quantities import shown, thousandths
from kubedsm_lab.emulator.api.resources import PODS, RESOURCE_QUOTAS, Object, Resource
from kubedsm_lab.emulator.api.store import Store

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
            raise forbidden(resource, metadata["name"], _exceeded(name, exceeded))


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


def _exceeded(quota: str, exceeded: list[tuple[str, int, int, int]]) -> str:
    requested = ",".join(f"{key}={shown(key, asked)}" for key, asked, _, _ in exceeded)
    used = ",".join(f"{key}={shown(key, now)}" for key, _, now, _ in exceeded)
    limited = ",".join(f"{key}={shown(key, limit)}" for key, _, _, limit in exceeded)
    return f"exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}"
