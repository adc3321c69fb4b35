"""Preemption when calls get no answer and the scheduler is killed: nothing is left to repair."""

import asyncio

import pytest

from kubedsm.kube.client.port import OutcomeUnknown
from kubedsm_lab.emulator.front import Faults, RequestFault
from support.drawing import drawn
from support.preemptions import SLOW_STOP, Evictions, filled, preempting, settled, urgent


@pytest.mark.parametrize("moment", ["before the eviction", "after it"])
async def test_killed_and_started_again_it_leaves_nothing_to_repair(moment):
    async with preempting(timing=SLOW_STOP) as world:
        calls = Evictions()
        async with world.scheduler(faults=calls):
            await filled(world, terminationGracePeriodSeconds=20)
            urgent(world)
            seen = {"before the eviction": calls.asked, "after it": calls.done}[moment]
            await world.until(lambda: seen, 5)
        async with world.scheduler(faults=calls):
            await world.until(lambda: world.placed("urgent") == {"e1": 1}, 60)
            await asyncio.sleep(60)
            assert world.placed("low") == {"e1": 1, None: 1}
            assert len(set(calls.done)) == 1
            assert settled(world)


class FaultAt(Faults):
    """Fault of the n-th request; counts them."""

    def __init__(self, at=None, fault=None):
        self.at, self.fault = at, fault
        self.requests = 0
        self.struck = asyncio.Event()

    def on_request(self, _):
        self.requests += 1
        if self.requests - 1 == self.at:
            self.struck.set()
            return self.fault
        return None


async def story(faults):
    """An urgent pod comes to a full node, and one call is the last of this process."""
    async with preempting(timing=SLOW_STOP) as world:
        async with world.scheduler():
            before = await filled(world, terminationGracePeriodSeconds=20)
        urgent(world)
        if faults.fault is not None:
            async with world.scheduler(faults=faults):
                await asyncio.wait_for(faults.struck.wait(), 60)
        async with world.scheduler(faults=None if faults.fault else faults):
            await world.until(lambda: world.bound("urgent"), 120)
            await asyncio.sleep(20)
            assert world.placed("low") == {"e1": 1, None: 1}
            assert len(before & {pod["metadata"]["name"] for pod in world.pods("low")}) == 1
            assert settled(world)


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
async def test_killed_at_any_call_one_victim_goes_and_no_more(applied):
    calls = FaultAt()
    await story(calls)
    assert calls.requests > 15
    for at in drawn(range(calls.requests), one_in=6):
        fault = RequestFault(OutcomeUnknown("killed"), applied=applied)
        await story(FaultAt(at % calls.requests, fault))
