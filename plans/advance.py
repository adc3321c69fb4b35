"""Transition function of bind and migration plans: apply an event to the steps; return the new plan
and the API calls to make.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from plans.events import (
    Abandoned,
    Begun,
    CallRefused,
    Cancelled,
    MoveAccepted,
    OutcomeLost,
    PlanEvent,
    PodGone,
    PodSeen,
    ReplacementClaimed,
    TimePassed,
    VolumesSeen,
)
from plans.steps import (
    GIVEN_UP,
    LOST,
    REREAD,
    TRANSITIONS,
    Plan,
    Step,
    StepKind,
    StepState,
    Trigger,
)

OPEN = frozenset({StepState.ASKED, StepState.VERIFYING})
#: steps completed by the deletion of their pod
DONE_WHEN_GONE = frozenset({StepKind.EVICT, StepKind.AWAIT_GONE, StepKind.RESTORE})
#: steps whose timeout includes the termination grace period
WAITS_FOR_DELETION = frozenset({StepKind.AWAIT_GONE, StepKind.AWAIT_REPLACEMENT})
#: failure reason of a step, disproved by a live read after the deadline
NOT_IN_TIME = {
    StepKind.BIND_VOLUMES: "the pod's volumes were not bound before the deadline",
    StepKind.BIND: "the pod was not bound before the deadline",
    StepKind.AWAIT_READY: "the replacement was not Ready before the deadline",
    StepKind.EVICT: "the old pod was not evicted before the deadline",
    StepKind.AWAIT_GONE: "the old pod is still terminating, by its finalizers or its kubelet",
}

#: trigger of a step, and the reason of a failure or cancellation
Meaning = tuple[Trigger, str]
PROVED: Meaning = (Trigger.PROVE, "")


#: events that set a replacement pod or a timeout
_PROVIDES_VALUES = (MoveAccepted, ReplacementClaimed)
#: maximum seconds until no claim names the node of a lost plan
RELEASING = 60.0


def bind_plan(
    plan_id: str, pod: str, node: str, timeout: float, volumes: float | None = None
) -> Plan:
    """Return the plan that binds a pod to a node, to be observed within `timeout` seconds.

    volumes: maximum seconds until the pod's volume claims are bound, before the pod is; None for
    a pod without unbound claims. If the plan is lost, claims still unbound are released.
    """
    if volumes is None:
        return Plan(plan_id, (Step(0, StepKind.BIND, pod, node, timeout),))
    return Plan(
        plan_id,
        (
            Step(0, StepKind.BIND_VOLUMES, pod, node, volumes),
            Step(1, StepKind.BIND, pod, node, timeout, after=frozenset({0})),
            Step(2, StepKind.RELEASE_VOLUMES, pod, node, RELEASING, rescues=frozenset({0, 1})),
        ),
    )


def release_plan(plan_id: str, pod: str, node: str) -> Plan:
    """Return the plan that withdraws the node from the pod's claims after an interrupted plan."""
    return Plan(plan_id, (Step(0, StepKind.RELEASE_VOLUMES, pod, node, RELEASING),))


def advance(plan: Plan, event: PlanEvent, now: float) -> tuple[Plan, tuple[Step, ...]]:
    """Apply an event to a bind or migration plan; return the new plan, and the actions to execute,
    such as API calls.

    The effects are the changed steps. The placement manager carries out asked steps, and reads the
    pods of verifying steps live. Every other changed step has ended.

    Pure and total: an event without meaning for the plan returns the plan unchanged. `now` is in
    seconds on the clock of the deadlines.
    """
    steps = list(plan.steps)
    changed: dict[int, Step] = {}
    if isinstance(event, _PROVIDES_VALUES):
        steps = [_fill_in(step, event) for step in steps]
    triggered = list(_interpret(steps, event, now))
    while triggered:
        followed = False
        for step, (trigger, reason) in triggered:
            state = TRANSITIONS.get((step.state, trigger))
            if state is None:
                continue
            verifying = state is StepState.VERIFYING
            patience = min(step.timeout, REREAD) if verifying else step.timeout
            changed[step.id] = steps[step.id] = replace(
                step,
                state=state,
                deadline=now + patience if state in OPEN else None,
                verified_since=(step.verified_since or now) if verifying else None,
                reason=reason,
            )
            followed = True
        triggered = list(_list_unblocked(steps)) if followed else []
    return Plan(plan.id, tuple(steps)), tuple(changed.values())


