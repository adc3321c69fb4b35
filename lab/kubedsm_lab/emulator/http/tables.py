"""Tables for `kubectl get`: columns by kind, one row per object.

Clients ask for a Table in their Accept header, `application/json;as=Table;v=v1;g=meta.k8s.io`.
Columns and cells follow k8s.io/kubernetes/pkg/printers/internalversion.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from kubedsm_lab.emulator.api.admission import DEFAULT_CLASS
from kubedsm_lab.emulator.api.forms import to_requested_form
from kubedsm_lab.emulator.api.object_state import annotations_of
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.selectors import label_selector_of
from kubedsm_lab.emulator.api.values import seconds

#: content of a row in addition to its cells: metadata of the object, the whole object, or nothing
Include = Literal["Metadata", "Object", "None"]
#: (object, now) → cell content; now as a Unix timestamp
Cell = Callable[[Object, float], Any]

_META = "meta.k8s.io/v1"
NONE, UNKNOWN = "<none>", "<unknown>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400
#: upper limit in seconds, unit with its letter, and a smaller unit shown after it, if any
_STEPS = (
    (2 * _MINUTE, (1, "s"), None),
    (10 * _MINUTE, (_MINUTE, "m"), (1, "s")),
    (3 * _HOUR, (_MINUTE, "m"), None),
    (8 * _HOUR, (_HOUR, "h"), (_MINUTE, "m")),
    (2 * _DAY, (_HOUR, "h"), None),
    (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
    (2 * _YEAR, (_DAY, "d"), None),
    (8 * _YEAR, (_YEAR, "y"), (_DAY, "d")),
)
_TARGETS_SHOWN = 2


@attrs.frozen
class Column:
    name: str
    cell: Cell
    type: Literal["string", "integer", "boolean"] = "string"
    #: shown by `-o wide` only
    wide: bool = False


def as_table(
    resource: Resource,
    objects: Iterable[Object],
    list_metadata: Object,
    *,
    now: float,
    include: Include = "Metadata",
) -> Object:
    """Return a Table for `kubectl get` with one row per object.

    `list_metadata` has resourceVersion, continue and remainingItemCount of a list; it is empty for
    a single object. Ages count to `now`, a Unix timestamp.
    """
    columns = _COLUMNS.get(resource.kind, (_NAME, _AGE))
    return {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": list_metadata,
        "columnDefinitions": [
            {
                "name": column.name,
                "type": column.type,
                "format": "name" if column.name == "Name" else "",
                "description": "",
                "priority": int(column.wide),
            }
            for column in columns
        ],
        "rows": [
            {
                "cells": [column.cell(obj, now) for column in columns],
                **_select_included(resource, obj, include),
            }
            for obj in objects
        ],
    }


def _select_included(resource: Resource, obj: Object, include: Include) -> Object:
    if include == "None":
        return {}
    if include == "Object":
        return {"object": to_requested_form(resource, obj)}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": _META}
    return {"object": {**partial, "metadata": obj["metadata"]}}


# Parts of cells.


def human_duration(duration: float) -> str:
    """Format seconds as 90s, 5m30s, 3h, 2d4h or 1y, as `duration.HumanDuration` of apimachinery."""
    whole = int(duration)
    if whole < 0:
        # clocks a second apart are no error
        return "<invalid>" if whole < -1 else "0s"
    for limit, (unit, letter), smaller in _STEPS:
        if whole < limit:
            rest = whole % unit // smaller[0] if smaller else 0
            return f"{whole // unit}{letter}" + (f"{rest}{smaller[1]}" if smaller and rest else "")
    return f"{whole // _YEAR}y"


def _age(timestamp: str | None, now: float) -> str:
    return human_duration(now - seconds(timestamp)) if timestamp else UNKNOWN


def _join_values(words: Sequence[str]) -> str:
    return ",".join(words) or NONE


def _format_labels(labels: Mapping[str, str] | None) -> str:
    return _join_values([f"{key}={value}" for key, value in sorted((labels or {}).items())])


def _field(path: str, default: object = "") -> Cell:
    """Return a function that formats a cell of a Table: the field at a path, or a default if
    missing or empty.
    """
    steps = path.split(".")

    def cell(obj: Object, _now: float) -> Any:
        value: Any = obj
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return default if value is None or value == "" else value

    return cell


def _format_reference(reference: Object, case: Callable[[str], str] = str) -> str:
    return f"{case(reference.get('kind', ''))}/{reference.get('name', '')}"


def _ignore_clock(content: Callable[[Object], Any]) -> Cell:
    return lambda obj, _now: content(obj)


# Pods.


def pod_status(pod: Object) -> str:
    """Return a pod's STATUS cell, by the rules of kube-apiserver's printer.

    It is the phase, overruled in turn by the status's reason, by the waiting or terminated state of
    containers, and by a deletion. Emulated kubelets report no state of init containers.
    """
    status = pod.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions", ())}
    phase = status.get("phase", "")
    word: str = status.get("reason") or phase
    if conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    # the first container overrules the others
    for container in reversed(status.get("containerStatuses", ())):
        state = container.get("state", {})
        if reason := state.get("waiting", {}).get("reason"):
            word = reason
        elif terminated := state.get("terminated"):
            word = terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}"
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return word


def _ready_containers(pod: Object) -> str:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    ready = sum(bool(container.get("ready")) for container in statuses)
    return f"{ready}/{len(pod['spec'].get('containers', ()))}"


def _count_restarts(pod: Object, now: float) -> str:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    count = sum(container.get("restartCount", 0) for container in statuses)
    ends = [
        finished
        for container in statuses
        if (finished := container.get("lastState", {}).get("terminated", {}).get("finishedAt"))
    ]
    return f"{count} ({_age(max(ends), now)} ago)" if count and ends else str(count)


def _readiness_gates(pod: Object) -> str:
    gates = {gate["conditionType"] for gate in pod["spec"].get("readinessGates", ())}
    conditions = pod.get("status", {}).get("conditions", ())
    true = {c["type"] for c in conditions if c["status"] == "True"}
    return f"{len(gates & true)}/{len(gates)}" if gates else NONE


# Workloads.


def _ready_replicas(workload: Object) -> str:
    ready = workload.get("status", {}).get("readyReplicas", 0)
    return f"{ready}/{workload['spec'].get('replicas', 1)}"


def _template(field: str) -> Cell:
    """Return a function that formats a cell of a Table: one field of all containers in the pod
    template, comma-separated.
    """

    def cell(obj: Object, _now: float) -> str:
        containers = obj["spec"].get("template", {}).get("spec", {}).get("containers", ())
        return _join_values([container.get(field, "") for container in containers])

    return cell


def _format_selector(obj: Object) -> str:
    return str(label_selector_of(obj["spec"].get("selector") or {})) or NONE


def _since_schedule(cron: Object, now: float) -> str:
    last = (cron.get("status") or {}).get("lastScheduleTime")
    return _age(last, now) if last else NONE


def _count_completions(job: Object) -> str:
    spec, succeeded = job["spec"], (job.get("status") or {}).get("succeeded", 0)
    wanted, parallelism = spec.get("completions"), spec.get("parallelism", 1)
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: float) -> str:
    status = job.get("status") or {}
    started, ended = status.get("startTime"), status.get("completionTime")
    return _age(started, seconds(ended) if ended else now) if started else ""


def _job_status(job: Object) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    true = {c["type"] for c in conditions if c["status"] == "True"}
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    kinds = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((kind for kind in kinds if kind in true), "Running")


def _metric_targets(autoscaler: Object) -> str:
    """Return an autoscaler's TARGETS cell: current/target of each metric, or <unknown>."""
    measured = autoscaler.get("status", {}).get("currentMetrics") or ()
    words = []
    for index, metric in enumerate(autoscaler["spec"].get("metrics") or ()):
        field = metric["type"][0].lower() + metric["type"][1:]
        spec = metric[field]
        found = measured[index].get(field, {}) if index < len(measured) else {}
        name = f"{spec['name']}: " if "name" in spec else ""
        words.append(f"{name}{_metric_target(found.get('current', {}), spec['target'])}")
    if not words:
        return NONE
    more = len(words) - _TARGETS_SHOWN
    return ", ".join(words[:_TARGETS_SHOWN]) + (f" + {more} more..." if more > 0 else "")


