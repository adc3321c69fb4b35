"""The demo with a site that is cut off in the middle, in virtual time."""

import asyncio
import random

import pytest

from kubedsm.app.assembly import Runtime
from kubedsm.config.settings import Configuration
from kubedsm.process.clock import VirtualClock
from kubedsm_lab.demo.results import as_json
from kubedsm_lab.demo.run import create_services, demo_world, watch_demo
from kubedsm_lab.demo.setting import CONFIGURATION, CYCLE, TIMING, TOLERATION, demo_scenario
from kubedsm_lab.demo.view import render, summary
from kubedsm_lab.emulator.emulated_cluster import Timing
from kubedsm_lab.emulator.front import EmulatedFront
from support.printed import printed

#: seconds of a cycle of the load in the paper
PAPERS_CYCLE = 90.0


@pytest.mark.looptime
async def test_a_site_is_cut_off_in_the_middle_and_comes_back():
    clock, frames = VirtualClock(), []
    scenario = demo_scenario(1, cycles=8)
    async with demo_world(scenario, clock, random.Random(1), disconnect=True) as world:
        front = EmulatedFront(world.cluster.routes, clock, latency=0.01)
        runtime = Runtime(front, CONFIGURATION, clock, random.Random(1), listener=world.scene)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(runtime.run())
            await runtime.synced.wait()
            create_services(world)
            await watch_demo(world, runtime, frames.append)
            running.cancel()
    last = frames[-1]
    away = [frame for frame in frames if frame.cut.away]
    assert (away[0].seconds, away[-1].seconds) == pytest.approx((10, 26), abs=0.5)
    assert (
        printed(render(away[-1], 200, 50)).count("cut off") == 4
    )  # in words, each of two nodes, and how it goes
    assert "site north is back, and left alone for its stabilisation period" in {
        frame.headline for frame in frames
    }
    told = as_json(last)["disconnect"]
    assert (told["site"], told["from"], told["to"]) == ("north", 10, 26)
    assert 0.9 < told["servingShare"] < 1.0  # the load changes, and pods take their time to start
    assert told["moves"] < as_json(last)["migrations"]
    whys = {move.purpose.partition(" pod")[2] for move in last.moves.values()}
    assert len(last.moves) == last.migrations.begun
    assert any(why.endswith("missing at the edge") for why in whys)
    assert f"and {told['moves']} moves began" in " ".join(printed(summary(last, 200)).split())


def test_its_times_are_shortened_as_the_day_is():
    shortened = CYCLE / PAPERS_CYCLE
    assert CONFIGURATION.site.settle == pytest.approx(
        Configuration().site.settle * shortened, rel=0.1
    )
    assert TIMING.monitor_grace == pytest.approx(Timing().monitor_grace * shortened, rel=0.1)
    assert pytest.approx(300 * shortened, rel=0.1) == TOLERATION
