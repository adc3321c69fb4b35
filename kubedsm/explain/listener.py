"""Callbacks about scheduler activity, for metrics, the record of decisions and the dashboard."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Literal

from kubedsm.explain.effects import Effect
from kubedsm.explain.migration_outcome import MoveOutcome
from kubedsm.kube.calls.writes import Regarding
from kubedsm.model.events import Change
from kubedsm.model.model import Pod
from kubedsm.optimizer.moving.suggestion import Move, MoveKind
from kubedsm.optimizer.programming.in_order import Certificate
from plans.steps import Plan, Step

#: result of an attempt to schedule a pod; late: the pod waits for the next batch
Result = Literal["scheduled", "unschedulable", "error", "late"]
#: result of packing; overtaken: the cluster changed meanwhile
Packing = Literal["applied", "proposed", "nothing", "overtaken"]
#: result of a Prometheus query; partial: some series are unusable; empty: none is usable
LoadResult = Literal["answered", "partial", "empty", "failed"]

#: type of a decision: about new pods, or about running pods
DecisionKind = Literal["batch", "suggestion", "packing"]


class Listener:
    """Observer of scheduler activity, with callbacks that do nothing by default.

    Callbacks must neither raise nor block the caller. Times are in seconds.
    """

    def mirror_changed(self, change: Change) -> None:
        """Callback: the mirror changed, and all other observers were notified."""

    def batch_begun(self, pods: Sequence[Pod]) -> None:
        """Callback: a scheduling attempt for the pods begins."""

    def batch_decided(self, pods: Sequence[Pod], seconds: float) -> None:
        """Callback: the batch was decided after `seconds`, and the binds are requested."""

    def attempt_ended(self, pod: Pod, result: Result) -> None:
        """Callback: the scheduling attempt for the pod ended."""

    def pod_waits(self, pod: Pod, why: str, rules: Collection[str]) -> None:
        """Callback: the pod remains pending; rules: Filter plugins rejecting the pod."""

    def preemption_begun(self, pod: Pod) -> None:
        """Callback: a search for victims of lower priority begins in favour of the pod."""

    def victims_chosen(self, pod: Pod, victims: Sequence[Pod]) -> None:
        """Callback: victims are evicted in favour of the pod, unless capacity is free earlier."""

    def suggestion_made(self, moves: Sequence[Move], mode: str, seconds: float) -> None:
        """Callback: the suggester proposed these migrations after `seconds`."""

    def optimality_unproven(self, kind: DecisionKind, certificates: Sequence[Certificate]) -> None:
        """Callback: a decision is not proven optimal; the certificates bound its gap."""

    def cloud_sampled(self, nodes: int) -> None:
        """Callback: a batch of pods was placed considering only a sample of the cloud nodes, with
        the given sample size.
        """

    def packing_ended(self, result: Packing, seconds: float) -> None:
        """Callback: packing for unschedulable pods finished after `seconds` with this result."""

    def bind_ended(self, seconds: float) -> None:
        """Callback: a bind outside migrations was observed or failed, `seconds` after request."""

    def plan_advanced(self, plan: Plan, steps: Sequence[Step]) -> None:
        """Callback: the plan advanced; the steps are requested, under verification, or finished."""

    def plan_ended(self, plan: Plan, seconds: float) -> None:
        """Callback: every step of the plan is finished, `seconds` after its begin."""

    def move_ended(self, ended: MoveOutcome) -> None:
        """Callback: a planned migration is finished, or is dropped before its begin."""

    def move_judged(self, kind: MoveKind | None, effect: Effect) -> None:
        """Callback: the effect of a completed migration is known, or cannot be measured."""

    def event_written(self, about: Regarding, reason: str, note: str, warning: bool) -> None:
        """Callback: an Event was created; increased counts of existing Events are not reported."""

    def request_unanswered(self, question: str) -> None:
        """Callback: a planner request failed; the process terminated, or exceeded the deadline."""

    def load_asked(self, query: str, result: LoadResult) -> None:
        """Callback: a Prometheus query finished."""


class Listeners(Listener):
    """Composite listener that forwards each callback to the listeners that have it, in order."""

    def __init__(self, *listeners: Listener) -> None:
        for name, ignored in vars(Listener).items():
            if not name.startswith("_"):
                calls = [getattr(each, name) for each in listeners]
                calls = [call for call in calls if getattr(call, "__func__", None) is not ignored]
                setattr(self, name, calls[0] if len(calls) == 1 else partial(_call_each, calls))


def _call_each(calls: Sequence[Callable[..., None]], *arguments: Any) -> None:
    for call in calls:
        call(*arguments)