def _metric_target(current: Object, target: Object) -> str:
    if target["type"] == "Utilization":
        measured = current.get("averageUtilization")
        shown = UNKNOWN if measured is None else f"{measured}%"
        return f"{shown}/{target['averageUtilization']}%"
    key = "averageValue" if target["type"] == "AverageValue" else "value"
    return f"{current.get(key, UNKNOWN)}/{target[key]}"


# Nodes, Services and the others.


def _node_status(node: Object) -> str:
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions", ())}
    word = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    return f"{word},SchedulingDisabled" if node["spec"].get("unschedulable") else word


def _node_roles(node: Object) -> str:
    labels, prefix = node["metadata"].get("labels", {}), "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    return _join_values(sorted(filter(None, {*roles, labels.get("kubernetes.io/role")})))


def _node_address(kind: str) -> Cell:
    def cell(node: Object, _now: float) -> str:
        addresses = node.get("status", {}).get("addresses", ())
        return next((a["address"] for a in addresses if a["type"] == kind), "") or NONE

    return cell


def _external_addresses(service: Object) -> str:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", NONE))
    # no load balancer is emulated
    addresses = ",".join(spec.get("externalIPs", ()))
    return addresses or ("<pending>" if spec.get("type") == "LoadBalancer" else NONE)


