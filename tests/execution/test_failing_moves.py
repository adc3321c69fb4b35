"""Moves that fail at any step or start late: the workload keeps its Ready pods, nothing is left."""

import asyncio
import re
from functools import partial

import attrs
import pytest
from structlog.testing import capture_logs

from kubedsm.config.settings import load
from kubedsm.execution.limits import LEFT_ALONE
from kubedsm.execution.migration_calls import LONGEST_START
from kubedsm.model.events import PodDeleted
from kubedsm.model.model import Uid, Workload
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NODES, PODS
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.judgement.scene import roll_out, spoil_pods
from plans.migration import MoveMode, MoveOrder
from support.move_scenes import (
    LARGE_CLOUD,
    ONE_PLACE,
    ReadyPods,
    When,
    becomes_unready,
    both,
    cleaned_up,
    group_of,
    hand_over,
    is_bound,
    is_detached,
    is_ready,
    labelled,
    name,
    on_cloud,
    open_edge,
    quiet,
    replacement,
    settle_on_cloud,
)
from support.still import CONTAINER, Still
from support.tenants import CONFIGURATION, moved, served
from support.worlds import CLOUD, emulated


async def test_a_quota_that_refuses_the_replacement_is_noticed_at_once():
    async with on_cloud() as world:
        world.quota(pods="1")
        ready = ReadyPods(world, "web").watch()
        open_edge(world)
        await world.until(lambda: any(map(is_detached, world.pods())), 10)
        await world.until(lambda: not any(map(is_detached, world.pods())), 5)
        await quiet(world, 20)
        assert world.placed("web") == {"c1": 1}
        assert ready.lowest == 1
        assert "exceeded quota" in world.events("MigrationFailed")[0]["message"]


async def test_a_pod_that_its_owner_deletes_during_its_migration_is_not_evicted():
    async with on_cloud(1) as world:
        open_edge(world)
        await world.until(lambda: any(map(is_detached, world.pods())), 20)
        [old] = filter(is_detached, world.pods())
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        world.patch(PODS, name(old), held)
        world.api.delete(PODS, "default", name(old))
        await asyncio.sleep(10)
        world.patch(PODS, name(old), {"metadata": {"finalizers": None}})
        await quiet(world)
        assert world.placed("web") == {"e1": 1}
        assert not world.witness.of("evict")


async def test_a_replacement_that_is_never_ready_is_given_up():
    async with on_cloud(2) as world:
        ready = ReadyPods(world, "web").watch()
        spoiled = When(world, replacement(world), lambda pod: becomes_unready(world, pod))
        open_edge(world, ONE_PLACE)
        await world.until(lambda: spoiled.done, 10)
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
    "rolled out": (lambda world: roll_out("web", "2")(world.cluster), 2),
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
        open_edge(world, ONE_PLACE)
        await world.until(lambda: acted.done, 30)
        await asyncio.sleep(3)
        await quiet(world)
        await world.until(lambda: sum(world.placed("web").values()) == replicas, 60)
        await asyncio.sleep(20)
        assert cleaned_up(world)
        assert None not in world.placed("web")
        assert lowest.lowest >= min(2, replicas)


async def test_no_workload_rests_for_a_pod_that_left_before_its_move():
    text = "suggester: {mode: 'off'}\nmigration: {cooldown: 0s, drainDelay: 1s}"
    async with emulated(LARGE_CLOUD, configuration=load(text, "t")) as world, world.scheduler():
        await settle_on_cloud(world, "web", 2)
        open_edge(world, node("e1", "edge", "2", "8Gi"))
        await asyncio.sleep(0.1)
        pod = world.pods("web")[0]
        world.api.delete(PODS, "default", name(pod))
        await asyncio.sleep(0.05)
        await hand_over(world, [(pod, "e1", ())])
        await quiet(world)
        resting = world.runtime.manager.migrations.resting()
        assert Workload("default", "Deployment", "web") not in resting


EDGE = node("e1", "edge", "1", "4Gi")
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
                assert labelled(world)
                async with world.scheduler():
                    await world.until(lambda: not world.pods("web"), 20)
            told = [event["message"] for event in world.events("MigrationFailed")]
    assert any("left to garbage collection" in message for message in told)
    event = "detached pod left to garbage collector"
    assert sum(entry["event"] == event for entry in logs) == 1


async def _delete_in_mid_migration(world, spec):
    await settle_on_cloud(world, "web", 2)
    world.budget("web", **spec)
    world.api.create(NODES, EDGE)
    await world.until(lambda: labelled(world), 10)
    world.api.delete(DEPLOYMENTS, "default", "web")


