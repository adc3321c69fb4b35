"""No plan lasts for ever: whatever it was told, silence alone ends it."""

from hypothesis import given
from hypothesis import strategies as st

from plans.advance import advance, bind_plan
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
)
from plans.migration import MoveMode, MoveOrder, migration_plan, restore_plan
from plans.steps import GIVEN_UP, TERMINAL

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
