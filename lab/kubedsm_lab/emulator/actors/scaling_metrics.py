"""Metrics of a horizontal pod autoscaler: pod samples, and the replicas each metric proposes.

Rules and messages are those of replica_calculator.go in
k8s.io/kubernetes/pkg/controller/podautoscaler. Metrics of the types Object, External and
ContainerResource are not emulated.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import attrs
import msgspec

from kubedsm.model.quantities import QuantityError, parse_millis
from kubedsm_lab.emulator.actors.cache import Cache, Key
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.api.object_state import (
    condition_of,
    is_active,
    is_terminating,
    key_of,
)
from kubedsm_lab.emulator.api.resources import PODS, Object
from kubedsm_lab.emulator.api.values import seconds

#: seconds between two samples; a sample is the mean over this time
PERIOD = 15.0
#: (namespace, pod, resource) → cores of `cpu` or bytes of `memory` that the pod has used on average
#: since the last call about 15 s ago; None if unknown
Usage = Callable[[str, str, str], float | None]
#: (namespace, workload, metric) → total of the workload now, or None if there is no such metric
Metrics = Callable[[str, str, str], float | None]

_SAMPLING: Key = ("", "")
_RESOURCES = ("cpu", "memory")
#: suffixes of quantities, each a thousand times the previous one
_UNITS = ("m", "", "k", "M", "G", "T", "P", "E")
_CUSTOM_METRICS = "unable to fetch metrics from custom metrics API"
#: seconds: --horizontal-pod-autoscaler-cpu-initialization-period and
#: --horizontal-pod-autoscaler-initial-readiness-delay of kube-controller-manager by default
_CPU_INITIALIZATION, _INITIAL_READINESS = 300.0, 30.0


class MetricUnavailable(Exception):
    """Error: a metric has no value; `reason` is the reason of the ScalingActive condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class _NoFigure(Exception):
    """Error: a resource metric has no value for the target's pods; the text is the cause."""


@attrs.frozen
class Sample:
    """Resource consumption of one pod, sampled by metrics-server."""

    #: Unix timestamp in seconds
    at: float
    #: thousandths of cores and of bytes, rounded up
    amounts: Mapping[str, int]


