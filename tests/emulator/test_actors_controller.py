"""The loop itself, with a controller that only notes what it is asked."""

import asyncio
import itertools
import random

import pytest

from kubedsm_lab.emulator.actors.cache import Cache
from kubedsm_lab.emulator.actors.controller import Controller, Requeue
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.replay.virtual_time import VirtualClock

A, B, C = ("ns", "a"), ("ns", "b"), ("ns", "c")


class Noting(Controller):
    def __init__(self, answer=lambda _: None):
        super().__init__(Cache(ApiServer(VirtualClock(), random.Random(1))))
        self.noted = []
        self._answer = answer

    def subscribe(self):
        pass

    def reconcile(self, key):
        self.noted.append((round(self.clock.monotonic(), 3), key[1]))
        self._answer(key)


async def run_for(controller, seconds):
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_earliest_moment_of_a_key_counts():
    controller = Noting()
    controller.enqueue_after(A, 5.0)
    controller.enqueue_after(A, 2.0)
    controller.enqueue_after(A, 9.0)
    controller.enqueue_after(B, 3.0)
    await run_for(controller, 20.0)
    assert controller.noted == [(2.0, "a"), (3.0, "b")]


async def test_one_that_is_stopped_makes_up_for_it_when_it_goes_on():
    controller = Noting()
    controller.stop()
    controller.enqueue(A)
    controller.enqueue_after(B, 2.0)
    asyncio.get_running_loop().call_later(5.0, controller.resume)
    await run_for(controller, 20.0)
    assert controller.noted == [(5.0, "a"), (5.0, "b")]


async def test_a_sooner_moment_is_noticed_while_it_sleeps():
    controller = Noting()
    controller.enqueue_after(A, 50.0)
    task = asyncio.create_task(run_for(controller, 100.0))
    await asyncio.sleep(1.0)
    controller.enqueue_after(B, 1.0)
    await task
    assert controller.noted == [(2.0, "b"), (50.0, "a")]


@pytest.mark.parametrize("status", [403, 404, 409])
async def test_a_refusal_that_passes_is_tried_again_with_growing_pauses(status):
    def answer(_):
        raise ApiError(status, "", "")

    controller = Noting(answer)
    controller.enqueue(A)
    await run_for(controller, 0.5)
    assert [at for at, _ in controller.noted] == [0.0, 0.02, 0.06, 0.14, 0.3]


async def test_the_pause_is_bounded_and_starts_small_again_after_a_success():
    def answer(_):
        if len(controller.noted) != 14:
            raise Requeue

    controller = Noting(answer)
    controller.enqueue(A)
    task = asyncio.create_task(run_for(controller, 200.0))
    await asyncio.sleep(100.0)
    controller.enqueue(A)
    await task
    moments = [at for at, _ in controller.noted]
    pauses = [round(later - sooner, 3) for sooner, later in itertools.pairwise(moments)]
    assert max(pauses[:13]) == 10.0
    assert pauses[14] == 0.02


@pytest.mark.parametrize("error", [ApiError(422, "Invalid", ""), ZeroDivisionError()])
async def test_anything_else_ends_the_task(error):
    def answer(_):
        raise error

    controller = Noting(answer)
    controller.enqueue(A)
    with pytest.raises(ExceptionGroup) as raised:
        await controller.run()
    assert raised.value.exceptions == (error,)
