"""The gate in front of all writes: open until a moment, which may be put off."""

import asyncio

import attrs
import pytest

from kubedsm.kube.client.port import OutcomeUnknown, Request, Response, Unreachable
from kubedsm.kube.client.write_gate import WriteGate
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.fixed_clock import FixedClock

READ, WRITE = Request("GET", "/api/v1/pods"), Request("POST", "/api/v1/pods", body={})


class Slow:
    """A cluster that answers after some seconds, and asks again then whether it may be sent."""

    def __init__(self):
        self.seconds, self.sent, self.may_leave = 0.0, [], []

    async def request(self, request, *, timeout):
        self.sent.append(request)
        await asyncio.sleep(self.seconds)
        self.may_leave.append(request.may_leave())
        return Response(200, b"{}")


@pytest.fixture
async def cluster():
    return Slow()


@pytest.fixture
async def gate(cluster):
    gate = WriteGate(cluster, VirtualClock())
    watching = asyncio.ensure_future(gate.watch())
    yield gate
    watching.cancel()
    await asyncio.wait([watching])


def now():
    return asyncio.get_running_loop().time()


async def test_reads_pass_a_gate_that_is_shut_and_writes_do_not(gate, cluster):
    await gate.request(READ, timeout=10)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(Unreachable, match=f"{method} /api/v1/pods was not sent"):
            await gate.request(attrs.evolve(WRITE, method=method), timeout=10)
    assert cluster.sent == [READ]


async def test_a_write_waits_a_moment_for_a_gate_that_is_about_to_open(gate, cluster):
    writing = asyncio.ensure_future(gate.request(WRITE, timeout=10))
    await asyncio.sleep(0.5)
    assert not cluster.sent
    gate.open_until(now() + 5)
    assert (await writing).status == 200


async def test_writes_pass_until_the_moment_and_none_after_it(gate, cluster):
    gate.open_until(now() + 5)
    await asyncio.sleep(4.9)
    await gate.request(WRITE, timeout=10)
    await asyncio.sleep(0.2)
    with pytest.raises(Unreachable):
        await gate.request(WRITE, timeout=10)
    assert len(cluster.sent) == 1


async def test_at_the_moment_itself_nothing_passes(cluster):
    clock = FixedClock()
    gate = WriteGate(cluster, clock)
    gate.open_until(5.0)
    assert gate.is_open
    clock.seconds = 5.0
    assert not gate.is_open


async def test_nothing_passes_once_the_wall_clock_is_beyond_the_moment(cluster):
    """The monotonic clock of a suspended machine stands still."""
    clock = FixedClock()
    gate = WriteGate(cluster, clock)
    gate.open_until(5.0, clock.wall())
    assert not gate.is_open
    gate.open_until(5.0, clock.wall() + 5.0)
    assert gate.is_open


async def test_a_write_under_way_is_given_up_at_the_moment(gate, cluster):
    cluster.seconds = 8
    gate.open_until(now() + 5)
    began = now()
    with pytest.raises(OutcomeUnknown, match="cancelled"):
        await gate.request(WRITE, timeout=10)
    assert now() - began == pytest.approx(5, abs=0.01)


async def test_a_write_under_way_goes_on_if_the_moment_is_put_off(gate, cluster):
    cluster.seconds = 8
    gate.open_until(now() + 5)
    writing = asyncio.ensure_future(gate.request(WRITE, timeout=10))
    await asyncio.sleep(4)
    gate.open_until(now() + 5)
    assert (await writing).status == 200
    assert cluster.may_leave == [True]


async def test_a_write_that_waits_to_be_sent_may_not_be_once_the_gate_is_shut(gate, cluster):
    cluster.seconds = 2
    gate.open_until(now() + 5)
    writing = asyncio.ensure_future(gate.request(WRITE, timeout=10))
    await asyncio.sleep(1)
    gate.shut()
    await writing
    assert cluster.may_leave == [False]


async def test_what_was_cancelled_may_arrive_until_the_gate_would_have_shut(gate, cluster):
    cluster.seconds = 60
    gate.open_until(now() + 5)
    began = now()
    writing = asyncio.ensure_future(gate.request(WRITE, timeout=100))
    await asyncio.sleep(1)
    writing.cancel()
    await asyncio.wait([writing])
    await gate.settle()
    assert now() - began == pytest.approx(5, abs=0.01)


async def test_with_every_write_answered_there_is_nothing_to_wait_for(gate):
    gate.open_until(now() + 5)
    began = now()
    await gate.request(WRITE, timeout=10)
    await gate.settle()
    assert now() == pytest.approx(began, abs=0.01)
    with pytest.raises(Unreachable):
        await gate.request(WRITE, timeout=10)
