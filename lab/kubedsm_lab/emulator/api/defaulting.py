"""Defaults of specs, and the initial status of a new object.

Source: defaults.go of each API group, and PrepareForCreate of the strategies. Pod defaults are in
`pod_defaults`, addresses of Services in `admission`.
"""

from collections.abc import Callable, Mapping

from kubedsm_lab.emulator.api.pod_defaults import (
    new_status,
    or_else,
    template_of,
    with_template_defaults,
)
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.statuses import stored_status

SCALE_UP: Object = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
SCALE_DOWN: Object = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_CPU_AT_80_PERCENT: Object = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_NODE_INFO = dict.fromkeys(
    (
        "machineID", "systemUUID", "bootID", "kernelVersion", "osImage",
        "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion", "operatingSystem",
        "architecture",
    ),
    "",
)  # fmt: skip


def with_defaults(resource: Resource, obj: Object) -> Object:
    """The object filled in; again on what is already filled it changes nothing."""
    kind = resource.kind
    if kind in _SPECS:
        return {**obj, "spec": _SPECS[kind](obj.get("spec") or {})}
    return _OBJECTS[kind](obj) if kind in _OBJECTS else obj


def with_initial_status(resource: Resource, obj: Object) -> Object:
    """A new object with the status it starts with, whatever it came with.

    A Node keeps the status it came with: kubelets register with one.
    """
    if "status" not in resource.subresources:
        return obj
    if resource.kind == "Pod":
        return {**obj, "status": new_status(obj["spec"])}
    if resource.kind == "Node":
        return {**obj, "status": _node_status(stored_status("Node", obj.get("status") or {}))}
    return {**obj, "status": stored_status(resource.kind, _STATUSES.get(resource.kind, {}))}


def _deployment(spec: Object) -> Object:
    strategy = spec.get("strategy") or {}
    kind = strategy.get("type") or "RollingUpdate"
    filled: Object = {**strategy, "type": kind}
    if kind == "RollingUpdate":
        limits = {"maxUnavailable": "25%", "maxSurge": "25%"}
        filled["rollingUpdate"] = {**limits, **(strategy.get("rollingUpdate") or {})}
    return {
        **spec,
        "replicas": or_else(spec.get("replicas"), 1),
        "template": template_of(spec),
        "strategy": filled,
        "revisionHistoryLimit": or_else(spec.get("revisionHistoryLimit"), 10),
        "progressDeadlineSeconds": or_else(spec.get("progressDeadlineSeconds"), 600),
    }


def _replica_set(spec: Object) -> Object:
    return {**spec, "replicas": or_else(spec.get("replicas"), 1), "template": template_of(spec)}


def _stateful_set(spec: Object) -> Object:
    strategy = spec.get("updateStrategy") or {}
    kind = strategy.get("type") or "RollingUpdate"
    filled: Object = {**strategy, "type": kind}
    if kind == "RollingUpdate":
        filled["rollingUpdate"] = {"partition": 0, **(strategy.get("rollingUpdate") or {})}
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    return {
        **spec,
        "replicas": or_else(spec.get("replicas"), 1),
        "template": template_of(spec),
        "podManagementPolicy": spec.get("podManagementPolicy") or "OrderedReady",
        "updateStrategy": filled,
        "revisionHistoryLimit": or_else(spec.get("revisionHistoryLimit"), 10),
        "persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": "Retain",
            "whenScaled": "Retain",
            **retention,
        },
    }


def _autoscaler(spec: Object) -> Object:
    filled: Object = {
        **spec,
        "minReplicas": or_else(spec.get("minReplicas"), 1),
        "metrics": spec.get("metrics") or [_CPU_AT_80_PERCENT],
    }
    behavior = spec.get("behavior")
    if behavior is not None:
        filled["behavior"] = {
            "scaleUp": {**SCALE_UP, **(behavior.get("scaleUp") or {})},
            "scaleDown": {**SCALE_DOWN, **(behavior.get("scaleDown") or {})},
        }
    return filled


