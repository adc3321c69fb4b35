"""Plans that cannot go on: they end, say why, try less and less, and silence no other."""

import asyncio

import pytest

from kubedsm.configuration.settings import load
from kubedsm.emulator.api.resources import DEPLOYMENTS, NODES, POD_DISRUPTION_BUDGETS, PODS
from kubedsm.emulator.paper import node
from support.tenants import moved, served
from support.worlds import CLOUD, emulated

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

MERGE = "application/merge-patch+json"
CONFIGURATION = load(
    """
suggester: {period: 1s}
migration: {cooldown: 1s, drainDelay: 1s, deadline: 10s}
""",
    "test",
)
EDGE = node("e1", "edge", "1", "4Gi")


class Calls:
    """How many requests were sent, by the clock."""

    def __init__(self, world):
        self._clock, self.at = world.clock, []

    def on_request(self, request):
        if "watch" not in request.query:
            self.at.append(self._clock.monotonic())

    def on_line(self, request, line):
        return None

    def since(self, moment):
        return sum(at >= moment for at in self.at)


def budget(name, **spec):
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, **spec},
    }


def detached(world):
    return [p for p in world.pods() if "kubedsm.io/migrating" in p["metadata"]["labels"]]


async def test_a_budget_left_behind_by_a_deleted_deployment_stops_no_move():
    async with emulated(CLOUD, configuration=CONFIGURATION) as world:
        calls = Calls(world)
        async with world.scheduler(faults=calls):
            world.deploy("web", 2)
            await world.until_bound(2, 2)
            await asyncio.sleep(2)
            world.api.create(
                POD_DISRUPTION_BUDGETS, budget("web", minAvailable=100), namespace="default"
            )
            world.api.create(NODES, EDGE)
            await world.until(lambda: detached(world), 10)
            world.api.delete(DEPLOYMENTS, "default", "web")
            await asyncio.sleep(2)
            await served(world)
            await moved(world)
            await asyncio.sleep(600)
            assert detached(world), "no budget is ever passed over"
            told = [event["message"] for event in world.events("MigrationFailed")]
            assert any("disruption budget" in message for message in told)
            started = world.clock.monotonic()
            await asyncio.sleep(600)
            assert calls.since(started) < 600 / 3 + 200  # the pause switch, and now and then a try
            world.api.delete(POD_DISRUPTION_BUDGETS, "default", "web")
            await world.until(lambda: not detached(world), 700)


async def test_a_pod_left_behind_that_cannot_be_seen_to_keeps_no_move_waiting():
    patient = load("suggester: {period: 1s}\nmigration: {cooldown: 1s, drainDelay: 1s}", "test")
    async with emulated(CLOUD, configuration=patient) as world:
        async with world.scheduler():
            world.deploy("web", 2)
            await world.until_bound(2, 2)
            await asyncio.sleep(2)
            world.api.create(
                POD_DISRUPTION_BUDGETS, budget("web", minAvailable=100), namespace="default"
            )
            world.api.create(NODES, EDGE)
            await world.until(lambda: detached(world), 10)
            world.api.delete(DEPLOYMENTS, "default", "web")
        async with world.scheduler():
            # The deadline is 60 s: until then its plan is none that takes long.
            await moved(world, seconds=20)
            assert detached(world)


async def test_a_deployment_that_is_slow_to_be_ready_holds_up_only_itself():
    async with emulated(CLOUD, configuration=CONFIGURATION) as world, world.scheduler():
        made = world.deploy("web", 1)
        slow = {"spec": {"minReadySeconds": 60}}
        world.api.patch(DEPLOYMENTS, "default", made["metadata"]["name"], slow, MERGE)
        await world.until_bound(1, 2)
        await asyncio.sleep(62)
        world.api.create(NODES, EDGE)
        await world.until(lambda: detached(world), 10)
        await served(world, seconds=2)
        await moved(world)
        assert detached(world), "its own move goes on"
        await world.until(lambda: world.placed("web") == {"e1": 1}, 90)


async def test_one_namespaces_slow_moves_leave_others_theirs():
    async with emulated(CLOUD, configuration=CONFIGURATION) as world, world.scheduler():
        for name in "abcd":
            made = world.deploy(name, 1, cpu="100m")
            slow = {"spec": {"minReadySeconds": 300}}
            world.api.patch(DEPLOYMENTS, "default", made["metadata"]["name"], slow, MERGE)
        await world.until_bound(4, 2)
        await asyncio.sleep(302)
        world.api.create(NODES, EDGE)
        await world.until(lambda: len(detached(world)) == 3, 10)
        await moved(world, seconds=60)
        assert len(detached(world)) == 3, "no more of its own at once than ever"


async def test_a_node_that_never_confirms_a_deletion_ends_the_plan_all_the_same():
    async with emulated(CLOUD, configuration=CONFIGURATION) as world, world.scheduler() as runtime:
        world.deploy("web", 1)
        await world.until_bound(1, 2)
        await asyncio.sleep(2)
        [pod] = world.pods("web")
        stays = {"metadata": {"finalizers": ["test/stays"]}}
        world.api.patch(PODS, "default", pod["metadata"]["name"], stays, MERGE)
        world.api.create(NODES, EDGE)
        await world.until(lambda: world.placed("web") == {"e1": 1, "c1": 1}, 20)
        await served(world)
        await moved(world)
        await world.until(runtime.manager.quiet.is_set, 60)
        assert len(world.events("MigrationFailed")) <= 1
