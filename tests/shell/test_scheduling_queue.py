import asyncio
import random

import pytest

from kubedsm.clock import SystemClock
from kubedsm.scheduling_queue import FLUSH, SchedulingQueue, batch_window

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


@pytest.fixture
def clock():
    return SystemClock()


@pytest.fixture
def queue(clock):
    return SchedulingQueue(clock, random.Random(1))


async def test_pods_come_out_in_the_order_they_came_in(queue):
    for uid in ("b", "a", "c", "a"):
        queue.add(uid)
    assert queue.pop(2) == ["b", "a"]
    assert queue.pop(9) == ["c"]
    assert queue.pop(9) == []


async def test_a_failed_bind_backs_off_longer_each_time(queue, clock):
    waited = []
    for _ in range(6):
        started = clock.monotonic()
        queue.back_off("a")
        assert len(queue) == 0
        await queue.wait_active()
        queue.pop(1)
        waited.append(clock.monotonic() - started)
    for seconds, longest in zip(waited, (1, 2, 4, 8, 10, 10), strict=True):
        assert 0.8 * longest <= seconds <= longest


async def test_a_bound_pod_starts_its_back_off_anew(queue, clock):
    for _ in range(5):
        queue.back_off("a")
    queue.forget("a")
    queue.back_off("a")
    started = clock.monotonic()
    await queue.wait_active()
    assert clock.monotonic() - started <= 1


async def test_an_unschedulable_pod_waits_for_help_and_not_longer(queue, clock):
    queue.wait_for_help("a")
    queue.wait_for_help("b")
    assert len(queue) == 0
    queue.something_helped()
    assert queue.pop(9) == ["a", "b"]
    queue.wait_for_help("a")
    started = clock.monotonic()
    await queue.wait_active()
    assert clock.monotonic() - started == pytest.approx(FLUSH)
    assert queue.pop(9) == ["a"]


async def test_help_is_no_use_to_a_pod_that_backs_off(queue):
    queue.back_off("a")
    queue.something_helped()
    assert len(queue) == 0
    assert "a" in queue


async def arrive(queue, clock, *gaps):
    for number, gap in enumerate(gaps):
        await clock.sleep(gap)
        queue.add(f"p{number}")


async def closes_after(queue, clock, *gaps, size=100):
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(arrive(queue, clock, *gaps))
        await queue.wait_active()
        opened = clock.monotonic()
        await batch_window(queue, clock, idle=0.5, longest=2.0, size=size)
        return clock.monotonic() - opened, len(queue)


async def test_a_batch_closes_when_no_new_pod_comes(queue, clock):
    seconds, pods = await closes_after(queue, clock, 0, 0.25, 0.25, 3)
    assert (seconds, pods) == (pytest.approx(1.0), 3)


async def test_a_batch_closes_at_its_longest_though_pods_keep_coming(queue, clock):
    seconds, pods = await closes_after(queue, clock, *[0.25] * 20)
    assert seconds == pytest.approx(2.0)
    assert pods in {8, 9}


async def test_a_batch_closes_when_it_is_full(queue, clock):
    seconds, pods = await closes_after(queue, clock, 0, 0.25, 0.25, 0.25, 0.25, 0.25, size=3)
    assert seconds <= 0.75
    assert pods in {3, 4}