def _fill_in(step: Step, event: MoveAccepted | ReplacementClaimed) -> Step:
    """Set a step's replacement pod or timeout, once an event provides the value."""
    match event:
        case ReplacementClaimed(move, pod) if step.replacement_of == move:
            return replace(step, pod=pod)
        case MoveAccepted(move) if step.move == move:
            return _set_timeout(step, event)
    return step


def _set_timeout(step: Step, accepted: MoveAccepted) -> Step:
    if step.kind is StepKind.SETTLE:
        return replace(step, timeout=accepted.settle)
    if step.kind is StepKind.AWAIT_READY:
        return replace(step, timeout=max(step.timeout, accepted.ready_within))
    if step.kind in WAITS_FOR_DELETION:
        return replace(step, timeout=step.timeout + accepted.grace)
    return step


def _interpret(
    steps: Sequence[Step], event: PlanEvent, now: float
) -> Iterator[tuple[Step, Meaning]]:
    """Yield the plan steps that the event concerns, with the trigger for each step, and the reason.

    Triggers without an entry in `TRANSITIONS`, for example of finished steps, change nothing.
    """
    match event:
        case Begun():
            yield from _list_unblocked(steps)
        case PodSeen() | PodGone() | VolumesSeen():
            yield from _interpret_pod(steps, event)
        case MoveAccepted(move):
            yield from ((s, PROVED) for s in steps if (s.move, s.kind) == (move, StepKind.START))
        case ReplacementClaimed(move):
            awaits = StepKind.AWAIT_REPLACEMENT
            yield from ((s, PROVED) for s in steps if (s.move, s.kind) == (move, awaits))
        case CallRefused(number, reason):
            yield from ((s, (Trigger.REFUSE, reason)) for s in steps if s.id == number)
        case OutcomeLost(number, reason):
            asked = (s for s in steps if s.id == number and s.state is StepState.ASKED)
            yield from ((step, (Trigger.OVERDUE, reason)) for step in asked)
        case TimePassed():
            due = (s for s in steps if s.deadline is not None and s.deadline <= now)
            yield from ((step, _overdue(step, now)) for step in due)
        case Cancelled(reason):
            yield from ((s, (Trigger.CANCEL, reason)) for s in steps if s.kind is StepKind.START)
        case Abandoned(reason, number):
            yield from ((s, (Trigger.ABANDON, reason)) for s in steps if number in (None, s.id))


def _interpret_pod(
    steps: Sequence[Step], event: PodSeen | PodGone | VolumesSeen
) -> Iterator[tuple[Step, Meaning]]:
    """Yield the plan steps about the observed pod, with the trigger for each and the reason."""
    if isinstance(event, VolumesSeen):
        yield from _interpret_volumes([s for s in steps if s.pod == event.pod], event)
        return
    # Claims outlive their pod.
    own = [s for s in steps if s.pod == event.pod and s.kind is not StepKind.RELEASE_VOLUMES]
    if isinstance(event, PodSeen):
        # The observation is repeated for a waiting step after completion of all predecessors.
        for step in own:
            meaning = _observe_pod(step, event) if step.state in OPEN else None
            if meaning is not None:
                yield step, meaning
        return
    detached = {step.move for step in own if step.kind is StepKind.DETACH}
    own += (s for s in steps if s.kind is StepKind.AWAIT_REPLACEMENT and s.move in detached)
    for step in own:
        gone = step.kind in DONE_WHEN_GONE
        yield step, PROVED if gone else (Trigger.CONTRADICT, "the pod is gone")


