"""Moves, step by step: what is asked, what proves it, and the way back from everywhere."""

import itertools

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plans.advance import advance
from plans.events import (
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
from plans.steps import TERMINAL, StepKind, StepState

SURGE = MoveOrder("m", "old", "e1", MoveMode.SURGE, deadline=60)
RECREATE = attrs.evolve(SURGE, mode=MoveMode.RECREATE)
FIRST_LEG = attrs.evolve(SURGE, target="cloud")
SECOND_LEG = attrs.evolve(SURGE, id="m2", pod="", second_leg_of="m")


#: a clock is not near 0
EPOCH = 1e6


class Story:
    """A plan told event by event; remembers what was asked."""

    def __init__(self, *orders):
        self.plan = migration_plan("p", orders)
        self.now = EPOCH
        self.asked = []
        self.verified = []
        self.settled = {}
        self.tell(Begun())

    def tell(self, *events):
        for event in events:
            self.plan, effects = advance(self.plan, event, self.now)
            for step in effects:
                match step.state:
                    case StepState.ASKED:
                        self.asked.append((step.move, step.kind.value, step.pod))
                    case StepState.VERIFYING:
                        self.verified.append(step.kind.value)
                    case _:
                        self.settled[step.move, step.kind.value] = step.state.value
        return self

    def at(self, now):
        self.now = EPOCH + now
        return self.tell(TimePassed())

    def kinds(self):
        return [kind for _, kind, _ in self.asked]

    def number(self, kind):
        return next(s.id for s in self.plan.steps if s.kind is kind)


DETACHED = PodSeen("old", "c1", ready=True, detached=True)
CLAIMED = ReplacementClaimed("m", "new")
BOUND = PodSeen("new", "e1")
READY = PodSeen("new", "e1", ready=True)
LEAVING = PodSeen("old", "c1", terminating=True, detached=True)
ACCEPTED = MoveAccepted("m", settle=2.0, grace=30.0)
WAY = [ACCEPTED, DETACHED, CLAIMED, BOUND, READY]


def test_surge_makes_before_it_breaks():
    story = Story(SURGE)
    assert {step.pod for step in story.plan.steps} == {"old", ""}  # the replacement is not known
    story.tell(*WAY)
    assert story.kinds() == [
        "start",
        "detach",
        "await-replacement",
        "bind",
        "await-ready",
        "settle",
    ]
    story.at(1.9)
    assert story.kinds()[-1] == "settle"
    story.at(2.0)
    assert story.kinds()[-1] == "evict"
    story.tell(LEAVING)
    assert not story.plan.finished
    story.tell(PodGone("old"))
    assert story.plan.finished
    assert "restore" not in story.kinds()
    assert {s for k, s in story.settled.items() if k[1] != "restore"} == {"done"}


@pytest.mark.parametrize(("ready_within", "until"), [(0.0, 60), (45.0, 60), (180.0, 180)])
def test_a_replacement_that_starts_slowly_has_more_time(ready_within, until):
    accepted = attrs.evolve(ACCEPTED, ready_within=ready_within)
    story = Story(SURGE).tell(accepted, *WAY[1:-1])
    story.at(until - 1)
    assert story.verified == []
    story.at(until)
    assert story.verified == ["await-ready"]


def test_a_replacement_that_is_claimed_before_the_old_pod_is_seen_detached_waits_its_turn():
    story = Story(SURGE).tell(MoveAccepted("m"), CLAIMED)
    assert story.kinds() == ["start", "detach"]
    story.tell(DETACHED)
    assert story.kinds() == ["start", "detach", "bind"]


@pytest.mark.parametrize("seen", range(2, 6))
def test_whatever_is_lost_after_the_detaching_the_old_pod_is_restored(seen):
    lost = [
        None,
        None,
        lambda s: s.at(1000),
        lambda s: s.tell(CallRefused(s.number(StepKind.BIND), "no")),
        lambda s: s.tell(PodGone("new")),
        lambda s: s.tell(PodSeen("new", "e1", ready=False)),
    ]
    story = Story(SURGE).tell(*WAY[:seen])
    lost[seen](story)
    assert story.kinds()[-1] == "restore"
    assert "evict" not in story.kinds()
    assert not story.plan.finished
    story.at(10_000)
    assert not story.plan.finished
    story.tell(PodSeen("old", "c1", ready=True))
    assert story.plan.finished


def test_a_replacement_that_is_not_ready_in_time_is_read_before_the_way_back():
    story = Story(SURGE).tell(*WAY[:4]).at(60)
    assert story.verified == ["await-ready"]
    assert "restore" not in story.kinds()
    story.tell(attrs.evolve(BOUND, live=True))
    assert story.kinds()[-1] == "restore"


def test_a_replacement_that_is_ready_no_more_while_it_settles_is_the_reason():
    story = Story(SURGE).tell(*WAY).tell(BOUND)
    settling = story.plan.steps[story.number(StepKind.SETTLE)]
    assert (settling.state, settling.reason) == (
        StepState.FAILED,
        "the replacement is no longer Ready",
    )
    assert story.kinds()[-1] == "restore"


def test_a_plan_that_restores_has_one_step_and_no_target():
    plan = restore_plan("old")
    assert plan.restores_only
    assert [(step.id, step.pod, step.node) for step in plan.steps] == [(0, "old", "")]


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ({"terminating": True}, "the replacement is being deleted"),
        ({"terminating": True, "ready": True}, "the replacement is being deleted"),
        ({"ended": True}, "the replacement has ended, rejected or evicted by its node"),
    ],
)
def test_a_replacement_that_is_being_deleted_or_has_ended_is_not_waited_for(seen, why):
    story = Story(SURGE).tell(*WAY[:4])
    story.tell(PodSeen("new", "e1", **seen))
    reason = story.plan.steps[story.number(StepKind.AWAIT_READY)].reason
    assert reason == why
    assert story.kinds()[-1] == "restore"


