"""Two schedulers on one cluster: one acts, the other takes its place, and never both."""

import asyncio

import pytest

from kubedsm.emulator.api.resources import LEASES, NODES
from kubedsm.runtime.leader_election import NotLeadingError
from support.move_scenes import MERGE, When, is_bound
from support.preemptions import HIGHEST
from support.replicas import EDGE, LEASE, TIMES, replicas

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

#: of the first one's clock, and of the other's
RATES = [(1, 1), (0.5, 2), (2, 0.5), (0.5, 1), (1, 2)]


async def first_and_other(several, rates=(1, 1)):
    """One leads and writes, the other stands by and knows the cluster."""
    first = several.start("first", rate=rates[0])
    await several.until_led_by(first, 5)
    other = several.start("other", rate=rates[1])
    await other.runtime.synced.wait()
    await several.until_written_by(first, 10)
    await asyncio.sleep(5)
    assert first.elector.leading
    assert not other.elector.leading
    assert other.elector.holder == "first"
    return first, other


async def test_of_two_that_start_together_one_acts():
    async with replicas() as several:
        both = [several.start(name) for name in ("one", "other")]
        await asyncio.sleep(60)
        assert sum(replica.elector.leading for replica in both) == 1
        assert len({write.who for write in several.ledger.writes}) == 1
        assert len(several.ledger.writes) > 50
        assert not several.ledger.wrong


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("fate", ["kill", "freeze", "cut_off"])
async def test_the_other_leads_in_time_and_the_first_writes_no_more(fate, rates):
    async with replicas() as several:
        first, other = await first_and_other(several, rates)
        getattr(first, fate)()
        await several.until_led_by(other, (TIMES.duration + 2) / rates[1])
        await several.until_written_by(other, 10)
        if fate != "kill":
            await asyncio.sleep(7)
            first.thaw()
            first.heal()
            await several.world.until(lambda: first.over, 60)
            assert first.ended.subgroup(NotLeadingError)
        await asyncio.sleep(20)
        assert other.elector.leading
        assert not several.ledger.wrong


@pytest.mark.parametrize("rates", RATES)
async def test_a_first_that_stops_for_a_moment_again_and_again_goes_on(rates):
    """It writes nothing late, whenever it was stopped, and needs nobody to take its place."""
    async with replicas() as several:
        first, _other = await first_and_other(several, rates)
        for tenths in range(20):
            first.freeze()
            await asyncio.sleep(0.3 + tenths / 10)
            first.thaw()
            await asyncio.sleep(1.3)
        assert not several.ledger.wrong
        assert several.ledger.terms[1:] == [(several.ledger.since("first"), "first")]
        await several.until_written_by(first, 10)


@pytest.mark.parametrize("moment", [0, 0.4, 0.8, 1.2, 1.6])
async def test_told_to_stop_it_hands_over_within_two_seconds(moment):
    async with replicas() as several:
        first, other = await first_and_other(several)
        several.load.cancel()
        await asyncio.sleep(5 + moment)
        first.stopping.set()
        await several.until_led_by(other, 2)
        await several.world.until(lambda: first.over, 1)
        assert first.ended is None
        spec = several.world.api.get(LEASES, LEASE.namespace, LEASE.name)["spec"]
        assert spec["leaseTransitions"] == 1
        several.world.deploy("late", 3)
        await several.world.until_bound_of("late", 3, 5)
        assert not several.ledger.wrong


async def test_told_to_stop_when_the_other_has_just_looked_it_hands_over_as_soon():
    """The longest time that a Lease which is given back can stay unseen."""
    async with replicas() as several:
        first, other = await first_and_other(several)
        several.load.cancel()
        await asyncio.sleep(5)
        told = []

        def stop(request):
            if "/leases" in request.path and not told:
                told.append(asyncio.get_running_loop().time())
                first.stopping.set()

        other.at_send = stop
        await several.until_led_by(other, 5)
        assert several.ledger.since("other") - told[0] < 2