def _interpret_volumes(steps: Iterable[Step], seen: VolumesSeen) -> Iterator[tuple[Step, Meaning]]:
    """Yield the open plan steps about the pod's volumes, with the trigger and the reason."""
    for step in steps:
        done = {StepKind.BIND_VOLUMES: seen.bound, StepKind.RELEASE_VOLUMES: seen.released}
        if step.state not in OPEN or step.kind not in done:
            continue
        if done[step.kind]:
            yield step, PROVED
        elif seen.obstacle and step.kind is StepKind.BIND_VOLUMES:
            yield step, (Trigger.CONTRADICT, seen.obstacle)
        elif seen.live and step.state is StepState.VERIFYING:
            yield step, _disprove(step)


def _disprove(step: Step) -> Meaning:
    reason = step.reason or NOT_IN_TIME.get(step.kind, "the deadline passed")
    return Trigger.DISPROVE, reason


def _observe_pod(step: Step, seen: PodSeen) -> Meaning | None:
    """Return the trigger that an observation of the pod implies for a plan step in progress."""
    match step.kind:
        case StepKind.BIND if seen.node == step.node:
            return PROVED
        case StepKind.BIND | StepKind.BIND_VOLUMES if seen.node:
            return Trigger.CONTRADICT, f"the pod is on node {seen.node}"
        case StepKind.BIND | StepKind.BIND_VOLUMES | StepKind.START if seen.terminating:
            return Trigger.CONTRADICT, "the pod is being deleted"
        case StepKind.AWAIT_READY if seen.terminating:
            return Trigger.CONTRADICT, "the replacement is being deleted"
        case StepKind.AWAIT_READY if seen.ended:
            return Trigger.CONTRADICT, "the replacement has ended, rejected or evicted by its node"
        case StepKind.SETTLE if seen.terminating or not seen.ready:
            return Trigger.CONTRADICT, "the replacement is no longer Ready"
    proof = {
        StepKind.DETACH: seen.detached,
        StepKind.AWAIT_READY: seen.ready,
        StepKind.EVICT: seen.terminating,
        StepKind.RESTORE: seen.terminating or not seen.detached,
    }
    if proof.get(step.kind):
        return PROVED
    if seen.live and step.state is StepState.VERIFYING:
        return _disprove(step)
    return None


def _overdue(step: Step, now: float) -> Meaning:
    if step.verified_since is not None:
        if now - step.verified_since >= GIVEN_UP:
            return Trigger.DISPROVE, "its result could not be determined"
        return Trigger.OVERDUE, ""
    match step.kind:
        case StepKind.SETTLE:
            return PROVED
        case StepKind.START:
            return Trigger.REFUSE, "the deadline passed before it could begin"
        case StepKind.AWAIT_REPLACEMENT:
            # There is no pod to read.
            return Trigger.REFUSE, "no replacement was created before the deadline"
    return Trigger.OVERDUE, step.reason


def _list_unblocked(steps: Sequence[Step]) -> Iterator[tuple[Step, Meaning]]:
    """Yield waiting plan steps whose predecessors are all done (start) or failed (cancel)."""
    for step in steps:
        if step.state is not StepState.WAITING:
            continue
        before = [steps[number] for number in step.after]
        rescued = [steps[number].state for number in step.rescues]
        lost = next((each for each in before if each.state in LOST), None)
        if lost is not None:
            yield step, (Trigger.CANCEL, lost.reason)
        elif all(each.state is StepState.DONE for each in before):
            if not rescued or not LOST.isdisjoint(rescued):
                yield step, (Trigger.START, "")
            elif all(state is StepState.DONE for state in rescued):
                yield step, (Trigger.CANCEL, "not needed")
