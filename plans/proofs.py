"""What an observation of its pod means to a step of each kind."""

from collections.abc import Callable

from plans.events import PodSeen
from plans.steps import Step, StepKind, Trigger

Meaning = tuple[Trigger, str] | None
PROVED: Meaning = (Trigger.PROVE, "")


def _bind(step: Step, seen: PodSeen) -> Meaning:
    if seen.node == step.node:
        return PROVED
    if seen.node:
        return Trigger.CONTRADICT, f"the pod is on node {seen.node}"
    return (Trigger.CONTRADICT, "the pod is being deleted") if seen.terminating else None


def _start(_: Step, seen: PodSeen) -> Meaning:
    return (Trigger.CONTRADICT, "the pod is being deleted") if seen.terminating else None


def _detach(_: Step, seen: PodSeen) -> Meaning:
    return PROVED if seen.detached else None


def _await_ready(_: Step, seen: PodSeen) -> Meaning:
    if seen.terminating:
        return Trigger.CONTRADICT, "the replacement is being deleted"
    return PROVED if seen.ready else None


def _settle(_: Step, seen: PodSeen) -> Meaning:
    if seen.terminating or not seen.ready:
        return Trigger.CONTRADICT, "the replacement is Ready no more"
    return None


def _evict(_: Step, seen: PodSeen) -> Meaning:
    return PROVED if seen.terminating else None


def _restore(_: Step, seen: PodSeen) -> Meaning:
    return PROVED if seen.terminating or not seen.detached else None


def _nothing(_step: Step, _seen: PodSeen) -> Meaning:
    return None


SEEN: dict[StepKind, Callable[[Step, PodSeen], Meaning]] = {
    StepKind.START: _start,
    StepKind.DETACH: _detach,
    StepKind.AWAIT_REPLACEMENT: _nothing,
    StepKind.BIND: _bind,
    StepKind.AWAIT_READY: _await_ready,
    StepKind.SETTLE: _settle,
    StepKind.EVICT: _evict,
    StepKind.AWAIT_GONE: _nothing,
    StepKind.RESTORE: _restore,
}

#: Steps that want their pod gone, or have nothing left to do when it is.
DONE_WHEN_GONE = frozenset({StepKind.EVICT, StepKind.AWAIT_GONE, StepKind.RESTORE})
