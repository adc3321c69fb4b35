"""The suggester follows a plan of more migrations than one suggestion has."""

import pytest

from kubedsm.config.settings import load
from kubedsm_lab.emulator.paper import node
from support.worlds import CLOUD, emulated

#: A pod of x alone gains less than its price for minutes; all eight together are worth much more.
SETTINGS = """
suggester: {{period: 1s, mode: {mode}}}
migration: {{price: 200s, drainDelay: 0s, deadline: 20s{more}}}
objective: {{gamma: 10, beta: 0}}
services: {{default/x: {{qos: 1}}, default/y: {{qos: 1, weight: 0.1}}}}
"""
WIDE = node("e1", "edge", "10", "40Gi")


async def fill(world):
    world.deploy("y", 10)
    await world.until(lambda: world.placed("y") == {"e1": 10}, 10)
    world.deploy("x", 8)
    await world.until(lambda: world.placed("x") == {"c1": 8}, 10)


async def test_a_target_is_reached_that_no_single_suggestion_reaches():
    # A plan may begin until 40 s, and goes on after that.
    window = ", windows: {schedule: 0 0 * * *, duration: 4m}"
    configuration = load(SETTINGS.format(mode="apply", more=window), "test")
    async with emulated(WIDE, CLOUD, configuration=configuration) as world, world.scheduler():
        await world.clock.sleep(37.5)
        await fill(world)
        await world.until(lambda: world.placed("x") == {"e1": 8}, 20)
        assert world.placed("y") == {"e1": 2, "c1": 8}
        entries = world.runtime.decisions.record.newest_first()
        made = [entry for entry in entries if entry.moves]
        assert len(made) >= 3
        purposes = [outcome.move.purpose for entry in made for outcome in entry.moves]
        assert any("of a plan of 16" in purpose for purpose in purposes)


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        ("suggest", ""),
        ("apply", ", cooldown: 20s"),
        ("apply", ", budget: {workloadPerHour: 6}"),
        ("apply", ", windows: {schedule: 0 0 * * *, duration: 1m}"),
    ],
)
async def test_no_plan_begins_that_may_remain_unfinished(mode, more):
    configuration = load(SETTINGS.format(mode=mode, more=more), "test")
    async with emulated(WIDE, CLOUD, configuration=configuration) as world, world.scheduler():
        await fill(world)
        for _ in range(20):
            await world.clock.sleep(3)
            assert world.runtime.migrator.proposed is None
            assert world.placed("y") == {"e1": 10}
