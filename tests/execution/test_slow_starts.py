"""Pods that become Ready late: their migrations wait as long, and end where none succeeds."""

import asyncio
import re
from functools import partial

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.execution.limits import LEFT_ALONE
from kubedsm.execution.migration_calls import LONGEST_START
from kubedsm.model.model import Workload
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.judgement.scene import roll_out, spoil_pods
from plans.migration import MoveMode
from support.move_scenes import (
    LARGE_CLOUD,
    ReadyPods,
    When,
    is_detached,
    on_cloud,
    open_edge,
    settle_on_cloud,
)
from support.still import CONTAINER, Still
from support.worlds import emulated

WEB = Workload("default", "Deployment", "web")
EDGE = node("e1", "edge", "4", "8Gi")


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
    open_edge(world, EDGE)
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
        open_edge(world, EDGE)
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
