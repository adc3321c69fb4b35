"""Conversion between the two versions of Events and autoscalers, one of which is stored.

Events are stored as core/v1, autoscalers as autoscaling/v2. The names of Event fields are those of
k8s.io/kubernetes/pkg/apis/events/v1. autoscaling/v1 has one metric, CPU utilisation. All else moves
to annotations of its form and back, as in k8s.io/kubernetes/pkg/apis/autoscaling/v1, so that a
change of one form loses nothing of the other. (The real server encodes metrics there as v1; here
they are v2's.)
"""

from typing import Any

import orjson

from kubedsm_lab.emulator.api.resources import (
    EVENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    NEW_EVENTS,
    OLD_AUTOSCALERS,
    Object,
    Resource,
)

#: events.k8s.io/v1 name → core/v1 name, in the order of the newer form
_NAMES = {
    "eventTime": "eventTime",
    "series": "series",
    "reportingController": "reportingComponent",
    "reportingInstance": "reportingInstance",
    "action": "action",
    "reason": "reason",
    "regarding": "involvedObject",
    "related": "related",
    "note": "message",
    "type": "type",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
#: defaults of the stored form
_EMPTY: Object = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
#: fields that the newer form omits when empty
_OMITTED_WHEN_EMPTY = frozenset({"reportingController", "reportingInstance"})


def _store_event(resource: Resource, event: Object) -> Object:
    """Convert to core/v1, with all of its mandatory fields."""
    if resource.alias_of:
        renamed = {core: event[new] for new, core in _NAMES.items() if new in event}
        event = {"metadata": event.get("metadata", {}), **renamed}
    return {
        **event,
        **{key: value for key, value in _EMPTY.items() if event.get(key) is None},
        "kind": EVENTS.kind,
        "apiVersion": EVENTS.api_version,
    }


def _convert_event(obj: Object) -> Object:
    """Convert to events.k8s.io/v1."""
    renamed = {
        new: obj[core]
        for new, core in _NAMES.items()
        if core in obj and (obj[core] or new not in _OMITTED_WHEN_EMPTY)
    }
    return {
        "kind": NEW_EVENTS.kind,
        "apiVersion": NEW_EVENTS.api_version,
        "metadata": obj["metadata"],
        **renamed,
    }


_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _BEHAVIOR = f"{_PREFIX}metrics", f"{_PREFIX}behavior"
_CONDITIONS, _CURRENT = f"{_PREFIX}conditions", f"{_PREFIX}current-metrics"
_PERCENT = "targetCPUUtilizationPercentage"


def _store_autoscaler(autoscaler: Object) -> Object:
    """Convert v1 to v2."""
    metadata = autoscaler.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    spec = autoscaler.get("spec") or {}
    kept = {key: value for key, value in spec.items() if key != _PERCENT}
    metrics = _read(annotations.get(_METRICS), list) or []
    percent = spec.get(_PERCENT)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        cpu = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        metrics = [cpu, *metrics]
    behavior = _read(annotations.get(_BEHAVIOR), dict)
    rest = {key: value for key, value in annotations.items() if not key.startswith(_PREFIX)}
    return {
        **autoscaler,
        "kind": HORIZONTAL_POD_AUTOSCALERS.kind,
        "apiVersion": HORIZONTAL_POD_AUTOSCALERS.api_version,
        "metadata": {key: v for key, v in metadata.items() if key != "annotations"}
        | ({"annotations": rest} if rest else {}),
        "spec": kept
        | ({"metrics": metrics} if metrics else {})
        | ({"behavior": behavior} if behavior else {}),
    }


def _convert_autoscaler(autoscaler: Object) -> Object:
    """Convert v2 to v1."""
    metadata, spec = autoscaler["metadata"], autoscaler["spec"]
    status = autoscaler.get("status") or {}
    metrics = spec.get("metrics") or []
    cpu = next((metric for metric in metrics if _percent_of(metric) is not None), None)
    others = [metric for metric in metrics if metric is not cpu]
    extra = {
        _METRICS: others,
        _BEHAVIOR: spec.get("behavior"),
        _CONDITIONS: status.get("conditions"),
        _CURRENT: status.get("currentMetrics"),
    }
    annotations = (metadata.get("annotations") or {}) | {
        key: orjson.dumps(value).decode() for key, value in extra.items() if value
    }
    shown = {key: value for key, value in spec.items() if key not in ("metrics", "behavior")}
    counts = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
    return {
        "kind": OLD_AUTOSCALERS.kind,
        "apiVersion": OLD_AUTOSCALERS.api_version,
        "metadata": metadata | ({"annotations": annotations} if annotations else {}),
        "spec": shown if cpu is None else shown | {_PERCENT: _percent_of(cpu)},
        "status": {"currentReplicas": 0, "desiredReplicas": 0}
        | {field: status[field] for field in counts if field in status},
    }


def _percent_of(metric: Object) -> int | None:
    """Return the utilisation target of the metric that v1 has a field for."""
    resource = metric.get("resource") or {}
    target = resource.get("target")
    percent: int | None = target.get("averageUtilization") if isinstance(target, dict) else None
    return percent if resource.get("name") == "cpu" else None


def _read(text: str | None, kind: type) -> Any:
    """Decode an annotation; None for an invalid one."""
    try:
        value = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, kind) else None


def to_stored_form(resource: Resource, obj: Object) -> Object:
    """Convert from the version of the request's resource to the stored one."""
    if resource.kind == "Event":
        return _store_event(resource, obj)
    return _store_autoscaler(obj) if resource.alias_of else obj


def to_requested_form(resource: Resource, obj: Object) -> Object:
    """Convert from the stored version to that of the request's resource."""
    if not resource.alias_of:
        return obj
    if resource.kind == "Event":
        return _convert_event(obj)
    return _convert_autoscaler(obj)
