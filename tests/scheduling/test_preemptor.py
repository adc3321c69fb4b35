"""Preemption, end to end: who goes, when, in whose favour, and what is left when it fails."""

import asyncio

import pytest

from kubedsm_lab.chaos.faults import OUTCOMES, answer
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
)
from kubedsm_lab.emulator.front import Delivery, Faults, RequestFault
from kubedsm_lab.emulator.paper import node
from support.full_clusters import (
    DISABLED,
    EDGE_TOO,
    ENABLED,
    HIGHEST,
    SLOW_STOP,
    SMALL,
    Evictions,
    filled,
    preempting,
    settled,
    urgent,
)
from support.move_scenes import AtRequest
from support.slow_planning import SlowPlanner


async def test_an_important_pod_gets_the_room_and_the_victims_replacement_waits():
    calls = Evictions()
    async with preempting(faults=calls) as world, world.scheduler():
        before = await filled(world)
        urgent(world)
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 5)
        await world.until(lambda: world.events("Preempted"), 2)
        await asyncio.sleep(30)
        assert world.placed("low") == {"e1": 1, None: 1}
        assert calls.asked == calls.done
        [victim] = calls.done
        assert victim in before
        [event] = world.events("Preempted")
        assert event["involvedObject"]["name"] == victim
        assert (event["type"], event["action"]) == ("Normal", "Preempting")
        [winner] = world.pods("urgent")
        assert event["message"] == f"Preempted by pod {winner['metadata']['uid']} on node e1"
        assert settled(world)
        before = world.invariants.writes
        await asyncio.sleep(300)
        assert world.invariants.writes <= before + 1  # that it still waits is counted


def forbid_disruption(world):
    annotation = {"metadata": {"annotations": {"kubedsm.io/do-not-disrupt": "true"}}}
    for pod in world.pods("low"):
        world.patch(PODS, pod["metadata"]["name"], annotation)


PATIENT = {"metadata": {"name": "patient"}, "value": 1000, "preemptionPolicy": "Never"}
SPARED = {
    "preemption disabled": (DISABLED, {}, False),
    "class never preempts": (ENABLED, {"priority": "patient"}, False),
    "pods forbid disruption": (ENABLED, {}, True),
}


@pytest.mark.parametrize("case", SPARED.values(), ids=SPARED)
async def test_no_pod_is_evicted_where_that_is_forbidden(case):
    configuration, preemptor, forbidden = case
    calls = Evictions()
    async with preempting(configuration=configuration, faults=calls) as world, world.scheduler():
        world.api.create(PRIORITY_CLASSES, PATIENT)
        await filled(world)
        if forbidden:
            forbid_disruption(world)
        await asyncio.sleep(1)
        urgent(world, **preemptor)
        await asyncio.sleep(100)
        assert world.placed() == {"e1": 2, None: 1}
        assert calls.asked == calls.done == []


async def test_an_unanswered_eviction_is_not_repeated_for_a_pod_that_is_gone():
    calls = Evictions(RequestFault(answer(500, "InternalError")))
    async with preempting(faults=calls) as world, world.scheduler():
        before = await filled(world)
        urgent(world)
        await world.until(lambda: calls.done, 5)
        world.api.delete(DEPLOYMENTS, "default", "urgent")
        await asyncio.sleep(30)
        assert len(calls.done) == 1
        assert {pod["metadata"]["name"] for pod in world.pods()} == before
        assert settled(world)


async def test_a_budget_that_refuses_costs_nothing():
    calls = Evictions()
    async with preempting(faults=calls) as world:
        async with world.scheduler():
            before = await filled(world)
            world.budget("low", maxUnavailable=0)
            await asyncio.sleep(1)
            urgent(world)
            await world.until(lambda: world.events("PreemptionFailed"), 5)
            await asyncio.sleep(200)
            assert {p["metadata"]["name"] for p in world.pods("low")} == before
            assert world.placed() == {"e1": 2, None: 1}
            assert calls.done == []
            [event] = world.events("PreemptionFailed")
            assert event["type"] == "Warning"
            assert event["involvedObject"]["name"] == world.pods("urgent")[0]["metadata"]["name"]
            assert "No preemption on node e1: default/low-" in event["message"]
            assert "budget" in event["message"]
            assert settled(world)
        # A budget that allows it again is noticed when the pod is tried again.
        world.api.delete(POD_DISRUPTION_BUDGETS, "default", "low")
        async with world.scheduler():
            await world.until(lambda: world.placed("urgent") == {"e1": 1}, 10)


