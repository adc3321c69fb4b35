"""Accessors of an object's state: labels, owners, conditions, and pod phases.

Rules follow k8s.io/kubernetes/pkg/controller.
"""

from collections.abc import Iterable

from kubedsm.kube.wire.pod_requests import Amounts, pod_requests
from kubedsm.model.model import Resources
from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.api.values import seconds

#: a node annotated with "true" here is disconnected: its kubelet runs on and reports nothing
DISCONNECTED = "emulator.kubedsm.io/disconnected"


def key_of(obj: Object) -> tuple[str, str]:
    """Return namespace and name of an object; namespace "" if cluster-scoped."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def owners_of(obj: Object) -> list[Object]:
    owners: list[Object] | None = obj["metadata"].get("ownerReferences")
    return owners or []


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference with `controller: true`, if any."""
    return next((owner for owner in owners_of(obj) if owner.get("controller")), None)


def is_terminating(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_finished(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def is_active(pod: Object) -> bool:
    return not (is_terminating(pod) or is_finished(pod))


def node_of(pod: Object) -> str:
    name: str = pod["spec"].get("nodeName", "")
    return name


def claims_of(pod: Object) -> list[str]:
    """Return the names of the PersistentVolumeClaims that the pod mounts."""
    sources = (v.get("persistentVolumeClaim") for v in pod["spec"].get("volumes") or ())
    return [source["claimName"] for source in sources if source]


def is_bound(claim: Object) -> bool:
    return (claim.get("status") or {}).get("phase") == "Bound"


def labels_of(obj: Object) -> dict[str, str]:
    labels: dict[str, str] | None = obj["metadata"].get("labels")
    return labels or {}


def annotations_of(obj: Object) -> dict[str, str]:
    annotations: dict[str, str] | None = obj["metadata"].get("annotations")
    return annotations or {}


def is_ready(obj: Object) -> bool:
    """Return whether the Ready condition of a pod or node is True."""
    ready = condition_of(obj, "Ready")
    return ready is not None and ready["status"] == "True"


def conditions_of(status: Object) -> list[Object]:
    conditions: list[Object] | None = status.get("conditions")
    return conditions or []


def condition_of(obj: Object, kind: str) -> Object | None:
    """Return the condition of the given type in the object's status, if any."""
    return find_condition(conditions_of(obj["status"]), kind)


def find_condition(conditions: Iterable[Object], kind: str) -> Object | None:
    return next((condition for condition in conditions if condition["type"] == kind), None)


def reason_of(condition: Object | None) -> str:
    """Return the reason of an object's condition; "" without condition or reason."""
    reason: str = (condition or {}).get("reason", "")
    return reason


def without_condition(conditions: Iterable[Object], kind: str) -> list[Object]:
    return [condition for condition in conditions if condition["type"] != kind]


def new_condition(
    kind: str, status: bool | str, now: str, reason: str, message: str, **times: str
) -> Object:
    return {
        "type": kind,
        "status": str(status),
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
        **times,
    }


def update_condition(conditions: list[Object], new: Object) -> list[Object]:
    """Replace or add a condition in a list; with unchanged status, it keeps its transition time."""
    old = find_condition(conditions, new["type"])
    if old is None:
        return [*conditions, new]
    if old["status"] == new["status"]:
        new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    return [new if condition is old else condition for condition in conditions]


def is_disconnected(node: Object) -> bool:
    return annotations_of(node).get(DISCONNECTED) == "true"


def ready_since(pod: Object) -> float | None:
    """Return the Unix time at which the pod became Ready; None if not Ready, or if the time is
    unknown.
    """
    ready = find_condition(conditions_of(pod["status"]), "Ready")
    if ready is None or ready["status"] != "True" or ready["lastTransitionTime"] is None:
        return None
    return seconds(ready["lastTransitionTime"])


def available_at(pod: Object, min_ready_seconds: float) -> float | None:
    """Return the Unix time from which the pod is available, ready for min_ready_seconds.

    A ready pod without a time is available only without min_ready_seconds.
    """
    since = ready_since(pod)
    if since is None:
        return 0.0 if is_ready(pod) and not min_ready_seconds else None
    return since + min_ready_seconds


def requests_of(pod: Object) -> Resources:
    """Return the effective resource requests of the pod. Raises FieldError if malformed."""
    spec = pod["spec"]
    return pod_requests(
        tuple(_requests(container) for container in spec["containers"]),
        tuple(
            (_requests(container), container.get("restartPolicy") == "Always")
            for container in spec.get("initContainers") or ()
        ),
        tuple((spec.get("overhead") or {}).items()),
        _requests(spec),
    )


def _requests(holder: Object) -> Amounts:
    resources = holder.get("resources")
    return tuple(resources["requests"].items()) if resources and resources.get("requests") else ()
