"""An edge that is slower than the cloud is not filled further, until it no longer is."""

import asyncio

from kubedsm_lab.emulator.paper import node
from support.answers import tell, tell_nothing
from support.metered import metering, total
from support.move_scenes import CONFIGURATION, quiet
from support.worlds import emulated

EDGE, CLOUD = node("e1", "edge", "6", "16Gi"), node("c1", "cloud", "9", "32Gi")


def told(world):
    """The reasons of the Events of this on Deployments, in the order in which they came."""
    reasons = ("EdgeSlower", "EdgeFasterAgain", "EdgeNotCompared")
    found = [event for reason in reasons for event in world.events(reason, about="Deployment")]
    return [event["reason"] for event in sorted(found, key=lambda event: event["eventTime"])]


async def samples(world, number, *times):
    for _ in range(number):
        await asyncio.sleep(30)
        tell(world, *times)


async def spread(world):
    """Two pods at the edge, and three in the cloud, which would be at the edge."""
    await world.bring_up("web", 2, within=3)
    await samples(world, 2, 300, 200)
    world.scale("web", 5)
    await world.until_bound(5, 3, "web")


async def test_it_is_not_filled_further_and_one_event_says_so_until_it_is_fast_again():
    async with metering(emulated(EDGE, CLOUD, configuration=CONFIGURATION)) as (world, metered):
        await spread(world)
        assert world.placed("web") == {"e1": 2, "c1": 3}
        await samples(world, 3, 300, 200)
        assert world.placed("web") == {"e1": 2, "c1": 3}
        assert told(world) == ["EdgeSlower"]
        [event] = world.events("EdgeSlower", about="Deployment")
        assert event["type"] == "Warning"
        assert event["message"].startswith("Requests take 300 ms at the edge and 200 ms in the")
        text = metered.text()
        assert total(text, "kubedsm_workload_edge_slower", workload="web") == 1
        assert total(text, "kubedsm_workloads_edge_slower") == 1
        seconds = "kubedsm_response_time_seconds"
        assert total(text, seconds, workload="web", tier="edge") == 0.3
        await samples(world, 1, 100, 200)
        await asyncio.sleep(20)
        assert world.placed("web") == {"e1": 2, "c1": 3}
        await samples(world, 1, 100, 200)
        await world.until(lambda: world.placed("web") == {"e1": 5}, 60)
        await quiet(world)
        await asyncio.sleep(10)
        assert told(world) == ["EdgeSlower", "EdgeFasterAgain"]
        assert total(metered.text(), "kubedsm_workloads_edge_slower") == 0


async def test_once_nothing_is_measured_any_more_it_is_filled_as_promised():
    async with emulated(EDGE, CLOUD, configuration=CONFIGURATION) as world, world.scheduler():
        await spread(world)
        await asyncio.sleep(6)
        tell_nothing(world)
        await world.until(lambda: world.placed("web") == {"e1": 5}, 60)
        await quiet(world)
        await asyncio.sleep(10)
        assert told(world) == ["EdgeSlower", "EdgeNotCompared"]
