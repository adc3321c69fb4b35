"""One transition of the model of plans: an action of cluster, process or clock, all its immediate
consequences, and the invariants.

The process acts as `PlacementManager`, `BindCalls` and `MigrationCalls` of kubedsm.execution do.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from kubedsm_lab.chaos.exploration.search import Edge
from kubedsm_lab.chaos.exploration.states import (
    GONE,
    MIGRATION,
    PERIOD,
    Call,
    PodState,
    Setting,
    State,
    has_room,
)
from plans import events
from plans.advance import OPEN, bind_plan
from plans.steps import TERMINAL, Plan, Step, StepKind, StepState

_DECIDING = frozenset({StepKind.START, StepKind.BIND})
#: steps whose calls are repeated until an observation
REPEATED = frozenset({StepKind.EVICT, StepKind.RESTORE})
_CALLED = REPEATED | {StepKind.BIND, StepKind.DETACH}


class Moment:
    """Mutable state during one transition: performs an action and all immediate consequences."""

    def __init__(self, setting: Setting, state: State) -> None:
        self.setting = setting
        self.plans = dict(state.plans)
        self.pods = dict(zip(setting.pods, state.pods, strict=True))
        self.seen = dict(zip(setting.pods, state.seen, strict=True))
        self.calls = set(state.calls)
        self.reads = set(state.reads)
        self.reserved = dict(state.reserved)
        self.claims = set(state.claims)
        self.claimed = dict(state.claimed)
        self.settled = set(state.settled)
        self.given_up = set(state.given_up)
        self.faults = state.faults
        self.wrong: list[str] = []
        self._inbox: deque[tuple[str, events.PlanEvent]] = deque()

    def end(self, label: str = "", *, fault: bool = False, tick: bool = False) -> Edge:
        """Return the transition to the resulting state."""
        self.wrong += _list_violations(self)
        self._forget_ended()
        state = State(
            tuple(sorted(self.plans.items())),
            tuple(self.pods.values()),
            tuple(self.seen.values()),
            frozenset(self.calls),
            frozenset(self.reads),
            frozenset(self.reserved.items()),
            frozenset(self.claims),
            frozenset(self.claimed.items()),
            frozenset(self.settled),
            frozenset(self.given_up),
            self.faults,
        )
        return Edge(label, state, self.wrong, fault, tick)

    def _forget_ended(self) -> None:
        """Drop what can no longer make a difference, so that equal states are equal."""
        if MIGRATION not in self.plans:
            self.settled.clear()
        self.given_up = {pod for pod in self.given_up if self.pods[pod].ours}
        self.calls = {c for c in self.calls if c.live or self._can_apply(c)}

    def _can_apply(self, call: Call) -> bool:
        pod = self.pods[call.pod]
        return pod.pending if call.kind == StepKind.BIND else pod.active

    def require(self, truth: object, otherwise: str) -> None:
        if not truth:
            self.wrong.append(otherwise)

    # Cluster.

    def set_pod(self, pod: str, state: PodState) -> None:
        self.pods[pod] = state

    def change_pod(self, pod: str, **changes: Any) -> None:
        self.pods[pod] = self.pods[pod]._replace(**changes)

    def is_served_without(self, pod: str) -> bool:
        """Return whether another attached pod of the owner is Ready."""
        others = self.setting.scenario.pods[self.setting.owners[pod]]
        return any(self.pods[o].serving and not self.pods[o].detached for o in others if o != pod)

    # Process: calls.

    def send(self, call: Call) -> None:
        """Send a call, unless the process learns first that no call is needed."""
        pod, plan = self.pods[call.pod], self.plans[call.plan]
        step = plan.steps[call.step]
        kind = call.kind
        if kind != StepKind.BIND and not pod.created:
            self._report_gone(call)
            return
        if kind == StepKind.BIND:
            self._check_bind(step)
        elif kind == StepKind.EVICT:
            surge = any(s.kind is StepKind.DETACH and s.move == step.move for s in plan.steps)
            if surge and not self.is_served_without(call.pod):
                return  # the call is tried again
        elif kind == StepKind.RESTORE:
            if pod.terminating or not pod.detached:
                self._observe(call.plan, call.pod, pod)
                return
            kind = "evict" if self.is_served_without(call.pod) else "reattach"
        self.calls.discard(call)
        self.calls.add(call._replace(kind=kind, sent=True))

    def process(self, call: Call, *, lost: bool = False) -> None:
        """Apply the call if its preconditions hold, and respond."""
        self.calls.discard(call)
        pod, error = self.pods[call.pod], None
        match call.kind:
            case StepKind.BIND if pod.pending:
                self.change_pod(call.pod, node=call.node, ours=call.live, stray=not call.live)
                self._check_room(call)
            case StepKind.BIND:
                conflict = events.OutcomeLost(call.step, "conflict")
                error = conflict if pod.created else events.CallRefused(call.step, "not found")
            case StepKind.DETACH if pod.created:
                self.change_pod(call.pod, detached=True)
            case StepKind.DETACH:
                error = events.CallRefused(call.step, "not found")
            case StepKind.EVICT | "evict" if pod.created:
                self.change_pod(call.pod, terminating=True, ready=False)
            case "reattach" if pod.created:
                self.change_pod(call.pod, detached=False)
        if lost:
            self.calls.add(call._replace(lost=True))
        elif call.live:
            self._retry(call)
            if error is not None:
                self.report(call.plan, error)

    def drop_call(self, call: Call) -> None:
        self.calls.discard(call)
        if call.live:
            self._end_unanswered(call)

    def lose_response(self, call: Call) -> None:
        self.calls.discard(call)
        self._end_unanswered(call)

    def refuse(self, call: Call) -> None:
        self.calls.discard(call)
        self.report(call.plan, events.CallRefused(call.step, "refused"))

    def _end_unanswered(self, call: Call) -> None:
        self._retry(call)
        if call.kind in (StepKind.BIND, StepKind.DETACH):
            self.report(call.plan, events.OutcomeLost(call.step, "no response"))

    def _retry(self, call: Call) -> None:
        """Prepare to repeat the call of a step that is repeated until an observation."""
        plan = self.plans.get(call.plan)
        step = plan.steps[call.step] if plan is not None else None
        if step is not None and step.state is StepState.ASKED and step.kind in REPEATED:
            self.calls.add(Call(call.plan, step.id, step.kind, step.pod, step.node))

    def _report_gone(self, call: Call) -> None:
        if call.kind == StepKind.EVICT:
            return  # waits for the watch
        self.report(call.plan, events.PodGone(call.pod))

    # Process: observations.

    def show(self, pod: str) -> None:
        """Let the watch show the pod's present state."""
        actual = self.pods[pod].seen
        self._apply(pod, actual)
        plan = self._find_plan(pod)
        move = self.claimed.get(pod)
        if plan is None and move is not None and MIGRATION in self.plans:
            self.report(MIGRATION, events.ReplacementClaimed(move, pod))
            plan = MIGRATION
        if plan is not None:
            self._observe(plan, pod, actual)
            self._check_observation(plan, pod)

    def read(self, plan: str, number: int) -> None:
        """Read the pod of a verifying step live."""
        self.reads.discard((plan, number))
        pod = self.plans[plan].steps[number].pod
        actual = self.pods[pod].seen
        if self.seen[pod].created and actual.created:
            self.show(pod)
            if plan in self.plans:
                self._observe(plan, pod, actual, live=True)
        else:
            self.report(plan, events.PodGone(pod))

    def drop_read(self, plan: str, number: int) -> None:
        self.reads.discard((plan, number))

    def _apply(self, pod: str, actual: PodState) -> None:
        """Mirror the pod as `ClusterMirror.apply` does."""
        new = not self.seen[pod].created and actual.created
        self.seen[pod] = actual
        self.pods[pod] = actual
        if not actual.serving:
            self.settled.discard(pod)
        if actual.node or not actual.active:
            self.reserved.pop(pod, None)
        elif new:
            owner = self.setting.owners[pod]
            mine = (m for m in sorted(self.claims) if self._owner_of(m) == owner)
            move = next(mine, None)
            if move is not None:
                self.claims.discard(move)
                self.claimed[pod] = move
        if not actual.created:
            self.claimed.pop(pod, None)

    def _owner_of(self, move: str) -> str:
        order = self.setting.orders[move]
        return self.setting.owners[order.pod] if order.pod else self._owner_of(order.second_leg_of)

    def _find_plan(self, pod: str) -> str | None:
        followers = (n for n, plan in self.plans.items() if any(s.pod == pod for s in plan.steps))
        return next(followers, None)

    def _observe(self, plan: str, pod: str, state: PodState, *, live: bool = False) -> None:
        if not state.created:
            self.report(plan, events.PodGone(pod))
            return
        seen = events.PodSeen(
            pod, state.node, state.ready, state.terminating, state.detached, live=live
        )
        self.report(plan, seen)

    # Process: plans.

    def begin(self, plan: Plan) -> None:
        self.plans[plan.id] = self.setting.interpreter.intern(plan)
        self.report(plan.id, events.Begun())

    def place(self, pod: str, node: str) -> None:
        self.reserved[pod] = node
        self.begin(bind_plan(f"bind-{pod}", pod, node, PERIOD))

    def check(self, plan: str, step: Step) -> None:
        """Check whether the migration may begin, and reserve the target, as the manager does."""
        pod = self.pods[step.pod]
        if not pod.serving or pod.detached or not has_room(self.end().state, step.node):
            self.report(plan, events.CallRefused(step.id, "it may not begin"))
            return
        self.reserved[step.move] = step.node
        self.claims.add(step.move)
        self.report(plan, events.MoveAccepted(step.move, settle=PERIOD))

    def wait(self, seconds: float) -> None:
        """Let time pass: to the next deadline of any plan."""
        self.settled |= {pod for pod, seen in self.seen.items() if seen.serving}
        for name in list(self.plans):
            self.plans[name] = self.setting.interpreter.delay(self.plans[name], seconds)
        for name in list(self.plans):
            self.report(name, events.TimePassed())

    def crash(self) -> None:
        """Forget everything but the calls on their way, and list all pods."""
        self.calls = {call for call in self.calls if call.live}
        self._forget_calls(*self.plans)
        self.plans, self.reserved, self.claimed = {}, {}, {}
        for kept in (self.reads, self.claims, self.settled, self.given_up):
            kept.clear()
        self.pods = {pod: state.seen for pod, state in self.pods.items()}
        self.seen = dict(self.pods)

    def report(self, plan: str, event: events.PlanEvent) -> None:
        """Deliver an event, and perform the effects in order, as `PlacementManager.report` does."""
        handling = bool(self._inbox)
        self._inbox.append((plan, event))
        if handling:
            return
        while self._inbox:
            name, event = self._inbox[0]
            if name in self.plans:
                self._handle(name, event)
            self._inbox.popleft()

    def _handle(self, name: str, event: events.PlanEvent) -> None:
        plan, effects, wrong = self.setting.interpreter.advance(self.plans[name], event)
        self.wrong += wrong
        self.plans[name] = plan
        open_steps = {step.id for step in plan.steps if step.state is StepState.ASKED}
        verified = {step.id for step in plan.steps if step.state is StepState.VERIFYING}
        self.calls = {
            c for c in self.calls if c.sent or c.lost or c.plan != name or c.step in open_steps
        }
        self.reads = {(p, step) for p, step in self.reads if p != name or step in verified}
        for step in effects:
            self._apply_effect(name, plan, step)
        if plan.finished:
            self._check_end(plan)
            del self.plans[name]
            self._forget_calls(name)

    def _forget_calls(self, *plans: str) -> None:
        """Detach the calls of ended plans: they may still arrive, but report nothing."""
        self.calls = {
            c._replace(live=False) if c.plan in plans else c
            for c in self.calls
            if c.plan not in plans or (c.sent and not c.lost)
        }

    def _apply_effect(self, name: str, plan: Plan, step: Step) -> None:
        if step.state is StepState.VERIFYING:
            self.reads.add((name, step.id))
        elif step.state is StepState.ASKED:
            self._ask(name, plan, step)
        else:
            self._end_step(plan, step)

    def _ask(self, name: str, plan: Plan, step: Step) -> None:
        if step.kind is StepKind.START:
            self._check_start(step)
        elif step.kind is StepKind.EVICT:
            self._check_eviction(plan, step)
        elif step.kind is StepKind.BIND and step.move:
            node = self.reserved.pop(step.move, None)
            if node is not None:
                self.reserved[step.pod] = node
        if step.kind in _CALLED and (step.kind is StepKind.BIND or self.seen[step.pod].created):
            self.calls.add(Call(name, step.id, step.kind, step.pod, step.node))
        elif step.kind not in (StepKind.START, StepKind.AWAIT_REPLACEMENT):
            self._observe(name, step.pod, self.seen[step.pod])

    def _end_step(self, plan: Plan, step: Step) -> None:
        self._check_result(step)
        if step.kind is StepKind.BIND and step.state is not StepState.DONE and step.pod:
            if "determined" in step.reason or "internal" in step.reason:
                self.given_up.add(step.pod)
            self.reserved.pop(step.pod, None)
        if step.move in self.setting.orders and all(
            s.state in TERMINAL for s in plan.steps if s.move == step.move
        ):
            self.reserved.pop(step.move, None)
            self.claims.discard(step.move)
            self.claimed = {pod: move for pod, move in self.claimed.items() if move != step.move}

    # Invariants.

    def _check_start(self, step: Step) -> None:
        order = self.setting.orders[step.move]
        before = [self.setting.orders[name] for name in order.needs]
        leg = self.setting.orders.get(order.second_leg_of)
        for each in (*before, *([leg] if leg else [])):
            self.require(
                not each.pod or not self.pods[each.pod].created,
                f"I2: {order.id} starts while the pod of {each.id} is there",
            )
        self.require(not leg or step.pod, f"{order.id} starts before its pod exists")

    def _check_bind(self, step: Step) -> None:
        others = [c for c in self.calls if c.kind == StepKind.BIND and c.pod == step.pod and c.live]
        self.require(not others[1:], f"I1: two binds of {step.pod} are under way")
        order = self.setting.orders.get(step.move)
        if order is not None and order.pod:
            known = (self.seen[order.pod], self.pods[order.pod])
            away = any(old.detached or not old.active for old in known)
            self.require(away, f"I3: {step.pod} is bound before {order.pod} is seen to leave")

    def _check_room(self, call: Call) -> None:
        """Check that a live bind does not exceed the capacity of its node."""
        there = [p for p, pod in self.pods.items() if pod.created and pod.node == call.node]
        excused = self.given_up or any(self.pods[p].stray for p in there)
        self.require(excused or not there[1:], f"I2: {' and '.join(there)} on {call.node}")

    def _check_eviction(self, plan: Plan, step: Step) -> None:
        if not any(s.kind is StepKind.DETACH and s.move == step.move for s in plan.steps):
            return
        waits = (s.pod for s in plan.steps if s.kind is StepKind.SETTLE and s.move == step.move)
        new = next(waits, "")
        serving = new and self.seen[new].serving
        self.require(serving, f"I3: {step.pod} is evicted, and {new or 'no pod'} is not Ready")
        self.require(new in self.settled, f"I3: {step.pod} is evicted before {new} has settled")

    def _check_result(self, step: Step) -> None:
        """Check the result of a step against the observations of its pod."""
        pod = self.pods.get(step.pod, GONE)
        known = (self.seen.get(step.pod, GONE), pod)
        proofs: dict[StepKind, Callable[[PodState], object]] = {
            StepKind.DETACH: lambda p: p.detached,
            StepKind.BIND: lambda p: p.node == step.node,
            StepKind.AWAIT_READY: lambda p: p.ready,
            StepKind.EVICT: lambda p: not p.active,
            StepKind.AWAIT_GONE: lambda p: not p.created,
            StepKind.RESTORE: lambda p: not (p.active and p.detached),
        }
        if step.state is StepState.DONE and step.kind in proofs:
            proved = any(map(proofs[step.kind], known))
            self.require(proved, f"step {step.kind} is done without proof")
        elif step.state is StepState.FAILED and step.kind is StepKind.RESTORE:
            self.require(known[0].created, f"restoring {step.pod} fails, and the pod is gone")

    def _check_observation(self, plan: str, pod: str) -> None:
        """Check that an observation that contradicts a decision ends its step at once."""
        seen = self.seen[pod]
        for step in self.plans[plan].steps if plan in self.plans else ():
            if step.pod == pod and step.kind in _DECIDING and step.state in OPEN:
                self.require(seen.active, f"step {step.kind} goes on, and {pod} is leaving")
                if step.kind is StepKind.BIND:
                    self.require(not seen.node, f"step bind goes on, and {pod} is bound")

    def _check_end(self, plan: Plan) -> None:
        for step in plan.steps:
            if step.kind is StepKind.RESTORE and step.state is StepState.CANCELLED:
                seen = self.seen.get(step.pod, GONE)
                abandoned = "internal" in step.reason
                self.require(
                    abandoned or not (seen.active and seen.detached),
                    f"I5: {step.pod} is left detached",
                )


def _list_violations(moment: Moment) -> Iterator[str]:
    """Yield violated invariants of a state."""
    pods, reserved = moment.pods, moment.reserved
    for pod, seen in moment.seen.items():
        if seen.active and not seen.node and pod not in moment.given_up:
            nodes = {
                c.node for c in moment.calls if c.live and c.sent and not c.lost and _binds(c, pod)
            }
            if pods[pod].ours:
                nodes.add(pods[pod].node)
            for node in nodes:
                if reserved.get(pod) != node:
                    yield f"books: {pod} may be bound to {node}, which is not reserved"
    holders = {
        name for plan in moment.plans.values() for s in plan.steps for name in (s.pod, s.move)
    }
    for holder in {*reserved, *moment.claims}:
        if holder not in holders:
            yield f"I5: {holder} holds a reservation or a claim without a plan"


def _binds(call: Call, pod: str) -> bool:
    return call.kind == StepKind.BIND and call.pod == pod
