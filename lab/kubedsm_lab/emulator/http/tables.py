"""Tables that `kubectl get` asks for: columns of each kind, and one row per object.

Clients ask for a Table in their Accept header, `application/json;as=Table;v=v1;g=meta.k8s.io`.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from kubedsm_lab.emulator.api import resources
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.selectors import label_selector_of
from kubedsm_lab.emulator.api.values import seconds

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


#: below this many seconds: the unit and its letter, and the smaller one shown beside it, if any
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


def human_duration(seconds: float) -> str:
    """Two units while the smaller one still says something, then one (90s, 5m30s, 3h, 2d4h, 1y).

    The steps are those of `duration.HumanDuration` in k8s.io/apimachinery.
    """
    whole = int(seconds)
    if whole < 0:
        # clocks a second apart are no error
        return "<invalid>" if whole < -1 else "0s"
    for limit, (unit, letter), smaller in _STEPS:
        if whole < limit:
            rest = whole % unit // smaller[0] if smaller else 0
            return f"{whole // unit}{letter}" + (f"{rest}{smaller[1]}" if smaller and rest else "")
    return f"{whole // _YEAR}y"


def age(timestamp: str | None, now: float) -> str:
    """The time since an RFC 3339 timestamp; `now` in seconds since the epoch."""
    if not timestamp:
        return "<unknown>"
    return human_duration(now - dt.datetime.fromisoformat(timestamp).timestamp())


NONE = "<none>"
UNKNOWN = "<unknown>"


@attrs.frozen
class Column:
    name: str
    type: Literal["string", "integer", "boolean"] = "string"
    #: shown by `-o wide` only
    wide: bool = attrs.field(default=False, kw_only=True)
    description: str = attrs.field(default="", kw_only=True)


@attrs.frozen
class Printer:
    columns: tuple[Column, ...]
    #: (object, now) → one cell a column; now in seconds since the epoch
    cells: Callable[[Object, float], list[Any]]


NAME = Column("Name", description="Unique within its namespace, and not changeable.")
AGE = Column("Age", description="The time since creationTimestamp.")


def age_of(obj: Object, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def joined(words: Sequence[str], limit: int | None = None) -> str:
    """Comma-separated; beyond `limit` words only how many more there are."""
    if not words:
        return NONE
    if limit is not None and len(words) > limit:
        return ",".join(words[:limit]) + f" + {len(words) - limit} more..."
    return ",".join(words)


def equalities(labels: Mapping[str, str] | None) -> str:
    return joined([f"{key}={value}" for key, value in sorted((labels or {}).items())])


def label_selector(selector: Object | None) -> str:
    """A LabelSelector in the notation of the command line."""
    return str(label_selector_of(selector or {})) or NONE


_COLUMNS = (
    NAME,
    Column("Ready", description="Ready containers / containers."),
    Column("Status", description="The phase, or what keeps the pod from it."),
    Column("Restarts", description="Restarts of its containers, and when the last one was."),
    AGE,
    Column("IP", wide=True, description="The pod's own address."),
    Column("Node", wide=True, description="The node that it is bound to."),
    Column("Nominated Node", wide=True, description="The node that preemption made room on."),
    Column("Readiness Gates", wide=True, description="Readiness gates that are met / all."),
)


def _pod(pod: Object, now: float) -> list[Any]:
    spec, status = pod["spec"], pod.get("status", {})
    statuses = status.get("containerStatuses", [])
    # sidecars (restartable init containers) count as containers, other init containers do not
    sidecars = {
        container["name"]
        for container in spec.get("initContainers", ())
        if container.get("restartPolicy") == "Always"
    }
    sidecar_statuses = [
        container
        for container in status.get("initContainerStatuses", ())
        if container["name"] in sidecars
    ]
    ready = sum(1 for container in [*statuses, *sidecar_statuses] if container.get("ready"))
    containers = len(spec.get("containers", ())) + len(sidecars)
    return [
        pod["metadata"]["name"],
        f"{ready}/{containers}",
        pod_status(pod),
        _restarts([*statuses, *sidecar_statuses], now),
        age_of(pod, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def pod_status(pod: Object) -> str:
    """The one word that `kubectl get pods` shows, by the rules of kube-apiserver's printer.

    The phase, overruled in turn by the status's reason, by what its init containers or containers
    wait for or ended with, and by its deletion.
    """
    status = pod.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions", ())}
    phase = status.get("phase", "")
    word: str = status.get("reason") or phase
    if conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    initializing = _initializing(pod)
    if initializing and conditions.get("Initialized", {}).get("status") != "True":
        word = initializing
    else:
        word = _container_word(status.get("containerStatuses", ()), word)
        running = any(
            container.get("ready") and "running" in container.get("state", {})
            for container in status.get("containerStatuses", ())
        )
        if word == "Completed" and running:
            is_ready = conditions.get("Ready", {}).get("status") == "True"
            word = "Running" if is_ready else "NotReady"
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return word


def _container_word(statuses: Any, word: str) -> str:
    # the first container has the last word
    for container in reversed(statuses):
        state = container.get("state", {})
        if reason := state.get("waiting", {}).get("reason"):
            word = reason
        elif "terminated" in state:
            word = _ended(state["terminated"])
    return word


def _ended(terminated: Object) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(pod: Object) -> str:
    """What the first unfinished init container is doing; empty if all are done."""
    containers = {c["name"]: c for c in pod["spec"].get("initContainers", ())}
    statuses = pod.get("status", {}).get("initContainerStatuses", ())
    for index, container in enumerate(statuses):
        state = container.get("state", {})
        sidecar = containers.get(container["name"], {}).get("restartPolicy") == "Always"
        if state.get("terminated", {}).get("exitCode") == 0 or (
            sidecar and container.get("started")
        ):
            continue
        if "terminated" in state:
            return f"Init:{_ended(state['terminated'])}"
        reason = state.get("waiting", {}).get("reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{len(containers)}"
    return ""


def _restarts(statuses: list[Object], now: float) -> str:
    count = sum(container.get("restartCount", 0) for container in statuses)
    ends = [
        finished
        for container in statuses
        if (finished := container.get("lastState", {}).get("terminated", {}).get("finishedAt"))
    ]
    return f"{count} ({age(max(ends), now)} ago)" if count and ends else str(count)


def _readiness_gates(spec: Object, status: Object) -> str:
    gates = {gate["conditionType"] for gate in spec.get("readinessGates", ())}
    if not gates:
        return NONE
    true = {c["type"] for c in status.get("conditions", ()) if c["status"] == "True"}
    return f"{len(gates & true)}/{len(gates)}"


POD_PRINTER = Printer(_COLUMNS, _pod)


_CONTAINERS = Column("Containers", wide=True, description="Names in the pod template.")
_IMAGES = Column("Images", wide=True, description="Images in the pod template.")
_SELECTOR = Column("Selector", wide=True, description="The pods that it owns.")


def _template(obj: Object) -> list[str]:
    containers = obj["spec"].get("template", {}).get("spec", {}).get("containers", ())
    return [
        joined([container["name"] for container in containers]),
        joined([container.get("image", "") for container in containers]),
    ]


def _replicas(obj: Object) -> int:
    return int(obj["spec"].get("replicas", 1))


def _deployment(deployment: Object, now: float) -> list[Any]:
    status = deployment.get("status", {})
    return [
        deployment["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{_replicas(deployment)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(deployment, now),
        *_template(deployment),
        label_selector(deployment["spec"].get("selector")),
    ]


def _replica_set(replica_set: Object, now: float) -> list[Any]:
    status = replica_set.get("status", {})
    return [
        replica_set["metadata"]["name"],
        _replicas(replica_set),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(replica_set, now),
        *_template(replica_set),
        label_selector(replica_set["spec"].get("selector")),
    ]


def _stateful_set(stateful_set: Object, now: float) -> list[Any]:
    ready = stateful_set.get("status", {}).get("readyReplicas", 0)
    return [
        stateful_set["metadata"]["name"],
        f"{ready}/{_replicas(stateful_set)}",
        age_of(stateful_set, now),
        *_template(stateful_set),
    ]


def _autoscaler(autoscaler: Object, now: float) -> list[Any]:
    spec, status = autoscaler["spec"], autoscaler.get("status", {})
    reference = spec["scaleTargetRef"]
    return [
        autoscaler["metadata"]["name"],
        f"{reference['kind']}/{reference['name']}",
        _targets(spec.get("metrics") or (), status.get("currentMetrics") or ()),
        str(spec.get("minReplicas", "<unset>")),
        spec["maxReplicas"],
        status.get("currentReplicas", 0),
        age_of(autoscaler, now),
    ]


def _job(job: Object, now: float) -> list[Any]:
    spec, status = job["spec"], job.get("status") or {}
    done, wanted = status.get("succeeded", 0), spec.get("completions")
    if wanted is None:
        at_once = spec.get("parallelism", 1)
        completions = f"{done}/1 of {at_once}" if at_once > 1 else f"{done}/1"
    else:
        completions = f"{done}/{wanted}"
    begun, ended = status.get("startTime"), status.get("completionTime")
    return [
        job["metadata"]["name"],
        _job_state(job),
        completions,
        age(begun, seconds(ended) if ended else now) if begun else "",
        age_of(job, now),
        *_template(job),
        label_selector(spec.get("selector")),
    ]


def _job_state(job: Object) -> str:
    status = job.get("status") or {}
    known = {c["type"] for c in status.get("conditions") or () if c["status"] == "True"}
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    for kind in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in known:
            return kind
    return "Running"


#: the part of a metric that holds its target, by the metric's type
_METRIC_FIELDS = {
    "Pods": "pods",
    "Object": "object",
    "External": "external",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_TARGETS_SHOWN = 2


def _targets(metrics: Any, current: Any) -> str:
    """current/target of each metric; what was not measured is <unknown>."""
    words = []
    for index, metric in enumerate(metrics):
        field = _METRIC_FIELDS[metric["type"]]
        spec = metric[field]
        measured = current[index].get(field, {}) if index < len(current) else {}
        name = f"{spec['name']}: " if "name" in spec else ""
        words.append(f"{name}{_metric_target(measured.get('current', {}), spec['target'])}")
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


def _disruption_budget(budget: Object, now: float) -> list[Any]:
    return [
        budget["metadata"]["name"],
        str(budget["spec"].get("minAvailable", "N/A")),
        str(budget["spec"].get("maxUnavailable", "N/A")),
        budget.get("status", {}).get("disruptionsAllowed", 0),
        age_of(budget, now),
    ]


DEPLOYMENT_PRINTER = Printer(
    (
        NAME, Column("Ready", description="Ready replicas / replicas wanted."),
        Column("Up-to-date", "integer", description="Replicas of the newest template."),
        Column("Available", "integer", description="Ready for at least minReadySeconds."), AGE,
        _CONTAINERS, _IMAGES, _SELECTOR,
    ),
    _deployment,
)  # fmt: skip
REPLICA_SET_PRINTER = Printer(
    (
        NAME, Column("Desired", "integer", description="Replicas wanted."),
        Column("Current", "integer", description="Replicas that exist."),
        Column("Ready", "integer", description="Replicas that are ready."), AGE,
        _CONTAINERS, _IMAGES, _SELECTOR,
    ),
    _replica_set,
)  # fmt: skip
STATEFUL_SET_PRINTER = Printer(
    (
        NAME, Column("Ready", description="Ready replicas / replicas wanted."), AGE,
        _CONTAINERS, _IMAGES,
    ),
    _stateful_set,
)  # fmt: skip
AUTOSCALER_PRINTER = Printer(
    (
        NAME, Column("Reference", description="What it scales."),
        Column("Targets", description="Each metric as measured / as wanted."),
        Column("MinPods", description="The fewest replicas it will set."),
        Column("MaxPods", "integer", description="The most replicas it will set."),
        Column("Replicas", "integer", description="Replicas it last saw."), AGE,
    ),
    _autoscaler,
)  # fmt: skip
JOB_PRINTER = Printer(
    (
        NAME, Column("Status", description="What has become of it."),
        Column("Completions", description="Pods that succeeded / that are to."),
        Column("Duration", description="From its start to its end."), AGE,
        _CONTAINERS, _IMAGES, _SELECTOR,
    ),
    _job,
)  # fmt: skip
DISRUPTION_BUDGET_PRINTER = Printer(
    (
        NAME, Column("Min Available", description="An eviction must leave as many."),
        Column("Max Unavailable", description="An eviction may leave as many unavailable."),
        Column("Allowed Disruptions", "integer", description="Evictions it would allow now."), AGE,
    ),
    _disruption_budget,
)  # fmt: skip


_ENDPOINTS_SHOWN = 3


def printer_of(resource: Resource) -> Printer:
    """The resource's own columns, or name and age."""
    return _PRINTERS.get(resource, _PLAIN)


