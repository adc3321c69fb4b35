"""What moves were to bring and what they brought, or why nothing can be told of that."""

import asyncio

import msgspec
import pytest

from kubedsm.explain.effects import Effect
from kubedsm_lab.cli.recording_session import summarize_effects
from kubedsm_lab.emulator.paper import node
from support.answers import tell, tell_nothing
from support.asked import as_sent
from support.metered import metering
from support.move_scenes import (
    CONFIGURATION,
    LARGE_CLOUD,
    open_edge,
    quiet,
    settle_on_cloud,
)
from support.worlds import emulated

ONE_PLACE = node("e1", "edge", "1", "8Gi")


def moves(world):
    return [move for entry in world.runtime.decisions.record.newest_first() for move in entry.moves]


def effects(world):
    return [str(move.effect) for move in moves(world)]


def answers(said):
    return [msgspec.convert(each, Effect) for each in said]


async def moved(world, *times, replicas=2, edge=ONE_PLACE, **said):
    """One of two pods, a second after a sample; it takes its time."""
    await settle_on_cloud(world, "web", replicas)
    tell(world, *times, **said)
    await asyncio.sleep(1)
    open_edge(world, edge)
    await world.until(lambda: world.placed("web")["e1"], 60)
    await quiet(world)


async def test_what_was_expected_and_measured_is_kept_explained_counted_and_summed_up():
    async with metering(emulated(LARGE_CLOUD, configuration=CONFIGURATION)) as (world, metered):
        await moved(world, 40, 120, rates=(5.0, 15.0))
        [move] = moves(world)
        awaited = "expected 120 -> 80 ms; not measured: waiting for the next sample"
        assert str(move.effect) == awaited
        tell(world, 50, 110, rates=(5.0, 15.0))
        assert effects(world) == [awaited]  # some of its window was before the end
        await asyncio.sleep(31)
        tell(world, 50, 100, rates=(10.0, 10.0))
        [move] = moves(world)
        told = "expected 120 -> 80 ms; measured 100 -> 75 ms (edge 40 -> 50, cloud 120 -> 100)"
        assert str(move.effect) == told
        # Said for good.
        await asyncio.sleep(31)
        tell(world, 500, 100)
        assert effects(world) == [told]
        decisions = world.runtime.decisions
        [(uid, name)] = decisions.find_pods(str(move.replacement)).items()
        said = decisions.explain(decisions.recall(uid, name))
        assert [each.helped for each in said.moves] == [told]
        assert metered("kubedsm_move_effects_total", kind="cloud_to_edge", result="shorter") == 1
        change = "kubedsm_move_response_change_seconds_bucket"
        labels = {"kind": "cloud_to_edge", "of": "measured"}
        assert metered(change, **labels, le="-0.02") == 1
        assert metered(change, **labels, le="-0.05") == 0
        [entry] = [e for e in world.runtime.decisions.record.newest_first() if e.moves]
        listed = as_sent(entry.facts())["moves"]
        assert summarize_effects(answers(each["effect"] for each in listed)) == {
            "moves": 1,
            "measured": 1,
            "expectedChange": pytest.approx(-0.04),
            "measuredChange": pytest.approx(-0.025),
            "untold": {},
        }


@pytest.mark.parametrize(
    ("before", "meanwhile", "after", "why"),
    [
        ((), None, (50, 100), "no response times were available"),
        ((40, 120), None, (), "no response times were available"),
        ((40, 120), tell_nothing, None, "no response times were available"),
        ((40, 120, 0.1), None, (50, 100), "too few requests to measure"),
        ((40, 120), None, (50, 100, 0.1), "too few requests to measure"),
        ((40, 120), lambda world: world.scale("web", 3), (50, 100), "scaled from 2 to 3 meanwhile"),
    ],
)
async def test_what_cannot_be_told_says_why(before, meanwhile, after, why):
    async with metering(emulated(LARGE_CLOUD, configuration=CONFIGURATION)) as (world, metered):
        *times, rate = before if len(before) == 3 else (*before, 10.0)
        await moved(world, *times, rates=(rate, rate))
        if meanwhile is not None:
            meanwhile(world)
        await asyncio.sleep(31)
        if after is not None:
            *times, rate = after if len(after) == 3 else (*after, 10.0)
            tell(world, *times, rates=(rate, rate))
        [said] = effects(world)
        assert said.endswith(f"; not measured: {why}")
        assert metered("kubedsm_move_effects_total", result="untold") == 1


async def test_moves_of_one_service_that_are_under_way_at_one_time_are_judged_together():
    two = node("e1", "edge", "2", "8Gi")
    async with metering(emulated(LARGE_CLOUD, configuration=CONFIGURATION)) as (world, metered):
        await moved(world, 40, 120, edge=two)
        await world.until(lambda: world.placed("web") == {"e1": 2}, 60)
        await quiet(world)
        await asyncio.sleep(31)
        tell(world, 50, 100)
        told = (
            "expected of 2 migrations together 120 -> 40 ms;"
            " measured 80 -> 75 ms (edge 40 -> 50, cloud 120 -> 100)"
        )
        assert effects(world) == [told, told]
        summed = summarize_effects(move.effect for move in moves(world))
        assert summed["measuredChange"] == pytest.approx(-0.0025)
        assert summed["expectedChange"] == pytest.approx(-0.04)
        assert metered("kubedsm_move_effects_total", result="shorter") == 2
