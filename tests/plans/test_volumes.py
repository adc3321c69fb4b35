"""A pod is bound after its volumes, and no claim names the node of a lost plan."""

import pytest

from plans.advance import RELEASING, advance, bind_plan, release_plan
from plans.events import Begun, CallRefused, PodGone, PodSeen, TimePassed, VolumesSeen
from plans.steps import GIVEN_UP, StepKind

BOUND, RELEASED = VolumesSeen("a", bound=True, released=True), VolumesSeen("a", released=True)


def play(*events, plan=None):
    plan = plan or bind_plan("p", "a", "n2", 15.0, volumes=600.0)
    for now, event in enumerate((Begun(), *events)):
        plan, _ = advance(plan, event, float(now))
    return plan


def states(plan):
    return [step.state.value for step in plan.steps]


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
