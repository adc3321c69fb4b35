"""Plans that cannot go on: they end, say why, try less and less, and silence no other."""

import asyncio

import pytest
from structlog.testing import capture_logs

from kubedsm.config.settings import load
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
)
from kubedsm_lab.emulator.paper import node
from support.tenants import moved, served
from support.worlds import CLOUD, emulated

MERGE = "application/merge-patch+json"
CONFIGURATION = load(
    """
suggester: {period: 1s}
migration: {cooldown: 1s, drainDelay: 1s, deadline: 10s}
""",
    "test",
)
EDGE = node("e1", "edge", "1", "4Gi")


def budget(name, **spec):
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, **spec},
    }


def detached(world):
    return [p for p in world.pods() if "kubedsm.io/migrating" in p["metadata"]["labels"]]


BUDGETS = [{"maxUnavailable": 1}, {"minAvailable": 2}, {"maxUnavailable": 0}]


@pytest.mark.parametrize("spec", BUDGETS, ids=str)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "new-leader"])
async def test_no_pod_outlives_a_budgeted_deployment_deleted_in_mid_migration(spec, restarted):
    """The garbage collector deletes what a budget without controllers would keep for ever."""
    with capture_logs() as logs:
        async with emulated(CLOUD, configuration=CONFIGURATION) as world:
            async with world.scheduler():
                await _delete_in_mid_migration(world, spec)
                if not restarted:
                    await world.until(lambda: not world.pods("web"), 20)
                    await served(world)
                    await moved(world)
            if restarted:
                assert detached(world)
                async with world.scheduler():
                    await world.until(lambda: not world.pods("web"), 20)
            told = [event["message"] for event in world.events("MigrationFailed")]
    assert any("left to garbage collection" in message for message in told)
    event = "detached pod left to garbage collector"
    assert sum(entry["event"] == event for entry in logs) == 1


async def _delete_in_mid_migration(world, spec):
    world.deploy("web", 2)
    await world.until_bound(2, 2)
    await asyncio.sleep(2)
    world.api.create(POD_DISRUPTION_BUDGETS, budget("web", **spec), namespace="default")
    world.api.create(NODES, EDGE)
    await world.until(lambda: detached(world), 10)
    world.api.delete(DEPLOYMENTS, "default", "web")


@pytest.mark.parametrize("gone", ["replica-set", "deployment-recreated"])
async def test_no_pod_outlives_its_replica_set_beside_a_new_one(gone):
    async with emulated(CLOUD, configuration=CONFIGURATION) as world, world.scheduler():
        world.deploy("web", 2)
        await world.until_bound(2, 2)
        await asyncio.sleep(2)
        world.api.create(
            POD_DISRUPTION_BUDGETS, budget("web", maxUnavailable=0), namespace="default"
        )
        world.api.create(NODES, EDGE)
        await world.until(lambda: detached(world), 10)
        [old] = world.api.list(REPLICA_SETS, "default")
        if gone == "replica-set":
            world.api.delete(REPLICA_SETS, "default", old["metadata"]["name"])
        else:
            world.api.delete(DEPLOYMENTS, "default", "web")
            await asyncio.sleep(0.5)
            world.deploy("web", 2)
        await world.until(lambda: not detached(world), 40)
        await world.until(lambda: len(world.pods("web")) == 2, 40)


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
