"""Two schedulers on one cluster, one that stops, and a cluster that is restored from a backup.

What is under way ends or is taken back; after a restore, versions go back and binds are undone.

That one acts, and another takes its place in time: `kubedsm_lab.chaos`, with one fault at any call.
"""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from kubedsm.config.settings import load
from kubedsm.execution.orphan_sweep import SWEEP
from kubedsm.kube.client.port import MIGRATIONS
from kubedsm_lab.chaos.oracles import Invariants
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, EVENTS, LEASES, NODES, PODS, SERVED
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from support.full_clusters import HIGHEST
from support.move_scenes import (
    CONFIGURATION,
    LARGE_CLOUD,
    SMALL_EDGE,
    ReadyPods,
    When,
    is_bound,
    labelled,
    open_edge,
)
from support.replicas import LEASE, replicas
from support.tenants import Tenant, marked
from support.worlds import CLOUD, EDGE, QUICK, emulated


def pod_relists(replica):
    return replica.runtime.followed.watches["Pod"].relists


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


async def test_pods_are_listed_once_if_elected_at_once_and_again_after_standing_by():
    async with replicas() as several:
        first, other = await first_and_other(several)
        assert (pod_relists(first), pod_relists(other)) == (0, 0)
        first.stopping.set()
        await several.until_written_by(other, 10)
        assert pod_relists(other) == 1


async def test_a_standby_leaves_orphans_to_the_leader():
    async with replicas() as several:
        _first, other = await first_and_other(several)
        several.load.cancel()
        read = []
        other.at_send = lambda request: read.append(request.path)
        tenant = Tenant.of(several.world)
        tenant.create(PODS, marked("orphan"))
        await several.world.until(lambda: not tenant.pods(), SWEEP)
        await asyncio.sleep(SWEEP)
        assert not [path for path in read if path.endswith("/orphan")]


async def test_a_leader_suspended_for_ten_minutes_writes_nothing_when_its_machine_resumes():
    """By its clock, which stood still, it leads and may send the bind; another leads by then."""
    async with replicas() as several:
        first, _other = await first_and_other(several)
        suspended = []

        def suspend(request):
            if "/binding" in request.path:
                suspended.append(first.clock.monotonic())
                first.at_send = lambda _: None
                first.suspend()
                asyncio.get_running_loop().call_later(600, first.thaw)
                several.load.cancel()

        first.at_send = suspend
        await several.world.until(lambda: suspended, 10)
        await asyncio.sleep(595)
        await several.world.until(lambda: first.over, 15)
        assert first.clock.monotonic() < suspended[0] + 5
        assert several.ledger.holder == "other"
        assert not several.ledger.wrong


EVERYTHING = load(
    "{preemption: enabled, migration: {price: 0s, cooldown: 1s, budget: {clusterPerHour: 9}},"
    " services: {default/web: {qos: 1}}}",
    "test",
)


def record_of_migrations(world):
    """Return the version of the Lease with the migrations that count for the budget."""
    found = world.api.get(LEASES, LEASE.namespace, LEASE.name + MIGRATIONS)
    return found["metadata"]["resourceVersion"]


async def test_a_leader_with_nothing_to_do_writes_nothing_but_its_lease_nor_does_its_successor():
    async with replicas(CLOUD, busy=False) as several:
        first, other = (several.start(n, configuration=EVERYTHING) for n in ("first", "other"))
        await several.world.bring_up("web", 2, within=10)
        several.world.api.create(NODES, EDGE)
        await several.world.until(lambda: several.world.placed() == {"e1": 2}, 120)
        await asyncio.sleep(30)
        before, recorded = list(several.ledger.writes), record_of_migrations(several.world)
        assert recorded
        await asyncio.sleep(400)
        first.stopping.set()
        await several.until_led_by(other, 2)
        await asyncio.sleep(400)
        assert several.ledger.writes == before
        assert record_of_migrations(several.world) == recorded
        assert several.world.placed() == {"e1": 2}


@pytest.mark.parametrize("moment", [0, 1.2])
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
        await several.world.bring_up("late", 3, within=5)
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


async def test_a_new_leader_knows_what_the_first_did_last_however_late_its_watch_is():
    """Else it would give away the room that the first has just given away."""
    async with replicas(EDGE, busy=False) as several:
        world, first = several.world, several.start("first")
        await several.until_led_by(first, 5)
        other = several.start("other")
        await other.runtime.synced.wait()

        def be_late(_pod):
            other.watch_delay = 8.0

        When(world, is_bound, be_late)
        world.deploy("web", 4)
        world.deploy("zoned", 4, priorityClassName=HIGHEST, nodeSelector={"zone": "x"})
        await world.until_bound(4, 3)
        # The other hears of the node, not of the pods that have just come to it.
        world.patch(NODES, "e1", {"metadata": {"labels": {"zone": "x"}}})
        await asyncio.sleep(0.5)
        first.stopping.set()
        await several.until_led_by(other, 2)
        await asyncio.sleep(5)
        assert world.placed("web") == {"e1": 4}
        assert world.placed("zoned") == {None: 4}
        assert not several.ledger.wrong


