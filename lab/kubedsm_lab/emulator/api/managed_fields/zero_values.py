"""What a kind has in it before anybody has set a field: what Go writes of an empty object.

A field that is in it is not added by whoever sets something in it. Source: the types of k8s.io/api
(structs that are no pointers, and fields without omitempty).
"""

from collections.abc import Mapping

from kubedsm_lab.emulator.api.resources import Object

_TEMPLATE: Object = {"metadata": {}, "spec": {"containers": None}}
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
