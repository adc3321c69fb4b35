"""`advance`: the only way a plan changes."""

from collections.abc import Iterable, Iterator

import attrs

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
)
from plans.steps import (
    GIVEN_UP,
    LOST,
    REREAD,
    TERMINAL,
    TRANSITIONS,
    Plan,
    Step,
    StepKind,
    StepState,
    Trigger,
)

OPEN = frozenset({StepState.ASKED, StepState.VERIFYING})

Meaning = tuple[Trigger, str] | None
PROVED: Meaning = (Trigger.PROVE, "")


def bind_plan(plan_id: str, targets: Iterable[tuple[str, str]], timeout: float) -> Plan:
    """Return the plan that binds pods to nodes, each to be observed within `timeout` seconds.

    The binds are independent of each other.
    """
    steps = (Step(n, StepKind.BIND, pod, node, timeout) for n, (pod, node) in enumerate(targets))
    return Plan(plan_id, tuple(steps))


def advance(plan: Plan, event: PlanEvent, now: float) -> tuple[Plan, tuple[Step, ...]]:
    """Apply an event to the plan; return the new plan and the effects.

    The effects are the changed steps. A step that is asked must be carried out. For a step that is
    verifying, the pod must be read live and reported. Every other step has ended.

    Pure and total: an event without meaning for the plan returns the plan unchanged. `now` is in
    seconds on the clock of the deadlines.
    """
    plan = _fill_in(plan, event)
    changed: dict[int, Step] = {}
    for step in _list_affected(plan, event):
        meaning = _interpret(step, event, now)
        if meaning is not None:
            _apply(changed, step, *meaning, now)
    if isinstance(event, Begun) or changed:
        _follow_up(plan, changed, now)
    if not changed:
        return plan, ()
    return plan.replace_steps(changed), tuple(changed.values())


#: reason of a step that a live read disproves after its deadline
NOT_IN_TIME = {
    StepKind.BIND: "the pod was not bound in time",
    StepKind.AWAIT_READY: "the replacement was not Ready in time",
    StepKind.EVICT: "the old pod was not evicted in time",
    StepKind.AWAIT_GONE: "the old pod is still terminating, by its finalizers or its kubelet",
}
_LATE = "it did not happen in time"
_TRIGGERS: dict[type, Trigger] = {
    CallRefused: Trigger.REFUSE,
    Cancelled: Trigger.CANCEL,
    Abandoned: Trigger.ABANDON,
}
#: steps whose timeout includes the termination grace period
WAITS_FOR_DELETION = frozenset({StepKind.AWAIT_GONE, StepKind.AWAIT_REPLACEMENT})


def _fill_in(plan: Plan, event: PlanEvent) -> Plan:
    """Fill in pods and timeouts of later steps that the event determines."""
    match event:
        case ReplacementClaimed(move, pod):
            fill = {s.id: attrs.evolve(s, pod=pod) for s in plan.steps if s.replacement_of == move}
        case MoveAccepted(move, settle, grace):
            fill = {
                s.id: attrs.evolve(
                    s, timeout=settle if s.kind is StepKind.SETTLE else s.timeout + grace
                )
                for s in plan.steps
                if s.move == move and (s.kind is StepKind.SETTLE or s.kind in WAITS_FOR_DELETION)
            }
        case _:
            return plan
    return Plan(plan.id, tuple(fill.get(step.id, step) for step in plan.steps))


def _list_affected(plan: Plan, event: PlanEvent) -> list[Step]:
    """Return the steps that the event may affect: nearly always one or two."""
    match event:
        case PodSeen(pod):
            return [step for step in plan.steps_of(pod) if step.state not in TERMINAL]
        case PodGone(pod):
            steps = plan.steps_of(pod)
            moves = {step.move for step in steps if step.kind is StepKind.DETACH}
            waits = (s for s in plan.steps if s.kind is StepKind.AWAIT_REPLACEMENT)
            steps += [step for step in waits if step.move in moves]
            return [step for step in steps if step.state not in TERMINAL]
        case CallRefused(number) | OutcomeLost(number):
            return list(plan.steps[number : number + 1])
        case MoveAccepted(move):
            return [s for s in plan.steps if s.move == move and s.kind is StepKind.START]
        case ReplacementClaimed(move):
            return [
                s for s in plan.steps if s.move == move and s.kind is StepKind.AWAIT_REPLACEMENT
            ]
        case TimePassed():
            return [s for s in plan.steps if s.deadline is not None]
        case Cancelled():
            return [s for s in plan.steps if s.kind is StepKind.START]
        case Abandoned(_, number):
            left = [step for step in plan.steps if step.state not in TERMINAL]
            return left if number is None else [step for step in left if step.id == number]
        case Begun():
            return []