class MetricsServer(Controller):
    """Emulated metrics-server: samples all running pods; `samples` are the metrics.k8s.io API's.

    A sample is up to 15 s old, and a pod that has just started has none.
    """

    def __init__(self, cache: Cache, usage: Usage) -> None:
        super().__init__(cache)
        self._usage = usage
        self.samples: Mapping[Key, Sample] = {}

    def subscribe(self) -> None:
        self.enqueue(_SAMPLING)

    def reconcile(self, key: Key) -> None:
        self.enqueue_after(key, PERIOD)
        running = (p for p in self.cache.all(PODS) if p["status"].get("phase") == "Running")
        amounts = {key_of(pod): self._amounts(*key_of(pod)) for pod in running}
        now = self.clock.wall()
        self.samples = {pod: Sample(now, found) for pod, found in amounts.items() if found}

    def _amounts(self, namespace: str, pod: str) -> dict[str, int]:
        used = {name: self._usage(namespace, pod, name) for name in _RESOURCES}
        return {
            # Rounded to 1e-9 first, against floating-point errors: 0.3 cores are 300m.
            name: -(-round(1e9 * amount) // 10**6)
            for name, amount in used.items()
            if amount is not None and math.isfinite(1e9 * amount)
        }


@attrs.frozen
class Scaled:
    """Target of an autoscaler: its pods, desired replicas, and sources of metrics."""

    namespace: str
    name: str
    pods: Sequence[Object]
    replicas: int
    #: Unix timestamp in seconds
    now: float
    #: relative difference of consumption from the target that causes no scaling
    tolerance: float
    metrics: Metrics | None = None
    #: by namespace and name; None without metrics-server
    samples: Mapping[Key, Sample] | None = None

    def is_near(self, ratio: float) -> bool:
        return 1.0 - self.tolerance <= ratio <= 1.0 + self.tolerance

    def rescaled(self, measured: float, ratio: float, pods: int) -> int:
        """Return `ratio` times the pods as desired replicas; unchanged replicas if near the target
        or contrary to the measured ratio.
        """
        replicas = math.ceil(ratio * pods)
        turned = ratio < 1 < measured or measured < 1 < ratio
        wrong = replicas > self.replicas if ratio < 1 else replicas < self.replicas
        return self.replicas if self.is_near(ratio) or turned or wrong else replicas


@attrs.frozen
class Proposal:
    replicas: int
    #: name of the metric in the ScalingActive condition
    description: str
    #: entry of status.currentMetrics
    status: Object


class _Name(msgspec.Struct):
    name: str


class _Target(msgspec.Struct, rename="camel"):
    average_utilization: int | None = None
    average_value: str | int | float | None = None


class _PodsSource(msgspec.Struct):
    metric: _Name
    target: _Target


class _ResourceSource(msgspec.Struct):
    name: str
    target: _Target


def propose(metric: Object, scaled: Scaled) -> Proposal:
    """Return the replicas that one entry of `spec.metrics` proposes. Raises MetricUnavailable."""
    kind = metric.get("type")
    try:
        if kind == "Pods":
            return _propose_by_pods(msgspec.convert(metric.get("pods"), _PodsSource), scaled)
        if kind == "Resource":
            source = msgspec.convert(metric.get("resource"), _ResourceSource)
            return _propose_by_resource(source, scaled)
    except msgspec.ValidationError as error:
        raise _invalid_metric(f"{str(kind).lower()}: {error}") from None
    raise _invalid_metric(f"metric source type {kind!r} is not emulated")


def _propose_by_pods(source: _PodsSource, scaled: Scaled) -> Proposal:
    """Return the replicas for a Pods metric: total over target, as values per pod are unknown."""
    name, metrics = source.metric.name, scaled.metrics
    value = None if metrics is None else metrics(scaled.namespace, scaled.name, name)
    if value is None or not math.isfinite(value * 1000):
        why = "the server could not find the metric"
        if metrics is None:
            why = "no custom metrics API (custom.metrics.k8s.io) registered"
        message = f"unable to get metric {name}: {_CUSTOM_METRICS}: {why}"
        raise MetricUnavailable("FailedGetPodsMetric", message)
    # Exact to a thousandth, as quantities are: 0.1 + 0.2 must not cost a pod.
    total = Fraction(round(value * 1000), 1000)
    per_pod, pods = _parse_positive(source.target.average_value), sum(map(is_active, scaled.pods))
    replicas = math.ceil(total / per_pod)
    if pods and abs(total / (per_pod * pods) - 1) <= scaled.tolerance:
        replicas = scaled.replicas
    current = {"averageValue": _quantity(total / max(1, pods))}
    status = {"type": "Pods", "pods": {"metric": {"name": name}, "current": current}}
    return Proposal(replicas, f"pods metric {name}", status)


def _propose_by_resource(source: _ResourceSource, scaled: Scaled) -> Proposal:
    """Return the desired replicas for a metric of type Resource (CPU or memory).

    Pods without sample neither cause nor reverse scaling.
    """
    wanted, utilised = source.target.average_utilization, source.target.average_value is None
    if not utilised:
        wanted = math.ceil(1000 * _parse_positive(source.target.average_value))
    elif wanted is None or wanted <= 0:
        raise _invalid_metric(
            "neither an average utilization target nor an average value target was set"
        )
    try:
        replicas, current = _calculate_replicas(source.name, wanted or 0, scaled, utilised=utilised)
    except _NoFigure as why:
        kind = "utilization" if utilised else "usage"
        message = f"failed to get {source.name} {kind}: {why}"
        raise MetricUnavailable("FailedGetResourceMetric", message) from None
    share = " utilization (percentage of request)" if utilised else ""
    status = {"type": "Resource", "resource": {"name": source.name, "current": current}}
    return Proposal(replicas, f"{source.name} resource{share}", status)


def _calculate_replicas(
    resource: str, target: int, scaled: Scaled, *, utilised: bool
) -> tuple[int, Object]:
    """Return desired replicas and current value for a resource metric; `target` is in thousandths,
    or in percent of requests.
    """
    samples = _find_samples(resource, scaled)
    unready, missing = _group_pods(resource, scaled, samples)
    used = {name: samples[name].amounts[resource] for name in samples.keys() - unready}
    if not used:
        raise _NoFigure("did not receive metrics for targeted pods (pods might be unready)")
    requests = (
        {pod["metadata"]["name"]: _request(pod, resource) for pod in scaled.pods}
        if utilised
        else {}
    )

    def level(amounts: Mapping[str, int]) -> int:
        """Return the pods' mean consumption in thousandths, or in percent of their requests."""
        total = sum(amounts.values())
        if not utilised:
            return total // len(amounts)
        requested = sum(requests[name] for name in amounts)
        if not requested:
            raise _NoFigure("no metrics returned matched known pods")
        return 100 * total // requested

    now = level(used)
    current: Object = {"averageValue": _quantity(Fraction(sum(used.values()) // len(used), 1000))}
    if utilised:
        current = {"averageUtilization": now, **current}
    ratio, starting = now / target, unready if now > target else frozenset()
    if not starting and not missing:
        steady = scaled.is_near(ratio)
        return scaled.replicas if steady else math.ceil(ratio * len(used)), current
    # As in Kubernetes, unknown consumption is assumed to oppose the change.
    if ratio < 1:
        share = max(100, target)
        assumed = {n: requests[n] * share // 100 if utilised else target for n in missing}
    elif ratio > 1 or not utilised:
        assumed = dict.fromkeys(missing | starting, 0)
    else:
        assumed = {}
    filled = used | assumed
    return scaled.rescaled(ratio, level(filled) / target, len(filled)), current


def _find_samples(resource: str, scaled: Scaled) -> dict[str, Sample]:
    """Return the samples of the resource by pod name. Raises _NoFigure."""
    unable = f"unable to get metrics for resource {resource}: "
    if scaled.samples is None:
        raise _NoFigure(
            f"{unable}unable to fetch metrics from resource metrics API: "
            "the server could not find the requested resource (get pods.metrics.k8s.io)"
        )
    found = {
        pod["metadata"]["name"]: sample
        for pod in scaled.pods
        if (sample := scaled.samples.get(key_of(pod))) and resource in sample.amounts
    }
    if not found:
        raise _NoFigure(f"{unable}no metrics returned from resource metrics API")
    return found


def _group_pods(
    resource: str, scaled: Scaled, samples: dict[str, Sample]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return names of unready pods and of pods without sample; drop samples of ended pods."""
    unready, missing = set(), set()
    for pod in scaled.pods:
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if is_terminating(pod) or phase == "Failed":
            samples.pop(name, None)
        elif phase == "Pending":
            unready.add(name)
        elif name not in samples:
            missing.add(name)
        elif resource == "cpu" and _is_starting(pod, samples[name], scaled.now):
            unready.add(name)
    return frozenset(unready), frozenset(missing)


def _is_starting(pod: Object, sample: Sample, now: float) -> bool:
    """Return whether the sample may still show the CPU consumption of the container's start."""
    ready, started = (
        condition_of(pod, "Ready"),
        pod["status"].get("startTime"),
    )
    if ready is None or started is None or ready["lastTransitionTime"] is None:
        return True
    since, begun = seconds(ready["lastTransitionTime"]), seconds(started)
    if begun + _CPU_INITIALIZATION > now:
        return ready["status"] == "False" or sample.at < since + PERIOD
    return ready["status"] == "False" and begun + _INITIAL_READINESS > since


def _request(pod: Object, resource: str) -> int:
    """Return the pod's request of the resource, sidecars included, in thousandths.

    Raises _NoFigure.
    """
    spec = pod["spec"]
    whole = ((spec.get("resources") or {}).get("requests") or {}).get(resource)
    if whole is not None:
        return parse_millis(whole)
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    total = 0
    for container in (*spec["containers"], *sidecars):
        requests = (container.get("resources") or {}).get("requests") or {}
        if resource not in requests:
            raise _NoFigure(
                f"missing request for {resource} in container {container['name']} "
                f"of Pod {pod['metadata']['name']}"
            )
        total += parse_millis(requests[resource])
    return total


def _parse_positive(given: str | float | None) -> Fraction:
    try:
        thousandths = parse_millis(given)
    except QuantityError as error:
        raise _invalid_metric(str(error)) from None
    if not thousandths:
        raise _invalid_metric("must specify a positive target")
    return Fraction(thousandths, 1000)


def _invalid_metric(why: str) -> MetricUnavailable:
    return MetricUnavailable("InvalidMetricSourceType", f"invalid metric: {why}")


def _quantity(value: Fraction) -> str:
    """Format an amount in thousandths, rounded up, as a Kubernetes quantity with the largest suffix
    that needs no fraction.
    """
    amount, unit = math.ceil(value * 1000), 0
    while amount and amount % 1000 == 0 and unit < len(_UNITS) - 1:
        amount, unit = amount // 1000, unit + 1
    return f"{amount}{_UNITS[unit]}" if amount else "0"
