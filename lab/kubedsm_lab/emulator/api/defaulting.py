"""Defaults of kube-apiserver for fields of specs, and the initial status of new objects.

Source: defaults.go of each API group, PrepareForCreate of the strategies, and the admission plugins
ServiceAccount and DefaultTolerationSeconds. Priorities of pods and addresses of Services are in
`admission`. All functions return new objects.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.statuses import initial_status, pod_condition
from kubedsm_lab.emulator.api.values import thousandths

RBAC_GROUP = "rbac.authorization.k8s.io"
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
#: classes of every cluster, which cannot be deleted
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
#: file mode 0644
_FILE_MODE = 420
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a mount path
#: taints that a new pod tolerates for 300 s
_NODE_FAILURES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_JOB_LABELS = {
    "uid": ("batch.kubernetes.io/controller-uid", "controller-uid"),
    "name": ("batch.kubernetes.io/job-name", "job-name"),
}


def with_defaults(resource: Resource, obj: Object) -> Object:
    """Return the object with the default values of its kind's fields; idempotent."""
    kind = resource.kind
    if kind in _SPECS:
        return {**obj, "spec": _SPECS[kind](obj.get("spec") or {})}
    return _OBJECTS[kind](obj) if kind in _OBJECTS else obj


def with_initial_status(resource: Resource, obj: Object) -> Object:
    """Return a new object with its kind's initial status; only a Node keeps a submitted one."""
    if "status" not in resource.subresources:
        return obj
    if resource.kind == "Pod":
        return {**obj, "status": _pod_status(obj["spec"])}
    status = _STATUSES.get(resource.kind, {})
    if resource.kind == "Node":
        status = obj.get("status") or {}
        info = {**_NODE_INFO, **(status.get("nodeInfo") or {})}
        capacity = {"allocatable": status["capacity"]} if status.get("capacity") else {}
        status = {**_fill(status, **capacity), "nodeInfo": info}
    return {**obj, "status": initial_status(resource.kind, status)}


def _fill(given: Object, **defaults: Any) -> Object:
    """Return the object with defaults in place of missing fields and empty strings."""
    missing = {name: value for name, value in defaults.items() if given.get(name) in (None, "")}
    return {**given, **missing}


# Workloads, autoscalers and Services.


def _deployment(spec: Object) -> Object:
    limits = {"maxUnavailable": "25%", "maxSurge": "25%"}
    filled = _fill(
        spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy={}
    )
    strategy = _strategy(filled["strategy"], limits)
    return {**filled, "template": _template(spec), "strategy": strategy}


def _strategy(given: Object, rolling: Object) -> Object:
    filled = _fill(given, type="RollingUpdate")
    if filled["type"] == "RollingUpdate":
        filled["rollingUpdate"] = {**rolling, **(given.get("rollingUpdate") or {})}
    return filled


def _stateful_set(spec: Object) -> Object:
    filled = _fill(
        spec,
        replicas=1,
        podManagementPolicy="OrderedReady",
        revisionHistoryLimit=10,
        updateStrategy={},
        persistentVolumeClaimRetentionPolicy={},
    )
    retention = "persistentVolumeClaimRetentionPolicy"
    return {
        **filled,
        "template": _template(spec),
        "updateStrategy": _strategy(filled["updateStrategy"], {"partition": 0}),
        retention: {"whenDeleted": "Retain", "whenScaled": "Retain", **filled[retention]},
    }


def _job(job: Object) -> Object:
    """Give the Job a selector of its own pods, and its template the labels for it."""
    given = job.get("spec") or {}
    single = given.get("completions") is None and given.get("parallelism") is None
    spec = _fill(
        given,
        **({"completions": 1} if single else {}),
        parallelism=1,
        backoffLimit=6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="TerminatingOrFailed",
        manualSelector=False,
    )
    spec["template"] = template = _template(spec)
    if not spec["manualSelector"]:
        del spec["manualSelector"]
        own = {
            label: job["metadata"].get(field, "")
            for field, labels in _JOB_LABELS.items()
            for label in labels
        }
        metadata = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), **own}
        spec["template"] = {**template, "metadata": {**metadata, "labels": labels}}
        unique = _JOB_LABELS["uid"][0]
        spec["selector"] = {"matchLabels": {unique: own[unique]}}
    return {**job, "spec": spec}


