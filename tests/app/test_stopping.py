"""A scheduler that is told to stop: what is under way ends, is taken back, or is left in order."""

import asyncio

from kubedsm_lab.emulator.emulated_cluster import Timing
from support.move_scenes import (
    CONFIGURATION,
    LARGE_CLOUD,
    SMALL_EDGE,
    ReadyPods,
    labelled,
    open_edge,
)
from support.replicas import replicas

#: seconds from a binding to Ready
BRISK, SLUGGISH = Timing(start_delay=2, stop_delay=0.5), Timing(start_delay=60, stop_delay=0.5)


async def moving(several, grace, configuration=CONFIGURATION):
    """A scheduler that has detached a pod to move it."""
    world = several.world
    first = several.start("first", configuration=configuration, grace=grace)
    await several.until_led_by(first, 5)
    world.deploy("web", 2)
    await world.until_bound(2, 5)
    await world.until(lambda: ready(world) == 2, 90)
    open_edge(world, SMALL_EDGE)
    await world.until(lambda: labelled(world), 20)
    return first


def ready(world):
    return ReadyPods(world, "web").count()


async def test_moves_that_can_end_in_time_do():
    async with replicas(LARGE_CLOUD, busy=False, timing=BRISK) as several:
        first = await moving(several, grace=25)
        first.stopping.set()
        await several.world.until(lambda: first.over, 26)
        assert not labelled(several.world)
        assert several.world.placed("web")["e1"] >= 1
        assert several.world.events("Migrated")
        # Nothing new was begun, and the Lease went last.
        assert several.ledger.holder == ""
        assert max(write.at for write in several.ledger.writes) < several.ledger.terms[-1][0]


async def test_moves_that_cannot_are_taken_back():
    async with replicas(LARGE_CLOUD, busy=False, timing=SLUGGISH) as several:
        first = await moving(several, grace=8)
        began = asyncio.get_running_loop().time()
        first.stopping.set()
        await several.world.until(lambda: first.over, 8.5)
        assert asyncio.get_running_loop().time() - began > 4
        assert not labelled(several.world)
        assert ready(several.world) == 2
        assert several.world.events("MigrationFailed")
        assert several.ledger.holder == ""


async def test_events_are_written_before_the_end():
    async with replicas(LARGE_CLOUD, busy=False) as several:
        first = several.start("first")
        await several.until_led_by(first, 5)
        several.world.deploy("web", 20)
        await several.world.until(lambda: several.world.placed("web")["c1"], 5)
        first.stopping.set()
        await several.world.until(lambda: first.over, 5)
        bound = sum(n for name, n in several.world.placed("web").items() if name)
        assert len(several.world.events("Scheduled")) == bound == 20


async def test_without_an_election_it_stops_in_the_same_way():
    async with replicas(LARGE_CLOUD, busy=False) as several:
        first = several.start("first", times=None)
        several.world.deploy("web", 4)
        await several.world.until_bound(4, 5)
        first.stopping.set()
        await several.world.until(lambda: first.over, 2)
        assert len(several.world.events("Scheduled")) == 4
        assert several.ledger.terms == [(0.0, "")]