@pytest.mark.parametrize(("kept", "gone"), [("low", "other"), ("other", "low")])
async def test_the_protected_pod_is_kept_where_another_will_do(kept, gone):
    calls = Evictions()
    async with preempting(faults=calls) as world, world.scheduler():
        world.deploy("low", 1)
        world.deploy("other", 1)
        await world.until_bound(2, 3)
        await asyncio.sleep(1)
        world.budget(kept, maxUnavailable=0)
        await asyncio.sleep(1)
        urgent(world)
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 5)
        assert world.placed(kept) == {"e1": 1}
        assert calls.done[0].startswith(f"{gone}-")


async def test_no_pod_is_evicted_if_its_budget_does_not_allow_all_that_must_go():
    calls = Evictions()
    async with preempting(faults=calls) as world, world.scheduler():
        await filled(world)
        world.budget("low", maxUnavailable=1)
        await asyncio.sleep(1)
        urgent(world, cpu="2")
        await world.until(lambda: world.events("PreemptionFailed"), 5)
        await asyncio.sleep(100)
        assert calls.done == []


async def test_an_eviction_that_is_refused_after_all_is_not_pressed():
    """The budget changed between the question and the eviction."""
    calls = Evictions(OUTCOMES["429-budget"], at=0)
    nodes = (SMALL, node("e2", "edge", "2", "8Gi"))
    async with preempting(*nodes, faults=calls) as world, world.scheduler():
        await filled(world, 4)
        urgent(world)
        await world.until(lambda: world.bound("urgent"), 6)
        await asyncio.sleep(60)
        first, second = calls.done
        assert first != second
        assert len(world.events("Preempted")) == 1
        assert settled(world)


async def test_without_a_response_of_the_planner_nothing_is_held_until_it_is_asked_again():
    """It ends after the pod was nominated, and before the first eviction."""
    calls = Evictions()
    async with preempting(faults=calls) as world, world.scheduler() as runtime:
        planner = SlowPlanner(runtime.preemptor.planner, 0.0)
        runtime.preemptor.planner = planner

        def fall_silent():
            assert not settled(world)
            planner.silent, calls.on_eviction = 1, None

        calls.on_eviction = fall_silent
        await filled(world)
        urgent(world)
        await world.until(lambda: calls.asked, 5)
        await asyncio.sleep(0.3)
        assert settled(world)
        assert calls.done == []
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 10)


async def test_the_victims_grace_period_is_kept_and_the_room_held_meanwhile():
    roomier = node("e1", "edge", "2500m", "8Gi")
    async with preempting(roomier, timing=SLOW_STOP) as world, world.scheduler():
        await filled(world, terminationGracePeriodSeconds=20)
        urgent(world, cpu="1500m")
        await world.until(lambda: world.events("Preempted"), 5)
        asked = world.clock.monotonic()
        world.deploy("soon", 1, cpu="500m")
        await asyncio.sleep(1)
        # It is tried when anything happens to its node, in vain, and keeps what it was promised.
        world.patch(NODES, "e1", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(1)
        # There is room for one of these, but for what is already promised.
        world.deploy("late", 3, cpu="500m")
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 40)
        assert 14 <= world.clock.monotonic() - asked <= 16
        await asyncio.sleep(5)
        assert world.placed("late") == {None: 3}
        assert world.placed("soon") == {None: 1}
        assert world.placed("low") == {"e1": 1, None: 1}
        assert len(world.events("Preempted")) == 1


async def test_room_that_came_free_meanwhile_makes_the_eviction_needless():
    async with preempting() as world:
        calls = Evictions(on_eviction=lambda: world.api.create(NODES, EDGE_TOO))
        async with world.scheduler(faults=calls):
            before = await filled(world)
            urgent(world)
            await world.until(lambda: world.placed("urgent") == {"e9": 1}, 5)
            await asyncio.sleep(30)
            assert len(calls.asked) == 1
            assert calls.done == []
            assert {p["metadata"]["name"] for p in world.pods("low")} == before
            assert settled(world)


