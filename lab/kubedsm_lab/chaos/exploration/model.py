"""Transition system of plans in an unreliable cluster, for the explorer."""

from collections.abc import Callable, Iterator
from functools import partial

import attrs

from kubedsm_lab.chaos.exploration.process import REPEATED, Moment
from kubedsm_lab.chaos.exploration.search import Edge, Result, explore
from kubedsm_lab.chaos.exploration.states import (
    GONE,
    MIGRATION,
    NOW,
    UNBORN,
    Call,
    PodState,
    Scenario,
    Setting,
    State,
    has_room,
)
from plans import events
from plans.migration import migration_plan, restore_plan
from plans.steps import TERMINAL, Plan, StepKind, StepState

#: node of the pods that another scheduler binds
ELSEWHERE = "elsewhere"
#: steps that a partition, or an owner without need for a replacement, aborts
_ABORTABLE = frozenset({
    StepKind.START, StepKind.AWAIT_REPLACEMENT, StepKind.AWAIT_READY, StepKind.SETTLE,
})  # fmt: skip


@attrs.define(eq=False)
class PlanModel:
    """Plan of a scenario, scheduler process and cluster as one transition system."""

    setting: Setting

    @property
    def name(self) -> str:
        return self.setting.scenario.name

    def list_initial(self) -> Iterator[State]:
        first = {pods[0] for pods in self.setting.scenario.pods.values()}
        placed = self.setting.scenario.placed
        pods = tuple(
            PodState(node=placed[pod], ready=True)
            if pod in placed
            else PodState()
            if pod in first
            else UNBORN
            for pod in self.setting.pods
        )
        moment = Moment(self.setting, State((), pods, pods))
        if self.setting.scenario.orders:
            moment.begin(migration_plan(MIGRATION, self.setting.scenario.orders))
        yield moment.end().state

    def list_edges(self, state: State) -> Iterator[Edge]:
        most = self.setting.scenario.most_faults
        may_fail = most is None or state.faults < most
        for label, act, fault in _list_actions(self.setting, state):
            if fault and not may_fail:
                continue
            moment = Moment(self.setting, state)
            act(moment)
            if fault and most is not None:
                moment.faults += 1
            yield moment.end(label, fault=fault)
        tick = self._tick(state)
        if tick is not None:
            yield tick
        if self.setting.scenario.restarts and (state.plans or state.calls):
            moment = Moment(self.setting, state)
            moment.crash()
            yield moment.end("the process crashes, and is restarted", fault=True)

    def _tick(self, state: State) -> Edge | None:
        """Advance the clock to the next deadline, once all calls have ended by their timeouts."""
        if state.reads or any(c.sent or c.lost or c.kind not in REPEATED for c in state.calls):
            return None
        due = [d for _, plan in state.plans if (d := plan.next_deadline) is not None]
        if not due:
            return None
        moment = Moment(self.setting, state)
        moment.wait(min(due) - NOW)
        return moment.end(f"{min(due) - NOW:g} s pass", tick=True)

    def is_quiet(self, state: State) -> bool:
        """Return whether no plan is in progress, and no pod waits for the scheduler."""
        return not (state.plans or state.calls or any(_list_tasks(self.setting, state))) and all(
            pod.seen == seen for pod, seen in zip(state.pods, state.seen, strict=True)
        )

    def list_obligations(self, state: State) -> list[str]:
        return [name for name, _ in state.plans]


_Act = Callable[["Moment"], object]
_Action = tuple[str, _Act, bool]


def _list_actions(setting: Setting, state: State) -> Iterator[_Action]:
    """Yield each possible action as its label, a function, and whether the action is a fault."""
    yield from _list_cluster_actions(setting, state)
    for pod, actual, seen in zip(setting.pods, state.pods, state.seen, strict=True):
        if actual.seen != seen:
            yield f"the watch shows {pod}", partial(Moment.show, pod=pod), False
    for call in sorted(state.calls):
        yield from _list_call_actions(call)
    for name, number in sorted(state.reads):
        act = partial(Moment.read, plan=name, number=number)
        yield f"a live read for step {number} of {name}", act, False
        unread = partial(Moment.drop_read, plan=name, number=number)
        yield f"a live read for step {number} of {name} fails", unread, True
    yield from _list_tasks(setting, state)
    for name, plan in state.plans:
        yield from _list_plan_actions(name, plan)


