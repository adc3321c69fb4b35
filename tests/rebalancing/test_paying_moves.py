"""Moves are made once they pay, pods wait for room that is being left: on the emulated cluster."""

import asyncio

import pytest

from kubedsm.config.settings import load
from kubedsm_lab.emulator.emulated_cluster import Timing
from kubedsm_lab.emulator.paper import node
from support.move_scenes import open_edge
from support.worlds import CLOUD, emulated

ONE, TWO = node("e1", "edge", "1", "8Gi"), node("e1", "edge", "2", "8Gi")
SLOW = Timing(start_delay=0.5, stop_delay=1.0)


def at_price(price, **more):
    batch = "".join(f", {key}: {value}" for key, value in more.items())
    text = (
        f"{{suggester: {{period: 1s}}, migration: {{price: {price}}}, batch: {{idle: 5ms{batch}}}}}"
    )
    return load(text, "test")


async def test_a_move_that_does_not_pay_yet_is_made_once_its_workload_has_been_quiet_for_long():
    # A pod-second of the only pod lasts a minute, and as long again as it has been quiet: twice
    # that is expected after a minute, and the edge about it is known to be as quiet.
    async with emulated(CLOUD, configuration=at_price("100s")) as world, world.scheduler():
        world.deploy("other", 1)
        world.deploy("web", 1)
        await world.until_bound(2, 3)
        open_edge(world, TWO)
        await asyncio.sleep(20)
        assert world.placed("web") == {"c1": 1}
        await world.until(lambda: world.placed("web") == {"e1": 1}, 120)


@pytest.mark.parametrize("mode", ["apply", "off"])
async def test_nothing_is_moved_while_pods_are_about_to_start(mode):
    # One pod is at once where room comes free; the others start, and may need that room more.
    slow = Timing(start_delay=6.0, stop_delay=0.5)
    async with (
        emulated(CLOUD, configuration=at_price("10s"), timing=slow) as world,
        world.scheduler(),
    ):
        world.deploy("old", 1)
        await world.until_bound(1, 3)
        await asyncio.sleep(20)
        world.deploy("new", 1)
        await world.until_bound(2, 3)
        open_edge(world, TWO)
        await asyncio.sleep(4)
        assert world.placed() == {"c1": 2}
        text = f"{{suggester: {{mode: {mode}, period: 1s}}, migration: {{price: 10s}}}}"
        world.runtime.configuration.replace(text, "test", 0.0)
        await asyncio.sleep(20)
        assert world.placed("old")["e1"] == (mode == "apply")


async def replaced(world):
    """A pod that leaves the only place on the edge at the moment in which another comes."""
    world.deploy("old", 1)
    await world.until_bound(1, 3)
    await asyncio.sleep(3)
    world.scale("old", 0)
    world.deploy("new", 1)


async def test_a_new_pod_waits_for_room_that_is_being_left():
    async with (
        emulated(ONE, CLOUD, configuration=at_price("20s"), timing=SLOW) as world,
        world.scheduler(),
    ):
        await replaced(world)
        await asyncio.sleep(0.5)
        assert world.placed("new") == {None: 1}
        await world.until(lambda: world.placed("new") == {"e1": 1}, 0.9)
        assert world.witness.of("evict") == []


@pytest.mark.parametrize("wait", ["0s", "500ms"])
async def test_it_waits_no_longer_than_it_may(wait):
    slow = Timing(start_delay=0.5, stop_delay=5.0)
    configuration = at_price("20s", edgeWait=wait)
    async with (
        emulated(ONE, CLOUD, configuration=configuration, timing=slow) as world,
        world.scheduler(),
    ):
        await replaced(world)
        await asyncio.sleep(0.3)
        assert world.placed("new") == ({"c1": 1} if wait == "0s" else {None: 1})
        await asyncio.sleep(0.5)
        assert world.placed("new") == {"c1": 1}
