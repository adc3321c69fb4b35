"""Windows, freezes and budgets: no migration begins outside of them, and when the next one does."""

import asyncio
import json
import math
import random

import pytest

from kubedsm.cli.execution import carry_out
from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.settings import load
from kubedsm.execution.deferrals import DAY, HOUR, Deferrals
from kubedsm.execution.migration_record import ANNOTATION, read_begun
from kubedsm.explain.migration_outcome import Outcome
from kubedsm.explain.subjects import Subject
from kubedsm.kube.calls.leases import Lease
from kubedsm.model.model import Workload
from kubedsm_lab.emulator.api.object_state import node_of
from kubedsm_lab.emulator.api.resources import LEASES, PODS
from support.fixed_clock import EPOCH, FixedClock
from support.move_scenes import (
    LARGE_CLOUD,
    SMALL_EDGE,
    by_hand,
    hand_over,
    is_detached,
    labelled,
    open_edge,
    quiet,
    ready_to_move,
    settle_on_cloud,
)
from support.rights import ADMIN_TOKEN, Right, install
from support.worlds import emulated, scheduled

WEB, API = (Workload("default", "Deployment", name) for name in ("web", "api"))
BASE = "suggester: {period: 10s}\n"
EAGER = "price: 0s, drainDelay: 1s, deadline: 10s"
#: virtual time begins at 2026-01-01T00:00:00Z
WINDOW = f"{BASE}migration: {{{EAGER}, windows: {{schedule: 5 0 * * *, duration: 1h}}}}"


def deferrals(budget):
    configuration = load(f"migration: {{budget: {{{budget}}}}}", "test")
    clock = FixedClock()
    return Deferrals(CurrentConfiguration(configuration), clock.wall), clock


def test_a_budget_of_a_workload_is_free_again_when_the_oldest_is_an_hour_old():
    made, clock = deferrals("workloadPerHour: 2")
    for _ in range(2):
        assert made.find(WEB) is None
        made.charge([WEB])
        clock.seconds += 60
    deferral = made.find(WEB)
    assert deferral.until == EPOCH + HOUR
    assert str(deferral).endswith("the budget of 2 per workload an hour is spent")
    assert made.find(API) is None
    clock.seconds += deferral.until - clock.wall()
    assert made.find(WEB) is None
    assert made.find(WEB, [WEB, WEB]).until == EPOCH + HOUR + 60


def test_a_budget_of_the_cluster_counts_all_workloads_and_a_whole_group():
    made, clock = deferrals("clusterPerHour: 3, clusterPerDay: 4")
    assert made.count_left() == 3
    made.charge([WEB, API])
    assert made.count_left() == 1
    assert made.find(WEB, [WEB]) is None
    assert made.find(WEB, [WEB, API]).until == EPOCH + HOUR
    clock.seconds += HOUR
    assert made.count_left() == 2
    made.charge([WEB, WEB])
    assert made.find(API).until == EPOCH + DAY
    assert made.find(API, [API] * 5).until == math.inf
    clock.seconds += DAY
    made.charge([])
    assert made.begun == []


CALENDARS = {
    "a window": "windows: {schedule: 5 0 * * *, duration: 1h}",
    "with another window": (
        "windows: [{schedule: 5 0 * * *, duration: 1h}, {schedule: 6 1 * * *, duration: 1h}]"
    ),
    "several of a schedule": "windows: {schedule: '5,25,45 0 * * *', duration: 20m}",
    "a freeze": "freezes: {start: '2026-01-01T01:05:00Z', end: '2026-01-01T01:06:00Z'}",
}


@pytest.mark.parametrize(
    ("minute", "closing"), [(5, False), (54, False), (55, True), (64, True), (65, False)]
)
@pytest.mark.parametrize("calendar", CALENDARS.values(), ids=CALENDARS)
def test_migrations_are_known_to_be_deferred_within_ten_minutes(calendar, minute, closing):
    configuration = load(f"services: {{default/web: {{{calendar}}}}}", "test")
    clock = FixedClock(60 * minute)
    made = Deferrals(CurrentConfiguration(configuration), clock.wall)
    assert made.is_closing([WEB, API], 600) is closing


