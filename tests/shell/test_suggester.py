"""When the suggester thinks, and when it lets others."""

import asyncio
import itertools

import pytest
from conftest import CLOUD, EDGE, emulated

from kubedsm.clock import VirtualClock
from kubedsm.cluster.emulator.resources import NODES
from kubedsm.config import load

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

CONFIGURATION = load("suggester: {period: 1s}", "test")


class LateClock:
    """Virtual time, and what was spent without awaiting anything."""

    def __init__(self):
        self.spent = 0.0
        self._clock = VirtualClock()

    def monotonic(self):
        return self._clock.monotonic() + self.spent

    def wall(self):
        return self._clock.wall() + self.spent

    async def sleep(self, seconds):
        await self._clock.sleep(seconds)


class Slow:
    """KubeDSM, whose suggestions take some seconds."""

    def __init__(self, clock, seconds):
        self.asked_at = []
        self._clock, self._seconds = clock, seconds

    def place(self, snapshot, pods, rng, deadline):
        return CONFIGURATION.policy.place(snapshot, pods, rng, deadline)

    def suggest(self, snapshot, movable, deadline):
        self.asked_at.append(asyncio.get_running_loop().time())
        self._clock.spent += self._seconds
        return CONFIGURATION.policy.suggest(snapshot, movable, deadline)


@pytest.mark.parametrize(("seconds", "every"), [(0.0, 1), (0.05, 1), (2.0, 18)])
async def test_thinking_takes_a_tenth_of_the_time_at_most(seconds, every):
    async with emulated(EDGE, CLOUD, configuration=CONFIGURATION) as world:
        world.clock = LateClock()
        policy = Slow(world.clock, seconds)
        async with world.scheduler(policy=policy):
            for number in range(120):  # it only thinks about what has changed
                patch = {"metadata": {"labels": {"second": str(number)}}}
                world.api.patch(NODES, "", "c1", patch, "application/merge-patch+json")
                await asyncio.sleep(0.5)
    times = policy.asked_at
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert len(gaps) >= 2
    assert min(gaps) == pytest.approx(every, abs=0.6)
    assert max(gaps) == pytest.approx(every, abs=0.6)
