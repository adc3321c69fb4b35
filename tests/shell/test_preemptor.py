"""Preemption, end to end: who goes, when, in whose favour, and what is left when it fails."""

import asyncio

import attrs
import pytest

from kubedsm.cluster.client.port import OutcomeUnknown, Unreachable
from kubedsm.configuration.settings import load
from kubedsm.emulator.api.resources import NODES, POD_DISRUPTION_BUDGETS, PODS
from kubedsm.emulator.emulated_cluster import Timing
from kubedsm.emulator.front import RequestFault
from kubedsm.emulator.paper import node
from support.faults import FaultAt, answer
from support.worlds import CLOUD, EDGE, emulated

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

ENABLED = load('{preemption: enabled, suggester: {mode: "off"}}', "test")
DISABLED = attrs.evolve(ENABLED, preemption="disabled")
#: the classes that every cluster has; pods without one have priority 0
HIGH, HIGHEST = "system-cluster-critical", "system-node-critical"
MERGE = "application/merge-patch+json"
SMALL = node("e1", "edge", "2", "8Gi")
EDGE_TOO = node("e9", "edge", "1", "8Gi")
#: pods take most of their grace period to stop
SLOW_STOP = Timing(start_delay=0.5, stop_delay=15.0)


DISRUPTION = (
    b'{"kind": "Status", "status": "Failure", "reason": "TooManyRequests", "code": 429,'
    b' "message": "Cannot evict pod as it would violate the pod\'s disruption budget.",'
    b' "details": {"causes": [{"reason": "DisruptionBudget", "message": "no"}]}}'
)


def preempting(*nodes, **world):
    return emulated(*(nodes or (SMALL,)), **{"configuration": ENABLED, **world})


def urgent(world, name="urgent", replicas=1, priority=HIGH, **more):
    return world.deploy(name, replicas, priorityClassName=priority, **more)


class Evictions:
    """What is asked of the Eviction API; and what becomes of the n-th call that is no dry run."""

    def __init__(self, fault=None, at=0, on_eviction=None):
        self.fault, self.at, self.on_eviction = fault, at, on_eviction
        self.asked = []
        self.done = []

    def on_request(self, request):
        if not request.path.endswith("/eviction"):
            return None
        name = request.path.split("/")[-2]
        if "dryRun" in request.body["deleteOptions"]:
            self.asked.append(name)
            if self.on_eviction is not None:
                self.on_eviction()
            return None
        assert request.body["deleteOptions"]["preconditions"]["uid"]
        self.done.append(name)
        return self.fault if len(self.done) - 1 == self.at else None

    def on_line(self, request, line):
        return None


def bound(world, app):
    return sum(number for name, number in world.placed(app).items() if name is not None)


async def filled(world, replicas=2, **more):
    """The cluster full of unimportant pods that run."""
    world.deploy("low", replicas, **more)
    await world.until(lambda: bound(world, "low") == replicas, 3)
    await asyncio.sleep(1)
    return {pod["metadata"]["name"] for pod in world.pods("low")}


def budget(world, allowed):
    world.api.create(
        POD_DISRUPTION_BUDGETS,
        {
            "metadata": {"name": "low", "namespace": "default"},
            "spec": {"maxUnavailable": allowed, "selector": {"matchLabels": {"app": "low"}}},
        },
        namespace="default",
    )


def settled(world):
    runtime = world.runtime
    return not runtime.mirror._reservations and not runtime._preemptor._nominations


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
        assert world.invariants.writes == before


async def test_disabled_nobody_is_evicted():
    calls = Evictions()
    async with preempting(configuration=DISABLED, faults=calls) as world, world.scheduler():
        await filled(world)
        urgent(world)
        await asyncio.sleep(100)
        assert world.placed() == {"e1": 2, None: 1}
        assert calls.asked == calls.done == []


async def test_a_pod_that_never_preempts_waits():
    calls = Evictions()
    async with preempting(faults=calls) as world, world.scheduler():
        await filled(world)
        urgent(world, preemptionPolicy="Never")
        await asyncio.sleep(100)
        assert world.placed("urgent") == {None: 1}
        assert calls.asked == []


async def test_a_budget_that_refuses_costs_nothing():
    calls = Evictions()
    async with preempting(faults=calls) as world:
        async with world.scheduler():
            before = await filled(world)
            budget(world, 0)
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
            assert "No room is made on node e1: default/low-" in event["message"]
            assert "budget" in event["message"]
            assert settled(world)
        # A budget that allows it again is noticed when the pod is tried again.
        world.api.delete(POD_DISRUPTION_BUDGETS, "default", "low")
        async with world.scheduler():
            await world.until(lambda: world.placed("urgent") == {"e1": 1}, 10)


async def test_if_one_of_two_victims_is_protected_none_goes():
    calls = Evictions()
    async with preempting(faults=calls) as world, world.scheduler():
        world.deploy("guarded", 1)
        world.deploy("low", 1)
        await world.until_bound(2, 3)
        await asyncio.sleep(1)
        budget(world, 0)
        await asyncio.sleep(1)
        urgent(world, cpu="2")
        await world.until(lambda: world.events("PreemptionFailed"), 5)
        await asyncio.sleep(100)
        assert calls.done == []
        assert world.placed() == {"e1": 2, None: 1}


