"""`kubedsm pack --apply`: the room is made, once, and nothing else is moved."""

import random

import attrs
import pytest

from kubedsm.cli.cluster import read_snapshot
from kubedsm.cli.execution import carry_out
from kubedsm.cli.packing_advice import advise
from kubedsm.config.settings import load
from kubedsm.explain.migration_outcome import Outcome
from kubedsm_lab.emulator.front import EmulatedFront
from support.move_scenes import ReadyPods
from support.packings import half_full, in_pieces, large, placed

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

OFF = load("{suggester: {mode: off}, migration: {drainDelay: 1s}}", "test")


async def test_the_room_is_made_though_a_scheduler_would_only_be_told_to_say_so():
    async with in_pieces(configuration=OFF) as world:
        async with world.scheduler():
            await half_full(world)
        ready = ReadyPods(world, "web").watch()
        large(world)
        front, rng = EmulatedFront(world.cluster.routes, world.clock), random.Random(0)
        advice = advise(await read_snapshot(front, OFF, world.clock, rng), OFF)
        assert len(advice.packed.moves) == 1
        # Whatever it costs: who asks for it has seen that.
        dear = attrs.evolve(OFF, migration=attrs.evolve(OFF.migration, price=3600.0))
        [ended] = await carry_out(front, dear, advice.carry_out, world.clock, rng)
        assert ended.outcome is Outcome.COMPLETED
        assert placed(world) == 1
        assert sorted(world.placed("web").values()) == [2]
        assert ready.lowest == 2
