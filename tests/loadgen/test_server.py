"""How requests fare at a server, in virtual time."""

import asyncio
import random

import numpy as np
import pytest

from kubedsm_lab.replay import workload_model
from loadgen.server import Server
from loadgen.transport import Answer, TransportError
from loadgen.work import Work
from support.drawing import drawn_cases


class Others:
    """Services that answer after a while: seconds, and a status or an error."""

    def __init__(self, **answers):
        self.answers = answers

    async def contact(self, url):
        raise NotImplementedError

    async def get(self, url):
        seconds, answer = self.answers[url]
        await asyncio.sleep(seconds)
        if isinstance(answer, Exception):
            raise answer
        return Answer(answer)


def server(service_time=0.0, concurrency=1, **others):
    return Server("s", Work(service_time), concurrency, tuple(others), Others(**others))


def now():
    return asyncio.get_running_loop().time()


async def timed(request):
    began = now()
    return await request, now() - began


@pytest.mark.parametrize("seed", drawn_cases(range(50)))
async def test_it_queues_as_the_workload_model_of_a_replay(seed):
    rng = random.Random(seed)
    concurrency = rng.randint(1, 4)
    due = np.cumsum([rng.expovariate(20) for _ in range(40)])
    always = workload_model.Endpoint(0.0, ((0.0, 1e9),))
    model = workload_model.respond(
        due, [always], workload_model.Server(concurrency, 0.1), 1e9, random.Random(0)
    )
    began = now()

    async def request(moment):
        await asyncio.sleep(began + moment - now())
        return await timed(real.request())

    async with server(0.1, concurrency) as real:
        answers = await asyncio.gather(*(request(moment) for moment in due))
    assert [problem for problem, _ in answers] == [""] * 40
    assert [seconds for _, seconds in answers] == pytest.approx(model.times.tolist(), abs=1e-6)


async def test_others_are_called_all_at_once_and_hold_no_slot():
    async with server(0.1, a=(1.0, 200), b=(2.0, 204)) as caller:
        first, second = await asyncio.gather(timed(caller.request()), timed(caller.request()))
    assert first == ("", pytest.approx(2.1))
    assert second == ("", pytest.approx(2.2))


async def test_what_goes_wrong_with_others_or_a_disk_is_said_of_each(monkeypatch):
    refused = TransportError("connection refused")
    async with server(a=(0, 200), b=(0, 503), c=(0, refused), d=(99, 200)) as caller:
        problem, seconds = await timed(caller.request())
    assert problem == "b: HTTP 503; c: connection refused; d: no answer within 30 s"
    assert seconds == pytest.approx(30)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Work, "do", full)
    async with Server("s", Work(disk=1), 1, (), Others()) as writing:
        assert await writing.request() == "s: No space left on device"


async def test_requests_count_when_they_come_and_durations_when_they_are_over():
    def metric(name):
        return slow.registry.get_sample_value(name)

    async with server(1.0) as slow:
        async with asyncio.TaskGroup() as requests:
            requests.create_task(slow.request())
            requests.create_task(slow.request())
            await asyncio.sleep(0.5)
            assert metric("http_requests_total") == 2
            assert metric("http_requests_in_flight") == 2
            assert metric("http_request_duration_seconds_count") == 0
            await asyncio.sleep(1.0)
            assert metric("http_requests_in_flight") == 1
        assert metric("http_request_duration_seconds_count") == 2
        assert metric("http_request_duration_seconds_sum") == pytest.approx(3.0)
        assert metric("http_requests_in_flight") == 0
