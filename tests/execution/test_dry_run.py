"""A scheduler that decides, says what it would do, and writes nothing at all."""

import asyncio
from contextlib import asynccontextmanager

import structlog

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.settings import load
from kubedsm.execution.limits import suggest_only
from kubedsm.kube.client.dry_run import DryRun
from support.accesses import Accesses
from support.move_scenes import (
    LARGE_CLOUD,
    is_detached,
    migrating,
    on_cloud,
    open_edge,
    settle_on_cloud,
)
from support.worlds import CLOUD, EDGE, emulated

MOVING = load("{suggester: {period: 1s}, migration: {price: 0s}, preemption: enabled}", "test")


@asynccontextmanager
async def dry_run(world, configuration=MOVING):
    """What it says meanwhile; and nothing that it asks of the API server is a write."""
    asked = Accesses()
    runtime = world.new_runtime(DryRun(world.connect(asked)), configuration, dry_run=True)
    with structlog.testing.capture_logs() as said:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(runtime.run())
            yield said
            running.cancel()
    assert {right.verb for right in asked.rights} <= {"get", "list", "watch"}


def would_bind(said):
    return [(s["pod"], s["node"]) for s in said if s["event"].startswith("would bind")]


async def test_it_says_once_what_it_would_bind_and_counts_the_room():
    async with emulated(EDGE, CLOUD) as world, dry_run(world) as said:
        world.deploy("web", 3)
        await world.until(lambda: len(would_bind(said)) == 3, 10)
        await asyncio.sleep(400)
        assert len(would_bind(said)) == len(set(would_bind(said))) == 3
        assert world.placed() == {None: 3}
        batches = [(s["bound"], s["would_bind"]) for s in said if s["event"] == "batch"]
        assert batches == [(0, 3)]
        world.deploy("more", 3)
        await asyncio.sleep(30)
        told = would_bind(said)
        room = int(EDGE["status"]["allocatable"]["cpu"])
        assert len(told) == 6
        assert [node for _, node in told].count("e1") == min(6, room)


async def test_it_says_what_it_would_move_once_and_moves_nothing_and_takes_nothing_back():
    async with migrating(LARGE_CLOUD) as world:
        async with world.scheduler():
            await settle_on_cloud(world, "web", 2)
        async with dry_run(world) as said:
            open_edge(world)
            await asyncio.sleep(60)
            [line] = [s for s in said if s["event"] == "suggestion"]
            assert line["mode"] == "suggest"
            assert len(line["moves"]) == 2
        assert world.placed("web") == {"c1": 2}


async def test_moves_of_a_scheduler_that_runs_are_left_to_it():
    async with on_cloud(2) as world, dry_run(world) as said:
        open_edge(world)
        await world.until(lambda: any(map(is_detached, world.pods("web"))), 20)
        await world.until(lambda: world.placed("web") == {"e1": 2}, 60)
        assert not [s for s in said if s["event"] == "detached pod found"]


async def test_no_configuration_that_comes_later_lets_it_move_anything():
    current = CurrentConfiguration(MOVING, adjusted=suggest_only)
    current.replace("{optimiser: {mode: apply}, preemption: enabled}", "test", 0.0)
    assert current.current.suggester.mode == current.current.packing_mode == "suggest"
    assert current.current.preemption == "disabled"