def test_restoring_a_pod_that_is_gone_by_then_is_done():
    story = Story(SURGE).tell(*WAY[:4]).tell(PodGone("new"))
    assert story.kinds()[-1] == "restore"
    story.tell(PodGone("old"))
    assert story.plan.finished
    assert story.settled["m", "restore"] == "done"


@pytest.mark.parametrize(
    ("order", "way", "kind"),
    [
        (SURGE, [ACCEPTED, DETACHED], StepKind.AWAIT_REPLACEMENT),
        (SURGE, [*WAY, TimePassed(), LEAVING], StepKind.AWAIT_GONE),
        (RECREATE, [ACCEPTED, LEAVING], StepKind.AWAIT_REPLACEMENT),
        (RECREATE, [ACCEPTED, LEAVING], StepKind.AWAIT_GONE),
    ],
)
def test_who_waits_for_a_pod_to_go_waits_its_grace_period_longer(order, way, kind):
    story = Story(order)
    story.tell(*way[:5]).at(2.0).tell(*way[5:])
    step = story.plan.steps[story.number(kind)]
    asked = 2.0 if len(way) > 5 else 0.0
    assert step.deadline == EPOCH + asked + 60 + 30


def test_a_detachment_that_is_not_seen_in_time_has_failed():
    story = Story(SURGE).tell(ACCEPTED).at(60)
    story.tell(PodSeen("old", "c1", ready=True, live=True))
    step = story.plan.steps[story.number(StepKind.DETACH)]
    assert (step.state, step.reason) == (StepState.FAILED, "the deadline passed")


def test_an_eviction_that_is_refused_for_ever_is_taken_back():
    story = Story(SURGE).tell(*WAY).at(2)
    story.at(62)
    assert story.verified == ["evict"]
    story.tell(attrs.evolve(DETACHED, live=True))
    assert story.kinds()[-1] == "restore"


def test_a_detaching_that_is_refused_leaves_nothing_to_restore():
    story = Story(SURGE).tell(MoveAccepted("m"))
    story.tell(CallRefused(story.number(StepKind.DETACH), "409 Conflict"))
    assert story.plan.finished
    assert story.kinds() == ["start", "detach"]


def test_a_detaching_whose_answer_is_lost_is_looked_up():
    story = Story(SURGE).tell(MoveAccepted("m"))
    story.tell(OutcomeLost(story.number(StepKind.DETACH)))
    assert story.verified == ["detach"]
    story.tell(attrs.evolve(DETACHED, live=True))
    assert story.kinds()[-1] == "await-replacement"


def test_an_old_pod_that_somebody_else_deletes_needs_no_restoring():
    story = Story(SURGE).tell(*WAY[:3]).tell(PodGone("old"))
    story.tell(BOUND, READY).at(2)
    assert story.plan.finished
    assert "evict" not in story.kinds()


