"""What is found to be left of a soak, and requests of benchmarks that the cluster refuses."""

import asyncio

import pytest

from kubedsm.kube.client.port import Forbidden
from kubedsm.model.model import MIGRATING_LABEL, NodeName, Resources
from kubedsm_lab.bench.api import APPS, CORE, Api, deployment
from kubedsm_lab.bench.soak.leftovers import LeftoverCheck, Leftovers
from kubedsm_lab.bench.soak.pod_watch import PodWatch
from kubedsm_lab.emulator.api.resources import NAMESPACES
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import pod_spec
from support.rights import ADMIN_TOKEN, install
from support.worlds import CLOUD, EDGE, emulated

NODES = tuple(sorted(each["metadata"]["name"] for each in (EDGE, CLOUD)))


async def tenant(world):
    """Of a namespace with a Deployment of two pods, and what is asked of the API server."""
    api = Api(EmulatedFront(world.cluster.routes, world.clock, latency=0.01))
    await api.create_namespace("shop")
    await api.create("shop", "deployments", deployment("web", 2, pod_spec({"cpu": "100m"})), APPS)
    await asyncio.sleep(5)
    return api


def left_in(world, api):
    return LeftoverCheck(api, PodWatch(world.clock), (), world.clock).find()


async def test_of_a_scheduler_that_leaves_nothing_but_room_held_for_nobody_that_is_left():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        assert await left_in(world, await tenant(world)) == Leftovers()
    async with emulated(EDGE, CLOUD) as world, world.scheduler() as runtime:
        api = await tenant(world)
        runtime.mirror.reserve("nobody", NodeName(NODES[1]), Resources(cpu=1))
        assert await left_in(world, api) == Leftovers(room=NODES[1:])


async def test_marks_and_pods_that_nobody_asked_for_are_left():
    async with emulated(EDGE, CLOUD) as world:
        api = await tenant(world)
        labels = {"app": "web", MIGRATING_LABEL: "1"}
        detached = {"metadata": {"name": "old", "labels": labels}, "spec": pod_spec({"cpu": "1m"})}
        await api.create("shop", "pods", detached)
        left = await left_in(world, api)
        assert left.marked == ("shop/old",)
        assert left.replicas == ("shop/web: 3 pods, not 2",)
        assert left.room == NODES
        assert "shop" not in str(await api.get(f"{CORE}/namespaces"))


async def test_a_missing_right_is_an_error_and_a_namespace_that_ends_is_none():
    async with emulated(CLOUD, admin_token=ADMIN_TOKEN) as world:
        token = install(world.cluster)
        admin, account = (
            Api(EmulatedFront(world.cluster.routes, world.clock, token=each))
            for each in (ADMIN_TOKEN, token)
        )
        kept = {"metadata": {"name": "old", "finalizers": ["example.com/keep"]}}
        world.api.create(NAMESPACES, kept)
        made = {"metadata": {"name": "s"}}
        assert await admin.create("old", "configmaps", made)
        assert not await admin.create("old", "configmaps", made)
        with pytest.raises(Forbidden):
            await account.create("old", "configmaps", made)
        await admin.delete_namespace("old")
        assert not await admin.create("old", "configmaps", {"metadata": {"name": "t"}})
