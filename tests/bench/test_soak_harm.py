"""What harm is done to schedulers that soak, how often, and to whom."""

import asyncio
import random
import signal
from types import SimpleNamespace

import pytest

from kubedsm.process.clock import VirtualClock
from kubedsm_lab.bench.soak.harm import PAUSE, Harm

pytestmark = pytest.mark.looptime


class Line:
    def __init__(self):
        self.failed = []

    def _fails(self, how):
        self.failed.append((asyncio.get_running_loop().time(), how))

    def cut(self):
        self._fails("cut")

    def break_off(self):
        self._fails("broken off")

    async def stall(self, seconds):
        self._fails("stalled")
        await asyncio.sleep(seconds)


class Scheduler:
    def __init__(self, *, leading):
        self.log = SimpleNamespace(leading=leading)
        self.killed = []
        self.heard = []

    def kill(self):
        self.killed.append(asyncio.get_running_loop().time())

    def send(self, number):
        self.heard.append((asyncio.get_running_loop().time(), number))


async def harmed(seconds, *, kill_every=0.0, cut_every=0.0):
    leader, standby = Scheduler(leading=True), Scheduler(leading=False)
    lines = Line(), Line()
    harm = Harm((leader, standby), lines, VirtualClock(), random.Random(1), kill_every, cut_every)
    harming = asyncio.create_task(harm.run())
    await asyncio.sleep(seconds)
    harming.cancel()
    await asyncio.wait([harming])
    return leader, standby, lines, harm.done


async def test_each_time_one_is_killed_the_leader_for_the_most_part():
    leader, standby, _, done = await harmed(805, kill_every=20)
    assert sorted(leader.killed + standby.killed) == [20 * number for number in range(1, 41)]
    assert {at for at in standby.killed if at % 80} == set()
    assert 0 < len(standby.killed) < 10
    kills = {"leaders killed": len(leader.killed), "standbys killed": len(standby.killed)}
    assert done == {**kills, "leaders paused": 8}


@pytest.mark.parametrize("end", [92, 150])
async def test_a_leader_is_paused_for_longer_than_its_lease_and_goes_on_at_the_end(end):
    leader, standby, _, _ = await harmed(end, kill_every=20)
    resumed = [(90 + PAUSE, signal.SIGCONT)] if end == 150 else []
    assert leader.heard == [(90, signal.SIGSTOP), *resumed, (end, signal.SIGCONT)]
    assert end == 92 or standby.heard == [(end, signal.SIGCONT)]


async def test_lines_fail_at_once_and_each_in_its_way():
    leader, _, lines, done = await harmed(601, cut_every=30)
    for line in lines:
        assert [at for at, _ in line.failed] == [30 * number for number in range(1, 21)]
        assert {how for _, how in line.failed} == {"cut", "broken off", "stalled"}
    assert done.total() == 40
    assert leader.killed == []
