"""Values of the model of plans: pods, calls, the state of cluster and process, and the scenarios.

A node has capacity for a single pod. docs/explanation/plan-model.md is the specification.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
from msgspec.structs import replace

from plans import events
from plans.advance import OPEN, advance
from plans.migration import MoveMode, MoveOrder
from plans.steps import GIVEN_UP, TERMINAL, Plan, Step, StepState

#: fixed clock in seconds: after each tick, deadlines move instead
NOW = 10_000.0
#: seconds per step, equal to the interval of verification, so that few deadlines differ
PERIOD = 60.0
MIGRATION = "migration"


class PodState(NamedTuple):
    """State of a pod at the API server, or as the scheduler process observed the pod."""

    created: bool = True
    node: str = ""
    ready: bool = False
    terminating: bool = False
    detached: bool = False
    #: bound by the present scheduler process
    ours: bool = False
    #: bound by a call of an ended process or plan
    stray: bool = False

    @property
    def active(self) -> bool:
        return self.created and not self.terminating

    @property
    def pending(self) -> bool:
        return self.active and not self.node

    @property
    def serving(self) -> bool:
        return self.active and self.ready

    @property
    def seen(self) -> "PodState":
        return self._replace(ours=False)


UNBORN, GONE = PodState(created=False), PodState(created=False, terminating=True)


class Call(NamedTuple):
    """API call of a plan step. `sent`: the API server may apply the call at any time. `lost`: the
    call was processed, and the response will be lost.
    """

    plan: str
    step: int
    kind: str
    pod: str
    node: str
    sent: bool = False
    lost: bool = False
    #: the sender still runs
    live: bool = True


class State(NamedTuple):
    """State of cluster and scheduler process."""

    plans: tuple[tuple[str, Plan], ...]
    pods: tuple[PodState, ...]
    seen: tuple[PodState, ...]
    calls: frozenset[Call] = frozenset()
    #: live reads under way, by plan and step
    reads: frozenset[tuple[str, int]] = frozenset()
    #: reservations: node by holder, a pod or a migration
    reserved: frozenset[tuple[str, str]] = frozenset()
    claims: frozenset[str] = frozenset()
    #: replacement pods, with the migration
    claimed: frozenset[tuple[str, str]] = frozenset()
    #: pods observed Ready for at least PERIOD
    settled: frozenset[str] = frozenset()
    #: pods whose bind was given up without a result
    given_up: frozenset[str] = frozenset()
    #: injected faults
    faults: int = 0


@attrs.frozen
class Scenario:
    """Initial cluster and plan. `pods`: pods of each owner in order of creation, with the node of
    the first; each owner wants one pod. `most_faults`: faults in a run, None for any number;
    crashes are not counted. `restarts`: whether the states after a crash are explored.
    """

    name: str
    pods: dict[str, tuple[str, ...]]
    placed: dict[str, str]
    orders: tuple[MoveOrder, ...] = ()
    most_faults: int | None = None
    restarts: bool = True


def _order(
    name: str, pod: str, target: str, mode: MoveMode = MoveMode.SURGE, **more: Any
) -> MoveOrder:
    return MoveOrder(name, pod, target, mode, PERIOD, **more)


_PAIR = {"a": ("a0", "a1", "a2"), "b": ("b0", "b1")}
SCENARIOS = (
    Scenario("bind", {"a": ("a0",)}, {}),
    Scenario("surge", {"a": ("a0", "a1")}, {"a0": "n1"}, (_order("A", "a0", "n2"),)),
    Scenario(
        "recreate",
        {"a": ("a0", "a1")},
        {"a0": "n1"},
        (_order("A", "a0", "n2", MoveMode.RECREATE),),
    ),
    # Two full nodes swap their pods by a detour over a third node.
    Scenario(
        "group of two with a cycle",
        _PAIR,
        {"a0": "n1", "b0": "n2"},
        (
            _order("A", "a0", "n3"),
            _order("B", "b0", "n1", needs=frozenset("A")),
            _order("C", "", "n2", needs=frozenset("B"), second_leg_of="A"),
        ),
        most_faults=0,
    ),
    Scenario(
        "group of three",
        {"a": ("a0", "a1"), "b": ("b0", "b1"), "c": ("c0", "c1")},
        {"a0": "n1", "b0": "n2", "c0": "n3"},
        (
            _order("A", "a0", "n4"),
            _order("B", "b0", "n1", MoveMode.RECREATE, needs=frozenset("A")),
            _order("C", "c0", "n2", needs=frozenset("B")),
        ),
        most_faults=0,
        # Without their plan, the three owners are independent of each other.
        restarts=False,
    ),
)

_PlanKey = tuple[Any, ...]


@attrs.define(eq=False)
class Interpreter:
    """Memoised `advance`: equal plans are one object, and reasons do not distinguish plans."""

    _plans: dict[_PlanKey, Plan] = attrs.field(factory=dict)
    _advanced: dict[
        tuple[int, events.PlanEvent], tuple[Plan, tuple[Step, ...], tuple[str, ...]]
    ] = attrs.field(factory=dict)
    _later: dict[tuple[int, float], Plan] = attrs.field(factory=dict)

    def intern(self, plan: Plan) -> Plan:
        steps = (
            (s.state, s.pod, s.node, s.deadline, s.verified_since, s.timeout) for s in plan.steps
        )
        return self._plans.setdefault((plan.id, *steps), plan)

    def advance(
        self, plan: Plan, event: events.PlanEvent
    ) -> tuple[Plan, tuple[Step, ...], tuple[str, ...]]:
        """Return the new plan, the effects, and violations of the rules of step states."""
        key = (id(plan), event)
        found = self._advanced.get(key)
        if found is None:
            after, effects = advance(plan, event, NOW)
            wrong = tuple(_check_steps(plan, after, event))
            found = self._advanced[key] = self.intern(after), effects, wrong
        return found

    def delay(self, plan: Plan, seconds: float) -> Plan:
        """Return the plan after `seconds` without an event: all times are earlier by that much."""
        key = (id(plan), seconds)
        found = self._later.get(key)
        if found is None:
            steps = tuple(
                replace(
                    s,
                    deadline=s.deadline - seconds,
                    verified_since=s.verified_since and s.verified_since - seconds,
                )
                if s.deadline is not None
                else s
                for s in plan.steps
            )
            found = self._later[key] = self.intern(Plan(plan.id, steps))
        return found


def _check_steps(before: Plan, after: Plan, event: events.PlanEvent) -> Iterator[str]:
    """Yield violations of the rules of plans.steps by one event."""
    states = [step.state for step in after.steps]
    for old, new in zip(before.steps, after.steps, strict=True):
        if old.state in TERMINAL and new.state is not old.state:
            yield f"step {new.kind} was {old.state}, and is {new.state}"
        if old.state in OPEN and new.state is StepState.CANCELLED:
            yield f"step {new.kind} is cancelled after its call"
        started = new.state in OPEN and old.state is StepState.WAITING
        if started and any(states[number] is not StepState.DONE for number in new.after):
            yield f"step {new.kind} is asked before its predecessors are done"
        if new.state in OPEN and (new.deadline is None or new.deadline <= NOW):
            yield f"step {new.kind} has no deadline ahead"
        if new.state is StepState.VERIFYING:
            yield from _check_verifying(old, new, event)
    if not after.finished and OPEN.isdisjoint(states):
        yield "stuck: no step is under way, and the plan is not finished"


def _check_verifying(old: Step, new: Step, event: events.PlanEvent) -> Iterator[str]:
    if not new.pod:
        yield f"step {new.kind} is verified without a pod to read"
    if new.verified_since is None or NOW - new.verified_since > GIVEN_UP:
        yield f"step {new.kind} is not given up after {GIVEN_UP:g} s"
    live = isinstance(event, events.PodSeen) and event.live and event.pod == old.pod
    if live and old.state is StepState.VERIFYING:
        yield f"a live read leaves step {new.kind} undecided"


@attrs.define(eq=False)
class Setting:
    """Constants of a model: scenario, names of pods, and the interpreter of plans."""

    scenario: Scenario
    interpreter: Interpreter = attrs.field(factory=Interpreter)
    pods: tuple[str, ...] = attrs.field(init=False)
    owners: dict[str, str] = attrs.field(init=False)
    orders: dict[str, MoveOrder] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.pods = tuple(pod for pods in self.scenario.pods.values() for pod in pods)
        self.owners = {pod: owner for owner, pods in self.scenario.pods.items() for pod in pods}
        self.orders = {order.id: order for order in self.scenario.orders}


def has_room(state: State, node: str) -> bool:
    """Return whether the process knows no pod or reservation on the node."""
    there = any(seen.created and seen.node == node for seen in state.seen)
    return not there and all(reserved != node for _, reserved in state.reserved)
