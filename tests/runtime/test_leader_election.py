"""One candidate's part: what it makes of the Lease it finds, and of what it is answered."""

import asyncio

import attrs
import pytest

from kubedsm.cluster.calls import leases
from kubedsm.cluster.client.port import Forbidden
from kubedsm.cluster.client.write_gate import WriteGate
from kubedsm.emulator.api.resources import LEASES, NAMESPACES
from kubedsm.emulator.front import EmulatedFront, RequestFault
from kubedsm.runtime.leader_election import Elector, LeaseTimes, NotLeadingError, identity_of
from support.faults import OUTCOMES, answer
from support.replicas import LEASE, TIMES
from support.worlds import emulated

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


class EachLease:
    """Disturb requests for the Lease, by their count from 0."""

    def __init__(self, disturbs, fault):
        self.count, self._disturbs, self._fault = -1, disturbs, fault

    def on_request(self, request):
        self.count += 1
        return self._fault if self._disturbs(self.count) else None

    def on_line(self, request, line):
        return None


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
        made.api.create(NAMESPACES, {"metadata": {"name": LEASE.namespace}})
        yield made


async def took(world, elector):
    """Seconds until it leads."""
    began = world.clock.monotonic()
    running = asyncio.ensure_future(elector.run())
    await asyncio.wait(
        [running, asyncio.ensure_future(elector.elected.wait())],
        timeout=120,
        return_when=asyncio.FIRST_COMPLETED,
    )
    seconds = world.clock.monotonic() - began
    running.cancel()
    await asyncio.wait([running])
    return seconds


@pytest.mark.parametrize(
    ("holder", "seconds", "least", "most"),
    [
        ("", 1, 0, 0.1),
        ("dead", 15, 15, 15.1),
        ("dead", 40, 40, 40.1),
        ("dead", None, 15, 15.1),
    ],
)
async def test_a_lease_is_taken_when_its_own_duration_is_over(world, holder, seconds, least, most):
    found(world, holder, seconds)
    mine = candidate(world)
    assert least <= await took(world, mine.elector) <= most
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
    running = asyncio.ensure_future(mine.elector.run())
    await asyncio.sleep(60)
    assert mine.elector.leading
    assert not running.done()
    assert lease(world)["spec"]["holderIdentity"] == "me"
    running.cancel()
    await asyncio.wait([running])


async def test_a_renewal_opens_the_gate_from_the_moment_it_was_sent(world):
    """Not from the answer: it may have been on its way for long."""
    mine = candidate(world)
    running = asyncio.ensure_future(mine.elector.run())
    await mine.elector.elected.wait()
    assert mine.gate._until <= world.clock.monotonic() - 0.01 + TIMES.window
    running.cancel()
    await asyncio.wait([running])


async def test_without_the_right_to_it_there_is_a_line_and_no_leading(world, capsys):
    faults = EachLease(lambda count: True, RequestFault(answer(403, "Forbidden")))
    mine = candidate(world, faults=faults)
    assert await took(world, mine.elector) >= 120
    said = [line for line in capsys.readouterr().out.splitlines() if "not elected" in line]
    assert len(said) <= 3


def nothing(_text):
    pass


async def test_who_needs_it_for_a_moment_waits_for_the_dead(world):
    found(world, "dead")
    mine, told = candidate(world), []
    async with mine.elector.held(told.append):
        assert mine.gate.is_open
        await asyncio.sleep(30)
        assert mine.gate.is_open
    assert lease(world)["spec"]["holderIdentity"] == ""
    assert told == ["dead holds the lease kubedsm/kubedsm: looking whether it is alive"]


async def test_who_needs_it_for_a_moment_is_refused_beside_the_living(world):
    leading = asyncio.ensure_future(candidate(world, "alive").elector.run())
    await asyncio.sleep(3)
    began = world.clock.monotonic()
    with pytest.raises(NotLeadingError, match="alive holds the lease kubedsm/kubedsm, and renews"):
        async with candidate(world).elector.held(nothing):
            raise AssertionError
    assert world.clock.monotonic() - began < 5
    leading.cancel()
    await asyncio.wait([leading])


async def test_who_needs_it_for_a_moment_is_told_what_forbids_it(world):
    faults = EachLease(lambda count: True, RequestFault(answer(403, "Forbidden")))
    with pytest.raises(Forbidden):
        async with candidate(world, faults=faults).elector.held(nothing):
            raise AssertionError


async def test_times_that_are_short_are_renewed_within_their_window(world):
    mine = candidate(world, times=LeaseTimes(5, 4, 3))
    running = asyncio.ensure_future(mine.elector.run())
    await mine.elector.elected.wait()
    for _ in range(200):
        await asyncio.sleep(0.1)
        assert mine.gate.is_open
    running.cancel()
    await asyncio.wait([running])


async def test_no_two_processes_have_the_same_identity():
    assert len({identity_of("host") for _ in range(100)}) == 100
    assert leases.term_of("a", 1.5, 0.0, 0).seconds == 2
