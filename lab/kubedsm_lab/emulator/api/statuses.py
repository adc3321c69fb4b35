"""What a status shows although it was not given: Go writes the zero of a field it does not omit.

Source: the types.go of each API group.
"""

from collections.abc import Mapping

from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.api.values import without_nulls

_PLAIN: Object = {"type": "", "status": "", "lastTransitionTime": None}
_OF_CONDITIONS: Mapping[str, Object] = {
    "Pod": {**_PLAIN, "lastProbeTime": None},
    "Node": {**_PLAIN, "lastHeartbeatTime": None, "reason": "", "message": ""},
    "Deployment": {**_PLAIN, "lastUpdateTime": None},
    "Job": {**_PLAIN, "lastProbeTime": None},
    "PodDisruptionBudget": {**_PLAIN, "reason": "", "message": ""},
}
_OF_STATUS: Mapping[str, Object] = {
    "ReplicaSet": {"replicas": 0},
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "PodDisruptionBudget": {
        "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
    },
    "HorizontalPodAutoscaler": {"desiredReplicas": 0, "currentMetrics": None},
    "Service": {"loadBalancer": {}},
}  # fmt: skip


def pod_condition(kind: str, status: str, now: str | None, **why: str) -> Object:
    """`why`: its reason and message, where it has them."""
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": now,
        **why,
    }


def with_condition(pod: Object, condition: Object) -> Object:
    """The pod with the condition, which comes last, in the place of its type's."""
    status = pod.get("status") or {}
    others = [c for c in status.get("conditions") or () if c["type"] != condition["type"]]
    return {**pod, "status": {**status, "conditions": [*others, condition]}}


def shown_status(kind: str, given: Object) -> Object:
    """The status as it is stored, whatever wrote it."""
    status = {**_OF_STATUS.get(kind, {}), **without_nulls(given)}
    if status.get("conditions"):
        zeros = _OF_CONDITIONS.get(kind, _PLAIN)
        status["conditions"] = [{**zeros, **condition} for condition in status["conditions"]]
    return status
