"""The rows of what owns, scales and guards pods."""

from typing import Any

from kubedsm_lab.emulator.api.moments import seconds
from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.http.durations import age
from kubedsm_lab.emulator.http.printer import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Printer,
    age_of,
    joined,
    label_selector,
)

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
        words.append(f"{name}{_target(measured.get('current', {}), spec['target'])}")
    if not words:
        return NONE
    more = len(words) - _TARGETS_SHOWN
    return ", ".join(words[:_TARGETS_SHOWN]) + (f" + {more} more..." if more > 0 else "")


def _target(current: Object, target: Object) -> str:
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
