"""One of those that are all on one node goes to another, end to end, and then all stay."""

import asyncio

import pytest

from kubedsm.config.settings import load
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.paper import node
from support.move_scenes import ReadyPods, migrating, quiet
from support.worlds import emulated

E1, E2 = (node(name, "edge", "4", "8Gi") for name in ("e1", "e2"))
C1, C2 = (node(name, "cloud", "20", "40Gi") for name in ("c1", "c2"))


async def settle(world, app, replicas, seconds=3):
    world.deploy(app, replicas)
    await world.until_bound(replicas, seconds, app)
    await asyncio.sleep(2)


@pytest.mark.parametrize(
    ("nodes", "other", "kind"), [((E1, C1), E2, "edge-to-edge"), ((C1,), C2, "cloud-to-cloud")]
)
async def test_one_of_three_goes_to_a_node_that_is_new_and_none_is_ever_missing(nodes, other, kind):
    async with migrating(*nodes) as world, world.scheduler():
        await settle(world, "web", 3)
        home, new = nodes[0]["metadata"]["name"], other["metadata"]["name"]
        assert world.placed("web") == {home: 3}
        ready = ReadyPods(world, "web").watch()
        world.api.create(NODES, other)
        await world.until(lambda: world.placed("web") == {home: 2, new: 1}, 30)
        await quiet(world)
        assert ready.lowest == 3
        [moved] = world.events("Migrated")
        assert moved["message"] == (f"Migrated to {new}, to spread default/web over nodes")
        await asyncio.sleep(5)
        [told] = world.events("Migrated", about="Deployment")
        assert f"({kind}), to spread default/web over nodes" in told["message"]
        # That was all there was to do.
        before = world.invariants.writes
        await asyncio.sleep(300)
        assert world.invariants.writes == before


async def test_it_is_worth_nothing_any_more_once_a_pod_is_elsewhere():
    off = load("suggester: {mode: 'off'}", "test")
    async with emulated(C1, configuration=off) as world, world.scheduler() as runtime:
        await settle(world, "web", 2)
        world.api.create(NODES, C2)
        await asyncio.sleep(0.1)
        [move] = off.policy.suggest(runtime.mirror.snapshot(), lambda _: None).moves
        moves, has_benefit = [move], runtime.migrator.has_benefit
        assert has_benefit(moves)
        world.patch(NODES, "c1", {"spec": {"unschedulable": True}})
        world.scale("web", 3)
        await world.until(lambda: world.placed("web") == {"c1": 2, "c2": 1}, 5)
        assert not has_benefit(moves)
