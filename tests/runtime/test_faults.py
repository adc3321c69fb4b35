"""The scheduler when calls fail, watches break, and it is itself killed: nothing may be left.

Each case runs a small reference story, disturbed at one point, and ends the same: every pod that
fits is bound, as many at the edge as without the disturbance, I1 and I2 held throughout.
"""

import asyncio

import attrs
import orjson
import pytest

from kubedsm.cluster.client.port import OutcomeUnknown, Unreachable
from kubedsm.configuration.settings import load
from kubedsm.emulator.api.resources import NODES
from kubedsm.emulator.front import Delivery, RequestFault
from kubedsm.emulator.paper import node
from support.faults import OUTCOMES, FaultAt
from support.tenants import served
from support.worlds import CLOUD, EDGE, emulated

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


class Away:
    """An API server that cannot be reached for a while."""

    away = False

    def on_request(self, request):
        return RequestFault(Unreachable("connection refused")) if self.away else None

    def on_line(self, request, line):
        return Delivery((), end="broken") if self.away else None


async def story(world):
    world.deploy("web", 5)
    world.deploy("huge", 1, cpu="64")
    await asyncio.sleep(0.6)
    world.scale("web", 7)


def settled(world):
    return world.placed() == {"e1": 4, "c1": 3, None: 1}


async def disturbed(faults, restart=False):
    struck = faults.struck
    async with emulated(EDGE, CLOUD) as world:
        story_told = asyncio.create_task(story(world))
        if restart:
            async with world.scheduler(faults=faults):
                await asyncio.wait_for(faults.struck.wait(), 60)
            faults = None
        async with world.scheduler(faults=faults):
            await story_told
            if struck.is_set():
                await served(world, seconds=20)
            await world.until(lambda: settled(world), 120)
            # A wrong bind would have been counted by now, and what is left would show later.
            await asyncio.sleep(20)
            assert settled(world)
            assert world.runtime.manager.quiet.is_set()
            snapshot = world.runtime.mirror.snapshot()
            ours = [uid for uid in snapshot.placed if snapshot.pods[uid].namespace == "default"]
            assert len(ours) == 7
        assert set(world.invariants.binds.values()) == {1}


async def extent():
    """Return how many requests and how many watch lines the undisturbed story has."""
    faults = FaultAt()
    await disturbed(faults)
    assert faults.requests > 15
    assert faults.lines > 15
    return faults.requests, faults.lines


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
async def test_killed_at_any_call_and_started_again(applied):
    for at in range((await extent())[0]):
        fault = RequestFault(OutcomeUnknown("killed"), applied=applied)
        await disturbed(FaultAt(request=at, fault=fault), restart=True)


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_any_call_may_fail_in_any_way(outcome):
    for at in range((await extent())[0]):
        await disturbed(FaultAt(request=at, fault=OUTCOMES[outcome]))


DELIVERIES = {
    "closed": lambda line: Delivery((), end="closed"),
    "broken": lambda line: Delivery((), end="broken"),
    "broken-after": lambda line: Delivery((line,), end="broken"),
    "twice": lambda line: Delivery((line, line)),
    "late": lambda line: Delivery((line,), delay=5.0),
    "truncated": lambda line: Delivery((line[: len(line) // 2],), end="broken"),
    "gone": lambda line: Delivery(
        (
            orjson.dumps(
                {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
            ),
        ),
        end="closed",
    ),
    "garbage": lambda line: Delivery((b"\x00not json", line)),
}


@pytest.mark.parametrize("delivery", DELIVERIES)
async def test_any_watch_line_may_go_wrong(delivery):
    for at in range((await extent())[1]):
        await disturbed(FaultAt(line=at, delivery=DELIVERIES[delivery]))


async def test_a_minute_without_an_api_server():
    faults = Away()
    async with emulated(EDGE, CLOUD) as world, world.scheduler(faults=faults):
        world.deploy("web", 2)
        await world.until_bound(2, 2)
        faults.away = True
        world.scale("web", 6)
        world.deploy("late", 1)
        await asyncio.sleep(60)
        assert world.placed() == {"e1": 2, None: 5}
        faults.away = False
        await world.until_bound(7, 45)
        assert world.placed() == {"e1": 4, "c1": 3}


async def test_the_api_server_goes_while_binds_are_under_way():
    faults = Away()
    async with emulated(EDGE, CLOUD) as world, world.scheduler(faults=faults):
        await world.runtime.synced.wait()
        world.deploy("web", 12)
        await asyncio.sleep(0.02)
        faults.away = True
        await asyncio.sleep(60)
        faults.away = False
        await world.until_bound(12, 60)
        assert world.placed() == {"e1": 4, "c1": 8}


async def test_a_node_that_goes_takes_nothing_with_it():
    async with emulated(EDGE, CLOUD, node("e2", "edge", "4", "8Gi")) as world, world.scheduler():
        world.deploy("web", 6)
        await world.until_bound(6, 2)
        world.api.delete(NODES, "", "e2")
        await world.until(lambda: world.placed() == {"e1": 4, "c1": 2}, 120)


@attrs.define
class Thief:
    """Another scheduler, which binds our pods before we do."""

    world: object
    taken: int = 0

    def on_request(self, request):
        if request.path.endswith("/binding") and self.taken < 2:
            self.taken += 1
            name = request.path.split("/")[-2]
            target = {"metadata": {}, "target": {"kind": "Node", "name": "c1"}}
            self.world.api.bind("default", name, target)

    def on_line(self, request, line):
        return None


async def test_pods_bound_by_somebody_else_are_left_where_they_are():
    off = load("suggester: {mode: 'off'}", "test")
    async with emulated(EDGE, CLOUD, configuration=off) as world:
        async with world.scheduler(faults=Thief(world)):
            world.deploy("web", 6)
            await world.until_bound(6, 30)
            await asyncio.sleep(30)
            assert world.placed() == {"c1": 4, "e1": 2}
        assert len(world.events("Scheduled")) == 4
