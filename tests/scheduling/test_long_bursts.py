"""Bursts of more pods than a batch has: cut where that costs nothing, and else decided on whole."""

import asyncio

import pytest

from kubedsm.config.settings import load
from kubedsm_lab.emulator.paper import node
from support.worlds import emulated

PAIRS = load(
    '{suggester: {mode: "off"}, preemption: disabled, batch: {size: 2, idle: 50ms}}', "test"
)


async def bound_of(cpus, room, pause=0.0):
    """Of pods with these requests, the first the oldest: how many were bound in each batch."""
    there = emulated(node("e1", "edge", room, "64Gi"), configuration=PAIRS)
    async with there as world, world.scheduler() as runtime:
        # One of another workload, so that those who come first may be in the way of others.
        world.create_pod("other", "100m")
        await world.until_bound(1, 5)
        await asyncio.sleep(1)
        bound, place = [], runtime.manager.place

        def noted(bindings):
            bound.append(len(bindings))
            place(bindings)

        runtime.manager.place = noted
        for number, cpu in enumerate(cpus):
            world.create_pod(f"p{number}", cpu)
            await asyncio.sleep(pause)
        await asyncio.sleep(0.5)
        return [number for number in bound if number]


@pytest.mark.parametrize("pause", [0.0, 0.02])
async def test_a_burst_is_not_cut_where_the_first_would_take_the_room_of_more(pause):
    # Cut, the large ones leave room for one of the others.
    assert await bound_of(["3", "3", "1", "1", "1", "1"], "4100m", pause) == [4]


async def test_a_burst_is_cut_where_there_is_room_for_all():
    assert await bound_of(["3", "1"] * 3, "64") == [2, 2, 2]
