"""Zero values that Go writes for fields which are not omitted, and conditions of pods.

Source: the types of k8s.io/api (structs that are no pointers, and fields without omitempty).
"""

from collections.abc import Mapping

from kubedsm_lab.emulator.api.object_state import conditions_of, without_condition
from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.api.values import without_nulls

_TEMPLATE: Object = {"metadata": {}, "spec": {"containers": None}}
#: a kind before any field is set: no manager owns these fields for setting something in them
ZERO_VALUES: Mapping[str, Object] = {
    "Pod": {"spec": {"containers": None}, "status": {}},
    "Deployment": {
        "spec": {"selector": None, "template": _TEMPLATE, "strategy": {}},
        "status": {},
    },
    "ReplicaSet": {"spec": {"selector": None, "template": _TEMPLATE}, "status": {"replicas": 0}},
    "StatefulSet": {
        "spec": {"selector": None, "template": _TEMPLATE, "updateStrategy": {}},
        "status": {"replicas": 0, "availableReplicas": 0},
    },
    "Job": {"spec": {"template": _TEMPLATE}, "status": {}},
    "Service": {"spec": {}, "status": {"loadBalancer": {}}},
    "Node": {"spec": {}, "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}}},
    "Namespace": {"spec": {}, "status": {}},
    "Event": {
        "involvedObject": {},
        "regarding": {},
        "source": {},
        "deprecatedSource": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    "PersistentVolume": {"spec": {}, "status": {}},
    "PersistentVolumeClaim": {"spec": {"resources": {}}, "status": {}},
    "ResourceQuota": {"spec": {}, "status": {}},
    "PodDisruptionBudget": {
        "spec": {},
        "status": dict.fromkeys(
            ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0
        ),
    },
    "HorizontalPodAutoscaler": {
        "spec": {"scaleTargetRef": {"kind": "", "name": ""}, "maxReplicas": 0},
        "status": {"desiredReplicas": 0, "currentMetrics": None},
    },
    "Lease": {"spec": {}},
    "CSINode": {"spec": {"drivers": None}},
    "Role": {"rules": None},
    "ClusterRole": {"rules": None},
    "RoleBinding": {"roleRef": {}},
    "ClusterRoleBinding": {"roleRef": {}},
    "PriorityClass": {"value": 0},
    "StorageClass": {"provisioner": ""},
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
    """Return a condition; `why` holds its reason and message, where it has them."""
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": now,
        **why,
    }


def with_condition(pod: Object, condition: Object) -> Object:
    """Return the pod with the condition last, in place of one of its type."""
    others = without_condition(conditions_of(pod["status"]), condition["type"])
    return {**pod, "status": {**pod["status"], "conditions": [*others, condition]}}


def initial_status(kind: str, given: Object) -> Object:
    """Return the status as it is stored, whatever was written."""
    status = {**ZERO_VALUES.get(kind, {}).get("status", {}), **without_nulls(given)}
    if status.get("conditions") and kind not in _WITHOUT_CONDITIONS:
        zeros = _CONDITIONS.get(kind, _CONDITION)
        status["conditions"] = [{**zeros, **condition} for condition in status["conditions"]]
    return status