def _cron_job(spec: Object) -> Object:
    filled = _fill(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    job = filled.get("jobTemplate") or {}
    given = job.get("spec") or {}
    filled["jobTemplate"] = {**job, "spec": {**given, "template": _template(given)}}
    return filled


def _autoscaler(spec: Object) -> Object:
    filled = _fill(spec, minReplicas=1)
    filled["metrics"] = spec.get("metrics") or [_CPU_AT_80_PERCENT]
    behavior = spec.get("behavior")
    if behavior is not None:
        filled["behavior"] = {
            "scaleUp": {**SCALE_UP, **(behavior.get("scaleUp") or {})},
            "scaleDown": {**SCALE_DOWN, **(behavior.get("scaleDown") or {})},
        }
    return filled


def _service(spec: Object) -> Object:
    filled = _fill(spec, type="ClusterIP", sessionAffinity="None")
    if spec.get("ports"):
        filled["ports"] = [
            {
                **_fill(port, protocol="TCP"),
                "targetPort": port.get("targetPort") or port.get("port"),
            }
            for port in spec["ports"]
        ]
    return filled


def _rbac_binding(binding: Object) -> Object:
    """Fill in the API groups of a role binding's roleRef and subjects."""
    filled = {**binding, "roleRef": {"apiGroup": RBAC_GROUP, **(binding.get("roleRef") or {})}}
    if binding.get("subjects"):
        filled["subjects"] = [
            subject
            if subject.get("kind") == "ServiceAccount"
            else _fill(subject, apiGroup=RBAC_GROUP)
            for subject in binding["subjects"]
        ]
    return filled


# Pods.


def pod_template_spec(spec: Object) -> Object:
    """Return a pod spec with the defaults that also apply to pod templates."""
    host_network = bool(spec.get("hostNetwork"))
    filled = _fill(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    filled["containers"] = [_container(c, host_network) for c in spec.get("containers") or ()]
    if spec.get("initContainers"):
        filled["initContainers"] = [_container(c, host_network) for c in spec["initContainers"]]
    if spec.get("serviceAccountName"):
        filled["serviceAccount"] = spec["serviceAccountName"]
    return filled


def _template(spec: Object) -> Object:
    template = spec.get("template") or {}
    return {**template, "spec": pod_template_spec(template.get("spec") or {})}


def new_pod_spec(spec: Object, suffix: str) -> Object:
    """Return the spec of a new pod, except its priority; `suffix` ends its token volume's name."""
    filled = _fill(pod_template_spec(spec), serviceAccountName="default", enableServiceLinks=True)
    filled["serviceAccount"] = filled["serviceAccountName"]
    filled["tolerations"] = add_tolerations(filled.get("tolerations") or [])
    for key in ("containers", "initContainers"):
        if filled.get(key):
            filled[key] = [_with_requests(container) for container in filled[key]]
    if spec.get("automountServiceAccountToken") is not False:
        _mount_token(filled, f"kube-api-access-{suffix}")
    return filled


def qos_class(spec: Object) -> str:
    """Return the pod's QoS class: Guaranteed, Burstable or BestEffort."""
    anything = False
    guaranteed = True
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            limit = thousandths(limits.get(name, 0))
            request = thousandths(requests.get(name, limit and limits[name]))
            anything = anything or request > 0 or limit > 0
            guaranteed = guaranteed and limit > 0 and request == limit
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _pod_status(spec: Object) -> Object:
    status: Object = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        why = "Scheduling is blocked due to non-empty scheduling gates"
        reason = {"reason": "SchedulingGated", "message": why}
        status["conditions"] = [pod_condition("PodScheduled", "False", None, **reason)]
    status["qosClass"] = qos_class(spec)
    return status


def _container(container: Object, host_network: bool) -> Object:
    filled = _fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy=_pull_policy(container.get("image") or ""),
    )
    if container.get("ports"):
        filled["ports"] = [_port(port, host_network) for port in container["ports"]]
    return filled


def _pull_policy(image: str) -> str:
    name, digest = image.rpartition("/")[2], "@" in image
    latest = not digest and (":" not in name or name.endswith(":latest"))
    return "Always" if latest else "IfNotPresent"


def _port(port: Object, host_network: bool) -> Object:
    filled = _fill(port, protocol="TCP")
    if host_network and not port.get("hostPort"):
        filled["hostPort"] = port.get("containerPort")
    return filled


def _with_requests(container: Object) -> Object:
    """Return the container with missing resource requests set to its limits."""
    resources = container["resources"]
    if not resources.get("limits"):
        return container
    requests = {**resources["limits"], **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def add_tolerations(given: list[Object]) -> list[Object]:
    """Return tolerations of a pod with those of failed nodes, as the admission plugin
    DefaultTolerationSeconds does for new and changed pods.
    """

    def is_tolerated(key: str) -> bool:
        return any(
            (toleration.get("key") or key) == key
            and (toleration.get("effect") or "NoExecute") == "NoExecute"
            for toleration in given
        )

    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in _NODE_FAILURES
        if not is_tolerated(key)
    ]
    return [*given, *added]


def _mount_token(spec: Object, volume: str) -> None:
    mount = {"name": volume, "readOnly": True, "mountPath": _TOKEN_PATH}
    for key in ("containers", "initContainers"):
        if not spec.get(key):
            continue
        spec[key] = [
            container
            if any(m.get("mountPath") == _TOKEN_PATH for m in container.get("volumeMounts") or ())
            else {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), mount]}
            for container in spec[key]
        ]
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
    ]
    projected = {"sources": sources, "defaultMode": _FILE_MODE}
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": volume, "projected": projected}]


#: defaults of the spec by kind; those without any get a spec, at least
_SPECS: Mapping[str, Callable[[Object], Object]] = {
    "Pod": pod_template_spec,
    "Deployment": _deployment,
    "ReplicaSet": lambda spec: {**_fill(spec, replicas=1), "template": _template(spec)},
    "StatefulSet": _stateful_set,
    "CronJob": _cron_job,
    "HorizontalPodAutoscaler": _autoscaler,
    "Service": _service,
    "Namespace": lambda spec: _fill(spec, finalizers=["kubernetes"]),
    "PersistentVolume": lambda spec: _fill(
        spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem"
    ),
    "PersistentVolumeClaim": lambda spec: _fill(spec, volumeMode="Filesystem"),
    **dict.fromkeys(("Node", "PodDisruptionBudget", "ResourceQuota", "Lease"), _fill),
}
#: defaults of the whole object by kind
_OBJECTS: Mapping[str, Callable[[Object], Object]] = {
    "Job": _job,
    "RoleBinding": _rbac_binding,
    "ClusterRoleBinding": _rbac_binding,
    "StorageClass": lambda given: _fill(
        given, reclaimPolicy="Delete", volumeBindingMode="Immediate"
    ),
    "PriorityClass": lambda given: _fill(given, value=0, preemptionPolicy=PREEMPTION_POLICIES[0]),
}
_STATUSES: Mapping[str, Object] = {
    "Namespace": {"phase": "Active"},
    "PersistentVolume": {"phase": "Pending"},
    "PersistentVolumeClaim": {"phase": "Pending"},
}
