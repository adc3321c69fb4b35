"""Time that passes only where somebody waits for it."""

import asyncio

import pytest

from kubedsm_lab.replay import virtual_time
from kubedsm_lab.replay.virtual_time import StandstillError, run_in_virtual_time


def test_a_day_takes_no_time():
    async def day():
        async with asyncio.TaskGroup() as tasks:
            for hour in range(24):
                tasks.create_task(asyncio.sleep(3600 * hour + 3600))
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(day()) == pytest.approx(86_400)


def test_waiting_for_ever_is_an_error():
    async def forever():
        await asyncio.Event().wait()

    with pytest.raises(StandstillError):
        run_in_virtual_time(forever())


def test_a_moment_without_end_is_an_error(monkeypatch):
    monkeypatch.setattr(virtual_time, "TURNS", 1_000)

    async def spin():
        for _ in range(5_000):
            await asyncio.sleep(0)

    with pytest.raises(StandstillError, match="the moment 0 s goes on for 1,000 turns"):
        run_in_virtual_time(spin())


def test_each_moment_is_seen_when_all_of_it_is_done():
    done, seen = [], []

    async def ticks():
        async def tick(name, seconds):
            await asyncio.sleep(seconds)
            await asyncio.sleep(0)
            done.append(name)

        async with asyncio.TaskGroup() as tasks:
            for name, seconds in (("a", 1), ("b", 1), ("c", 3)):
                tasks.create_task(tick(name, seconds))

    run_in_virtual_time(ticks(), passing=lambda then: seen.append((then, "".join(done))))
    assert seen == [(1, ""), (3, "ab")]