async def test_no_migration_begins_before_its_window_and_explain_says_when():
    async with scheduled(emulated(LARGE_CLOUD, configuration=load(WINDOW, "test"))) as world:
        await settle_on_cloud(world, "web", 2)
        open_edge(world)
        await asyncio.sleep(1)
        subject = Subject("workload", "default/web")
        found = await world.runtime.explanations.explain(subject, leading=True)
        why = "migrations are deferred until 2026-01-01 00:05 UTC: outside of its windows"
        assert found.facts.deferred == why
        kept_off = {row[2] for row in found.sections[0].table.rows}
        assert kept_off == {(why,)}
        await asyncio.sleep(300 - world.clock.monotonic() - 1)
        assert world.placed("web") == {"c1": 2}
        await world.until(lambda: world.placed("web") == {"e1": 2}, 30)


async def test_a_budget_is_spent_on_the_greatest_benefit_and_the_rest_waits():
    services = "services: {default/web: {weight: 1}, default/api: {weight: 5}}"
    text = f"{BASE}migration: {{{EAGER}, budget: {{clusterPerHour: 1}}}}\n{services}"
    async with scheduled(emulated(LARGE_CLOUD, configuration=load(text, "test"))) as world:
        for name in ("web", "api"):
            world.deploy(name, 1)
        await world.until_bound(2, 5)
        await asyncio.sleep(2)
        open_edge(world)
        await world.until(lambda: world.placed("api") == {"e1": 1}, 30)
        await quiet(world)
        await asyncio.sleep(60)
        assert world.placed("web") == {"c1": 1}
        (at,) = (at for _, at in world.runtime.manager.migrations.deferrals.begun)
        await asyncio.sleep(at + HOUR - world.clock.wall() - 1)
        assert world.placed("web") == {"c1": 1}
        await world.until(lambda: world.placed("web") == {"e1": 1}, 30)


async def test_a_group_is_not_begun_if_the_window_closes_while_it_waits():
    frozen = load(
        "suggester: {mode: 'off'}\nmigration: {drainDelay: 1s, freezes:"
        " {start: 2026-01-01T00:00:00Z, end: 2026-01-02T00:00:00Z}}",
        "test",
    )
    async with ready_to_move(configuration=frozen, edge=SMALL_EDGE) as world:
        (pod,) = world.pods("web")
        await hand_over(world, [(pod, "e1", [])])
        await quiet(world)
        assert world.placed("web") == {"c1": 1}
        assert not world.runtime.manager.migrations.resting()


def exclude(world):
    """Exclude the pod that does not migrate yet."""
    [waiting] = [p for p in world.pods() if node_of(p) == "c1" and not is_detached(p)]
    annotations = {"metadata": {"annotations": {"kubedsm.io/migration": "off"}}}
    world.patch(PODS, waiting["metadata"]["name"], annotations)


@pytest.mark.parametrize("forbid", [lambda world: world.config_map(paused="true"), exclude])
async def test_a_migration_is_not_begun_if_it_is_forbidden_while_it_waits(forbid):
    one = load("suggester: {mode: 'off'}\nmigration: {drainDelay: 1s, maxConcurrent: 1}", "test")
    async with ready_to_move(2, SMALL_EDGE, one) as world:
        for pod in world.pods("web"):
            await hand_over(world, [(pod, "e1", ())], plan=pod["metadata"]["name"])
        await world.until(lambda: labelled(world), 5)
        forbid(world)
        await quiet(world)
        assert world.placed("web") == {"e1": 1, "c1": 1}


async def test_a_command_goes_by_the_switch_of_its_own_config_map():
    async with by_hand() as world:
        world.config_map(paused="true")
        async with world.scheduler():
            await settle_on_cloud(world, "web", 1)
        open_edge(world)

        async def begin(runtime):
            world.runtime = runtime
            await hand_over(world, [(world.pods("web")[0], "e1", ())])

        cluster, rng = world.connect(), random.Random(0)
        [end] = await carry_out(cluster, world.configuration, begin, world.clock, rng)
        assert end.outcome is Outcome.COMPLETED


async def spend_budget(world, replicas=2):
    """Let one pod be migrated."""
    await settle_on_cloud(world, "web", replicas)
    open_edge(world)
    await world.until(lambda: world.placed("web")["e1"] == 1, 30)
    await quiet(world)


BUDGET = f"{BASE}migration: {{{EAGER}, budget: {{workloadPerHour: 1}}}}"


async def test_a_new_leader_goes_on_with_the_budget_that_the_former_has_spent():
    async with emulated(LARGE_CLOUD, configuration=load(BUDGET, "test")) as world:
        world.namespace("kubedsm")
        async with world.scheduler():
            await spend_budget(world)
        begun = world.clock.wall()
        async with world.scheduler(seed=1) as runtime:
            await asyncio.sleep(begun + HOUR - world.clock.wall() - 30)
            assert len(runtime.manager.migrations.deferrals.begun) == 1
            assert world.placed("web") == {"e1": 1, "c1": 1}
            await world.until(lambda: world.placed("web") == {"e1": 2}, 60)


