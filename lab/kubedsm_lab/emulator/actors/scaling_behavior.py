"""How fast an autoscaler may go: stabilisation windows and scaling policies.

Source: `HorizontalPodAutoscalerBehavior` in the Kubernetes documentation of autoscaling/v2, and
k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go.
"""

import math
from collections.abc import Sequence
from typing import Literal

import attrs
import msgspec

from kubedsm_lab.emulator.api.resources import Object

_UP_POLICIES = (("Pods", 4, 15.0), ("Percent", 100, 15.0))
_DOWN_POLICIES = (("Percent", 100, 15.0),)
_DOWN_WINDOW = 300.0
#: older recommendations and events than any window can reach, in seconds
_HORIZON = 3600.0


class BehaviorError(ValueError):
    """`spec.behavior` is malformed."""


class _Policy(msgspec.Struct, rename="camel"):
    type: Literal["Pods", "Percent"]
    value: int
    period_seconds: float


class _Rules(msgspec.Struct, rename="camel"):
    stabilization_window_seconds: float | None = None
    select_policy: Literal["Max", "Min", "Disabled"] | None = None
    policies: list[_Policy] | None = None


class _Behavior(msgspec.Struct, rename="camel"):
    scale_up: _Rules = msgspec.field(default_factory=_Rules)
    scale_down: _Rules = msgspec.field(default_factory=_Rules)


@attrs.frozen
class Rules:
    """One direction of `spec.behavior`."""

    window: float
    select: str
    #: (type, value, period in seconds)
    policies: tuple[tuple[str, int, float], ...]

    @classmethod
    def of(
        cls, given: _Rules, window: float, policies: tuple[tuple[str, int, float], ...]
    ) -> "Rules":
        """As given, and the defaults where nothing is."""
        if given.stabilization_window_seconds is not None:
            window = given.stabilization_window_seconds
        if given.policies is not None:
            policies = tuple((p.type, p.value, p.period_seconds) for p in given.policies)
        return cls(window, given.select_policy or "Max", policies)


@attrs.frozen
class Behavior:
    up: Rules
    down: Rules

    @classmethod
    def of(cls, given: Object | None) -> "Behavior":
        """Raises BehaviorError."""
        try:
            read = msgspec.convert(given or {}, _Behavior)
        except msgspec.ValidationError as error:
            raise BehaviorError(str(error)) from None
        return cls(
            Rules.of(read.scale_up, 0.0, _UP_POLICIES),
            Rules.of(read.scale_down, _DOWN_WINDOW, _DOWN_POLICIES),
        )


@attrs.frozen
class Verdict:
    """A number of pods, and a condition: whether something held it back, and what."""

    replicas: int
    held: bool
    reason: str
    message: str


@attrs.frozen
class ScalingHistory:
    """What was recommended and done, as (moment in seconds, number of pods)."""

    recommendations: tuple[tuple[float, int], ...] = ()
    #: changes made, positive for pods added
    events: tuple[tuple[float, int], ...] = ()

    def recommended(self, now: float, replicas: int) -> "ScalingHistory":
        kept = tuple(r for r in self.recommendations if r[0] > now - _HORIZON)
        return attrs.evolve(self, recommendations=(*kept, (now, replicas)))

    def scaled(self, now: float, change: int) -> "ScalingHistory":
        kept = tuple(e for e in self.events if e[0] > now - _HORIZON)
        return attrs.evolve(self, events=(*kept, (now, change)))


def stabilized(
    history: ScalingHistory, behavior: Behavior, now: float, current: int, desired: int
) -> Verdict:
    """No lower than what the scale-down window holds, no higher than what the other one holds."""
    recent = history.recommendations
    highest = max((n for at, n in recent if at > now - behavior.down.window), default=desired)
    lowest = min((n for at, n in recent if at > now - behavior.up.window), default=desired)
    floor, ceiling = min(desired, lowest), max(desired, highest)
    replicas = min(max(current, floor), ceiling)
    if replicas == desired:
        return Verdict(desired, False, "ReadyForNewScale", "recommended size matches current size")
    if replicas > desired:
        message = (
            "recent recommendations were higher than current one, "
            "applying the highest recent recommendation"
        )
        return Verdict(replicas, True, "ScaleDownStabilized", message)
    message = (
        "recent recommendations were lower than current one, "
        "applying the lowest recent recommendation"
    )
    return Verdict(replicas, True, "ScaleUpStabilized", message)


def limited(
    history: ScalingHistory,
    behavior: Behavior,
    now: float,
    current: int,
    desired: int,
    bounds: tuple[int, int],
) -> Verdict:
    """Within min and max replicas, and no faster than the policies allow."""
    least, most = bounds
    if desired > current:
        allowed = max(current, _limit(history, behavior.up, now, current, up=True))
        if desired > min(most, allowed):
            if most > allowed:
                message = (
                    "the desired replica count is increasing faster than the maximum scale rate"
                )
                return Verdict(allowed, True, "ScaleUpLimit", message)
            message = "the desired replica count is more than the maximum replica count"
            return Verdict(most, True, "TooManyReplicas", message)
    elif desired < current:
        allowed = min(current, _limit(history, behavior.down, now, current, up=False))
        if desired < max(least, allowed):
            if least < allowed:
                message = (
                    "the desired replica count is decreasing faster than the maximum scale rate"
                )
                return Verdict(allowed, True, "ScaleDownLimit", message)
            message = "the desired replica count is less than the minimum replica count"
            return Verdict(least, True, "TooFewReplicas", message)
    message = "the desired count is within the acceptable range"
    return Verdict(desired, False, "DesiredWithinRange", message)


def _limit(history: ScalingHistory, rules: Rules, now: float, current: int, *, up: bool) -> int:
    if rules.select == "Disabled" or not rules.policies:
        return current
    sizes = [
        _policy_size(kind, value, current - _changed(history.events, now - period), up=up)
        for kind, value, period in rules.policies
    ]
    farthest = (rules.select == "Max") == up
    return max(sizes) if farthest else min(sizes)


def _policy_size(kind: str, value: int, at_start: int, *, up: bool) -> int:
    if kind == "Pods":
        return at_start + value if up else at_start - value
    if up:
        return math.ceil(at_start * (100 + value) / 100)
    return int(at_start * (100 - value) / 100)


def _changed(events: Sequence[tuple[float, int]], since: float) -> int:
    return sum(change for at, change in events if at > since)