async def test_a_more_important_pod_takes_the_room_made_for_another():
    calls = Evictions()
    async with preempting(timing=SLOW_STOP, faults=calls) as world, world.scheduler():
        await filled(world, 1, cpu="2", terminationGracePeriodSeconds=20)
        urgent(world, cpu="2")
        await world.until(lambda: world.events("Preempted"), 5)
        urgent(world, "most", cpu="2", priority=HIGHEST)
        await world.until(lambda: world.placed("most") == {"e1": 1}, 40)
        await asyncio.sleep(30)
        assert world.placed("urgent") == {None: 1}
        assert len(calls.done) == 1


async def test_a_pod_whose_room_goes_to_a_more_important_one_gets_other_room_at_once():
    nodes = (SMALL, node("e2", "edge", "2", "8Gi"))
    async with preempting(*nodes, timing=SLOW_STOP) as world, world.scheduler() as runtime:
        await filled(world, 2, cpu="2", terminationGracePeriodSeconds=20)
        urgent(world, cpu="2")
        await world.until(lambda: world.events("Preempted"), 5)
        [nomination] = runtime.preemptor.nominations.values()
        there = {"kubernetes.io/hostname": nomination.node}
        urgent(world, "most", cpu="2", priority=HIGHEST, nodeSelector=there)
        await world.until(lambda: len(world.events("Preempted")) == 2, 5)


async def test_a_pod_bound_while_victims_are_chosen_is_not_counted_as_waiting():
    large = [node(name, "edge", "4", "8Gi") for name in ("e1", "e2")]
    async with preempting(*large, timing=SLOW_STOP) as world, world.scheduler():
        world.api.create(PRIORITY_CLASSES, {"metadata": {"name": "dear"}, "value": 1000})
        await world.bring_up("dear", 1, within=3, cpu="4", priorityClassName="dear")
        await filled(world, 2, cpu="2", terminationGracePeriodSeconds=20)
        urgent(world, cpu="2")
        await world.until(lambda: world.events("Preempted"), 5)
        preemptor = world.runtime.preemptor
        delays = iter([0.0, 20.0])
        preemptor.planner = SlowPlanner(preemptor.planner, lambda: next(delays, 0.0))
        urgent(world, "most", cpu="4", priority=HIGHEST)
        await world.until(lambda: world.bound("most"), 60)
        assert world.placed("urgent") == {"e2": 1}
        assert world.placed("low") == {"e2": 1, None: 1}
        assert world.placed("most") == {"e1": 1}


class SuddenEnds(Faults):
    """A watch that shows of an urgent pod that it is gone, and not before that it leaves."""

    def on_line(self, request, line):
        leaves = b"deletionTimestamp" in line and b'"type":"MODIFIED"' in line
        return Delivery(()) if leaves and b'"urgent-' in line else None


@pytest.mark.parametrize("faults", [None, SuddenEnds()], ids=["seen to leave", "gone at once"])
async def test_a_pod_deleted_meanwhile_needs_no_more_room(faults):
    async with preempting(timing=SLOW_STOP, faults=faults) as world, world.scheduler():
        await filled(world, 2, terminationGracePeriodSeconds=20)
        urgent(world)
        await world.until(lambda: world.events("Preempted"), 5)
        world.scale("urgent", 0)
        await asyncio.sleep(60)
        assert world.placed("low") == {"e1": 2}
        assert settled(world)


async def test_a_refused_bind_leaves_the_room_to_the_nominated_pod():
    """Its victim's replacement waits for the same room, and is tried before the bind is again."""
    binds = AtRequest(
        lambda request: "/urgent-" in request.path and request.path.endswith("/binding"),
        lambda: None,
        fault=RequestFault(answer(403, "Forbidden")),
    )
    async with preempting(faults=binds) as world, world.scheduler():
        await filled(world)
        urgent(world)
        await world.until(lambda: binds.done, 10)
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 10)
        await world.until(lambda: settled(world), 2)
        assert world.placed("low") == {"e1": 1, None: 1}
        assert len(world.events("Preempted")) == 1


async def test_a_nominated_node_that_closes_is_given_up():
    nodes = (SMALL, node("e2", "edge", "2", "8Gi"))
    async with preempting(*nodes, timing=SLOW_STOP) as world, world.scheduler():
        await filled(world, 4, terminationGracePeriodSeconds=20)
        urgent(world)
        await world.until(lambda: world.events("Preempted"), 5)
        [nomination] = world.runtime.preemptor.nominations.values()
        closed = nomination.node
        world.cordon(closed)
        await world.until(lambda: world.bound("urgent"), 60)
        assert closed not in world.placed("urgent")
        await asyncio.sleep(1)
        assert settled(world)