async def test_told_to_stop_under_load_the_last_write_comes_before_the_release():
    async with replicas() as several:
        first, other = await first_and_other(several)
        first.stopping.set()
        await several.until_led_by(other, 4)
        await asyncio.sleep(10)
        [released] = [at for at, holder in several.ledger.terms[1:] if not holder]
        assert max(write.at for write in several.ledger.by("first")) < released
        assert not several.ledger.wrong


async def test_a_standby_that_is_told_to_stop_just_ends():
    async with replicas() as several:
        first, other = await first_and_other(several)
        other.stopping.set()
        await several.world.until(lambda: other.over, 2)
        await asyncio.sleep(20)
        assert first.elector.leading
        assert not several.ledger.by("other")


async def test_an_outage_for_both_changes_nothing_but_that_nothing_is_written():
    async with replicas() as several:
        first, other = await first_and_other(several)
        for replica in (first, other):
            replica.cut_off()
        await asyncio.sleep(60)
        assert not first.elector.leading  # and says so
        first.heal()
        await several.until_written_by(first, 30)
        other.heal()
        await asyncio.sleep(30)
        assert first.elector.leading
        assert not other.elector.leading
        assert not first.over
        assert not several.ledger.by("other")


async def test_a_lease_that_somebody_deletes_is_made_again_by_its_holder():
    async with replicas() as several:
        first, other = await first_and_other(several)
        several.world.api.delete(LEASES, LEASE.namespace, LEASE.name)
        await asyncio.sleep(20)
        assert first.elector.leading
        assert not other.elector.leading
        assert not several.ledger.wrong


@pytest.mark.parametrize("rates", RATES)
async def test_one_that_cannot_renew_stops_writing_before_the_other_begins(rates):
    """Although nothing else hinders it: only its renewals get lost."""
    async with replicas() as several:
        first, other = await first_and_other(several, rates)
        first.hangs = lambda request: "/leases" in request.path
        await several.until_led_by(other, (TIMES.duration + 2) / rates[1])
        await asyncio.sleep(10)
        assert not several.ledger.wrong


@pytest.mark.parametrize("rates", RATES)
async def test_a_write_that_was_about_to_be_sent_when_its_process_stopped_is_not(rates):
    async with replicas() as several:
        first, other = await first_and_other(several, rates)

        def stop(request):
            if request.path.endswith("/binding"):
                first.freeze()

        first.at_send = stop
        await several.until_led_by(other, (TIMES.duration + 5) / rates[1])
        await asyncio.sleep(3)
        first.at_send = lambda request: None
        first.thaw()
        await several.world.until(lambda: first.over, 60)
        assert not several.ledger.wrong


async def test_a_write_without_an_answer_keeps_the_lease_from_being_given_back_too_soon():
    async with replicas(busy=False) as several:
        first = several.start("first", grace=1.0)
        await several.until_led_by(first, 5)
        first.hangs = lambda request: request.path.endswith("/binding")
        several.world.deploy("web", 2)
        await asyncio.sleep(3)
        first.stopping.set()
        await several.world.until(lambda: first.over, 10)
        renewed, released = several.ledger.renewals["first"][-1], several.ledger.terms[-1][0]
        assert several.ledger.holder == ""
        assert released - renewed > TIMES.window - 0.5


async def test_a_new_leader_knows_what_the_first_did_last_however_late_its_watch_is():
    """Else it would give away the room that the first has just given away."""
    async with replicas(EDGE, busy=False) as several:
        world, first = several.world, several.start("first")
        await several.until_led_by(first, 5)
        other = several.start("other")
        await other.runtime.synced.wait()

        def be_late(_pod):
            other.late = 8.0

        When(world, is_bound, be_late)
        world.deploy("web", 4)
        world.deploy("zoned", 4, priorityClassName=HIGHEST, nodeSelector={"zone": "x"})
        await world.until_bound(4, 3)
        # The other hears of the node, not of the pods that have just come to it.
        world.api.patch(NODES, "", "e1", {"metadata": {"labels": {"zone": "x"}}}, MERGE)
        await asyncio.sleep(0.5)
        first.stopping.set()
        await several.until_led_by(other, 2)
        await asyncio.sleep(5)
        assert world.placed("web") == {"e1": 4}
        assert world.placed("zoned") == {None: 4}
        assert not several.ledger.wrong