def _interpret(step: Step, event: PlanEvent, now: float) -> Meaning:
    match event:
        case PodSeen() if step.state is StepState.WAITING:
            return None  # the pod is observed again once the predecessors are done
        case PodSeen(live=live):
            meaning = _observe_pod(step, event)
            if live and meaning is None and step.state is StepState.VERIFYING:
                return Trigger.DISPROVE, step.reason or NOT_IN_TIME.get(step.kind, _LATE)
            return meaning
        case PodGone():
            gone = step.kind in DONE_WHEN_GONE
            return PROVED if gone else (Trigger.CONTRADICT, "the pod is gone")
        case MoveAccepted() | ReplacementClaimed():
            return PROVED
        case CallRefused() | Cancelled() | Abandoned():
            return _TRIGGERS[type(event)], event.reason
        case OutcomeLost(_, reason) if step.state is StepState.ASKED:
            return Trigger.OVERDUE, reason
        case TimePassed() if step.deadline is not None and step.deadline <= now:
            return _overdue(step, now)
    return None


def _overdue(step: Step, now: float) -> Meaning:
    if step.verified_since is not None:
        if now - step.verified_since >= GIVEN_UP:
            return Trigger.DISPROVE, "it could not be found out whether it happened"
        return Trigger.OVERDUE, ""
    match step.kind:
        case StepKind.SETTLE:
            return PROVED
        case StepKind.START:
            return Trigger.REFUSE, "its turn did not come in time"
        case StepKind.AWAIT_REPLACEMENT:
            # There is no pod to read.
            return Trigger.REFUSE, "no replacement came in time"
    return Trigger.OVERDUE, step.reason


def _apply(changed: dict[int, Step], step: Step, trigger: Trigger, reason: str, now: float) -> None:
    state = TRANSITIONS.get((step.state, trigger))
    if state is None:
        return
    verifying = state is StepState.VERIFYING
    patience = min(step.timeout, REREAD) if verifying else step.timeout
    deadline = now + patience if state in OPEN else None
    since = (step.verified_since or now) if verifying else None
    changed[step.id] = step.become(state, deadline, since, reason)


def _follow_up(plan: Plan, changed: dict[int, Step], now: float) -> None:
    """Start steps whose predecessors are done, and cancel steps that never can start."""
    if not plan.waiting:
        return
    waiting = [s for s in plan.steps if s.state is StepState.WAITING]
    steps = {step.id: step for step in plan.steps} | changed
    while moved := list(_list_unblocked(steps, waiting)):
        for step, trigger, reason in moved:
            _apply(changed, step, trigger, reason, now)
        steps |= changed


def _list_unblocked(
    steps: dict[int, Step], waiting: list[Step]
) -> Iterator[tuple[Step, Trigger, str]]:
    for step in waiting:
        if steps[step.id].state is not StepState.WAITING:
            continue
        before = [steps[number] for number in step.after]
        rescued = [steps[number] for number in step.rescues]
        lost = _first_lost(before)
        if lost is not None:
            yield step, Trigger.CANCEL, lost.reason
        elif any(s.state is not StepState.DONE for s in before):
            continue
        elif not rescued or _first_lost(rescued) is not None:
            yield step, Trigger.START, ""
        elif all(s.state is StepState.DONE for s in rescued):
            yield step, Trigger.CANCEL, "not needed"


def _first_lost(steps: list[Step]) -> Step | None:
    return next((step for step in steps if step.state in LOST), None)


def _observe_pod(step: Step, seen: PodSeen) -> Meaning:
    """Return the meaning of an observation of the pod for a step that is asked or verifying."""
    match step.kind:
        case StepKind.BIND if seen.node == step.node:
            return PROVED
        case StepKind.BIND if seen.node:
            return Trigger.CONTRADICT, f"the pod is on node {seen.node}"
        case StepKind.BIND | StepKind.START if seen.terminating:
            return Trigger.CONTRADICT, "the pod is being deleted"
        case StepKind.AWAIT_READY if seen.terminating:
            return Trigger.CONTRADICT, "the replacement is being deleted"
        case StepKind.SETTLE if seen.terminating or not seen.ready:
            return Trigger.CONTRADICT, "the replacement is Ready no more"
    proof = {
        StepKind.DETACH: seen.detached,
        StepKind.AWAIT_READY: seen.ready,
        StepKind.EVICT: seen.terminating,
        StepKind.RESTORE: seen.terminating or not seen.detached,
    }
    return PROVED if proof.get(step.kind) else None


#: steps that are done when their pod is gone
DONE_WHEN_GONE = frozenset({StepKind.EVICT, StepKind.AWAIT_GONE, StepKind.RESTORE})
