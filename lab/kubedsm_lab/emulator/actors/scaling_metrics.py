"""Metrics of an autoscaler: sampling of pod usage, and the replicas that each metric asks for.

Rules and words are those of k8s.io/kubernetes/pkg/controller/podautoscaler/replica_calculator.go.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import attrs
import msgspec

from kubedsm.model.quantities import QuantityError, millis
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.actors.cache import Cache, Key, key_of
from kubedsm_lab.emulator.actors.conditions import find, of
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.pod_state import is_terminating
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import PODS, Object
from kubedsm_lab.emulator.api.values import seconds

#: seconds from one look to the next, which a figure is the mean of
PERIOD = 15.0
#: (namespace, pod, resource) → cores of `cpu` or bytes of `memory` that the pod has used on average
#: since it was asked about 15 s ago; None if nothing is known yet
Usage = Callable[[str, str, str], float | None]

_LOOK: Key = ("", "")
_RESOURCES = ("cpu", "memory")


@attrs.frozen
class Sample:
    """What one pod uses."""

    #: seconds since the epoch
    at: float
    #: thousandths of cores and of bytes, rounded up
    amounts: Mapping[str, int]


class MetricsServer(Controller):
    """Its `samples` are what metrics.k8s.io would answer, of the last look."""

    def __init__(self, api: ApiServer, cache: Cache, clock: Clock, usage: Usage) -> None:
        super().__init__(api, cache, clock)
        self._usage = usage
        self.samples: Mapping[Key, Sample] = {}
        self.enqueue(_LOOK)

    def reconcile(self, key: Key) -> None:
        self.enqueue_after(key, PERIOD)
        found = {}
        for pod in self.cache.all(PODS):
            if pod["status"].get("phase") == "Running":
                amounts = self._amounts(*key_of(pod))
                if amounts:
                    found[key_of(pod)] = Sample(self.clock.wall(), amounts)
        self.samples = found

    def _amounts(self, namespace: str, pod: str) -> dict[str, int]:
        used = {name: self._usage(namespace, pod, name) for name in _RESOURCES}
        return {
            # Of whole thousand-millionths first: .3 cores are 300m, whatever floats make of them.
            name: -(-round(1e9 * amount) // 10**6)
            for name, amount in used.items()
            if amount is not None and math.isfinite(1e9 * amount)
        }


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
        thousandths = millis(given)
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


#: by the field of `spec.metrics` that describes one
KINDS = {"Resource": "resource", "ContainerResource": "containerResource"}
#: seconds: kube-controller-manager's --horizontal-pod-autoscaler-cpu-initialization-period and
#: --horizontal-pod-autoscaler-initial-readiness-delay, as they are by default
_CPU_INITIALIZATION, _INITIAL_READINESS = 300.0, 30.0

_NO_API = (
    "unable to fetch metrics from resource metrics API: "
    "the server could not find the requested resource (get pods.metrics.k8s.io)"
)


class _ResourceTarget(msgspec.Struct, rename="camel"):
    average_utilization: int | None = None
    average_value: str | int | float | None = None


class _ResourceSource(msgspec.Struct):
    name: str
    target: _ResourceTarget
    #: of a ContainerResource
    container: str = ""


class _Unknown(Exception):
    """How many pods there should be cannot be told. Its text says why."""


@attrs.frozen
class Scaled:
    """What the calculation goes by: pods, how many are wanted now, and their last samples."""

    pods: Sequence[Object]
    replicas: int
    #: by namespace and name; None if nobody takes any
    samples: Mapping[Key, Sample] | None
    #: seconds since the epoch
    now: float
    #: by which share the ratio of what is used to the target may be off
    tolerance: float

    def is_near(self, ratio: float) -> bool:
        return 1.0 - self.tolerance <= ratio <= 1.0 + self.tolerance

    def unless_turned(self, seen: float, ratio: float, pods: int) -> int:
        """So many times the pods; no change if the ratio that was seen asks for the opposite."""
        replicas = math.ceil(ratio * pods)
        turned = ratio < 1 < seen or seen < 1 < ratio
        wrong = replicas > self.replicas if ratio < 1 else replicas < self.replicas
        return self.replicas if self.is_near(ratio) or turned or wrong else replicas


def propose_of_resource(metric: Object, scaled: Scaled) -> Proposal:
    """The replicas that one such metric asks for. Raises MetricUnavailable."""
    kind = metric["type"]
    try:
        source = msgspec.convert(metric.get(KINDS[kind]), _ResourceSource)
    except msgspec.ValidationError as error:
        raise malformed(f"{KINDS[kind]}: {error}") from None
    target, utilised = _target(source.target)
    try:
        replicas, current = _calculated(source, target, scaled, utilised=utilised)
    except _Unknown as why:
        what = "utilization" if utilised else "usage"
        message = f"failed to get {source.name} {what}: {why}"
        raise MetricUnavailable(f"FailedGet{kind}Metric", message) from None
    named = {"container": source.container} if source.container else {}
    status = {"type": kind, KINDS[kind]: {"name": source.name, **named, "current": current}}
    container = "container " if kind == "ContainerResource" and utilised else ""
    share = " utilization (percentage of request)" if utilised else ""
    return Proposal(replicas, f"{source.name} {container}resource{share}", status)


def _target(wanted: _ResourceTarget) -> tuple[int, bool]:
    """Thousandths a pod, or a percentage of its request: whether it is the latter."""
    if wanted.average_value is not None:
        return math.ceil(1000 * positive(wanted.average_value)), False
    if wanted.average_utilization is None or wanted.average_utilization <= 0:
        raise malformed("neither an average utilization target nor an average value target was set")
    return wanted.average_utilization, True


def _calculated(
    source: _ResourceSource, target: int, scaled: Scaled, *, utilised: bool
) -> tuple[int, Object]:
    """Replicas, and what the status says of the present. Raises _Unknown."""
    figures = _figures(source, scaled)
    unready, missing = _grouped(source.name, scaled, figures)
    used = {name: figures[name].amounts[source.name] for name in figures.keys() - unready}
    if not used:
        raise _Unknown("did not receive metrics for targeted pods (pods might be unready)")
    requests = (
        {pod["metadata"]["name"]: _request(pod, source) for pod in scaled.pods} if utilised else {}
    )

    def present(amounts: Mapping[str, int]) -> int:
        """The mean, or the percentage that is used of what is requested."""
        total = sum(amounts.values())
        if not utilised:
            return total // len(amounts)
        requested = sum(requests[name] for name in amounts)
        if not requested:
            raise _Unknown("no metrics returned matched known pods")
        return 100 * total // requested

    now = present(used)
    current: Object = {"averageValue": quantity(Fraction(sum(used.values()) // len(used), 1000))}
    if utilised:
        current = {"averageUtilization": now, **current}
    ratio, starting = now / target, unready if now > target else frozenset()
    if not starting and not missing:
        steady = scaled.is_near(ratio)
        return scaled.replicas if steady else math.ceil(ratio * len(used)), current
    # What is not known is taken to be what is against a change.
    if ratio < 1:
        share = max(100, target)
        assumed = {n: requests[n] * share // 100 if utilised else target for n in missing}
    elif ratio > 1 or not utilised:
        assumed = dict.fromkeys(missing | starting, 0)
    else:
        assumed = {}
    filled = used | assumed
    return scaled.unless_turned(ratio, present(filled) / target, len(filled)), current


def _figures(source: _ResourceSource, scaled: Scaled) -> dict[str, Sample]:
    """The samples of the pods that have one of the resource, by name. Raises _Unknown."""
    unable = f"unable to get metrics for resource {source.name}: "
    if scaled.samples is None:
        raise _Unknown(unable + _NO_API)
    found = {}
    for pod in scaled.pods:
        sample = scaled.samples.get(key_of(pod))
        if sample is None or source.name not in sample.amounts:
            continue
        # What is known is the pod's: its container's too, if it has but one.
        if source.container and [c["name"] for c in _containers(pod)] != [source.container]:
            where = "/".join(key_of(pod))
            raise _Unknown(
                f"{unable}container {source.container} not present in metrics for pod {where}"
            )
        found[pod["metadata"]["name"]] = sample
    if not found:
        raise _Unknown(f"{unable}no metrics returned from resource metrics API")
    return found


def _grouped(
    resource: str, scaled: Scaled, figures: dict[str, Sample]
) -> tuple[frozenset[str], frozenset[str]]:
    """The pods whose figures say nothing yet, those without; drops the figures of ended ones."""
    unready, missing = set(), set()
    for pod in scaled.pods:
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if is_terminating(pod) or phase == "Failed":
            figures.pop(name, None)
        elif phase == "Pending":
            unready.add(name)
        elif name not in figures:
            missing.add(name)
        elif resource == "cpu" and _starts(pod, figures[name], scaled.now):
            unready.add(name)
    return frozenset(unready), frozenset(missing)


def _starts(pod: Object, sample: Sample, now: float) -> bool:
    """Whether its CPU may be what starting takes, and not what its requests do."""
    ready, started = find(of(pod["status"]), "Ready"), pod["status"].get("startTime")
    if ready is None or started is None or ready["lastTransitionTime"] is None:
        return True
    since, begun = seconds(ready["lastTransitionTime"]), seconds(started)
    if begun + _CPU_INITIALIZATION > now:
        return ready["status"] == "False" or sample.at < since + PERIOD
    return ready["status"] == "False" and begun + _INITIAL_READINESS > since


def _containers(pod: Object) -> list[Object]:
    """Those that run beside each other for as long as the pod does."""
    spec = pod["spec"]
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    return [*spec["containers"], *sidecars]


def _request(pod: Object, source: _ResourceSource) -> int:
    """What the pod's containers ask for, or the one that is scaled by. Raises _Unknown."""
    whole = ((pod["spec"].get("resources") or {}).get("requests") or {}).get(source.name)
    if whole is not None and not source.container:
        return millis(whole)
    total = 0
    for container in _containers(pod):
        if source.container in ("", container["name"]):
            requests = (container.get("resources") or {}).get("requests") or {}
            if source.name not in requests:
                raise _Unknown(
                    f"missing request for {source.name} in container {container['name']} "
                    f"of Pod {pod['metadata']['name']}"
                )
            total += millis(requests[source.name])
    return total