def _ports(service: Object) -> str:
    def port_of(port: Object) -> str:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"

    return _join_values([port_of(port) for port in service["spec"].get("ports", ())])


def _first_seen(event: Object, now: float) -> str:
    return _age(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Object, now: float) -> str:
    last = (event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp")
    return _age(last, now) if last else _first_seen(event, now)


def _event_source(event: Object) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent")
    return ", ".join(filter(None, (component, source.get("host"))))


def _event_object(event: Object) -> str:
    return _format_reference(event.get("involvedObject") or {}, str.lower)


def _event_count(event: Object) -> int:
    series = (event.get("series") or {}).get("count")
    return int(series or event.get("count") or 1)


def _format_modes(modes: Iterable[str] | None) -> str:
    """Return the access modes of a volume as kubectl abbreviates them, such as RWO,RWX."""
    short = [mode.replace("Many", "X") for mode in modes or ()]
    return ",".join("".join(letter for letter in mode if letter.isupper()) for mode in short)


def _bound_claim(volume: Object) -> str:
    reference = volume["spec"].get("claimRef")
    return f"{reference['namespace']}/{reference['name']}" if reference else ""


def _class_name(storage_class: Object) -> str:
    name: str = storage_class["metadata"]["name"]
    default = annotations_of(storage_class).get(DEFAULT_CLASS) == "true"
    return f"{name} (default)" if default else name


_NAME = Column("Name", _field("metadata.name"))
_AGE = Column("Age", lambda obj, now: _age(obj["metadata"].get("creationTimestamp"), now))
_TEMPLATE = (
    Column("Containers", _template("name"), wide=True),
    Column("Images", _template("image"), wide=True),
)
_SELECTOR = Column("Selector", _ignore_clock(_format_selector), wide=True)
#: columns by kind; other kinds have name and age
_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "Pod": (
        _NAME,
        Column("Ready", _ignore_clock(_ready_containers)),
        Column("Status", _ignore_clock(pod_status)),
        Column("Restarts", _count_restarts),
        _AGE,
        Column("IP", _field("status.podIP", NONE), wide=True),
        Column("Node", _field("spec.nodeName", NONE), wide=True),
        Column("Nominated Node", _field("status.nominatedNodeName", NONE), wide=True),
        Column("Readiness Gates", _ignore_clock(_readiness_gates), wide=True),
    ),
    "Deployment": (
        _NAME,
        Column("Ready", _ignore_clock(_ready_replicas)),
        Column("Up-to-date", _field("status.updatedReplicas", 0), "integer"),
        Column("Available", _field("status.availableReplicas", 0), "integer"),
        _AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "ReplicaSet": (
        _NAME,
        Column("Desired", _field("spec.replicas", 1), "integer"),
        Column("Current", _field("status.replicas", 0), "integer"),
        Column("Ready", _field("status.readyReplicas", 0), "integer"),
        _AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "StatefulSet": (_NAME, Column("Ready", _ignore_clock(_ready_replicas)), _AGE, *_TEMPLATE),
    "CronJob": (
        _NAME,
        Column("Schedule", _field("spec.schedule")),
        Column("Suspend", lambda obj, _: str(obj["spec"].get("suspend", False))),
        Column("Active", lambda obj, _: str(len((obj.get("status") or {}).get("active", ())))),
        Column("Last Schedule", _since_schedule),
        _AGE,
    ),
    "Job": (
        _NAME,
        Column("Status", _ignore_clock(_job_status)),
        Column("Completions", _ignore_clock(_count_completions)),
        Column("Duration", _job_duration),
        _AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "HorizontalPodAutoscaler": (
        _NAME,
        Column("Reference", lambda obj, _: _format_reference(obj["spec"]["scaleTargetRef"])),
        Column("Targets", _ignore_clock(_metric_targets)),
        Column("MinPods", lambda obj, _: str(obj["spec"].get("minReplicas", "<unset>"))),
        Column("MaxPods", _field("spec.maxReplicas"), "integer"),
        Column("Replicas", _field("status.currentReplicas", 0), "integer"),
        _AGE,
    ),
    "PodDisruptionBudget": (
        _NAME,
        Column("Min Available", lambda obj, _: str(obj["spec"].get("minAvailable", "N/A"))),
        Column("Max Unavailable", lambda obj, _: str(obj["spec"].get("maxUnavailable", "N/A"))),
        Column("Allowed Disruptions", _field("status.disruptionsAllowed", 0), "integer"),
        _AGE,
    ),
    "Node": (
        _NAME,
        Column("Status", _ignore_clock(_node_status)),
        Column("Roles", _ignore_clock(_node_roles)),
        _AGE,
        Column("Version", _field("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _node_address("InternalIP"), wide=True),
        Column("External-IP", _node_address("ExternalIP"), wide=True),
        Column("OS-Image", _field("status.nodeInfo.osImage", UNKNOWN), wide=True),
        Column("Kernel-Version", _field("status.nodeInfo.kernelVersion", UNKNOWN), wide=True),
        Column(
            "Container-Runtime",
            _field("status.nodeInfo.containerRuntimeVersion", UNKNOWN),
            wide=True,
        ),
    ),
    "Service": (
        _NAME,
        Column("Type", _field("spec.type", "ClusterIP")),
        Column("Cluster-IP", _field("spec.clusterIP", NONE)),
        Column("External-IP", _ignore_clock(_external_addresses)),
        Column("Port(s)", _ignore_clock(_ports)),
        _AGE,
        Column("Selector", lambda obj, _: _format_labels(obj["spec"].get("selector")), wide=True),
    ),
    "Event": (
        Column("Last Seen", _last_seen),
        Column("Type", _field("type")),
        Column("Reason", _field("reason")),
        Column("Object", _ignore_clock(_event_object)),
        Column("Subobject", _field("involvedObject.fieldPath"), wide=True),
        Column("Source", _ignore_clock(_event_source), wide=True),
        Column("Message", lambda obj, _: (obj.get("message") or "").strip()),
        Column("First Seen", _first_seen, wide=True),
        Column("Count", _ignore_clock(_event_count), "integer", wide=True),
        Column("Name", _field("metadata.name"), wide=True),
    ),
    "ConfigMap": (
        _NAME,
        Column("Data", lambda obj, _: sum(len(obj.get(f) or ()) for f in ("data", "binaryData"))),
        _AGE,
    ),
    "Lease": (_NAME, Column("Holder", _field("spec.holderIdentity")), _AGE),
    "PriorityClass": (
        _NAME,
        Column("Value", _field("value", 0), "integer"),
        Column("Global-Default", _field("globalDefault", default=False), "boolean"),
        _AGE,
        Column("PreemptionPolicy", _field("preemptionPolicy")),
    ),
    "Namespace": (_NAME, Column("Status", _field("status.phase")), _AGE),
    "PersistentVolumeClaim": (
        _NAME,
        Column("Status", _field("status.phase")),
        Column("Volume", _field("spec.volumeName")),
        Column("Capacity", _field("status.capacity.storage")),
        Column("Access Modes", lambda obj, _: _format_modes(obj["status"].get("accessModes"))),
        Column("StorageClass", _field("spec.storageClassName")),
        _AGE,
    ),
    "PersistentVolume": (
        _NAME,
        Column("Capacity", _field("spec.capacity.storage")),
        Column("Access Modes", lambda obj, _: _format_modes(obj["spec"].get("accessModes"))),
        Column("Reclaim Policy", _field("spec.persistentVolumeReclaimPolicy")),
        Column("Status", _field("status.phase")),
        Column("Claim", _ignore_clock(_bound_claim)),
        Column("StorageClass", _field("spec.storageClassName")),
        _AGE,
    ),
    "StorageClass": (
        Column("Name", _ignore_clock(_class_name)),
        Column("Provisioner", _field("provisioner")),
        Column("ReclaimPolicy", _field("reclaimPolicy")),
        Column("VolumeBindingMode", _field("volumeBindingMode")),
        _AGE,
    ),
}