async def test_the_protected_pod_is_kept_where_another_will_do():
    calls = Evictions()
    async with preempting(faults=calls) as world, world.scheduler():
        world.deploy("low", 1)
        world.deploy("other", 1)
        await world.until_bound(2, 3)
        await asyncio.sleep(1)
        budget(world, 0)
        await asyncio.sleep(1)
        urgent(world)
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 5)
        assert world.placed("low") == {"e1": 1}
        assert calls.done[0].startswith("other-")


async def test_an_eviction_that_is_refused_after_all_is_not_pressed():
    """The budget changed between the question and the eviction."""
    refusal = answer(429, "TooManyRequests", DISRUPTION)
    calls = Evictions(RequestFault(refusal), at=0)
    nodes = (SMALL, node("e2", "edge", "2", "8Gi"))
    async with preempting(*nodes, faults=calls) as world, world.scheduler():
        await filled(world, 4)
        urgent(world)
        await world.until(lambda: bound(world, "urgent"), 6)
        await asyncio.sleep(60)
        first, second = calls.done
        assert first != second
        assert len(world.events("Preempted")) == 1
        assert settled(world)


@pytest.mark.parametrize(
    "fault",
    [
        RequestFault(Unreachable("refused")),
        RequestFault(OutcomeUnknown("timed out")),
        RequestFault(OutcomeUnknown("timed out"), applied=True),
        RequestFault(answer(500, "InternalError")),
        RequestFault(answer(404, "NotFound")),
        RequestFault(answer(409, "Conflict")),
    ],
    ids=["unreachable", "lost", "lost-applied", "500", "404", "409"],
)
async def test_an_eviction_without_an_answer_is_tried_again(fault):
    calls = Evictions(fault)
    async with preempting(faults=calls) as world, world.scheduler():
        await filled(world)
        urgent(world)
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 10)
        await asyncio.sleep(30)
        assert len(set(calls.done)) == 1
        assert world.placed("low") == {"e1": 1, None: 1}
        assert settled(world)


async def test_the_victims_grace_period_is_kept_and_the_room_held_meanwhile():
    roomier = node("e1", "edge", "2500m", "8Gi")
    async with preempting(roomier, timing=SLOW_STOP) as world, world.scheduler():
        await filled(world, terminationGracePeriodSeconds=20)
        urgent(world, cpu="1500m")
        await world.until(lambda: world.events("Preempted"), 5)
        asked = world.clock.monotonic()
        # There is room for one of these, but for what is already promised.
        world.deploy("late", 3, cpu="500m")
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 40)
        assert 14 <= world.clock.monotonic() - asked <= 16
        await asyncio.sleep(5)
        assert world.placed("late") == {None: 3}
        assert world.placed("low") == {"e1": 1, None: 1}
        assert len(world.events("Preempted")) == 1


class FirstBindFails(Evictions):
    """The first bind of an urgent pod does not come through."""

    failed = False

    def on_request(self, request):
        if request.path.endswith("/binding") and "/urgent-" in request.path and not self.failed:
            self.failed = True
            return RequestFault(Unreachable("refused"))
        return super().on_request(request)


async def test_the_room_is_held_until_the_bind_comes_through():
    roomier = node("e1", "edge", "2500m", "8Gi")
    calls = FirstBindFails()
    async with preempting(roomier, timing=SLOW_STOP, faults=calls) as world, world.scheduler():
        await filled(world, terminationGracePeriodSeconds=20)
        urgent(world, cpu="1500m")
        await world.until(lambda: world.events("Preempted"), 5)
        world.deploy("late", 3, cpu="500m")
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 40)
        assert calls.failed
        assert world.placed("late") == {None: 3}
        assert len(calls.done) == 1
        await asyncio.sleep(1)
        assert settled(world)


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


async def test_a_departure_that_began_meanwhile_makes_the_eviction_needless():
    nodes = (SMALL, node("e2", "edge", "2", "8Gi"))
    async with preempting(*nodes, timing=SLOW_STOP) as world:
        calls = Evictions(on_eviction=lambda: world.scale("important", 1))
        async with world.scheduler(faults=calls):
            urgent(world, "important", 2, terminationGracePeriodSeconds=20)
            await world.until_bound(2, 3)
            await filled(world, 2)
            urgent(world)
            await world.until(lambda: bound(world, "urgent"), 40)
            assert len(calls.asked) == 1
            assert calls.done == []
            await asyncio.sleep(1)
            assert settled(world)


async def test_nobody_goes_if_somebody_is_going_anyway():
    calls = Evictions()
    async with preempting(timing=SLOW_STOP, faults=calls) as world, world.scheduler():
        await filled(world, terminationGracePeriodSeconds=20)
        world.scale("low", 1)
        await asyncio.sleep(0.5)
        urgent(world)
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 40)
        assert calls.asked == calls.done == []


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


