import pytest

from plans.advance import advance, bind_plan
from plans.events import (
    Abandoned,
    Begun,
    CallRefused,
    OutcomeLost,
    PodGone,
    PodSeen,
    TimePassed,
)
from plans.steps import TERMINAL, TRANSITIONS, Plan, Step, StepKind, StepState, Trigger


def begun(pod, node, timeout=10.0):
    return advance(bind_plan("p", pod, node, timeout), Begun(), 0.0)


def states(plan):
    return [step.state.value for step in plan.steps]


def test_a_bind_is_done_when_it_is_seen_and_not_before():
    plan, _ = begun("a", "n2")
    plan, effects = advance(plan, PodSeen("a", "n2"), 1.0)
    assert effects == (plan.steps[0],)
    assert states(plan) == ["done"]
    assert plan.finished
    assert plan.next_deadline is None


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (PodSeen("a", "n9"), "the pod is on node n9"),
        (PodGone("a"), "the pod is gone"),
        (CallRefused(0, "409 Conflict"), "409 Conflict"),
    ],
)
def test_a_bind_that_cannot_come_true_any_more_fails_at_once(event, reason):
    plan, _ = begun("a", "n2")
    plan, effects = advance(plan, event, 1.0)
    assert states(plan) == ["failed"]
    assert plan.steps[0].reason == reason
    assert effects == (plan.steps[0],)


def test_an_overdue_bind_is_read_live_and_holds_its_room_until_the_answer():
    plan, _ = begun("a", "n2")
    plan, effects = advance(plan, TimePassed(), 9.9)
    assert effects == ()
    plan, effects = advance(plan, TimePassed(), 10.0)
    assert effects == (plan.steps[0],)
    assert states(plan) == ["verifying"]
    plan, effects = advance(plan, TimePassed(), 20.0)
    assert effects == (plan.steps[0],)
    assert states(plan) == ["verifying"]
    assert advance(plan, PodSeen("a"), 20.5) == (plan, ())
    plan, effects = advance(plan, PodSeen("a", live=True), 21.0)
    assert states(plan) == ["failed"]
    assert effects == (plan.steps[0],)


def test_a_lost_answer_is_verified_without_waiting_for_the_deadline():
    plan, _ = begun("a", "n2")
    plan, effects = advance(plan, OutcomeLost(0), 1.0)
    assert effects == (plan.steps[0],)
    assert states(plan) == ["verifying"]
    plan, effects = advance(plan, PodSeen("a", "n2"), 2.0)
    assert states(plan) == ["done"]


def test_a_pod_that_is_being_deleted_before_it_is_bound_is_as_good_as_gone():
    plan, _ = begun("a", "n2")
    plan, _ = advance(plan, PodSeen("a", terminating=True), 1.0)
    assert plan.steps[0].reason == "the pod is being deleted"


def chain():
    return Plan(
        "p",
        tuple(
            Step(n, StepKind.BIND, f"p{n}", "n2", 5.0, after=frozenset({n - 1} if n else ()))
            for n in range(3)
        ),
    )


def test_a_step_waits_for_those_it_comes_after():
    plan, effects = advance(chain(), Begun(), 0.0)
    assert effects == (plan.steps[0],)
    plan, effects = advance(plan, PodSeen("p0", "n2"), 1.0)
    assert effects == plan.steps[:2]
    assert states(plan) == ["done", "asked", "waiting"]
    assert plan.steps[1].deadline == 6.0


def test_a_failed_step_takes_those_after_it_with_it():
    plan, _ = advance(chain(), Begun(), 0.0)
    plan, _ = advance(plan, PodGone("p0"), 1.0)
    assert states(plan) == ["failed", "cancelled", "cancelled"]
    assert "the pod is gone" in plan.steps[2].reason


def test_every_state_but_the_terminal_ones_has_a_way_on():
    for state in StepState:
        ways = [pair for pair in TRANSITIONS if pair[0] is state]
        assert bool(ways) != (state in TERMINAL)
    used = {trigger for _, trigger in TRANSITIONS}
    assert used == set(Trigger)


#: three binds, the last of which comes after the others
JOINED = Plan(
    "p",
    (
        Step(0, StepKind.BIND, "a", "n2", 2.0),
        Step(1, StepKind.BIND, "b", "n3", 2.0),
        Step(2, StepKind.BIND, "z", "n3", 2.0, after=frozenset({0, 1})),
    ),
)


@pytest.mark.parametrize(
    "event", [CallRefused(1, "no"), PodGone("b"), PodSeen("b", "n9"), Abandoned("no", 1)]
)
def test_a_step_that_fails_leaves_steps_that_do_not_come_after_it_alone(event):
    plan, asked = advance(JOINED, Begun(), 0.0)
    assert asked == plan.steps[:2]
    plan, effects = advance(plan, event, 1.0)
    assert effects == plan.steps[1:]
    assert states(plan) == ["asked", "failed", "cancelled"]
    assert not plan.finished
    plan, _ = advance(plan, PodSeen("a", "n2"), 2.0)
    assert plan.finished