async def test_migrations_before_a_budget_count_for_the_next_leader_too():
    unlimited = f"{BASE}migration: {{{EAGER}}}"
    async with emulated(LARGE_CLOUD, configuration=load(unlimited, "test")) as world:
        world.namespace("kubedsm")
        async with world.scheduler() as runtime:
            await spend_budget(world, 1)
            runtime.configuration.replace(BUDGET, "test", world.clock.wall())
            await asyncio.sleep(60)
        world.configuration = load(BUDGET, "test")
        async with world.scheduler(seed=1) as runtime:
            await asyncio.sleep(20)
            assert len(runtime.manager.migrations.deferrals.begun) == 1


async def test_the_record_has_the_newest_migrations_that_fit_into_an_annotation():
    long = [f"{number:04}-{'n' * 58}" for number in range(3000)]
    async with emulated(LARGE_CLOUD, configuration=load(BUDGET, "test")) as world:
        world.namespace("kubedsm")
        async with world.scheduler() as runtime:
            await asyncio.sleep(1)
            deferrals = runtime.manager.migrations.deferrals
            deferrals.charge([Workload(name, "Deployment", name) for name in long])
            await asyncio.sleep(10)
        kept = world.api.get(LEASES, "kubedsm", "kubedsm-migrations")["metadata"]["annotations"]
        assert 190_000 < len(kept[ANNOTATION]) <= 200_000
        begun = read_begun(Lease({"annotations": kept}), world.clock.wall())
        assert [of.name for of, _ in begun] == long[-len(begun) :]


@pytest.mark.parametrize("text", ["nonsense", "[[1]]", "[]"])
async def test_an_odd_record_counts_as_empty(text):
    lease = {"metadata": {"name": "kubedsm-migrations", "annotations": {ANNOTATION: text}}}
    async with emulated(LARGE_CLOUD, configuration=load(BUDGET, "test")) as world:
        world.namespace("kubedsm")
        world.api.create(LEASES, lease, namespace="kubedsm")
        async with world.scheduler():
            await spend_budget(world)
        kept = world.api.get(LEASES, "kubedsm", "kubedsm-migrations")["metadata"]["annotations"]
        assert kept[ANNOTATION].startswith('[["default","Deployment","web",1767')


async def test_a_deleted_record_is_written_anew():
    async with emulated(LARGE_CLOUD, configuration=load(BUDGET, "test")) as world:
        world.namespace("kubedsm")
        async with world.scheduler() as runtime:
            for _ in range(2):
                await asyncio.sleep(1)
                runtime.manager.migrations.deferrals.charge([WEB])
                await asyncio.sleep(10)
                # Fails if it is not there.
                world.api.delete(LEASES, "kubedsm", "kubedsm-migrations")


async def test_new_pods_and_a_spent_budget_end_the_groups_that_wait():
    text = "suggester: {mode: 'off'}\nmigration: {maxConcurrent: 1, budget: {clusterPerHour: 1}}"
    async with ready_to_move(2, SMALL_EDGE, load(text, "test")) as world:
        world.namespace("kubedsm")
        await asyncio.sleep(10)
        for pod in world.pods("web"):
            await hand_over(world, [(pod, "e1", ())], plan=pod["metadata"]["name"])
        manager = world.runtime.manager
        manager.migrations.deferrals.charge([API])
        manager.cancel_unstarted("new pods arrived")
        assert manager.quiet.is_set()
        assert world.placed("web") == {"c1": 2}


async def test_without_the_right_to_the_record_the_budget_counts_from_the_start():
    configuration = load(BUDGET, "test")
    async with emulated(LARGE_CLOUD, configuration=configuration, admin_token=ADMIN_TOKEN) as world:
        right = Right("Role", "coordination.k8s.io", "leases", "get")
        world.token = install(world.cluster, right)
        async with world.scheduler():
            await spend_budget(world)
            await asyncio.sleep(HOUR / 2)
            assert world.placed("web") == {"e1": 1, "c1": 1}


def test_a_record_counts_for_a_day():
    now = round(10 * DAY)
    times = [now - round(DAY), now - round(DAY) + 1, now, now + 1]
    text = json.dumps([("shop", "Deployment", "web", at) for at in times])
    found = read_begun(Lease({"annotations": {ANNOTATION: text}}), now)
    assert [at for _, at in found] == times[1:3]
