"""What one metric of an autoscaler says: how many pods, or why that cannot be told.

Source: k8s.io/kubernetes/pkg/controller/podautoscaler/replica_calculator.go. A pod's own value is
not known here, only the total offered to a workload, which its pods share.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import attrs
import msgspec

from kubedsm.model.quantities import QuantityError, parse_millis
from kubedsm_lab.emulator.api.resources import Object

#: (namespace, workload, metric) → the workload's total now, or None if there is no such metric
Metrics = Callable[[str, str, str], float | None]

#: of quantities, each a thousand of the one before
_UNITS = ("m", "", "k", "M", "G", "T", "P", "E")
_NO_CUSTOM = (
    "unable to fetch metrics from custom metrics API: "
    "no custom metrics API (custom.metrics.k8s.io) registered"
)
_NO_EXTERNAL = (
    "unable to fetch metrics from external metrics API: "
    "no external metrics API (external.metrics.k8s.io) registered"
)


class MetricUnavailable(Exception):
    """The metric says nothing now. `reason` is the condition's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@attrs.frozen
class Target:
    """The workload that is scaled, as it stands."""

    namespace: str
    name: str
    #: wanted now, reported by its own controller, and pods its selector matches that still run
    replicas: int
    reported: int
    pods: int


@attrs.frozen
class Proposal:
    replicas: int
    #: names the metric in the ScalingActive condition
    description: str
    #: its entry in status.currentMetrics
    status: Object


class _Named(msgspec.Struct):
    name: str


class _Wanted(msgspec.Struct, rename="camel"):
    average_value: str | int | float | None = None
    value: str | int | float | None = None


class _Source(msgspec.Struct, rename="camel"):
    metric: _Named
    target: _Wanted
    described_object: _Named | None = None


def propose(metric: Object, target: Target, metrics: Metrics | None, tolerance: float) -> Proposal:
    """The replicas one entry of `spec.metrics` asks for. Raises MetricUnavailable."""
    kind = metric.get("type")
    if kind == "Pods":
        return _of_pods(metric, target, metrics, tolerance)
    if kind in ("Object", "External"):
        return _of_whole(kind, metric, target, metrics, tolerance)
    raise malformed(f"unknown metric source type {kind!r}")


def _of_pods(metric: Object, target: Target, metrics: Metrics | None, tolerance: float) -> Proposal:
    source = _source(metric, "pods")
    name = source.metric.name
    total = _total(metrics, target.namespace, target.name, name)
    if total is None:
        raise MetricUnavailable(
            "FailedGetPodsMetric", f"unable to get metric {name}: {_reason(metrics, _NO_CUSTOM)}"
        )
    per_pod = positive(source.target.average_value)
    replicas = _per_pod(total, per_pod, target.pods, target.replicas, tolerance)
    current = {"averageValue": quantity(total / max(1, target.pods))}
    status = {"type": "Pods", "pods": {"metric": metric["pods"]["metric"], "current": current}}
    return Proposal(replicas, f"pods metric {name}", status)


def _of_whole(
    kind: str, metric: Object, target: Target, metrics: Metrics | None, tolerance: float
) -> Proposal:
    """A metric of something other than the pods: an Object's or an External one."""
    field = kind.lower()
    source = _source(metric, field)
    name, about = source.metric.name, source.described_object
    total = _total(metrics, target.namespace, about.name if about else target.name, name)
    if total is None:
        missing = _NO_EXTERNAL if kind == "External" else _NO_CUSTOM
        raise MetricUnavailable(
            f"FailedGet{kind}Metric", f"unable to get metric {name}: {_reason(metrics, missing)}"
        )
    if source.target.average_value is not None:
        per_pod = positive(source.target.average_value)
        replicas = _per_pod(total, per_pod, target.reported, target.replicas, tolerance)
        current = {"averageValue": quantity(total / max(1, target.reported))}
    else:
        ratio = total / positive(source.target.value)
        replicas = target.replicas
        if abs(ratio - 1) > tolerance:
            replicas = math.ceil(ratio * max(1, target.pods))
        current = {"value": quantity(total)}
    kept = {
        key: metric[field][key] for key in ("describedObject", "metric") if key in metric[field]
    }
    status = {"type": kind, field: {**kept, "current": current}}
    return Proposal(replicas, f"{field} metric {name}", status)


def _source(metric: Object, field: str) -> _Source:
    """The API server takes metrics as they come; what is wrong with one is found here."""
    try:
        return msgspec.convert(metric.get(field), _Source)
    except msgspec.ValidationError as error:
        raise malformed(f"{field}: {error}") from None


def positive(given: str | float | None) -> Fraction:
    try:
        thousandths = parse_millis(given)
    except QuantityError as error:
        raise malformed(str(error)) from None
    if not thousandths:
        raise malformed("must specify a positive target")
    return Fraction(thousandths, 1000)


def malformed(why: str) -> MetricUnavailable:
    return MetricUnavailable("InvalidMetricSourceType", f"invalid metric: {why}")


def _per_pod(total: Fraction, per_pod: Fraction, pods: int, replicas: int, tolerance: float) -> int:
    if pods and abs(total / (per_pod * pods) - 1) <= tolerance:
        return replicas
    return math.ceil(total / per_pod)


def _total(metrics: Metrics | None, namespace: str, holder: str, name: str) -> Fraction | None:
    """Exact to a thousandth, as quantities are: 0.1 + 0.2 must not cost a pod."""
    value = None if metrics is None else metrics(namespace, holder, name)
    if value is None or not math.isfinite(value * 1000):
        return None
    return Fraction(round(value * 1000), 1000)


def _reason(metrics: Metrics | None, unregistered: str) -> str:
    if metrics is None:
        return unregistered
    return f"{unregistered.partition(': ')[0]}: the server could not find the metric"


def quantity(value: Fraction) -> str:
    """As a quantity: thousandths, rounded up, in the largest unit of which they are whole ones."""
    amount = math.ceil(value * 1000)
    unit = 0
    while amount and amount % 1000 == 0 and unit < len(_UNITS) - 1:
        amount, unit = amount // 1000, unit + 1
    return f"{amount}{_UNITS[unit]}" if amount else "0"
