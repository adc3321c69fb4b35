"""`advance`: the only way a plan changes."""

from collections.abc import Iterator

import attrs

from plans.steps import (
    TERMINAL,
    TRANSITIONS,
    Begun,
    BindPod,
    CallRefused,
    Cancelled,
    Effect,
    OutcomeLost,
    Plan,
    PlanEvent,
    PodGone,
    PodOnNode,
    PodUnbound,
    ReadPod,
    Settle,
    Step,
    StepKind,
    StepState,
    TimePassed,
    Trigger,
)

LOST = frozenset({StepState.FAILED, StepState.CANCELLED})


def bind_plan(pod: str, node: str, timeout: float) -> Plan:
    """A plan of one bind, which must be seen to be applied within `timeout` seconds.

    The binds of a batch have nothing in common but the moment, so each is a plan of its own.
    """
    return Plan(f"bind-{pod}", (Step(0, StepKind.BIND, pod, node, timeout),))


def advance(plan: Plan, event: PlanEvent, now: float) -> tuple[Plan, tuple[Effect, ...]]:
    """Take one event into the plan: the plan afterwards, and what is to be done about it.

    Pure and total: an event that means nothing to the plan returns it unchanged, without effects.
    `now` is in seconds on the clock that the deadlines are on.
    """
    effects: list[Effect] = []
    changed: dict[int, Step] = {}
    for step in _concerned(plan, event):
        trigger, reason = _trigger(step, event, now)
        _take(changed, step, trigger, reason, now, effects)
    if isinstance(event, Begun) or changed:
        _follow_up(plan, changed, now, effects)
    if not changed:
        return plan, ()
    steps = tuple(changed.get(step.id, step) for step in plan.steps)
    return attrs.evolve(plan, steps=steps), tuple(effects)


def _concerned(plan: Plan, event: PlanEvent) -> list[Step]:
    """The steps that the event can mean something to: in a long plan, nearly always one."""
    match event:
        case PodOnNode(pod) | PodUnbound(pod) | PodGone(pod):
            return [step for step in plan.steps if step.pod == pod]
        case CallRefused(number) | OutcomeLost(number):
            return [step for step in plan.steps if step.id == number]
        case TimePassed():
            return [s for s in plan.steps if s.deadline is not None]
        case Cancelled():
            return list(plan.steps)
        case Begun():
            return []


def _trigger(step: Step, event: PlanEvent, now: float) -> tuple[Trigger | None, str]:
    match event:
        case PodOnNode(_, node) if node == step.node:
            return Trigger.PROVE, ""
        case PodOnNode(_, node):
            return Trigger.CONTRADICT, f"the pod is on node {node}"
        case PodUnbound():
            return Trigger.DISPROVE, "the bind was not applied in time"
        case PodGone():
            return Trigger.CONTRADICT, "the pod is gone"
        case CallRefused(_, reason):
            return Trigger.REFUSE, reason
        case OutcomeLost() if step.state is StepState.ASKED:
            return Trigger.OVERDUE, ""
        case TimePassed() if step.deadline is not None and step.deadline <= now:
            return Trigger.OVERDUE, ""
        case Cancelled(reason):
            return Trigger.CANCEL, reason
    return None, ""


def _take(
    changed: dict[int, Step],
    step: Step,
    trigger: Trigger | None,
    reason: str,
    now: float,
    effects: list[Effect],
) -> None:
    state = None if trigger is None else TRANSITIONS.get((step.state, trigger))
    if state is None:
        return
    open_ended = state not in TERMINAL
    after = attrs.evolve(
        step, state=state, deadline=now + step.timeout if open_ended else None, reason=reason
    )
    changed[step.id] = after
    effects.append(_effect(after))


def _effect(step: Step) -> Effect:
    match step.state:
        case StepState.ASKED:
            return BindPod(step.id, step.pod, step.node)
        case StepState.VERIFYING:
            return ReadPod(step.pod)
        case _:
            return Settle(step)


def _follow_up(plan: Plan, changed: dict[int, Step], now: float, effects: list[Effect]) -> None:
    """Start what has become free to start, and cancel what never will be."""
    waiting = [s for s in plan.steps if s.state is StepState.WAITING]
    if not waiting:
        return
    steps = {step.id: step for step in plan.steps} | changed
    while moved := list(_unblocked(steps, waiting)):
        for step, trigger, reason in moved:
            _take(changed, step, trigger, reason, now, effects)
        steps |= changed


def _unblocked(steps: dict[int, Step], waiting: list[Step]) -> Iterator[tuple[Step, Trigger, str]]:
    for step in waiting:
        if steps[step.id].state is not StepState.WAITING:
            continue
        before = [steps[number] for number in step.after]
        lost = next((s for s in before if s.state in LOST), None)
        if lost is not None:
            yield step, Trigger.CANCEL, f"step {lost.id} {lost.state}: {lost.reason}"
        elif all(s.state is StepState.DONE for s in before):
            yield step, Trigger.START, ""