def _list_cluster_actions(setting: Setting, state: State) -> Iterator[_Action]:
    pods = dict(zip(setting.pods, state.pods, strict=True))
    for owner, names in setting.scenario.pods.items():
        owned = [name for name in names if pods[name].active and not pods[name].detached]
        unborn = next((name for name in names if pods[name] == UNBORN), None)
        surplus = owned[1:]
        if unborn and not surplus:
            act = partial(Moment.set_pod, pod=unborn, state=PodState())
            yield f"{owner} creates {unborn}", act, bool(owned)
        if surplus:
            for name in owned:
                act = partial(Moment.change_pod, pod=name, terminating=True, ready=False)
                yield f"{owner} deletes {name}, one too many", act, False
    for name, pod in pods.items():
        if not pod.created:
            continue
        change: Callable[..., _Act] = partial(partial, Moment.change_pod, pod=name)
        if pod.active and pod.node:
            yield f"{name} is Ready: {not pod.ready}", change(ready=not pod.ready), pod.ready
        if pod.active:
            yield f"a user deletes {name}", change(terminating=True, ready=False), True
        else:
            yield f"{name} ends", partial(Moment.set_pod, pod=name, state=GONE), False
        if pod.pending:
            yield f"another scheduler binds {name}", change(node=ELSEWHERE), True


def _list_call_actions(call: Call) -> Iterator[_Action]:
    what = f"{call.kind} {call.pod}"
    if call.lost:
        yield f"the response to {what} is lost", partial(Moment.lose_response, call=call), False
    elif not call.sent:
        yield f"send {what}", partial(Moment.send, call=call), False
    else:
        yield f"the API server processes {what}", partial(Moment.process, call=call), False
        drop = partial(Moment.drop_call, call=call)
        yield f"{what} does not arrive", drop, call.live
        if call.live:
            apply = partial(Moment.process, call=call, lost=True)
            yield f"the API server processes {what}, the response gets lost", apply, True
            refuse = partial(Moment.refuse, call=call)
            yield f"the API server refuses {what}", refuse, True


def _list_tasks(setting: Setting, state: State) -> Iterator[_Action]:
    """Yield the plans that the process begins by itself: binds of pending pods, and restoring."""
    followed = {step.pod for _, plan in state.plans for step in plan.steps}
    claimed = {pod for pod, _ in state.claimed}
    for pod, seen in zip(setting.pods, state.seen, strict=True):
        if pod in followed or pod in claimed or not seen.active:
            continue
        if seen.detached:
            yield f"restore {pod}", partial(Moment.begin, plan=restore_plan(pod)), False
        elif not seen.node:
            targets = {order.target for order in setting.orders.values()} or {"n1", "n2"}
            for node in sorted(targets):
                if has_room(state, node):
                    yield f"place {pod} on {node}", partial(Moment.place, pod=pod, node=node), False


def _list_plan_actions(name: str, plan: Plan) -> Iterator[_Action]:
    cancel = partial(Moment.report, plan=name, event=events.Cancelled("no longer wanted"))
    if any(s.kind is StepKind.START and s.state not in TERMINAL for s in plan.steps):
        yield f"cancel {name}", cancel, True
    abandon = partial(Moment.report, plan=name, event=events.Abandoned("internal error"))
    yield f"abandon {name}", abandon, True
    for step in plan.steps:
        if step.state is not StepState.ASKED or step.kind not in _ABORTABLE:
            continue
        if step.kind is StepKind.START:
            yield f"check {step.move}", partial(Moment.check, plan=name, step=step), False
        refused = events.CallRefused(step.id, "aborted")
        abort = partial(Moment.report, plan=name, event=refused)
        yield f"abort step {step.kind} of {step.move}", abort, True


def explore_scenario(scenario: Scenario) -> Result:
    """Visit all states of a scenario's model."""
    return explore(PlanModel(Setting(scenario)))
