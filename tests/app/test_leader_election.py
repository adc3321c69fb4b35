"""One candidate's part: what it makes of the Lease it finds, and of what it is answered."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest

from kubedsm.app.leader_election import Elector, LeaseTimes, NotLeadingError, identity_of
from kubedsm.kube.calls import leases
from kubedsm.kube.client.port import Forbidden, OutcomeUnknown, Request
from kubedsm.kube.client.write_gate import WriteGate
from kubedsm_lab.chaos.faults import answer
from kubedsm_lab.emulator.api.resources import LEASES
from kubedsm_lab.emulator.front import EmulatedFront, Faults, RequestFault
from support.faults import OUTCOMES
from support.move_scenes import MERGE
from support.replicas import LEASE, TIMES
from support.worlds import emulated


class EachLease(Faults):
    """Disturb requests for the Lease, by their count from 0."""

    def __init__(self, disturbs, fault):
        self.count, self._disturbs, self._fault = -1, disturbs, fault

    def on_request(self, request):
        self.count += 1
        return self._fault if self._disturbs(self.count) else None


@attrs.define
class Candidate:
    elector: Elector
    gate: WriteGate


def candidate(world, name="me", faults=None, times=TIMES):
    front = EmulatedFront(world.cluster.routes, world.clock, faults=faults, latency=0.01)
    gate = WriteGate(front, world.clock)
    return Candidate(Elector(front, gate, world.clock, LEASE, times, name), gate)


def found(world, holder, seconds=15, **spec):
    """A Lease that another process has left."""
    moment = "2020-01-01T00:00:00.000000Z"
    body = {
        "metadata": {"name": LEASE.name, "labels": {"team": "edge"}},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": 4,
            **spec,
        },
    }
    world.api.create(LEASES, body, namespace=LEASE.namespace)


def lease(world):
    return world.api.get(LEASES, LEASE.namespace, LEASE.name)


@pytest.fixture
async def world():
    async with emulated() as made:
        made.namespace(LEASE.namespace)
        yield made


async def took(world, elector):
    """Seconds until it leads."""
    began = world.clock.monotonic()
    running = asyncio.ensure_future(elector.run())
    await asyncio.wait(
        [running, asyncio.ensure_future(elector.elected.wait())],
        timeout=200,
        return_when=asyncio.FIRST_COMPLETED,
    )
    seconds = world.clock.monotonic() - began
    running.cancel()
    await asyncio.wait([running])
    return seconds


@asynccontextmanager
async def leading(mine, seconds=0.0):
    """Let a candidate run, and for so long before the block."""
    running = asyncio.ensure_future(mine.elector.run())
    await asyncio.sleep(seconds)
    yield running
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize(
    ("holder", "seconds", "least", "warned"),
    [
        ("", 1, 0, False),
        ("dead", 15, 15, False),
        ("dead", 40, 40, False),
        ("dead", None, 15, False),
        ("dead", 100, 100, True),
        ("dead", 2**31 - 1, 10 * TIMES.duration, True),
    ],
)
async def test_a_lease_is_taken_when_its_own_duration_is_over_and_a_long_wait_told_once(
    world, holder, seconds, least, warned, capsys
):
    found(world, holder, seconds)
    mine = candidate(world)
    assert least <= await took(world, mine.elector) <= least + 0.1
    told = [line for line in capsys.readouterr().out.splitlines() if "not renewed by" in line]
    assert len(told) == warned
    remedy = "kubectl -n kubedsm patch lease kubedsm"
    assert all(each in line for line in told for each in (holder, str(round(least) - 10), remedy))
    taken = lease(world)
    assert taken["spec"]["holderIdentity"] == "me"
    assert taken["spec"]["leaseDurationSeconds"] == 15
    assert taken["spec"]["leaseTransitions"] == 5
    assert taken["metadata"]["labels"] == {"team": "edge"}


async def test_a_lease_that_is_not_there_is_made(world):
    mine = candidate(world)
    assert await took(world, mine.elector) < 0.1
    assert lease(world)["spec"]["leaseTransitions"] == 0
    assert mine.elector.leading
    assert mine.elector.since is not None


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_whatever_becomes_of_every_third_request_it_leads_on(world, outcome, caught):
    faults = EachLease(lambda count: count % 3 == 1, OUTCOMES[outcome])
    mine = candidate(world, faults=faults)
    async with leading(mine, 60) as running:
        assert mine.elector.leading
        assert not running.done()
        assert lease(world)["spec"]["holderIdentity"] == "me"


@pytest.mark.parametrize(
    "spec", [{"leaseDurationSeconds": 1}, {"leaseDurationSeconds": None}, {"acquireTime": None}]
)
async def test_what_a_user_writes_lasts_no_longer_than_a_renewal(world, spec):
    """A standby would believe a duration, and lead while the holder may still write."""
    mine = candidate(world)
    async with leading(mine, 5):
        before = lease(world)["spec"]
        world.api.patch(LEASES, LEASE.namespace, LEASE.name, {"spec": spec}, MERGE)
        await asyncio.sleep(5)
        after = lease(world)["spec"]
        assert {**after, "renewTime": ""} == {**before, "renewTime": ""}
        assert mine.elector.leading


async def test_the_remedy_of_a_long_wait_ends_it(world):
    found(world, "dead", 2**31 - 1)
    freed = {"spec": {"holderIdentity": ""}}
    free = partial(world.patch, LEASES, LEASE.name, freed, LEASE.namespace)
    asyncio.get_running_loop().call_later(20, free)
    assert 20 <= await took(world, candidate(world).elector) <= 22


async def test_a_long_lease_that_is_renewed_is_not_reported_and_not_taken(world, capsys):
    times = attrs.evolve(TIMES, duration=100 * TIMES.duration)
    async with leading(candidate(world, "alive", times=times), 1):
        standby = candidate(world)
        assert await took(world, standby.elector) >= 200
        assert standby.elector.holder == "alive"
        assert "not renewed by" not in capsys.readouterr().out


async def test_a_lease_that_is_deleted_is_taken_when_its_last_holder_must_have_stopped(world):
    found(world, "alive", 40)
    delete = partial(world.api.delete, LEASES, LEASE.namespace, LEASE.name)
    asyncio.get_running_loop().call_later(5, delete)
    assert 40 <= await took(world, candidate(world).elector) <= 41


async def test_who_has_the_lease_is_read_at_once_when_it_was_changed(world):
    mine = candidate(world)
    running = asyncio.ensure_future(mine.elector.run())
    await mine.elector.elected.wait()
    await asyncio.sleep(TIMES.pause / 2)
    taken = {"spec": {"holderIdentity": "other"}}
    world.patch(LEASES, LEASE.name, taken, namespace=LEASE.namespace)
    await asyncio.wait([running], timeout=TIMES.pause)
    assert running.done()
    assert not mine.gate.is_open
    assert isinstance(running.exception().exceptions[0], NotLeadingError)


async def test_who_cannot_renew_for_the_renew_deadline_does_not_say_that_it_leads(world):
    faults = EachLease(lambda count: count > 3, OUTCOMES["unreachable"])
    mine = candidate(world, faults=faults)
    async with leading(mine, TIMES.renew_deadline / 2):
        assert mine.elector.leading
        await asyncio.sleep(TIMES.renew_deadline)
        assert not mine.elector.leading
        assert mine.elector.since is not None


async def test_a_renewal_that_is_not_answered_is_sent_again_soon(world):
    mine = candidate(world)
    async with leading(mine):
        await mine.elector.elected.wait()
        send, silent = mine.elector._cluster.request, [True]

        async def request(asked, *, timeout):
            if silent.pop() if silent else False:
                await asyncio.sleep(timeout)
                raise OutcomeUnknown("no answer")
            return await send(asked, timeout=timeout)

        mine.elector._cluster.request = request
        await asyncio.sleep(TIMES.window + TIMES.pause)
        assert mine.gate.is_open


@pytest.mark.parametrize("slow_election", [False, True])
async def test_a_slow_api_server_leaves_the_gate_open(world, slow_election):
    mine = candidate(world)
    mine.elector._cluster._latency = 1.4 * slow_election
    async with leading(mine):
        await mine.elector.elected.wait()
        mine.elector._cluster._latency = 1.4
        for _ in range(200):
            await asyncio.sleep(0.1)
            assert mine.gate.is_open


@pytest.mark.parametrize("latency", [0.01, 1.0])
async def test_one_refused_renewal_is_repeated_at_once(world, latency):
    sent = []
    faults = EachLease(
        lambda count: sent.append(world.clock.monotonic()) or count == 5, OUTCOMES["503"]
    )
    mine = candidate(world, faults=faults)
    mine.elector._cluster._latency = latency
    async with leading(mine, 20):
        assert sent[6] - sent[5] <= latency + 0.01


async def test_a_renewal_opens_the_gate_from_the_moment_it_was_sent(world):
    """Not from the answer: it may have been on its way for long."""
    sent = []
    faults = EachLease(lambda _: sent.append(world.clock.monotonic()), None)
    mine = candidate(world, faults=faults)
    async with leading(mine):
        for _ in range(3):
            await asyncio.sleep(TIMES.pause)
            assert mine.gate._until == pytest.approx(sent[-1] + TIMES.window, abs=1e-6)


@pytest.mark.parametrize("times", [TIMES, LeaseTimes(5, 4, 3), LeaseTimes(600, 400, 60)])
async def test_whose_clock_runs_four_times_as_fast_finds_the_window_over(times):
    assert 4 * times.window < times.duration
    assert 3 * times.pause <= times.window + 1e-9


async def test_a_lease_that_another_one_has_taken_is_not_given_back(world):
    mine = candidate(world)
    await took(world, mine.elector)
    taken = {"spec": {"holderIdentity": "other"}}
    world.patch(LEASES, LEASE.name, taken, namespace=LEASE.namespace)
    await mine.elector.release()
    assert lease(world)["spec"]["holderIdentity"] == "other"


async def test_the_lease_is_given_back_when_no_write_can_arrive_any_more(world):
    mine = candidate(world)
    await took(world, mine.elector)
    until = mine.gate._until
    write = Request("POST", "/api/v1/namespaces", body={})
    writing = asyncio.ensure_future(mine.gate.request(write, timeout=1))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait([writing])
    assert mine.gate.is_open
    await mine.elector.release()
    assert world.clock.monotonic() >= until
    assert lease(world)["spec"]["holderIdentity"] == ""


async def test_without_the_right_to_it_there_is_a_line_and_no_leading(world, capsys):
    faults = EachLease(lambda count: True, RequestFault(answer(403, "Forbidden")))
    mine = candidate(world, faults=faults)
    assert await took(world, mine.elector) >= 200
    said = [line for line in capsys.readouterr().out.splitlines() if "not elected" in line]
    assert len(said) <= 4


def nothing(_text):
    pass


async def test_who_needs_it_for_a_moment_waits_for_the_dead(world):
    found(world, "dead")
    mine, told = candidate(world), []
    async with mine.elector.hold_lease(told.append):
        assert mine.gate.is_open
        await asyncio.sleep(30)
        assert mine.gate.is_open
    assert lease(world)["spec"]["holderIdentity"] == ""
    assert told == ["dead holds the lease kubedsm/kubedsm: checking whether it is alive"]


async def test_who_needs_it_for_a_moment_is_refused_beside_the_living(world):
    async with leading(candidate(world, "alive"), 3):
        began = world.clock.monotonic()
        said = "alive holds the lease kubedsm/kubedsm, and renews"
        with pytest.raises(NotLeadingError, match=said):
            async with candidate(world).elector.hold_lease(nothing):
                raise AssertionError
        assert world.clock.monotonic() - began < 5


async def test_who_needs_it_for_a_moment_is_told_what_forbids_it(world):
    faults = EachLease(lambda count: True, RequestFault(answer(403, "Forbidden")))
    with pytest.raises(Forbidden):
        async with candidate(world, faults=faults).elector.hold_lease(nothing):
            raise AssertionError


async def test_no_two_processes_have_the_same_identity():
    assert len({identity_of("host") for _ in range(100)}) == 100
    assert leases.term_of("a", 1.5, 0.0, 0).seconds == 2