async def test_a_pod_that_goes_in_the_turn_in_which_its_move_is_admitted():
    off = load("suggester: {mode: 'off'}", "test")
    async with emulated(CLOUD, configuration=off) as world, world.scheduler() as runtime:
        await world.bring_up("web", 1, within=2)
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


WEB = Workload("default", "Deployment", "web")
ROOMY_EDGE = node("e1", "edge", "4", "8Gi")


def started(still, seconds):
    """Report that the pod was bound at a full minute, and Ready some seconds later."""
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": f"2026-01-01T00:{at:02}:00Z"}
        for kind, at in (("PodScheduled", 0), ("Ready", seconds // 60))
    ]
    still.status((PODS, still.pod), conditions=conditions)


@pytest.mark.parametrize(
    ("seconds", "within"), [(0, 0.0), (120, 240.0), (300, 600.0), (1800, LONGEST_START)]
)
async def test_a_replacement_may_take_twice_as_long_as_the_pod_did(seconds, within):
    still = Still()
    started(still, seconds)
    assert (await still.check(MoveMode.SURGE)).ready_within == within


PROBES = {
    "as a startup probe allows": ({"startupProbe": {"failureThreshold": 30}}, 300.0),
    "with its first probe later": (
        {"startupProbe": {"initialDelaySeconds": 20, "periodSeconds": 5}},
        35.0,
    ),
    "from the first readiness probe on": ({"readinessProbe": {"initialDelaySeconds": 90}}, 90.0),
}


@pytest.mark.parametrize("name", PROBES)
async def test_a_replacement_may_take_as_long_as_its_probes_say(monkeypatch, name):
    probes, within = PROBES[name]
    made = {kind: {"exec": {"command": ["true"]}, **probe} for kind, probe in probes.items()}
    monkeypatch.setattr("support.still.CONTAINER", CONTAINER | made)
    accepted = await Still().check(MoveMode.SURGE)
    assert accepted.ready_within == within


async def left_alone(world):
    """Wait until two replacements were late, and check that no third one is created."""
    open_edge(world, ROOMY_EDGE)
    await world.until(lambda: world.events("MigrationsSuspended", "Deployment"), 120)
    [event] = world.events("MigrationsSuspended", "Deployment")
    assert event["message"] == (
        "2 migrations in a row failed: the replacement was not Ready within 10s. No pod is migrated"
        " for 1h, or until the pod template changes or migration.deadline is raised"
    )
    await asyncio.sleep(30)
    assert world.placed("web") == {"c1": 2}
    deferral = world.runtime.manager.migrations.list_deferred()[WEB]
    assert re.fullmatch(
        "migrations are deferred until .*: 2 replacements in a row were not Ready in time",
        str(deferral),
    )


async def test_a_workload_is_left_alone_after_two_late_replacements_and_tried_an_hour_later():
    async with on_cloud(2) as world:
        spoil_pods("web", "e1")(world.cluster)
        ready = ReadyPods(world, "web").watch()
        await left_alone(world)
        replaced = When(world, is_detached, lambda _: None)
        await asyncio.sleep(LEFT_ALONE - 120)
        assert not replaced.done
        await world.until(lambda: replaced.done, 180)
        assert ready.lowest == 2


async def test_another_template_is_tried_at_once():
    async with on_cloud(2) as world:
        spoil_pods("web", "e1")(world.cluster)
        await left_alone(world)
        roll_out("web", "2")(world.cluster)
        await asyncio.sleep(5)
        assert not world.runtime.manager.migrations.list_deferred()


async def test_a_longer_deadline_is_tried_at_once():
    async with on_cloud(2) as world:
        spoil_pods("web", "e1")(world.cluster)
        await left_alone(world)
        migration = attrs.evolve(world.configuration.migration, deadline=20.0)
        longer = attrs.evolve(world.configuration, migration=migration)
        world.runtime.configuration.current = longer
        assert not world.runtime.manager.migrations.list_deferred()


async def test_a_migration_to_a_lost_node_does_not_count():
    """The node's trouble is not the workload's."""
    configuration = load("{suggester: {period: 1s}, migration: {price: 0s}}", "test")
    async with emulated(LARGE_CLOUD, configuration=configuration) as world, world.scheduler():
        await settle_on_cloud(world, "web", 1)
        open_edge(world, ROOMY_EDGE)
        for failed in (1, 2):
            lost = When(world, arrives, lambda _: world.cluster.disconnect("e1"))
            await world.until(lambda lost=lost: lost.done, 60)
            await world.until(partial(has_failed, world, failed), 120)
            world.cluster.reconnect("e1")
        assert not world.runtime.manager.migrations.list_deferred()


def has_failed(world, times):
    return len(world.events("MigrationFailed", "Deployment")) == times


def arrives(pod):
    return pod["spec"].get("nodeName") == "e1"