async def test_several_important_pods_each_get_room_and_no_more_go_than_must():
    async with preempting(EDGE, CLOUD, timing=SLOW_STOP) as world, world.scheduler():
        await filled(world, 24)
        urgent(world, replicas=6)
        await world.until(lambda: bound(world, "urgent") == 6, 60)
        await asyncio.sleep(60)
        assert world.placed("urgent") == {"e1": 4, "c1": 2}
        assert len(world.events("Preempted")) == 6
        assert world.placed("low") == {"c1": 18, None: 6}
        assert settled(world)


async def test_a_pod_deleted_meanwhile_needs_no_more_room():
    async with preempting(timing=SLOW_STOP) as world, world.scheduler():
        await filled(world, 2, terminationGracePeriodSeconds=20)
        urgent(world)
        await world.until(lambda: world.events("Preempted"), 5)
        world.scale("urgent", 0)
        await asyncio.sleep(60)
        assert world.placed("low") == {"e1": 2}
        assert settled(world)


async def test_a_nominated_node_that_closes_is_given_up():
    nodes = (SMALL, node("e2", "edge", "2", "8Gi"))
    async with preempting(*nodes, timing=SLOW_STOP) as world, world.scheduler():
        await filled(world, 4, terminationGracePeriodSeconds=20)
        urgent(world)
        await world.until(lambda: world.events("Preempted"), 5)
        [nomination] = world.runtime._preemptor._nominations.values()
        closed = nomination.node
        world.api.patch(NODES, "", closed, {"spec": {"unschedulable": True}}, MERGE)
        await world.until(lambda: bound(world, "urgent"), 60)
        assert closed not in world.placed("urgent")
        await asyncio.sleep(1)
        assert settled(world)


@pytest.mark.parametrize("moment", ["before the eviction", "after it"])
async def test_killed_and_started_again_it_leaves_nothing_to_repair(moment):
    async with preempting(timing=SLOW_STOP) as world:
        calls = Evictions()
        async with world.scheduler(faults=calls):
            await filled(world, terminationGracePeriodSeconds=20)
            urgent(world)
            seen = {"before the eviction": calls.asked, "after it": calls.done}[moment]
            await world.until(lambda: seen, 5)
        async with world.scheduler(faults=calls):
            await world.until(lambda: world.placed("urgent") == {"e1": 1}, 60)
            await asyncio.sleep(60)
            assert world.placed("low") == {"e1": 1, None: 1}
            assert len(set(calls.done)) == 1
            assert settled(world)


async def story(faults, *, restart):
    """An urgent pod comes to a full node, and one call is the last of this process."""
    async with preempting(timing=SLOW_STOP) as world:
        async with world.scheduler():
            before = await filled(world, terminationGracePeriodSeconds=20)
        urgent(world)
        if restart:
            async with world.scheduler(faults=faults):
                await asyncio.wait_for(faults.struck.wait(), 60)
            faults = None
        async with world.scheduler(faults=faults):
            await world.until(lambda: bound(world, "urgent"), 120)
            await asyncio.sleep(20)
            assert world.placed("low") == {"e1": 1, None: 1}
            assert len(before & {pod["metadata"]["name"] for pod in world.pods("low")}) == 1
            assert settled(world)


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
async def test_killed_at_any_call_one_victim_goes_and_no_more(applied):
    calls = FaultAt()
    await story(calls, restart=False)
    assert calls.requests > 15
    for at in range(calls.requests):
        fault = RequestFault(OutcomeUnknown("killed"), applied=applied)
        await story(FaultAt(request=at, fault=fault), restart=True)


@pytest.mark.parametrize("applied", [False, True], ids=["lost", "lost-applied"])
async def test_any_call_may_have_no_answer(applied):
    calls = FaultAt()
    await story(calls, restart=False)
    for at in range(calls.requests):
        fault = RequestFault(OutcomeUnknown("timed out"), applied=applied)
        await story(FaultAt(request=at, fault=fault), restart=False)


async def test_static_pods_and_those_that_ask_for_it_stay():
    calls = Evictions()
    async with preempting(faults=calls) as world, world.scheduler():
        await filled(world)
        for pod in world.pods("low"):
            annotation = {"metadata": {"annotations": {"kubedsm.io/do-not-disrupt": "true"}}}
            world.api.patch(PODS, "default", pod["metadata"]["name"], annotation, MERGE)
        await asyncio.sleep(1)
        urgent(world)
        await asyncio.sleep(100)
        assert calls.asked == []
        assert world.placed("urgent") == {None: 1}


async def test_pods_of_other_schedulers_are_victims_too():
    async with preempting() as world, world.scheduler():
        world.deploy("foreign", 2, schedulerName="default-scheduler")
        await asyncio.sleep(0.1)
        for pod in world.pods("foreign"):
            target = {"target": {"kind": "Node", "name": "e1"}, "metadata": {}}
            world.api.bind("default", pod["metadata"]["name"], target)
        await asyncio.sleep(1)
        urgent(world)
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 5)
        assert world.placed("foreign") == {"e1": 1, None: 1}
