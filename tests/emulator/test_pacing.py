"""Slow-start batches of ReplicaSets and late watch events, by latencies of a real control plane."""

import asyncio
import random

import orjson
import pytest

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.pacing import CREATION, DELIVERY
from kubedsm_lab.emulator.api.resources import PODS, REPLICA_SETS
from kubedsm_lab.emulator.http.routes import ApiRequest, Routes
from kubedsm_lab.emulator.paper import workload
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.actor_world import NS, emulated, pod_spec
from support.api_cases import pod


def make_replica_set(world, replicas):
    body = workload("web", replicas, pod_spec(), "ReplicaSet")
    world.api.create(REPLICA_SETS, body, namespace=NS)


async def record_creations(replicas, seed=1):
    """Return the times at which the pods of a new ReplicaSet were created, in seconds."""
    times = []
    async with emulated(paced=True, seed=seed) as world:
        began = asyncio.get_running_loop().time()

        def note(change):
            if change.resource is PODS and change.type == "ADDED":
                times.append(asyncio.get_running_loop().time() - began)

        world.api.store.subscribe(note)
        make_replica_set(world, replicas)
        await asyncio.sleep(10)
        assert len(world.pods("web")) == replicas
    return times


@pytest.mark.parametrize("seed", range(5))
async def test_a_replica_set_creates_one_pod_then_two_then_four(seed):
    times = await record_creations(10, seed)
    start = 0.0
    for first, last in ((0, 1), (1, 3), (3, 7), (7, 10)):
        batch = times[first:last]
        assert all(CREATION[0] <= time - start <= CREATION[1] + 1e-3 for time in batch)
        start = max(batch)


async def test_watch_events_arrive_late_and_in_order_also_after_the_watch_has_ended():
    clock = VirtualClock()
    api = ApiServer(clock, random.Random(0))
    routes = Routes(api, pacing=random.Random(1))
    stream = routes.handle(
        ApiRequest("GET", "/api/v1/pods", {"watch": "1", "timeoutSeconds": "10"})
    )
    loop = asyncio.get_running_loop()
    created = [9.0, 9.01, 9.02, 9.99, 9.995]
    for number, moment in enumerate(created):
        loop.call_later(moment, api.create, PODS, pod(name=f"p{number}"))
    names, delays = [], []
    async for line in stream:
        delays.append(loop.time() - created[len(names)])
        names.append(orjson.loads(line)["object"]["metadata"]["name"])
    assert names == ["p0", "p1", "p2", "p3", "p4"]
    assert all(DELIVERY[0] <= delay <= DELIVERY[1] + 1e-3 for delay in delays)
    assert loop.time() > 10.0
