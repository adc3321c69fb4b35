"""Moves that are under way to or from a site when it is partitioned."""

import asyncio

import attrs
from structlog.testing import capture_logs

from kubedsm_lab.emulator.emulated_cluster import Timing
from support.move_scenes import BY_HAND, ReadyPods, hand_over, labelled, quiet
from support.sites import GRACE, NORTH, SOUTH, cordon, two_sites, where

#: so that no replacement is Ready when a cut is found out
SLUGGISH = Timing(start_delay=60.0, stop_delay=0.5)
#: so that no move ends by itself in that time
LONG = 900.0
FOUND_OUT = GRACE + 3.0


def hesitant(configuration=BY_HAND):
    return two_sites(configuration=configuration, timing=SLUGGISH)


async def settled(world, app, count, *closed):
    """So many pods of the app, Ready, on other nodes than these, which are closed until then."""
    cordon(world, *closed)
    world.deploy(app, count)
    await world.until(lambda: ReadyPods(world, app).count() == count, 90)
    cordon(world, *closed, cordoned=False)
    await asyncio.sleep(1.0)


async def test_a_move_to_a_site_that_is_cut_off_is_taken_back():
    async with hesitant() as world, world.scheduler():
        await settled(world, "web", 2, *NORTH, *SOUTH)
        ready = ReadyPods(world, "web").watch()
        await hand_over(world, [(world.pods("web")[0], "n1", ())], deadline=LONG)
        await world.until(lambda: where(world).get("n"), 10)
        world.cluster.disconnect(*NORTH)
        await asyncio.sleep(FOUND_OUT)
        await quiet(world, 5)
        # The replacement goes once its kubelet hears of it.
        assert where(world) == {"c": 2, "n-": 1}
        assert ready.lowest == 2


async def test_a_move_from_a_site_that_is_cut_off_is_taken_back():
    async with hesitant() as world, world.scheduler():
        await settled(world, "web", 2, *SOUTH)
        there = {pod["metadata"]["uid"] for pod in world.pods("web")}
        await hand_over(world, [(world.pods("web")[0], "s1", ())], deadline=LONG)
        await world.until(lambda: where(world).get("s"), 10)
        world.cluster.disconnect(*NORTH)
        await asyncio.sleep(FOUND_OUT)
        await quiet(world, 5)
        assert labelled(world) == []
        assert world.cluster.serving() == there


async def test_the_rest_of_a_group_that_concerns_the_site_is_dropped():
    one = attrs.evolve(BY_HAND, migration=attrs.evolve(BY_HAND.migration, max_concurrent=1))
    async with hesitant(one) as world, world.scheduler():
        await settled(world, "api", 1, *NORTH, *SOUTH)
        await settled(world, "web", 1, *SOUTH)
        [api], [web] = world.pods("api"), world.pods("web")
        with capture_logs() as logs:
            await hand_over(world, [(api, "s1", ()), (web, "s2", ())], deadline=LONG)
            await world.until(lambda: where(world).get("s"), 10)
            world.cluster.disconnect(*NORTH)
            await asyncio.sleep(120.0)
        assert [entry["target"] for entry in logs if entry["event"] == "migration begun"] == ["s1"]
        assert where(world) == {"s": 1, "n": 1}
        # It did not fail: its workload need not rest for that.
        ends = [entry["pod"] for entry in logs if entry["event"] == "migration ended"]
        assert ends == [f"default/{api['metadata']['name']}"]
