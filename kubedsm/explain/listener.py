"""What happens, for whoever counts it."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

from kubedsm.explain.effects import Effect
from kubedsm.explain.entries import MoveOutcome
from kubedsm.kube.calls.writes import Regarding
from kubedsm.model.events import Change
from kubedsm.model.model import Pod
from kubedsm.optimizer.moving.suggestion import Move, MoveKind
from kubedsm.optimizer.programming.in_order import Certificate
from plans.steps import Plan, Step

#: of an attempt to schedule a pod; late: the pod waits for the next batch
Result = Literal["scheduled", "unschedulable", "error", "late"]
#: overtaken: the cluster was another one by then
Packing = Literal["applied", "proposed", "nothing", "overtaken"]
#: of a query; partial: some of its series are of no use; empty: none is, or there is none
LoadResult = Literal["answered", "partial", "empty", "failed"]

#: what is decided on: new pods, or pods that run
DecisionKind = Literal["batch", "suggestion", "packing"]


class Listener:
    """Hears what happens where it happens; by itself it does nothing about it.

    It must neither fail nor take long: what it hears of waits for it. Seconds, all times.
    """

    def changed(self, change: Change) -> None:
        """The mirror changed, and all others have taken note of it."""

    def batch_begun(self, pods: Sequence[Pod]) -> None:
        """An attempt to schedule these pods begins."""

    def batch_decided(self, pods: Sequence[Pod], seconds: float) -> None:
        """It was thought about them for so long, and the binds are asked for."""

    def attempt_ended(self, pod: Pod, result: Result) -> None:
        """The attempt to schedule the pod came to this."""

    def waits(self, pod: Pod, why: str, rules: Collection[str]) -> None:
        """The pod waits on for a node, and why; rules: those by which nodes reject it."""

    def preemption_begun(self, pod: Pod) -> None:
        """Room is looked for in favour of the pod, among pods of lower priority."""

    def victims_chosen(self, pod: Pod, victims: Sequence[Pod]) -> None:
        """These are evicted for the pod, unless room comes otherwise; all of them may go."""

    def suggested(self, moves: Sequence[Move], mode: str, seconds: float) -> None:
        """A suggestion was thought about for so long, and came to these moves."""

    def unproven(self, kind: DecisionKind, certificates: Sequence[Certificate]) -> None:
        """A decision might be better, by what is known of its goals, as far as anything is."""

    def cloud_sampled(self, nodes: int) -> None:
        """So many nodes of the cloud were looked at for a batch, and others were not."""

    def packed(self, result: Packing, seconds: float) -> None:
        """It was thought about room for stuck pods for so long, and this is done about it."""

    def bind_ended(self, seconds: float) -> None:
        """A bind that is no move's was seen, or has failed, so long after it was asked for."""

    def stepped(self, plan: Plan, steps: Sequence[Step]) -> None:
        """The plan went on: these of its steps are to be taken, read live, or over."""

    def plan_ended(self, plan: Plan, seconds: float) -> None:
        """Every step of the plan is over, so long after it was begun."""

    def move_ended(self, ended: MoveOutcome) -> None:
        """A move that was planned is over, or is never begun."""

    def move_judged(self, kind: MoveKind | None, effect: Effect) -> None:
        """It is told what a move that was completed brought, or why that cannot be told."""

    def event_written(self, about: Regarding, reason: str, note: str, warning: bool) -> None:
        """An Event that users can read was created; of one that is only counted on nothing."""

    def worker_started(self) -> None:
        """A worker process was started, and is up to date."""

    def unanswered(self, question: str) -> None:
        """A question of that name has no answer: the worker process ended, or took too long."""

    def load_asked(self, query: str, result: LoadResult) -> None:
        """Prometheus was asked the query of that name."""


class Listeners(Listener):
    """Several of them as one: each hears everything, in their order."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners


def _told_to_all(name: str) -> Callable[..., None]:
    def told(self: Listeners, *heard: Any) -> None:
        for listener in self.listeners:
            getattr(listener, name)(*heard)

    return told


for _name in [name for name in vars(Listener) if not name.startswith("_")]:
    setattr(Listeners, _name, _told_to_all(_name))