@pytest.mark.parametrize("order", [SURGE, SECOND_LEG], ids=["alone", "second leg"])
def test_a_pod_that_is_gone_while_its_replacement_is_awaited_ends_the_plan(order):
    story = Story(order) if order is SURGE else Story(FIRST_LEG, order)
    if order is SECOND_LEG:
        story.tell(ACCEPTED, DETACHED, CLAIMED, PodSeen("new", "cloud", ready=True))
        story.tell(PodSeen("new", "cloud", ready=True)).at(2).tell(LEAVING, PodGone("old"))
        story.tell(MoveAccepted("m2"), PodSeen("new", "cloud", ready=True, detached=True))
        gone = PodGone("new")
    else:
        story.tell(ACCEPTED, DETACHED)
        gone = PodGone("old")
    assert not story.plan.finished
    story.tell(gone)
    assert story.plan.finished


def test_a_recreated_pod_that_is_gone_still_gets_its_replacement():
    story = Story(RECREATE).tell(MoveAccepted("m"), LEAVING, PodGone("old"))
    assert not story.plan.finished


@pytest.mark.parametrize("order", [SURGE, RECREATE], ids=["surge", "recreate"])
def test_a_pod_that_does_not_go_is_named_as_the_reason(order):
    story = Story(order).tell(*WAY).at(3)
    story.tell(LEAVING, CLAIMED, BOUND, READY).at(1000).tell(attrs.evolve(LEAVING, live=True))
    assert story.plan.finished
    [failed] = [step for step in story.plan.steps if step.state is StepState.FAILED]
    assert failed.kind is StepKind.AWAIT_GONE
    assert failed.reason.startswith("the old pod is still terminating")


def test_a_move_that_is_not_accepted_has_touched_nothing():
    story = Story(SURGE)
    story.tell(CallRefused(story.number(StepKind.START), "rolling out"))
    assert story.plan.finished
    assert story.kinds() == ["start"]


def test_a_move_whose_pod_is_being_deleted_does_not_begin():
    story = Story(SURGE).tell(PodSeen("old", "c1", ready=True, terminating=True))
    assert story.plan.finished
    assert story.kinds() == ["start"]


def test_a_move_whose_turn_does_not_come_is_over_and_its_pod_is_not_read():
    story = Story(SURGE).at(600)
    assert story.plan.finished
    assert story.verified == []


@pytest.mark.parametrize("order", [SURGE, RECREATE])
def test_a_pod_that_is_gone_before_it_is_seen_to_terminate_was_evicted(order):
    story = Story(order).tell(*WAY if order is SURGE else [MoveAccepted("m")]).at(2)
    assert story.kinds()[-1 if order is SURGE else 1] == "evict"
    story.tell(PodGone("old"))
    assert story.settled["m", "evict"] == "done"


def test_what_waits_for_room_does_not_start_while_the_pod_terminates_there():
    second = MoveOrder("w", "b", "c1", MoveMode.SURGE, 60, needs=frozenset({"m"}))
    story = Story(SURGE, second).tell(*WAY).at(2).tell(LEAVING)
    story.tell(PodSeen("old", "c1", terminating=True))
    assert ("w", "start", "b") not in story.asked
    story.tell(PodGone("old"))
    assert ("w", "start", "b") in story.asked


def test_what_is_overdue_is_read_each_minute_however_long_it_could_take():
    story = Story(SURGE).tell(*WAY[:4]).tell(PodGone("new")).at(600)
    assert story.verified == ["restore"]
    assert story.plan.next_deadline == EPOCH + 660


def test_an_unproved_step_is_given_up_ten_minutes_after_the_first_look_and_not_at_the_second():
    story = Story(SURGE).tell(*WAY[:4]).tell(PodGone("new")).at(600).at(660).at(1140)
    assert story.verified == ["restore"] * 3
    assert story.at(1200).settled["m", "restore"] == "failed"
    reason = story.plan.steps[story.number(StepKind.RESTORE)].reason
    assert reason == "its result could not be determined"


@pytest.mark.parametrize("gone_first", [True, False])
def test_recreate_accepts_both_orders(gone_first):
    events = [PodGone("old"), CLAIMED]
    story = Story(RECREATE).tell(MoveAccepted("m"), LEAVING)
    story.tell(*(events if gone_first else events[::-1]), BOUND)
    assert not story.plan.finished
    story.tell(READY)
    assert story.plan.finished
    assert set(story.settled.values()) == {"done"}


