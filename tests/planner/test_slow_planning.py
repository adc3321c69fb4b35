"""Answers that take their time, as a worker process's do: the world goes on, and is asked again."""

import asyncio

import pytest
from structlog.testing import capture_logs

from kubedsm_lab.emulator.api.resources import PODS
from support.full_clusters import Evictions, filled, preempting, urgent
from support.move_scenes import LARGE_CLOUD, SMALL_EDGE, migrating, open_edge, settle_on_cloud
from support.slow_planning import SlowPlanner, cordon_target, pause, switch_off


def slow(runtime, seconds, **more):
    made = SlowPlanner(runtime.planner, seconds, **more)
    runtime.migrator.planner = runtime.preemptor.planner = made
    return made


def moving():
    return migrating(LARGE_CLOUD)


async def test_new_pods_do_not_wait_for_moves_that_are_thought_about():
    async with moving() as world, world.scheduler() as runtime:
        await settle_on_cloud(world, "web", 2)
        planner = slow(runtime, 30.0)
        open_edge(world, SMALL_EDGE)
        await world.until(lambda: planner.asked, 30)
        await world.bring_up("api", 1, within=2)


async def overtaken(world, runtime, happens):
    """What is told when that happens while moves are thought about."""
    await settle_on_cloud(world, "web", 1)
    found = []

    def meanwhile(answer):
        if not answer.suggestion.moves:
            planner.meanwhile = meanwhile
            return
        found.extend(answer.suggestion.moves)
        happens(answer.suggestion.moves[0])

    planner = slow(runtime, 0.3, meanwhile=meanwhile)
    with capture_logs() as logs:
        open_edge(world, SMALL_EDGE)
        await world.until(lambda: [x for x in logs if x["event"] == "suggestion overtaken"], 60)
    assert found
    return [line["event"] for line in logs]


@pytest.mark.parametrize("happens", [cordon_target, pause, switch_off])
async def test_a_stale_suggestion_migrates_no_pod(happens):
    async with moving() as world, world.scheduler() as runtime:
        said = await overtaken(world, runtime, lambda move: happens(world, move))
        assert "suggestion" not in said
        await asyncio.sleep(30)
        assert world.placed() == {"c1": 1}


async def test_without_an_answer_moves_are_looked_for_again():
    async with moving() as world, world.scheduler() as runtime:
        planner = slow(runtime, 0.1, silent=3)
        await settle_on_cloud(world, "web", 2)
        open_edge(world, SMALL_EDGE)
        await world.until(lambda: world.placed() == {"e1": 2}, 60)
        assert not planner.silent


async def test_victims_that_left_while_they_were_found_are_found_anew():
    calls = Evictions()
    async with preempting(faults=calls) as world, world.scheduler() as runtime:
        names = await filled(world)
        gone = []

        def meanwhile(answer):
            if answer.found is None or not answer.found.victims:
                planner.meanwhile = meanwhile
                return
            gone.extend(victim.name for victim in answer.found.victims)
            for name in gone:
                world.api.delete(PODS, "default", name)

        planner = slow(runtime, 3.0, meanwhile=meanwhile)
        urgent(world)
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 60)
        await asyncio.sleep(30)
        assert set(gone) < names
        assert not set(gone) & set(calls.asked)
        assert world.placed("low")["e1"] == 1
