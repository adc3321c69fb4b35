"""Moves, end to end: nothing is lost when they go well, and nothing is left when they do not."""

import asyncio

import pytest

from kubedsm.config.settings import load
from kubedsm_lab.emulator.api.resources import ENDPOINTS, NODES
from kubedsm_lab.emulator.paper import node
from support.move_scenes import (
    LARGE_CLOUD,
    ReadyPods,
    hand_over,
    migrating,
    open_edge,
    quiet,
    settle_on_cloud,
)
from support.worlds import emulated


async def test_a_single_replica_moves_to_the_edge_without_ever_being_missing():
    async with migrating(LARGE_CLOUD) as world, world.scheduler():
        world.service("web")
        await settle_on_cloud(world, "web", 1)
        lowest = []

        def endpoints(change):
            if change.resource is ENDPOINTS:
                subsets = change.object.get("subsets") or []
                lowest.append(sum(len(s.get("addresses") or ()) for s in subsets))

        world.api.store.subscribe(endpoints)
        ready = ReadyPods(world, "web").watch()
        open_edge(world)
        await world.until(lambda: world.placed("web") == {"e1": 1}, 30)
        await quiet(world)
        assert ready.lowest == 1
        assert min(lowest) >= 1
        assert len(world.events("Migrated")) == 1


@pytest.mark.parametrize("tied", [False, True], ids=["", "tied to their nodes"])
async def test_a_swap_of_two_full_nodes_goes_through_the_cloud(tied):
    def tie(node):
        return {"nodeSelector": {"kubernetes.io/hostname": node}} if tied else {}

    off = load("suggester: {mode: 'off'}\nmigration: {drainDelay: 1s}", "test")
    edge = node("e1", "edge", "1", "4Gi")
    async with emulated(edge, configuration=off) as world, world.scheduler():
        world.deploy("a", 1, **tie("e1"))
        await world.until_bound(1, 3)
        world.api.create(NODES, node("e2", "edge", "1", "4Gi"))
        world.deploy("b", 1, **tie("e2"))
        await world.until_bound(2, 3)
        world.api.create(NODES, LARGE_CLOUD)
        await asyncio.sleep(2)
        [a], [b] = world.pods("a"), world.pods("b")
        ready = [ReadyPods(world, app).watch() for app in "ab"]
        await hand_over(world, [(a, "e2", [b]), (b, "e1", [a])], stopping=[a])
        await quiet(world)
        # A swap of pods that are tied to their nodes is refused, and leaves all as it was.
        a, b = ("e1", "e2") if tied else ("e2", "e1")
        assert (world.placed("a"), world.placed("b")) == ({a: 1}, {b: 1})
        assert [r.lowest for r in ready] == [1, 1]
