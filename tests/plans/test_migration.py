"""Moves, step by step: what is asked, what proves it, and the way back from everywhere."""

import attrs
import pytest
from msgspec.structs import replace

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
from plans.migration import MoveMode, MoveOrder, migration_plan
from plans.steps import StepKind, StepState

SURGE = MoveOrder("m", "old", "e1", MoveMode.SURGE, deadline=60)
RECREATE = attrs.evolve(SURGE, mode=MoveMode.RECREATE)


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
    accepted = replace(ACCEPTED, ready_within=ready_within)
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


def test_a_replacement_that_is_ready_no_more_while_it_settles_is_the_reason():
    story = Story(SURGE).tell(*WAY).tell(BOUND)
    settling = story.plan.steps[story.number(StepKind.SETTLE)]
    assert (settling.state, settling.reason) == (
        StepState.FAILED,
        "the replacement is no longer Ready",
    )
    assert story.kinds()[-1] == "restore"


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
    story.tell(replace(DETACHED, live=True))
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
    story.tell(replace(DETACHED, live=True))
    assert story.kinds()[-1] == "await-replacement"


@pytest.mark.parametrize("order", [SURGE, RECREATE], ids=["surge", "recreate"])
def test_a_pod_that_does_not_go_is_named_as_the_reason(order):
    story = Story(order).tell(*WAY).at(3)
    story.tell(LEAVING, CLAIMED, BOUND, READY).at(1000).tell(replace(LEAVING, live=True))
    assert story.plan.finished
    [failed] = [step for step in story.plan.steps if step.state is StepState.FAILED]
    assert failed.kind is StepKind.AWAIT_GONE
    assert failed.reason.startswith("the old pod is still terminating")


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
