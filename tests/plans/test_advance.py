"""Each event advances a plan, which ends whatever happens, volumes included."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plans.advance import RELEASING, advance, bind_plan, release_plan
from plans.events import (
    Abandoned,
    Begun,
    CallRefused,
    Cancelled,
    MoveAccepted,
    OutcomeLost,
    PodGone,
    PodSeen,
    ReplacementClaimed,
    TimePassed,
    VolumesSeen,
)
from plans.migration import MoveMode, MoveOrder, migration_plan, restore_plan
from plans.steps import GIVEN_UP, TERMINAL, TRANSITIONS, Plan, Step, StepKind, StepState, Trigger


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


PODS = ("old-a", "new-a", "old-b", "new-b")
NUMBERS = st.integers(0, 17)
FLAGS = st.booleans()
EVENTS = st.one_of(
    st.builds(
        PodSeen, st.sampled_from(PODS), st.sampled_from(("", "e1", "c1")), FLAGS, FLAGS, FLAGS
    ),
    st.builds(PodGone, st.sampled_from(PODS)),
    st.builds(MoveAccepted, st.sampled_from("ab"), st.just(2.0), st.just(30.0)),
    st.builds(ReplacementClaimed, st.just("a"), st.just("new-a")),
    st.builds(ReplacementClaimed, st.just("b"), st.just("new-b")),
    st.builds(CallRefused, NUMBERS, st.just("no")),
    st.builds(OutcomeLost, NUMBERS),
    st.builds(Cancelled, st.just("no")),
)


def order(move, mode, needs=()):
    return MoveOrder(move, f"old-{move}", "e1", mode, 10.0, frozenset(needs))


PLANS = st.one_of(
    st.just(bind_plan("b", "old-a", "e1", 10.0)),
    st.just(restore_plan("old-a")),
    st.builds(
        lambda a, b: migration_plan("p", (order("a", a), order("b", b, "a"))),
        st.sampled_from(MoveMode),
        st.sampled_from(MoveMode),
    ),
)


@given(PLANS, st.lists(EVENTS, max_size=30))
def test_silence_ends_every_plan(plan, events):
    now = 0.0
    plan, _ = advance(plan, Begun(), now)
    for event in events:
        now += 0.1
        plan, _ = advance(plan, event, now)
    # Every step may be verified for so long, one after the other.
    latest = now + len(plan.steps) * (GIVEN_UP + 400)
    while not plan.finished:
        assert plan.next_deadline is not None, "it waits for nothing"
        now = max(now, plan.next_deadline)
        assert now <= latest
        before = plan
        plan, _ = advance(plan, TimePassed(), now)
        assert plan != before, "a deadline that changes nothing comes again for ever"


@given(PLANS, st.lists(EVENTS, max_size=30))
def test_a_plan_that_is_abandoned_is_over_and_tells_of_every_step(plan, events):
    plan, _ = advance(plan, Begun(), 0.0)
    for event in events:
        plan, _ = advance(plan, event, 1.0)
    open_steps = {step.id for step in plan.steps if step.state not in TERMINAL}
    plan, effects = advance(plan, Abandoned("broken"), 2.0)
    assert plan.finished
    assert all(step.state in TERMINAL for step in effects)
    assert {step.id for step in effects} == open_steps


BOUND, RELEASED = VolumesSeen("a", bound=True, released=True), VolumesSeen("a", released=True)


def play(*events, plan=None):
    plan = plan or bind_plan("p", "a", "n2", 15.0, volumes=600.0)
    for now, event in enumerate((Begun(), *events)):
        plan, _ = advance(plan, event, float(now))
    return plan


def test_the_pod_is_bound_after_its_volumes():
    plan = play()
    assert [step.kind for step in plan.steps] == [
        StepKind.BIND_VOLUMES,
        StepKind.BIND,
        StepKind.RELEASE_VOLUMES,
    ]
    assert {step.node for step in plan.steps} == {"n2"}
    assert states(plan) == ["asked", "waiting", "waiting"]
    assert states(play(VolumesSeen("a"))) == ["asked", "waiting", "waiting"]
    assert states(play(VolumesSeen("other", bound=True))) == ["asked", "waiting", "waiting"]
    assert states(play(BOUND)) == ["done", "asked", "waiting"]
    plan = play(BOUND, PodSeen("a", "n2"))
    assert states(plan) == ["done", "done", "cancelled"]
    assert plan.finished


@pytest.mark.parametrize(
    "event",
    [
        CallRefused(0, "403 Forbidden"),
        VolumesSeen("a", obstacle="no volume can be provisioned"),
        PodGone("a"),
        PodSeen("a", terminating=True),
        PodSeen("a", "n9"),
    ],
)
def test_claims_of_a_lost_plan_are_released(event):
    plan = play(event)
    assert states(plan) in (["failed", "cancelled", "asked"], ["failed", "failed", "asked"])
    assert not plan.finished
    assert states(play(event, VolumesSeen("a")))[2] == "asked"
    assert play(event, RELEASED).finished


def test_volumes_not_bound_in_time_are_read_and_given_up():
    plan = play()
    plan, effects = advance(plan, TimePassed(), 600.0)
    assert [step.state for step in effects] == ["verifying"]
    bound, _ = advance(plan, VolumesSeen("a", bound=True, live=True), 601.0)
    assert states(bound) == ["done", "asked", "waiting"]
    lost, _ = advance(plan, VolumesSeen("a", live=True), 601.0)
    assert states(lost) == ["failed", "cancelled", "asked"]
    assert lost.steps[0].reason == "the pod's volumes were not bound before the deadline"


def test_a_release_ends_by_observation_or_is_given_up():
    plan = play(plan=release_plan("r", "a", "n2"))
    assert states(plan) == ["asked"]
    assert states(play(RELEASED, plan=release_plan("r", "a", "n2"))) == ["done"]
    plan, _ = advance(plan, PodGone("a"), 1.0)
    assert states(plan) == ["asked"]
    plan, _ = advance(plan, TimePassed(), RELEASING)
    assert states(plan) == ["verifying"]
    plan, _ = advance(plan, TimePassed(), RELEASING + GIVEN_UP)
    assert states(plan) == ["failed"]
