"""Several pieces of news in one turn of the loop: what one leads to may be over by the next.

At every line of every watch of a story of moves the stream stalls, something is taken away
meanwhile, and then all the news come at once.
"""

import asyncio

import pytest

from kubedsm.config.settings import load
from kubedsm.model.events import PodDeleted
from kubedsm.model.model import Uid
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NAMESPACES, NODES, PODS
from kubedsm_lab.emulator.front import Delivery, Faults
from kubedsm_lab.emulator.paper import node
from plans.migration import MoveMode, MoveOrder
from support.drawing import drawn
from support.move_scenes import group_of, quiet
from support.tenants import CLOUD_ONLY, NEIGHBOUR, TENANT, Tenant
from support.worlds import CLOUD, emulated

ONE_BY_ONE = """
suggester: {period: 1s}
migration: {cooldown: 1s, drainDelay: 1s, deadline: 10s, maxConcurrent: 1, mode: %s}
"""


def scaled_to_nothing(world):
    patch = {"spec": {"replicas": 0}}
    world.api.patch(DEPLOYMENTS, TENANT, "web", patch, "application/merge-patch+json")


def deployment_deleted(world):
    world.api.delete(DEPLOYMENTS, TENANT, "web")


def namespace_deleted(world):
    world.api.delete(NAMESPACES, "", TENANT)


def pods_deleted(world):
    for pod in world.api.list(PODS, TENANT):
        world.api.delete(PODS, TENANT, pod["metadata"]["name"], grace_seconds=0)


ACTIONS = (scaled_to_nothing, namespace_deleted, pods_deleted, deployment_deleted)


class Stall(Faults):
    """Hold back the n-th line and what follows, and act meanwhile; count the lines."""

    def __init__(self, at=None, act=None):
        self._at, self._act = at, act
        self.lines = 0

    def on_line(self, request, line):
        self.lines += 1
        if self.lines - 1 != self._at:
            return None
        self._act()
        return Delivery((line,), delay=1.5)


async def story(mode, at=None, action=None):
    async with emulated(CLOUD, configuration=load(ONE_BY_ONE % mode, "test")) as world:
        Tenant.of(world).deploy("web", 3, cpu="1")
        stall = Stall(at, action and (lambda: action(world)))
        async with world.scheduler(faults=stall) as runtime:
            await asyncio.sleep(2)
            world.api.create(NODES, node("e1", "edge", "2", "8Gi"))
            await asyncio.sleep(12)
            lines = stall.lines
            neighbour = Tenant.of(world, NEIGHBOUR)
            neighbour.deploy("small", 1, **CLOUD_ONLY)
            await world.until(lambda: neighbour.bound("small"), 5)
            await quiet(world, 60)
            assert not len(runtime.manager.migrations)
            left = [p for p in world.api.list(PODS) if "kubedsm.io/migrating" in str(p)]
            await world.until(lambda: not left, 60)
        return lines


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("mode", ["surge", "recreate"])
async def test_whatever_goes_while_the_news_are_held_back(mode, action):
    lines = await story(mode)
    assert lines > 20
    for at in drawn(range(lines)):
        await story(mode, at, action)


async def test_a_pod_that_goes_in_the_turn_in_which_its_move_is_admitted():
    off = load("suggester: {mode: 'off'}", "test")
    async with emulated(CLOUD, configuration=off) as world, world.scheduler() as runtime:
        world.deploy("web", 1)
        await world.until_bound(1, 2)
        world.api.create(NODES, node("e1", "edge", "2", "8Gi"))
        await asyncio.sleep(2)
        [pod] = world.pods("web")
        uid = Uid(pod["metadata"]["uid"])
        order = MoveOrder("a move", uid, "e1", MoveMode.SURGE, deadline=10)
        runtime.manager.migrate("a plan", group_of([order], runtime.mirror))
        gone = PodDeleted(uid, "default", pod["metadata"]["name"])
        runtime.manager.observe(runtime.mirror.apply(gone))
        assert runtime.manager.quiet.is_set()
        await asyncio.sleep(20)
        assert not len(runtime.manager.migrations)
