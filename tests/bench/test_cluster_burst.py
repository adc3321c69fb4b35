"""A burst on a cluster with schedulers of its own: here an emulated one, in virtual time."""

import asyncio
import random
from contextlib import asynccontextmanager

import attrs
import pytest

from kubedsm.bench import cluster_burst
from kubedsm.configuration.settings import Configuration
from kubedsm.emulator.api.resources import NAMESPACES, PODS
from kubedsm.emulator.front import EmulatedFront
from kubedsm.runtime.assembly import Runtime
from support.worlds import CLOUD, EDGE, emulated

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def scheduling(world, *names):
    """Our scheduler, under each of these names."""
    async with asyncio.TaskGroup() as tasks:
        running = []
        for name in names:
            front = EmulatedFront(world.cluster.routes, world.clock, latency=0.01)
            configuration = attrs.evolve(Configuration(), scheduler_name=name)
            runtime = Runtime(front, configuration, world.clock, random.Random(0))
            running.append(tasks.create_task(runtime.run()))
            await runtime.synced.wait()
        yield
        for task in running:
            task.cancel()


async def bursts(world, *schedulers, pods=5, rounds=1):
    return await cluster_burst.run(
        EmulatedFront(world.cluster.routes, world.clock, latency=0.01),
        world.clock,
        random.Random(0),
        pytest.fail,
        schedulers=schedulers,
        pods=pods,
        rounds=rounds,
        patience=20.0,
        image="pause",
    )


def left_of(world):
    own = "kubedsm-burst-"
    return [n["metadata"]["name"] for n in world.api.list(NAMESPACES) if own in str(n)]


async def test_each_scheduler_has_its_rounds_and_its_figures():
    async with emulated(EDGE, CLOUD) as world, scheduling(world, "kubedsm", "another"):
        bound_by = []
        world.api.store.subscribe(
            lambda change: (
                bound_by.append(change.object["spec"]["schedulerName"])
                if change.resource is PODS and change.type == "ADDED"
                else None
            )
        )
        result = await bursts(world, "kubedsm", "another", rounds=2)
        assert bound_by == ["kubedsm"] * 5 + ["another"] * 10 + ["kubedsm"] * 5
    assert {name: len(rounds) for name, rounds in result.rounds.items()} == {
        "kubedsm": 2,
        "another": 2,
    }
    medians = result.medians["kubedsm"]
    assert 0 < medians["watch.createdToBound.p50"] <= medians["watch.makespan"] < 500
    # QUICK has a pod Ready half a second after it is bound.
    assert medians["watch.boundToReady.mean"] == pytest.approx(500, abs=100)
    written = [figures["api.createdToReady.max"] for figures in result.rounds["kubedsm"]]
    assert set(written) <= {0, 1000}
    for source in ("watch", "api"):
        assert medians[f"{source}.createdToReady.missing"] == 0
    assert medians["onAllNodes.pods.nodes"] == 2
    assert medians["onAllNodes.pods.mean"] == 2.5
    assert medians["onNodesUsed.cpu.jain"] == pytest.approx(1)
    assert result.ratios["another"]["watch.boundToReady.mean"] == pytest.approx(1, abs=0.2)
    assert result.as_json()["rounds"] == 2


async def test_nothing_is_left_behind():
    async with emulated(EDGE, CLOUD) as world, scheduling(world, "kubedsm"):
        await bursts(world, "kubedsm")
        await asyncio.sleep(5)
        assert left_of(world) == []


async def test_nodes_that_got_nothing_count_among_all_of_them_only():
    async with emulated(EDGE, CLOUD) as world, scheduling(world, "kubedsm"):
        medians = (await bursts(world, "kubedsm", pods=1)).medians["kubedsm"]
    for what in ("pods", "cpu", "memory"):
        assert (medians[f"onAllNodes.{what}.nodes"], medians[f"onAllNodes.{what}.jain"]) == (2, 0.5)
        assert (medians[f"onNodesUsed.{what}.nodes"], medians[f"onNodesUsed.{what}.cv"]) == (1, 0)


async def test_a_scheduler_that_is_not_there_is_named_and_what_was_made_goes():
    async with emulated(EDGE, CLOUD) as world, scheduling(world, "kubedsm"):
        with pytest.raises(ExceptionGroup) as raised:
            await bursts(world, "kubedsm", "absent")
        assert str(raised.value.exceptions[0]) == (
            "absent: 5 of 5 pods were created, and none of them was bound within 20 s;"
            " is there a scheduler of that name?"
        )
        await asyncio.sleep(5)
        assert left_of(world) == []


async def test_an_interrupt_leaves_nothing_behind_either():
    async with emulated(EDGE, CLOUD) as world:
        running = asyncio.ensure_future(bursts(world, "absent"))
        await asyncio.sleep(2)
        assert len(left_of(world)) == 1
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(5)
        assert left_of(world) == []


async def test_pods_that_fit_nowhere_are_missing():
    async with emulated(EDGE) as world, scheduling(world, "kubedsm"):
        result = await bursts(world, "kubedsm", pods=120)
        medians = result.medians["kubedsm"]
        assert medians["watch.createdToBound.missing"] == 10
        assert medians["api.createdToReady.missing"] == 10
        assert medians["onAllNodes.pods.max"] == 110
