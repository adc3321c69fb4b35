"""How requests fare at a server, in virtual time, and the work of each, which takes CPU time."""

import asyncio
import os
import random
import time

import numpy as np
import pytest

from kubedsm_lab.replay import workload_model
from loadgen.server import Server
from loadgen.transport import Answer, TransportError
from loadgen.work import PERIOD, Quota, Work, burn, pi, write
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


def test_pi_is_pi():
    for decimals in (0, 1, 5, 20, 50):
        digits = "314159265358979323846264338327950288419716939937510"
        assert str(pi(decimals)) == digits[: decimals + 1]
    # Those of the published table: the thousandth is 9.
    assert str(pi(1000)).endswith("2164201989")
    assert len(str(pi(1000))) == 1001


def test_cpu_time_is_taken_in_a_thread_of_those_that_compute_or_write():
    before, paused = time.thread_time(), []
    burn(0.02, lambda: paused.append(time.thread_time()))
    assert time.thread_time() - before >= 0.02
    assert len(paused) > 1
    assert not Work(service_time=1.0, memory=5, net=5).takes_a_thread
    assert all(w.takes_a_thread for w in (Work(cpu=0.1), Work(pi_decimals=1), Work(disk=1)))


@pytest.mark.parametrize("size", [0, 1, 2**20, 2_500_000])
def test_so_many_bytes_reach_the_disk_and_leave_nothing_there(size, tmp_path, monkeypatch):
    synced = [0]
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    write(size)
    assert synced[-1] == size
    assert list(tmp_path.iterdir()) == []


class Machine:
    """Time passes while somebody works or sleeps; working takes CPU time."""

    def __init__(self, cores):
        self.time = self.used = 0.0
        self.quota = Quota(cores, lambda: self.used, lambda: self.time, self.sleep)

    def sleep(self, seconds):
        assert seconds > 0
        self.time += seconds

    def work(self, seconds):
        self.quota.wait()
        self.time += seconds
        self.used += seconds


@pytest.mark.parametrize("cores", [0.1, 0.35, 0.5, 0.9])
@pytest.mark.parametrize("piece", [0.001, 0.004, 0.7])
def test_the_share_of_the_time_is_what_is_used_and_no_more(cores, piece):
    machine = Machine(cores)
    while machine.time < 20.0:
        machine.work(piece)
        # A piece that was begun is gone on with, and taken off what comes.
        assert machine.used <= cores * (machine.time + PERIOD) + piece
    assert machine.used == pytest.approx(cores * machine.time, abs=PERIOD + piece)


def test_no_time_is_saved_up_and_a_high_limit_stops_nobody():
    machine = Machine(2.0)
    for _ in range(1000):
        machine.work(0.001)
    assert machine.time == pytest.approx(1.0)
    machine = Machine(0.5)
    machine.time = 100.0
    machine.work(0.001)
    while machine.time < 101.0:
        machine.work(0.001)
    assert machine.used == pytest.approx(0.5, abs=0.06)
