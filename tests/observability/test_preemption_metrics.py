"""What is counted of preemption: each search, and the pods that go."""

import asyncio

import pytest

from support.metered import Metered
from support.preemptions import DISABLED, bound, budget, filled, preempting, urgent

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

ATTEMPTS = "scheduler_preemption_attempts_total"
VICTIMS = "scheduler_preemption_victims"


async def test_an_attempt_and_its_victims_are_counted():
    async with preempting() as world:
        metered = Metered(world)
        async with world.scheduler(instruments=metered.instruments):
            await filled(world)
            assert metered(ATTEMPTS) == metered(f"{VICTIMS}_count") == 0
            urgent(world, cpu="1500m")
            await world.until(lambda: bound(world, "urgent") == 1, 5)
            assert metered(f"{VICTIMS}_count") == 1
            assert metered(f"{VICTIMS}_sum") == 2
            assert metered(f"{VICTIMS}_bucket", le="1.0") == 0
            assert metered(f"{VICTIMS}_bucket", le="2.0") == 1
            # Those whose room it took want some too, and there is nobody less important.
            await asyncio.sleep(1)
            assert metered(ATTEMPTS) > 1
            assert metered(f"{VICTIMS}_count") == 1


async def test_pods_that_may_not_go_are_no_victims():
    async with preempting() as world:
        metered = Metered(world)
        async with world.scheduler(instruments=metered.instruments):
            await filled(world)
            budget(world, 0)
            urgent(world)
            await world.until(lambda: world.events("PreemptionFailed"), 5)
            assert metered(ATTEMPTS) >= 1
            assert metered(f"{VICTIMS}_count") == 0


async def test_nothing_is_attempted_where_preemption_is_disabled():
    async with preempting(configuration=DISABLED) as world:
        metered = Metered(world)
        async with world.scheduler(instruments=metered.instruments):
            await filled(world)
            urgent(world)
            await asyncio.sleep(2)
            assert metered(ATTEMPTS) == 0