def _plain(obj: Object, now: float) -> list[Any]:
    return [obj["metadata"]["name"], age_of(obj, now)]


def _node(node: Object, now: float) -> list[Any]:
    status = node.get("status", {})
    info = status.get("nodeInfo", {})
    addresses = {a["type"]: a["address"] for a in reversed(status.get("addresses", ()))}
    return [
        node["metadata"]["name"],
        _node_status(node),
        _node_roles(node["metadata"].get("labels", {})),
        age_of(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(node: Object) -> str:
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions", ())}
    words = {"True": "Ready", None: "Unknown"}
    word = words.get(conditions.get("Ready"), "NotReady")
    return f"{word},SchedulingDisabled" if node["spec"].get("unschedulable") else word


def _node_roles(labels: dict[str, str]) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    if old_form := labels.get("kubernetes.io/role"):
        roles.add(old_form)
    return joined(sorted(role for role in roles if role))


def _service(service: Object, now: float) -> list[Any]:
    spec = service["spec"]
    return [
        service["metadata"]["name"],
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or NONE,
        _external_addresses(service),
        joined([_port(port) for port in spec.get("ports", ())]),
        age_of(service, now),
        equalities(spec.get("selector")),
    ]


def _external_addresses(service: Object) -> str:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", NONE))
    if spec.get("type") != "LoadBalancer":
        return joined(spec.get("externalIPs", []))
    ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    addresses = [i.get("ip") or i.get("hostname", "") for i in ingress]
    addresses += spec.get("externalIPs", [])
    return joined(addresses) if addresses else "<pending>"


def _port(port: Object) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


def _endpoints(endpoints: Object, now: float) -> list[Any]:
    shown = [
        f"{address['ip']}:{port['port']}"
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports", ())
        for address in subset.get("addresses", ())
    ]
    name = endpoints["metadata"]["name"]
    return [name, joined(shown, _ENDPOINTS_SHOWN), age_of(endpoints, now)]


def _event(event: Object, now: float) -> list[Any]:
    """A row of either API's events; events.k8s.io calls the same fields by other names."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingController") or ""
    series = event.get("series") or {}
    event_time = event.get("eventTime")
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event_time
    last = event.get("lastTimestamp") or event.get("deprecatedLastTimestamp") or first
    return [
        age(series.get("lastObservedTime") or last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        ", ".join(filter(None, (component, source.get("host")))),
        (event.get("message") or event.get("note") or "").strip(),
        age(first, now),
        series.get("count") or event.get("count") or event.get("deprecatedCount") or 1,
        event["metadata"]["name"],
    ]


def _config_map(config_map: Object, now: float) -> list[Any]:
    entries = len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ())
    return [config_map["metadata"]["name"], entries, age_of(config_map, now)]


def _lease(lease: Object, now: float) -> list[Any]:
    holder = lease.get("spec", {}).get("holderIdentity", "")
    return [lease["metadata"]["name"], holder, age_of(lease, now)]


def _priority_class(priority_class: Object, now: float) -> list[Any]:
    return [
        priority_class["metadata"]["name"],
        priority_class.get("value", 0),
        priority_class.get("globalDefault", False),
        age_of(priority_class, now),
        priority_class.get("preemptionPolicy", ""),
    ]


def _namespace(namespace: Object, now: float) -> list[Any]:
    phase = namespace.get("status", {}).get("phase", "")
    return [namespace["metadata"]["name"], phase, age_of(namespace, now)]


def _quota(quota: Object, now: float) -> list[Any]:
    hard = quota.get("status", {}).get("hard", {})
    used = quota.get("status", {}).get("used", {})
    shown = {key: f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard)}
    return [
        quota["metadata"]["name"],
        ", ".join(text for key, text in shown.items() if not key.startswith("limits.")),
        ", ".join(text for key, text in shown.items() if key.startswith("limits.")),
        age_of(quota, now),
    ]


def _role(role: Object, now: float) -> list[Any]:  # noqa: ARG001 - the table's
    return [role["metadata"]["name"], role["metadata"].get("creationTimestamp", UNKNOWN)]


def _role_binding(binding: Object, now: float) -> list[Any]:
    reference, subjects = binding.get("roleRef") or {}, binding.get("subjects") or ()
    of = {kind: [s["name"] for s in subjects if s["kind"] == kind] for kind in ("User", "Group")}
    accounts = [
        f"{s.get('namespace', '')}/{s['name']}" for s in subjects if s["kind"] == "ServiceAccount"
    ]
    return [
        binding["metadata"]["name"],
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        age_of(binding, now),
        ", ".join(of["User"]),
        ", ".join(of["Group"]),
        ", ".join(accounts),
    ]


_PLAIN = Printer((NAME, AGE), _plain)
_EVENT_PRINTER = Printer(
    (
        Column("Last Seen", description="Since it was last observed."), Column("Type"),
        Column("Reason"), Column("Object", description="What it is about."),
        Column("Subobject", wide=True), Column("Source", wide=True, description="By what."),
        Column("Message"), Column("First Seen", wide=True), Column("Count", "integer", wide=True),
        Column("Name", wide=True),
    ),
    _event,
)  # fmt: skip
_ROLE_PRINTER = Printer((NAME, Column("Created At")), _role)
_ROLE_BINDING_PRINTER = Printer(
    (
        NAME, Column("Role"), AGE, Column("Users", wide=True), Column("Groups", wide=True),
        Column("ServiceAccounts", wide=True),
    ),
    _role_binding,
)  # fmt: skip

_PRINTERS = {
    resources.ROLES: _ROLE_PRINTER,
    resources.CLUSTER_ROLES: _ROLE_PRINTER,
    resources.ROLE_BINDINGS: _ROLE_BINDING_PRINTER,
    resources.CLUSTER_ROLE_BINDINGS: _ROLE_BINDING_PRINTER,
    resources.PODS: POD_PRINTER,
    resources.DEPLOYMENTS: DEPLOYMENT_PRINTER,
    resources.REPLICA_SETS: REPLICA_SET_PRINTER,
    resources.STATEFUL_SETS: STATEFUL_SET_PRINTER,
    resources.HORIZONTAL_POD_AUTOSCALERS: AUTOSCALER_PRINTER,
    resources.OLD_AUTOSCALERS: AUTOSCALER_PRINTER,
    resources.JOBS: JOB_PRINTER,
    resources.POD_DISRUPTION_BUDGETS: DISRUPTION_BUDGET_PRINTER,
    resources.EVENTS: _EVENT_PRINTER,
    resources.NEW_EVENTS: _EVENT_PRINTER,
    resources.NODES: Printer(
        (
            NAME, Column("Status", description="Ready or not, and whether it takes new pods."),
            Column("Roles"), AGE, Column("Version", description="The kubelet's."),
            Column("Internal-IP", wide=True), Column("External-IP", wide=True),
            Column("OS-Image", wide=True), Column("Kernel-Version", wide=True),
            Column("Container-Runtime", wide=True),
        ),
        _node,
    ),
    resources.SERVICES: Printer(
        (
            NAME, Column("Type"), Column("Cluster-IP"), Column("External-IP"), Column("Port(s)"),
            AGE, Column("Selector", wide=True, description="The pods that it routes to."),
        ),
        _service,
    ),
    resources.ENDPOINTS: Printer((NAME, Column("Endpoints"), AGE), _endpoints),
    resources.CONFIGMAPS: Printer(
        (NAME, Column("Data", description="How many entries it has."), AGE), _config_map
    ),
    resources.LEASES: Printer((NAME, Column("Holder"), AGE), _lease),
    resources.PRIORITY_CLASSES: Printer(
        (
            NAME, Column("Value", "integer", description="The priority of its pods."),
            Column("Global-Default", "boolean", description="That of pods without a class."),
            AGE, Column("PreemptionPolicy", description="Whether its pods may take others' room."),
        ),
        _priority_class,
    ),
    resources.NAMESPACES: Printer((NAME, Column("Status"), AGE), _namespace),
    resources.RESOURCE_QUOTAS: Printer(
        (NAME, Column("Request"), Column("Limit"), AGE), _quota
    ),
}  # fmt: skip


#: what comes with a row: the object's metadata, the whole object, or nothing
Include = Literal["Metadata", "Object", "None"]

_META = "meta.k8s.io/v1"


def as_table(
    resource: Resource,
    objects: Iterable[Object],
    list_metadata: Object,
    *,
    now: float,
    include: Include = "Metadata",
) -> Object:
    """A Table of the objects.

    `list_metadata` is the list's (its resourceVersion, continue and remainingItemCount), or empty
    in an answer that is one object. `now`, in seconds since the epoch, is what ages count to.
    """
    printer = printer_of(resource)
    return {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": list_metadata,
        "columnDefinitions": [_definition(column) for column in printer.columns],
        "rows": [
            {
                "cells": printer.cells(obj, now),
                **_completion(resource, obj),
                **_included(resource, obj, include),
            }
            for obj in objects
        ],
    }


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else "",
        "description": column.description,
        "priority": 1 if column.wide else 0,
    }


def _completion(resource: Resource, obj: Object) -> Object:
    """kubectl may hide rows of completed pods, so those are marked."""
    phase = obj.get("status", {}).get("phase") if resource.kind == "Pod" else None
    if phase not in ("Succeeded", "Failed"):
        return {}
    return {"conditions": [{"type": "Completed", "status": "True", "reason": phase}]}


def _included(resource: Resource, obj: Object, include: Include) -> Object:
    if include == "None":
        return {}
    if include == "Object":
        whole = {"kind": resource.kind, "apiVersion": resource.api_version}
        return {"object": {**whole, **obj}}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": _META}
    return {"object": {**partial, "metadata": obj["metadata"]}}
