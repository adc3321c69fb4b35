"""Horizontal pod autoscaler (autoscaling/v2): desired replicas from metrics.

Conditions, reasons and their order are those of
k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go, scaling behavior that of
`HorizontalPodAutoscalerBehavior` in the documentation of autoscaling/v2. Without `behavior` the
rules are older ones: a sync at most doubles the replicas.
"""

import math
from typing import Literal

import attrs
import msgspec

from kubedsm_lab.emulator.actors.cache import Cache, Key
from kubedsm_lab.emulator.actors.controller import Controller, Timing
from kubedsm_lab.emulator.actors.scaling_metrics import (
    Metrics,
    MetricsServer,
    MetricUnavailable,
    Proposal,
    Scaled,
    propose,
)
from kubedsm_lab.emulator.api.defaulting import SCALE_DOWN, SCALE_UP
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import key_of, labels_of, new_condition, update_condition
from kubedsm_lab.emulator.api.resources import (
    HORIZONTAL_POD_AUTOSCALERS,
    PODS,
    SERVED,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.selectors import parse_labels
from kubedsm_lab.emulator.api.store import ObjectChange

_SCALED = {(r.group, r.kind): r for r in SERVED if "scale" in r.subresources}
#: window for scaling down where none is given, in seconds
_DOWN_WINDOW = 300.0
#: replicas that one sync may reach from any smaller number, without `behavior`
_SMALL = 4
#: retention of recommendations and events beyond every window, in seconds
_HORIZON = 3600.0


class Policy(msgspec.Struct, rename="camel"):
    type: Literal["Pods", "Percent"]
    value: int
    period_seconds: float

    def size(self, before: int, *, up: bool) -> int:
        """Return the replicas that one scaling policy permits, given the replicas at the start of
        the policy's period.
        """
        if self.type == "Pods":
            return before + self.value if up else before - self.value
        if up:
            return math.ceil(before * (100 + self.value) / 100)
        return int(before * (100 - self.value) / 100)


class Rules(msgspec.Struct, rename="camel"):
    """Scaling rules of one direction, up or down, in `spec.behavior`."""

    stabilization_window_seconds: float
    select_policy: Literal["Max", "Min", "Disabled"]
    policies: list[Policy]


class Behavior(msgspec.Struct, rename="camel"):
    scale_up: Rules
    scale_down: Rules
    #: whether the autoscaler has a `behavior`
    given: bool

    @classmethod
    def of(cls, given: Object | None) -> "Behavior":
        """Parse `spec.behavior` with defaults. Raises MetricUnavailable if it is malformed."""
        window = {"stabilizationWindowSeconds": _DOWN_WINDOW}
        filled = {
            "scaleUp": SCALE_UP | ((given or {}).get("scaleUp") or {}),
            "scaleDown": SCALE_DOWN | window | ((given or {}).get("scaleDown") or {}),
            "given": given is not None,
        }
        try:
            return msgspec.convert(filled, cls)
        except msgspec.ValidationError as error:
            raise MetricUnavailable("InvalidBehavior", f"invalid behavior: {error}") from None


@attrs.frozen
class Verdict:
    """Desired replicas after limits or stabilisation, with reason and message of the resulting
    condition.
    """

    replicas: int
    held: bool
    reason: str
    message: str


@attrs.frozen
class ScalingHistory:
    """Recent recommendations and scaling events of an autoscaler, each as (time in seconds, number
    of pods).
    """

    recommendations: tuple[tuple[float, int], ...] = ()
    #: positive for added pods
    events: tuple[tuple[float, int], ...] = ()

    def recommended(self, now: float, replicas: int) -> "ScalingHistory":
        kept = tuple(r for r in self.recommendations if r[0] > now - _HORIZON)
        return attrs.evolve(self, recommendations=(*kept, (now, replicas)))

    def scaled(self, now: float, change: int) -> "ScalingHistory":
        kept = tuple(e for e in self.events if e[0] > now - _HORIZON)
        return attrs.evolve(self, events=(*kept, (now, change)))


class HorizontalPodAutoscalerController(Controller):
    """HPA controller: syncs each autoscaler on creation, then every `timing.hpa_sync` seconds.

    desired = ceil(total / target) unless the average is within the tolerance of the target. The
    average is over all active pods that the target's selector matches: a pod that a migration
    detached counts, so `desired` does not change with it. For resource metrics, which have samples
    of each pod, see `scaling_metrics`.
    """

    component = "horizontal-pod-autoscaler"

    def __init__(
        self,
        cache: Cache,
        timing: Timing,
        metrics: Metrics | None,
        metrics_server: MetricsServer | None,
    ) -> None:
        super().__init__(cache)
        self._timing = timing
        self._metrics = metrics
        self._metrics_server = metrics_server
        self._histories: dict[Key, ScalingHistory] = {}

    def subscribe(self) -> None:
        self.cache.on(HORIZONTAL_POD_AUTOSCALERS, self._on_change)

    def _on_change(self, change: ObjectChange) -> None:
        key = key_of(change.object)
        if change.type == "DELETED":
            self._histories.pop(key, None)
        elif key not in self._histories:
            self._histories[key] = ScalingHistory()
            self.enqueue(key)

    def reconcile(self, key: Key) -> None:
        hpa = self.cache.get(HORIZONTAL_POD_AUTOSCALERS, key)
        if hpa is None:
            return
        self.enqueue_after(key, self._timing.hpa_sync)
        status = self._sync_autoscaler(key, hpa)
        hpa = self.cache.get(HORIZONTAL_POD_AUTOSCALERS, key)
        if hpa is not None:
            self.write_status(HORIZONTAL_POD_AUTOSCALERS, hpa, status.fields)

    def _sync_autoscaler(self, key: Key, hpa: Object) -> "_Status":
        """Scale the target if necessary; return the autoscaler's new status."""
        status = _Status(hpa["status"], self.now())
        try:
            resource, scale = self._scale_of(hpa)
        except ApiError as error:
            message = "the HPA controller was unable to get the target's current scale: "
            status.set("AbleToScale", False, "FailedGetScale", message + error.message)
            return status
        message = "the HPA controller was able to get the target's current scale"
        status.set("AbleToScale", True, "SucceededGetScale", message)
        current = scale["spec"].get("replicas", 0)
        status.fields["currentReplicas"] = current
        if not self._histories[key].recommendations:
            self._remember(key, current)
        try:
            desired = self._desire_replicas(key, hpa, scale, status)
        except MetricUnavailable as error:
            message = f"the HPA was unable to compute the replica count: {error}"
            status.set("ScalingActive", False, error.reason, message)
            status.fields.setdefault("desiredReplicas", 0)
            status.fields["currentMetrics"] = [{"type": ""}]
            return status
        if desired != current:
            changed = {**scale, "spec": {**scale["spec"], "replicas": desired}}
            self.api.update_scale(resource, *key_of(scale), changed)
            history = self._histories[key]
            self._histories[key] = history.scaled(self.clock.monotonic(), desired - current)
            message = f"the HPA controller was able to update the target scale to {desired}"
            status.set("AbleToScale", True, "SucceededRescale", message)
            why = "a metric above target" if desired > current else "All metrics below target"
            scaled = f"New size: {desired}; reason: {why}"
            self.note(HORIZONTAL_POD_AUTOSCALERS, hpa, "SuccessfulRescale", scaled)
            status.fields["lastScaleTime"] = self.now()
        status.fields["desiredReplicas"] = desired
        return status

    def _remember(self, key: Key, recommendation: int) -> None:
        history = self._histories[key]
        self._histories[key] = history.recommended(self.clock.monotonic(), recommendation)

    def _scale_of(self, hpa: Object) -> tuple[Resource, Object]:
        """Return the scale subresource of the autoscaler's target. Raises ApiError if absent."""
        reference = hpa["spec"]["scaleTargetRef"]
        group = reference.get("apiVersion", "").rpartition("/")[0]
        resource = _SCALED.get((group, reference["kind"]))
        if resource is None:
            kind = f"{reference['kind']}.{group}" if group else reference["kind"]
            raise ApiError(404, "NotFound", f'no matches for kind "{kind}" in group "{group}"')
        namespace = hpa["metadata"]["namespace"]
        return resource, self.api.get_scale(resource, namespace, reference["name"])

    def _desire_replicas(self, key: Key, hpa: Object, scale: Object, status: "_Status") -> int:
        """Return the desired replicas after all limits. Raises MetricUnavailable."""
        spec, now = hpa["spec"], self.clock.monotonic()
        current: int = scale["spec"].get("replicas", 0)
        least: int = spec.get("minReplicas", 1)
        most: int = spec["maxReplicas"]
        if current == 0 and least != 0:
            message = "scaling is disabled since the replica count of the target is zero"
            status.set("ScalingActive", False, "ScalingDisabled", message)
            return 0
        if current > most or current < least:
            return min(max(current, least), most)
        proposal = self._proposal(hpa, scale, status)
        behavior = Behavior.of(spec.get("behavior"))
        history = self._histories[key]
        calm = stabilized(history, behavior, now, current, proposal.replicas)
        self._remember(key, proposal.replicas)
        status.set("AbleToScale", True, calm.reason, calm.message)
        verdict = limited(history, behavior, now, current, calm.replicas, (least, most))
        status.set("ScalingLimited", verdict.held, verdict.reason, verdict.message)
        return min(max(verdict.replicas, least), most)

    def _proposal(self, hpa: Object, scale: Object, status: "_Status") -> Proposal:
        """Return the largest number of replicas that any of the autoscaler's metrics proposes.

        While a metric is unavailable, the others may only add pods. Raises MetricUnavailable.
        """
        namespace, name = key_of(scale)
        replicas: int = scale["spec"].get("replicas", 0)
        pods = self._pods_of(namespace, scale["status"].get("selector", ""))
        samples = None if self._metrics_server is None else self._metrics_server.samples
        now = self.clock.wall()
        scaled = Scaled(
            namespace, name, pods, replicas, now, self._timing.hpa_tolerance, self._metrics, samples
        )
        proposals, failures = [], []
        for metric in hpa["spec"].get("metrics") or ():
            try:
                proposals.append(propose(metric, scaled))
            except MetricUnavailable as failure:
                failures.append(failure)
        best = max(proposals, key=lambda proposal: proposal.replicas, default=None)
        if best is None or (failures and best.replicas < replicas):
            raise failures[0] if failures else MetricUnavailable("NoMetrics", "no metrics")
        message = "the HPA was able to successfully calculate a replica count from "
        status.set("ScalingActive", True, "ValidMetricFound", message + best.description)
        status.fields["currentMetrics"] = [proposal.status for proposal in proposals]
        return best

    def _pods_of(self, namespace: str, selector: str) -> list[Object]:
        matches = parse_labels(selector).matches
        return [pod for pod in self.cache.in_namespace(PODS, namespace) if matches(labels_of(pod))]


class _Status:
    """Autoscaler status under construction: the previous status with accumulated changes."""

    def __init__(self, before: Object, now: str) -> None:
        self.fields = dict(before)
        self._now = now

    def set(self, kind: str, flag: bool, reason: str, message: str) -> None:
        self.fields["conditions"] = update_condition(
            self.fields.get("conditions") or [],
            new_condition(kind, flag, self._now, reason, message),
        )


def stabilized(
    history: ScalingHistory, behavior: Behavior, now: float, current: int, desired: int
) -> Verdict:
    """Limit the desired replicas by the recommendations within the stabilisation windows for
    scaling up and down.
    """

    def list_since(rules: Rules) -> list[int]:
        since = now - rules.stabilization_window_seconds
        return [n for at, n in history.recommendations if at > since]

    floor = min(desired, min(list_since(behavior.scale_up), default=desired))
    ceiling = max(desired, max(list_since(behavior.scale_down), default=desired))
    replicas = min(max(current, floor), ceiling) if behavior.given else ceiling
    if replicas == desired:
        return Verdict(desired, False, "ReadyForNewScale", "recommended size matches current size")
    direction, compared, which = ("Down", "higher", "highest")
    if replicas < desired:
        direction, compared, which = ("Up", "lower", "lowest")
    message = (
        f"recent recommendations were {compared} than current one, "
        f"applying the {which} recent recommendation"
    )
    return Verdict(replicas, True, f"Scale{direction}Stabilized", message)


def limited(
    history: ScalingHistory,
    behavior: Behavior,
    now: float,
    current: int,
    desired: int,
    bounds: tuple[int, int],
) -> Verdict:
    """Limit the desired replicas by minReplicas, maxReplicas, and the rates of the scaling
    policies.
    """
    if desired != current:
        up = desired > current
        within, nearer, bound = (max, min, bounds[1]) if up else (min, max, bounds[0])
        rules = behavior.scale_up if up else behavior.scale_down
        allowed = within(current, _limit(history, rules, now, current, up=up))
        if up and not behavior.given:
            allowed = max(2 * current, _SMALL)
        replicas = nearer(desired, bound, allowed)
        if replicas == bound != desired:
            message = (
                f"the desired replica count is {'more' if up else 'less'} than the "
                f"{'maximum' if up else 'minimum'} replica count"
            )
            return Verdict(replicas, True, "TooManyReplicas" if up else "TooFewReplicas", message)
        if replicas != desired:
            message = (
                f"the desired replica count is {'increasing' if up else 'decreasing'} faster "
                "than the maximum scale rate"
            )
            return Verdict(replicas, True, "ScaleUpLimit" if up else "ScaleDownLimit", message)
    message = "the desired count is within the acceptable range"
    return Verdict(desired, False, "DesiredWithinRange", message)


def _limit(history: ScalingHistory, rules: Rules, now: float, current: int, *, up: bool) -> int:
    if rules.select_policy == "Disabled" or not rules.policies:
        return current
    sizes = []
    for policy in rules.policies:
        since = now - policy.period_seconds
        changes = sum(change for at, change in history.events if at > since)
        sizes.append(policy.size(current - changes, up=up))
    farthest = (rules.select_policy == "Max") == up
    return max(sizes) if farthest else min(sizes)
