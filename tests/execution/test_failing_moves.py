"""Moves that fail at each of their steps: the workload keeps its Ready pods, nothing is left."""

import asyncio

import pytest

from kubedsm.config.settings import load
from kubedsm.model.model import Workload
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_QUOTAS,
)
from kubedsm_lab.emulator.paper import node
from support.move_scenes import (
    LARGE_CLOUD,
    MERGE,
    ReadyPods,
    When,
    both,
    cleaned_up,
    hand_over,
    is_bound,
    is_detached,
    is_ready,
    name,
    on_cloud,
    open_edge,
    quiet,
    replacement,
    settle_on_cloud,
)
from support.worlds import emulated


async def test_a_quota_that_refuses_the_replacement_is_noticed_at_once():
    async with on_cloud() as world:
        quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "1"}}}
        world.api.create(RESOURCE_QUOTAS, quota, namespace="default")
        ready = ReadyPods(world, "web").watch()
        open_edge(world)
        await world.until(lambda: any(map(is_detached, world.pods())), 10)
        await world.until(lambda: not any(map(is_detached, world.pods())), 5)
        await quiet(world, 20)
        assert world.placed("web") == {"c1": 1}
        assert ready.lowest == 1
        assert "exceeded quota" in world.events("MigrationFailed")[0]["message"]


async def test_a_replacement_that_is_never_ready_is_given_up():
    async with on_cloud(2) as world:
        ready = ReadyPods(world, "web").watch()
        never = {"metadata": {"annotations": {"emulator.kubedsm.io/never-ready": "true"}}}

        def spoil(pod):
            world.api.patch(PODS, "default", name(pod), never, MERGE)

        spoiled = [When(world, replacement(world), spoil)]
        open_edge(world, node("e1", "edge", "1", "8Gi"))
        await world.until(lambda: spoiled[0].done, 10)
        await quiet(world, 40)
        await world.until(lambda: sum(world.placed("web").values()) == 2, 5)
        assert ready.lowest == 2
        # It is tried again later, and then nothing is in its way.
        await world.until(lambda: world.placed("web") == {"c1": 1, "e1": 1}, 120)
        await quiet(world)
        assert ready.lowest == 2


@pytest.mark.parametrize("moment", ["detached", "bound"])
async def test_the_target_node_goes(moment):
    async with on_cloud() as world:
        ready = ReadyPods(world, "web").watch()
        conditions = {
            "detached": is_detached,
            "bound": lambda pod: pod["spec"].get("nodeName") == "e1",
        }
        When(world, conditions[moment], lambda _: world.api.delete(NODES, "", "e1"))
        open_edge(world)
        await asyncio.sleep(5)
        await quiet(world)
        await world.until(lambda: world.placed("web") == {"c1": 1}, 120)
        assert ready.lowest == 1


CHANGES = {
    "scaled up": (lambda world: world.scale("web", 4), 4),
    "scaled down": (lambda world: world.scale("web", 1), 1),
    "scaled to nothing": (lambda world: world.scale("web", 0), 0),
    "deleted": (lambda world: world.api.delete(DEPLOYMENTS, "default", "web"), 0),
    "rolled out": (
        lambda world: world.api.patch(
            DEPLOYMENTS,
            "default",
            "web",
            {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}},
            MERGE,
        ),
        2,
    ),
}
MOMENTS = {
    "detached": lambda _: is_detached,
    "made": replacement,
    "bound": lambda world: both(replacement(world), is_bound),
    "ready": lambda world: both(replacement(world), is_ready),
    "leaving": lambda _: lambda pod: is_detached(pod) and pod["metadata"].get("deletionTimestamp"),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("change", CHANGES)
async def test_the_deployment_changes_while_its_pod_moves(change, moment):
    act, replicas = CHANGES[change]
    async with on_cloud(2) as world:
        lowest = ReadyPods(world, "web").watch()
        acted = When(world, MOMENTS[moment](world), lambda _: act(world))
        open_edge(world, node("e1", "edge", "1", "8Gi"))
        await world.until(lambda: acted.done, 30)
        await asyncio.sleep(3)
        await quiet(world)
        await world.until(lambda: sum(world.placed("web").values()) == replicas, 60)
        await asyncio.sleep(20)
        assert cleaned_up(world)
        assert None not in world.placed("web")
        assert lowest.lowest >= min(2, replicas)


async def test_a_budget_that_never_allows_an_eviction_takes_the_move_back():
    async with on_cloud(2) as world:
        never = {
            "metadata": {"name": "never", "namespace": "default"},
            "spec": {"minAvailable": 100, "selector": {"matchLabels": {"app": "web"}}},
        }
        world.api.create(POD_DISRUPTION_BUDGETS, never, namespace="default")
        ready = ReadyPods(world, "web").watch()
        open_edge(world, node("e1", "edge", "1", "8Gi"))
        await world.until(lambda: any(map(is_detached, world.pods())), 10)
        await quiet(world, 60)
        await world.until(lambda: sum(world.placed("web").values()) == 2, 5)
        assert ready.lowest == 2
        assert not any(map(is_detached, world.pods()))


async def test_a_pod_that_asks_not_to_be_disrupted_stays():
    async with on_cloud() as world:
        [pod] = world.pods("web")
        stay = {"metadata": {"annotations": {"kubedsm.io/do-not-disrupt": "true"}}}
        world.api.patch(PODS, "default", name(pod), stay, MERGE)
        open_edge(world)
        await asyncio.sleep(60)
        assert world.placed("web") == {"c1": 1}


def may_move(world):
    """The workload web may be moved again now."""
    resting = world.runtime.manager.migrations.resting()
    return Workload("default", "Deployment", "web") not in resting


WITHOUT_COOLDOWN = load("suggester: {mode: 'off'}\nmigration: {cooldown: 0s, drainDelay: 1s}", "t")


async def test_no_workload_rests_for_giving_way_or_for_a_pod_that_left():
    async with emulated(LARGE_CLOUD, configuration=WITHOUT_COOLDOWN) as world, world.scheduler():
        await settle_on_cloud(world, "web", 2)
        open_edge(world, node("e1", "edge", "2", "8Gi"))
        await asyncio.sleep(0.1)
        one, other = world.pods("web")
        await hand_over(world, [(one, "e1", ())])
        world.runtime.manager.cancel_unstarted("new pods arrived")
        await quiet(world)
        assert may_move(world)
        world.api.delete(PODS, "default", name(other))
        await asyncio.sleep(0.05)
        await hand_over(world, [(other, "e1", ())])
        await quiet(world)
        assert may_move(world)