#: seconds from a binding to Ready
BRISK, SLUGGISH = Timing(start_delay=2, stop_delay=0.5), Timing(start_delay=60, stop_delay=0.5)


async def moving(several, grace, configuration=CONFIGURATION):
    """A scheduler that has detached a pod to move it."""
    world = several.world
    first = several.start("first", configuration=configuration, grace=grace)
    await several.until_led_by(first, 5)
    await world.bring_up("web", 2, within=5)
    await world.until(lambda: ready(world) == 2, 90)
    open_edge(world, SMALL_EDGE)
    await world.until(lambda: labelled(world), 20)
    return first


def ready(world):
    return ReadyPods(world, "web").count()


async def test_moves_that_can_end_in_time_do():
    async with replicas(LARGE_CLOUD, busy=False, timing=BRISK) as several:
        first = await moving(several, grace=25)
        first.stopping.set()
        await several.world.until(lambda: first.over, 26)
        assert not labelled(several.world)
        assert several.world.placed("web")["e1"] >= 1
        assert several.world.events("Migrated")
        # Nothing new was begun, and the Lease went last.
        assert several.ledger.holder == ""
        assert max(write.at for write in several.ledger.writes) < several.ledger.terms[-1][0]


async def test_moves_that_cannot_are_taken_back():
    async with replicas(LARGE_CLOUD, busy=False, timing=SLUGGISH) as several:
        first = await moving(several, grace=8)
        began = asyncio.get_running_loop().time()
        first.stopping.set()
        await several.world.until(lambda: first.over, 8.5)
        assert asyncio.get_running_loop().time() - began > 4
        assert not labelled(several.world)
        assert ready(several.world) == 2
        assert several.world.events("MigrationFailed")
        assert several.ledger.holder == ""


async def test_events_are_written_before_the_end():
    async with replicas(LARGE_CLOUD, busy=False) as several:
        first = several.start("first")
        await several.until_led_by(first, 5)
        several.world.deploy("web", 20)
        await several.world.until(lambda: several.world.placed("web")["c1"], 5)
        first.stopping.set()
        await several.world.until(lambda: first.over, 5)
        bound = sum(n for name, n in several.world.placed("web").items() if name)
        assert len(several.world.events("Scheduled")) == bound == 20


async def test_without_an_election_it_stops_in_the_same_way():
    async with replicas(LARGE_CLOUD, busy=False) as several:
        first = several.start("first", times=None)
        await several.world.bring_up("web", 4, within=5)
        first.stopping.set()
        await several.world.until(lambda: first.over, 2)
        assert len(several.world.events("Scheduled")) == 4
        assert several.ledger.terms == [(0.0, "")]


#: until five lists were taken that are too old to be believed at once
BELIEVED = 60


def backup(world):
    kept = [kind for kind in SERVED if kind is not EVENTS and not kind.alias_of]
    return [(kind, obj) for kind in kept for obj in world.api.store.list(kind)]


def write_a_lot(world, times=300):
    for number in range(times):
        patch = {"metadata": {"annotations": {"touched": str(number)}}}
        world.patch(DEPLOYMENTS, "web", patch)


@asynccontextmanager
async def restored(world, saved, meanwhile=0):
    """The API server starts again on the backup: the same uids, and a history that begins anew."""
    async with EmulatedCluster(ClusterSpec((), QUICK), world.clock, random.Random(1)) as cluster:
        for kind, obj in saved:
            cluster.api.store.put(kind, obj)
        old, world.cluster = world.cluster, cluster
        world.invariants = Invariants(cluster.api)
        write_a_lot(world, meanwhile)
        world.front._routes = cluster.routes
        for streams in old.routes._hub._streams.values():
            for stream in list(streams):
                stream.show("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
                stream.end()
        yield


@pytest.mark.parametrize("meanwhile", [0, 1000], ids=["behind", "ahead again"])
async def test_a_pod_whose_bind_was_undone_is_bound_again(meanwhile):
    async with emulated(EDGE, CLOUD) as world:
        world.deploy("web", 5)
        await asyncio.sleep(1)
        saved = backup(world)
        async with world.scheduler() as runtime:
            await world.until_bound(5, 2)
            write_a_lot(world)
            await asyncio.sleep(5)
            undone = {pod["metadata"]["uid"] for pod in world.pods()}
            async with restored(world, saved, meanwhile):
                assert world.placed() == {None: 5}
                await world.until_bound(5, BELIEVED)
                assert {pod["metadata"]["uid"] for pod in world.pods()} == undone
                assert world.placed() == {"e1": 4, "c1": 1}
                await asyncio.sleep(20)
                assert len(runtime.mirror.snapshot().placed) == 5
                assert runtime.manager.quiet.is_set()
                running = [pod for pod in world.pods() if pod["status"]["phase"] == "Running"]
                assert len(running) == 5
