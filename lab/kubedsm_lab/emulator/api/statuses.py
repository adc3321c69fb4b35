"""Status fields that Go encodes even if empty, and construction of pod conditions.

Source: the types of k8s.io/api (structs that are no pointers, and fields without omitempty).
"""

from collections.abc import Mapping

from kubedsm_lab.emulator.api.object_state import conditions_of, without_condition
from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.api.values import without_nulls

_ZERO_STATUSES: Mapping[str, Object] = {
    "ReplicaSet": {"replicas": 0},
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "Service": {"loadBalancer": {}},
    "Node": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}},
    "PodDisruptionBudget": dict.fromkeys(
        ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0
    ),
    "HorizontalPodAutoscaler": {"desiredReplicas": 0, "currentMetrics": None},
}
_CONDITION: Object = {"type": "", "status": "", "lastTransitionTime": None}
_CONDITIONS: Mapping[str, Object] = {
    "Pod": {**_CONDITION, "lastProbeTime": None},
    "Node": {**_CONDITION, "lastHeartbeatTime": None, "reason": "", "message": ""},
    "Deployment": {**_CONDITION, "lastUpdateTime": None},
    "Job": {**_CONDITION, "lastProbeTime": None},
    "PodDisruptionBudget": {**_CONDITION, "reason": "", "message": ""},
}
_WITHOUT_CONDITIONS = ("PersistentVolume", "ResourceQuota")


def pod_condition(kind: str, status: str, now: str | None, **why: str) -> Object:
    """Return a pod condition of the given type and status; `why` has its reason and message, if
    any.
    """
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": now,
        **why,
    }


def with_condition(pod: Object, condition: Object) -> Object:
    """Return the pod with the condition appended, replacing one of its type."""
    others = without_condition(conditions_of(pod["status"]), condition["type"])
    return {**pod, "status": {**pod["status"], "conditions": [*others, condition]}}


def initial_status(kind: str, given: Object) -> Object:
    """Return a status in stored form: the kind's zero values as encoded by Go, updated by `given`,
    without nulls.
    """
    status = {**_ZERO_STATUSES.get(kind, {}), **without_nulls(given)}
    if status.get("conditions") and kind not in _WITHOUT_CONDITIONS:
        zeros = _CONDITIONS.get(kind, _CONDITION)
        status["conditions"] = [{**zeros, **condition} for condition in status["conditions"]]
    return status
