"""What the API server fills into a pod, or a pod template, that leaves it open.

Source: k8s.io/kubernetes/pkg/apis/core/v1/defaults.go and the admission plugins ServiceAccount and
DefaultTolerationSeconds. Everything here returns new objects. Priorities are in `priorities`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.api.statuses import pod_condition
from kubedsm_lab.emulator.api.values import thousandths

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
#: 0644
_FILE_MODE = 420
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a mount path
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"


def with_template_defaults(spec: Object) -> Object:
    """A pod spec with the defaults that a template gets too."""
    host_network = bool(spec.get("hostNetwork"))
    filled: Object = {
        **spec,
        **({"volumes": [_volume(v) for v in spec["volumes"]]} if spec.get("volumes") else {}),
        "containers": [_container(c, host_network) for c in spec.get("containers") or ()],
        "restartPolicy": spec.get("restartPolicy") or "Always",
        "terminationGracePeriodSeconds": or_else(spec.get("terminationGracePeriodSeconds"), 30),
        "dnsPolicy": spec.get("dnsPolicy") or "ClusterFirst",
        "securityContext": spec.get("securityContext") or {},
        "schedulerName": spec.get("schedulerName") or "default-scheduler",
    }
    if spec.get("initContainers"):
        filled["initContainers"] = [_container(c, host_network) for c in spec["initContainers"]]
    if spec.get("serviceAccountName"):
        filled["serviceAccount"] = spec["serviceAccountName"]
    return filled


def template_of(spec: Object) -> Object:
    """The pod template of a workload's spec, filled in."""
    template = spec.get("template") or {}
    return {**template, "spec": with_template_defaults(template.get("spec") or {})}


def with_pod_defaults(spec: Object, suffix: str) -> Object:
    """A new pod's spec as it is stored, but for its priority; `suffix` names its token volume."""
    filled = with_template_defaults(spec)
    account = filled.get("serviceAccountName") or "default"
    filled |= {
        "serviceAccountName": account,
        "serviceAccount": account,
        "tolerations": _tolerations(filled.get("tolerations") or ()),
        "enableServiceLinks": or_else(spec.get("enableServiceLinks"), True),
    }
    for key in ("containers", "initContainers"):
        if filled.get(key):
            filled[key] = [_with_requests(container) for container in filled[key]]
    if spec.get("automountServiceAccountToken") is not False:
        _mount_token(filled, f"kube-api-access-{suffix}")
    return filled


def or_else(value: Any, default: Any) -> Any:
    """The value; the default in place of one that is not given, and of no other."""
    return default if value is None else value


def qos_class(spec: Object) -> str:
    """Guaranteed: cpu and memory limits everywhere, requests equal. BestEffort: nothing at all."""
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


def new_status(spec: Object) -> Object:
    """A pod's status before a scheduler or kubelet has looked at it."""
    status: Object = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            pod_condition(
                "PodScheduled",
                "False",
                None,
                reason="SchedulingGated",
                message="Scheduling is blocked due to non-empty scheduling gates",
            )
        ]
    status["qosClass"] = qos_class(spec)
    return status


def _container(container: Object, host_network: bool) -> Object:
    image = container.get("image") or ""
    filled: Object = {
        **container,
        "resources": container.get("resources") or {},
        "terminationMessagePath": container.get("terminationMessagePath") or "/dev/termination-log",
        "terminationMessagePolicy": container.get("terminationMessagePolicy") or "File",
        "imagePullPolicy": container.get("imagePullPolicy") or _pull_policy(image),
    }
    if container.get("ports"):
        filled["ports"] = [_port(port, host_network) for port in container["ports"]]
    for name in _PROBES:
        if container.get(name):
            filled[name] = _probe(container[name])
    if container.get("env"):
        filled["env"] = [_variable(variable) for variable in container["env"]]
    return filled


def _pull_policy(image: str) -> str:
    name, digest = image.rpartition("/")[2], "@" in image
    latest = not digest and (":" not in name or name.endswith(":latest"))
    return "Always" if latest else "IfNotPresent"


def _port(port: Object, host_network: bool) -> Object:
    filled = {**port, "protocol": port.get("protocol") or "TCP"}
    if host_network and not port.get("hostPort"):
        filled["hostPort"] = port.get("containerPort")
    return filled


def _probe(probe: Object) -> Object:
    filled = {**_PROBE, **{key: value for key, value in probe.items() if value is not None}}
    if isinstance(probe.get("httpGet"), dict):
        filled["httpGet"] = {"path": "/", "scheme": "HTTP", **probe["httpGet"]}
    return filled


def _variable(variable: Object) -> Object:
    source = variable.get("valueFrom")
    if not source or not isinstance(source.get("fieldRef"), dict):
        return variable
    field = {"apiVersion": "v1", **source["fieldRef"]}
    return {**variable, "valueFrom": {**source, "fieldRef": field}}


def _volume(volume: Object) -> Object:
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        if isinstance(volume.get(kind), dict):
            return {**volume, kind: {"defaultMode": _FILE_MODE, **volume[kind]}}
    return volume if len(volume) > 1 else {**volume, "emptyDir": {}}


def _with_requests(container: Object) -> Object:
    """A limit is a request too where there is none."""
    resources = container["resources"]
    limits = resources.get("limits")
    if not limits:
        return container
    requests = {**limits, **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _tolerations(given: Iterable[Object]) -> list[Object]:
    tolerations = list(given)
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(_tolerates_no_execute(toleration, key) for toleration in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )
    return tolerations


def _tolerates_no_execute(toleration: Mapping[str, Any], key: str) -> bool:
    return (toleration.get("key") or key) == key and (
        toleration.get("effect") or "NoExecute"
    ) == "NoExecute"


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
