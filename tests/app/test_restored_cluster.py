"""A cluster that was restored from a backup: versions go back, and what was done is undone."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from kubedsm_lab.chaos.oracles import Invariants
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, EVENTS, SERVED
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from support.worlds import CLOUD, EDGE, QUICK, emulated

#: until five lists were taken that are too old to be believed at once
BELIEVED = 60


def backup(world):
    kept = [kind for kind in SERVED if kind is not EVENTS and not kind.alias_of]
    return [(kind, obj) for kind in kept for obj in world.api.store.list(kind)]


def write_a_lot(world, times=300):
    for number in range(times):
        patch = {"metadata": {"annotations": {"touched": str(number)}}}
        world.patch(DEPLOYMENTS, "web", patch)


@asynccontextmanager
async def restored(world, saved, meanwhile=0):
    """The API server starts again on the backup: the same uids, and a history that begins anew."""
    async with EmulatedCluster(ClusterSpec((), QUICK), world.clock, random.Random(1)) as cluster:
        for kind, obj in saved:
            cluster.api.store.put(kind, obj)
        old, world.cluster = world.cluster, cluster
        world.invariants = Invariants(cluster.api)
        write_a_lot(world, meanwhile)
        world.front._routes = cluster.routes
        for streams in old.routes._hub._streams.values():
            for stream in list(streams):
                stream.show("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
                stream.end()
        yield


@pytest.mark.parametrize("meanwhile", [0, 1000], ids=["behind", "ahead again"])
async def test_a_pod_whose_bind_was_undone_is_bound_again(meanwhile):
    async with emulated(EDGE, CLOUD) as world:
        world.deploy("web", 5)
        await asyncio.sleep(1)
        saved = backup(world)
        async with world.scheduler() as runtime:
            await world.until_bound(5, 2)
            write_a_lot(world)
            await asyncio.sleep(5)
            undone = {pod["metadata"]["uid"] for pod in world.pods()}
            async with restored(world, saved, meanwhile):
                assert world.placed() == {None: 5}
                await world.until_bound(5, BELIEVED)
                assert {pod["metadata"]["uid"] for pod in world.pods()} == undone
                assert world.placed() == {"e1": 4, "c1": 1}
                await asyncio.sleep(20)
                assert len(runtime.mirror.snapshot().placed) == 5
                assert runtime.manager.quiet.is_set()
                running = [pod for pod in world.pods() if pod["status"]["phase"] == "Running"]
                assert len(running) == 5