def _service(spec: Object) -> Object:
    kind = spec.get("type") or "ClusterIP"
    filled: Object = {
        **spec,
        "type": kind,
        "sessionAffinity": spec.get("sessionAffinity") or "None",
    }
    if kind != "ExternalName":
        filled["internalTrafficPolicy"] = spec.get("internalTrafficPolicy") or "Cluster"
    if kind in ("NodePort", "LoadBalancer"):
        filled["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
    if kind == "LoadBalancer":
        filled["allocateLoadBalancerNodePorts"] = spec.get("allocateLoadBalancerNodePorts", True)
    if spec.get("ports"):
        filled["ports"] = [
            {
                **port,
                "protocol": port.get("protocol") or "TCP",
                "targetPort": port.get("targetPort") or port.get("port"),
            }
            for port in spec["ports"]
        ]
    return filled


def _namespace(spec: Object) -> Object:
    return {**spec, "finalizers": spec.get("finalizers", ["kubernetes"])}


def _node_status(status: Object) -> Object:
    filled: Object = {
        **status,
        "nodeInfo": {**_NODE_INFO, **(status.get("nodeInfo") or {})},
    }
    if status.get("capacity") and not status.get("allocatable"):
        filled["allocatable"] = status["capacity"]
    return filled


def _as_it_is(spec: Object) -> Object:
    return spec


_PREFIX = "batch.kubernetes.io/"


def with_job_defaults(job: Object) -> Object:
    """With a selector of its own pods, who are given the labels for it."""
    spec = job.get("spec") or {}
    alone = spec.get("completions") is None and spec.get("parallelism") is None
    filled = {
        **spec,
        "parallelism": or_else(spec.get("parallelism"), 1),
        **({"completions": 1} if alone else {}),
        "backoffLimit": or_else(spec.get("backoffLimit"), 6),
        "completionMode": spec.get("completionMode") or "NonIndexed",
        "suspend": bool(spec.get("suspend")),
        "podReplacementPolicy": spec.get("podReplacementPolicy") or "TerminatingOrFailed",
        "manualSelector": bool(spec.get("manualSelector")),
        "template": template_of(spec),
    }
    if not filled["manualSelector"]:
        filled |= _own_selector(job["metadata"], filled["template"])
        del filled["manualSelector"]
    return {**job, "spec": filled}


def _own_selector(metadata: Object, template: Object) -> Object:
    mine = {f"{_PREFIX}controller-uid": metadata.get("uid", "")}
    names = {f"{_PREFIX}job-name": metadata.get("name", "")}
    given = template.get("metadata") or {}
    old = {"controller-uid": metadata.get("uid", ""), "job-name": metadata.get("name", "")}
    labels = {**(given.get("labels") or {}), **mine, **names, **old}
    return {
        "selector": {"matchLabels": mine},
        "template": {**template, "metadata": {**given, "labels": labels}},
    }


RBAC_GROUP = "rbac.authorization.k8s.io"


def with_groups(binding: Object) -> Object:
    """The binding with the API group of its role and of each subject that has one."""
    reference = binding.get("roleRef") or {}
    subjects = [
        subject if subject.get("kind") == "ServiceAccount" else {"apiGroup": RBAC_GROUP, **subject}
        for subject in binding.get("subjects") or ()
    ]
    filled = {**binding, "roleRef": {"apiGroup": RBAC_GROUP, **reference}}
    return {**filled, "subjects": subjects} if subjects else filled


#: they exist from the start, and may not be deleted
SYSTEM_CLASSES: tuple[Object, ...] = (
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "Used for system critical pods that must run in the cluster, but can be"
        " moved to another node if necessary.",
    },
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "Used for system critical pods that must not be moved from their current"
        " node.",
    },
)


SYSTEM_PRIORITIES = {given["metadata"]["name"]: given["value"] for given in SYSTEM_CLASSES}
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


def with_class_defaults(priority_class: Object) -> Object:
    policy = priority_class.get("preemptionPolicy") or PREEMPTION_POLICIES[0]
    value = priority_class.get("value") or 0
    return {**priority_class, "value": value, "preemptionPolicy": policy}


_SPECS: Mapping[str, Callable[[Object], Object]] = {
    "Pod": with_template_defaults,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
    "HorizontalPodAutoscaler": _autoscaler,
    "Service": _service,
    "Namespace": _namespace,
    "Node": _as_it_is,
    "PodDisruptionBudget": _as_it_is,
    "ResourceQuota": _as_it_is,
    "Lease": _as_it_is,
}
#: by the whole object
_OBJECTS: Mapping[str, Callable[[Object], Object]] = {
    "Job": with_job_defaults,
    "RoleBinding": with_groups,
    "ClusterRoleBinding": with_groups,
    "PriorityClass": with_class_defaults,
}
_STATUSES: Mapping[str, Object] = {
    "Namespace": {"phase": "Active"},
    "PersistentVolume": {"phase": "Pending"},
    "PersistentVolumeClaim": {"phase": "Pending"},
}
