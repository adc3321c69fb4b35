"""What the Resource and ContainerResource metrics of an autoscaler ask for: how many pods.

Rules and words are those of k8s.io/kubernetes/pkg/controller/podautoscaler/replica_calculator.go:
pods without a figure, or not ready yet, must neither start a scaling nor turn it round. Amounts are
in thousandths throughout.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import attrs
import msgspec

from kubedsm.model.quantities import parse_millis
from kubedsm_lab.emulator.actors.cache import Key, key_of
from kubedsm_lab.emulator.actors.conditions import find, of
from kubedsm_lab.emulator.actors.metrics_server import PERIOD, Sample
from kubedsm_lab.emulator.actors.pod_state import is_terminating
from kubedsm_lab.emulator.actors.scaling_metrics import (
    MetricUnavailable,
    Proposal,
    malformed,
    positive,
    quantity,
)
from kubedsm_lab.emulator.api.moments import seconds
from kubedsm_lab.emulator.api.resources import Object

#: by the field of `spec.metrics` that describes one
KINDS = {"Resource": "resource", "ContainerResource": "containerResource"}
#: seconds: kube-controller-manager's --horizontal-pod-autoscaler-cpu-initialization-period and
#: --horizontal-pod-autoscaler-initial-readiness-delay, as they are by default
_CPU_INITIALIZATION, _INITIAL_READINESS = 300.0, 30.0

_NO_API = (
    "unable to fetch metrics from resource metrics API: "
    "the server could not find the requested resource (get pods.metrics.k8s.io)"
)


class _Wanted(msgspec.Struct, rename="camel"):
    average_utilization: int | None = None
    average_value: str | int | float | None = None


class _Source(msgspec.Struct):
    name: str
    target: _Wanted
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
        source = msgspec.convert(metric.get(KINDS[kind]), _Source)
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


def _target(wanted: _Wanted) -> tuple[int, bool]:
    """Thousandths a pod, or a percentage of its request: whether it is the latter."""
    if wanted.average_value is not None:
        return math.ceil(1000 * positive(wanted.average_value)), False
    if wanted.average_utilization is None or wanted.average_utilization <= 0:
        raise malformed("neither an average utilization target nor an average value target was set")
    return wanted.average_utilization, True


def _calculated(
    source: _Source, target: int, scaled: Scaled, *, utilised: bool
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


def _figures(source: _Source, scaled: Scaled) -> dict[str, Sample]:
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


def _request(pod: Object, source: _Source) -> int:
    """What the pod's containers ask for, or the one that is scaled by. Raises _Unknown."""
    whole = ((pod["spec"].get("resources") or {}).get("requests") or {}).get(source.name)
    if whole is not None and not source.container:
        return parse_millis(whole)
    total = 0
    for container in _containers(pod):
        if source.container in ("", container["name"]):
            requests = (container.get("resources") or {}).get("requests") or {}
            if source.name not in requests:
                raise _Unknown(
                    f"missing request for {source.name} in container {container['name']} "
                    f"of Pod {pod['metadata']['name']}"
                )
            total += parse_millis(requests[source.name])
    return total