def test_a_move_waits_until_the_room_it_needs_is_free():
    first = attrs.evolve(SURGE, id="m", target="c1")
    second = MoveOrder("w", "b", "e1", MoveMode.SURGE, 60, needs=frozenset({"m"}))
    story = Story(first, second).tell(MoveAccepted("m"), DETACHED, CLAIMED)
    story.tell(PodSeen("new", "c1", ready=True)).tell(PodSeen("new", "c1", ready=True))
    assert not [a for a in story.asked if a[0] == "w"]
    story.plan = attrs.evolve(
        story.plan,
        steps=tuple(
            s._replace(state=StepState.ASKED, deadline=99.0)
            if (s.move, s.kind) == ("m", StepKind.AWAIT_GONE)
            else s
            for s in story.plan.steps
        ),
    )
    story.tell(PodGone("old"))
    assert ("w", "start", "b") in story.asked


def test_cancelling_stops_the_moves_that_have_not_begun():
    first, second = SURGE, attrs.evolve(SURGE, id="w", pod="b", needs=frozenset({"m"}))
    story = Story(first, second).tell(*WAY)
    story.tell(Cancelled("a burst came"))
    assert story.settled["w", "start"] == "cancelled"
    story.at(2).tell(LEAVING, PodGone("old"))
    assert story.plan.finished
    assert story.settled["m", "await-gone"] == "done"


def test_the_second_leg_moves_the_replacement_of_the_first():
    story = Story(
        MoveOrder("a-out", "pod-a", "cloud", MoveMode.SURGE, 60),
        MoveOrder("b", "pod-b", "n", MoveMode.SURGE, 60, needs=frozenset({"a-out"})),
        MoveOrder("a", "", "n", MoveMode.SURGE, 60, frozenset({"b"}), second_leg_of="a-out"),
    )
    story.tell(MoveAccepted("a-out"), PodSeen("pod-a", "n1", ready=True, detached=True))
    story.tell(ReplacementClaimed("a-out", "a2"), PodSeen("a2", "cloud"))
    story.tell(PodSeen("a2", "cloud", ready=True)).at(0)
    story.tell(PodSeen("pod-a", "n1", terminating=True), PodGone("pod-a"))
    assert ("b", "start", "pod-b") in story.asked
    story.tell(MoveAccepted("b"), PodSeen("pod-b", "n2", ready=True, detached=True))
    story.tell(ReplacementClaimed("b", "b2"), PodSeen("b2", "n", ready=True))
    story.tell(PodSeen("b2", "n", ready=True)).at(0)
    assert ("a", "start", "a2") not in story.asked
    story.tell(PodSeen("pod-b", "n2", terminating=True), PodGone("pod-b"))
    assert ("a", "start", "a2") in story.asked


@pytest.mark.parametrize("gone_first", [True, False])
def test_the_second_leg_waits_until_the_first_is_gone_and_its_replacement_ready(gone_first):
    first = attrs.evolve(RECREATE, target="cloud")
    second = attrs.evolve(first, id="w", pod="", target="e1", second_leg_of="m")
    story = Story(first, second).tell(ACCEPTED, LEAVING, CLAIMED, PodSeen("new", "cloud"))
    last = [PodGone("old"), PodSeen("new", "cloud", ready=True)]
    one, other = last if gone_first else last[::-1]
    story.tell(one)
    assert not [asked for asked in story.asked if asked[0] == "w"]
    story.tell(other)
    assert ("w", "start", "new") in story.asked


@given(st.lists(st.sampled_from([*WAY, LEAVING, PodGone("old"), PodGone("new")]), max_size=12))
def test_no_history_evicts_before_the_replacement_was_ready(history):
    story = Story(SURGE)
    for now, event in enumerate(history):
        story.tell(event)
        story.at(now * 1.0)
    if "evict" in story.kinds():
        assert "settle" in story.kinds()
    for before, after in itertools.pairwise(story.kinds()):
        assert not (before == "detach" and after == "evict")
    if story.plan.finished and story.settled["m", "detach"] == "done":
        assert (
            story.settled["m", "evict"] == "done"
            or "restore" in story.kinds()
            or (PodGone("old") in history)
        )
    assert all(
        (s.deadline is None) == (s.state in TERMINAL | {StepState.WAITING})
        for s in story.plan.steps
    )
