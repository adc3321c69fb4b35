"""Autoscalers have two forms, autoscaling/v1 and v2, of one and the same stored object.

They are stored as v2. v1 knows one metric, the use of CPU; what else there is goes into
annotations of its form, as k8s.io/kubernetes/pkg/apis/autoscaling/v1 does, and comes back from
there, so that a change of the one form loses nothing of the other. (The real server writes metrics
there in a form of their own; here it is v2's.)
"""

from typing import Any

import orjson

from kubedsm_lab.emulator.api.resources import HORIZONTAL_POD_AUTOSCALERS, OLD_AUTOSCALERS, Object

_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _BEHAVIOR = f"{_PREFIX}metrics", f"{_PREFIX}behavior"
_CONDITIONS, _CURRENT = f"{_PREFIX}conditions", f"{_PREFIX}current-metrics"
_PERCENT = "targetCPUUtilizationPercentage"


def stored_form(autoscaler: Object) -> Object:
    """From v1 to v2."""
    metadata = autoscaler.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    spec = autoscaler.get("spec") or {}
    kept = {key: value for key, value in spec.items() if key != _PERCENT}
    metrics = _read(annotations.get(_METRICS), list) or []
    percent = spec.get(_PERCENT)
    if percent is not None:
        metrics = [_cpu(percent), *metrics]
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


def requested_form(autoscaler: Object) -> Object:
    """From v2 to v1."""
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


def _cpu(percent: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _percent_of(metric: Object) -> int | None:
    """Of the metric that v1 has a field for."""
    resource = metric.get("resource") or {}
    target = resource.get("target")
    # Nothing checks what type a target is.
    percent: int | None = target.get("averageUtilization") if isinstance(target, dict) else None
    return percent if resource.get("name") == "cpu" else None


def _read(text: str | None, kind: type) -> Any:
    """What an annotation holds; None of one that anybody has written."""
    try:
        value = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, kind) else None
