"""Each thing that is counted is counted when it happens, and under its labels."""

import asyncio

import attrs
import pytest
from prometheus_client import generate_latest

from kubedsm.config.settings import load
from kubedsm.kube.client.port import Unreachable
from kubedsm.observability.instruments import Instruments
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.optimizer.programming.programme import Status
from kubedsm_lab.emulator.front import RequestFault
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.faults import OUTCOMES
from support.metered import Metered, metering, total
from support.move_scenes import (
    LARGE_CLOUD,
    AtRequest,
    hand_over,
    migrating,
    open_edge,
    quiet,
    settle_on_cloud,
)
from support.worlds import CLOUD, EDGE, emulated

ATTEMPTS = "scheduler_schedule_attempts_total"
ATTEMPT_SECONDS = "scheduler_scheduling_attempt_duration_seconds"
POD_SECONDS = "scheduler_pod_scheduling_sli_duration_seconds"
MIGRATIONS = "kubedsm_migrations_total"


def is_bind(request):
    return request.path.endswith("/binding")


async def test_a_burst_is_counted_by_results_with_its_batch_and_times():
    async with metering(emulated(EDGE, CLOUD)) as (world, metered):
        world.deploy("web", 4)
        world.deploy("huge", 2, cpu="64")
        await world.until_bound(4, 1)
        await asyncio.sleep(0.5)
        assert metered(ATTEMPTS, result="scheduled", profile="kubedsm") == 4
        assert metered(ATTEMPTS, result="unschedulable") == 2
        assert metered(ATTEMPTS, result="error") == metered(ATTEMPTS, result="late") == 0
        assert metered(f"{ATTEMPT_SECONDS}_count", result="scheduled") == 4
        # A bind is asked for and answered, and seen: two ways at 10 ms.
        assert 0.005 < metered(f"{ATTEMPT_SECONDS}_sum", result="scheduled") / 4 < 0.1
        assert metered(f"{POD_SECONDS}_count", attempts="1") == 4
        waited = metered(f"{POD_SECONDS}_sum") / 4
        assert waited >= metered(f"{ATTEMPT_SECONDS}_sum", result="scheduled") / 4
        assert metered("kubedsm_batch_size_pods_sum") == 6
        batches = metered("kubedsm_batch_size_pods_count")
        assert metered("kubedsm_decision_duration_seconds_count", kind="batch") == batches
        assert metered("kubedsm_bind_duration_seconds_count") == 4
        assert metered("kubedsm_plans_total", kind="bind", outcome="completed") == 4
        assert metered("kubedsm_plan_steps_total", kind="bind", outcome="done") == 4
        assert metered("scheduler_pending_pods", queue="unschedulable") == 2
        assert metered("scheduler_unschedulable_pods", plugin="NodeResourcesFit") == 2
        assert metered("scheduler_unschedulable_pods", plugin="TaintToleration") == 0


async def test_a_bind_that_fails_is_an_error_and_the_next_attempt_is_the_second():
    faults = AtRequest(is_bind, lambda: None, fault=OUTCOMES["403"])
    async with metering(emulated(EDGE, CLOUD), faults) as (world, metered):
        world.deploy("web", 1)
        await world.until(lambda: metered(ATTEMPTS, result="error") == 1, 1)
        assert metered("scheduler_pending_pods", queue="backoff") == 1
        assert metered("kubedsm_plans_total", kind="bind", outcome="failed") == 1
        assert metered("kubedsm_plan_steps_total", kind="bind", outcome="failed") == 1
        await world.until_bound(1, 5)
        await asyncio.sleep(0.5)
        assert metered(ATTEMPTS, result="scheduled") == 1
        assert metered(f"{POD_SECONDS}_count", attempts="2") == 1
        assert metered(f"{POD_SECONDS}_sum") > 0.5
        assert metered("scheduler_pending_pods") == 0


class Late:
    """Has no time for the first two batches."""

    def __init__(self, policy):
        self.policy, self.times = policy, 2

    def place(self, snapshot, pods, *rest):
        decision = self.policy.place(snapshot, pods, *rest)
        self.times -= 1
        late = attrs.evolve(decision, bindings=(), late=tuple(pods))
        return decision if self.times < 0 else late


class Broken:
    def place(self, *_):
        raise RuntimeError("place")


async def test_decisions_that_are_late_or_break_are_counted_for_their_pods(caught):
    for made, result, pods in ((Late, "late", 1), (lambda _: Broken(), "error", 2)):
        async with emulated(EDGE, CLOUD) as world:
            metered, policy = Metered(world), made(world.configuration.policy)
            async with world.scheduler(policy=policy, instruments=metered.instruments):
                world.deploy("web", pods)
                await world.until(lambda m=metered, r=result: m(ATTEMPTS, result=r) >= 2, 10)
                if result == "late":
                    await world.until_bound(1, 10)
                assert metered(ATTEMPTS, result=result) == 2
                if result == "error":
                    assert metered("kubedsm_caught_errors_total", part="decision") >= 2
                    assert metered("kubedsm_caught_errors_total", part="scheduler") == 0
    caught.clear()


async def test_a_migration_is_counted_by_its_kind_and_how_it_ended():
    async with metering(migrating(LARGE_CLOUD)) as (world, metered):
        await settle_on_cloud(world, "web", 2)
        open_edge(world)
        await world.until(lambda: world.placed("web") == {"e1": 2}, 60)
        await quiet(world)
        assert metered(MIGRATIONS, kind="cloud_to_edge", result="completed") == 2
        assert metered(MIGRATIONS) == 2
        assert metered("kubedsm_suggested_moves_total", kind="cloud_to_edge", mode="apply") == 2
        assert metered("kubedsm_decision_duration_seconds_count", kind="suggestion") >= 1
        plans = metered("kubedsm_plans_total", kind="migration", outcome="completed")
        assert plans == metered("kubedsm_migration_plan_duration_seconds_count") >= 1
        assert metered("kubedsm_migration_plan_duration_seconds_sum") > 2
        assert metered("kubedsm_plan_steps_total", kind="evict", outcome="done") == 2
        # It was not needed.
        assert metered("kubedsm_plan_steps_total", kind="restore", outcome="cancelled") == 2


async def test_a_move_that_is_taken_back_and_one_that_never_begins():
    def refused(request):
        return request.path.endswith("/eviction")

    faults = AtRequest(refused, lambda: None, fault=OUTCOMES["403"])
    async with metering(migrating(LARGE_CLOUD), faults) as (world, metered):
        await settle_on_cloud(world, "web", 1)
        open_edge(world)
        await world.until(
            lambda: metered(MIGRATIONS, kind="cloud_to_edge", result="taken_back") == 1, 60
        )
        await world.until(
            lambda: metered("kubedsm_plans_total", kind="migration", outcome="failed") == 1, 60
        )
        steps = "kubedsm_plan_steps_total"
        assert metered(steps, kind="evict", outcome="failed") == 1
        await quiet(world)
        done = metered(steps, kind="restore", outcome="done")
        await hand_over(world, [(world.pods("web")[0], "gone", ())])
        await quiet(world)
        assert metered(MIGRATIONS, kind="unknown", result="failed") == 1
        assert metered("kubedsm_plans_total", kind="migration", outcome="dropped") == 1
        assert metered(steps, kind="restore", outcome="done") == done


async def test_moves_that_are_only_proposed_or_give_way_are_no_migrations():
    proposing = load("suggester: {period: 1s, mode: suggest}", "test")
    async with metering(emulated(LARGE_CLOUD, configuration=proposing)) as (world, metered):
        await settle_on_cloud(world, "web", 1)
        open_edge(world)
        await asyncio.sleep(5)
        assert metered("kubedsm_suggested_moves_total", mode="suggest") >= 1
        assert metered("kubedsm_suggested_moves_total", mode="apply") is None
        assert metered(MIGRATIONS) == 0
    one = load("suggester: {period: 1s}\nmigration: {maxConcurrent: 1, drainDelay: 9s}", "test")
    async with metering(emulated(LARGE_CLOUD, configuration=one)) as (world, metered):
        for app in ("a", "b"):
            world.deploy(app, 1)
        await world.until_bound(2, 3)
        await asyncio.sleep(2)
        open_edge(world)
        await world.until(lambda: metered("kubedsm_plans_in_progress") == 2, 10)
        await asyncio.sleep(1)
        assert metered("kubedsm_migrations_in_progress") == 1
        assert metered("kubedsm_detached_pods") == 1
        await world.bring_up("c", 1, within=5)
        assert metered(MIGRATIONS, kind="cloud_to_edge", result="dropped") == 1
        await quiet(world)
        assert metered(MIGRATIONS, kind="cloud_to_edge", result="completed") >= 1


async def test_requests_are_counted_by_method_and_code_and_errors_by_verb():
    faults = AtRequest(is_bind, lambda: None, fault=RequestFault(Unreachable("refused")))
    async with metering(emulated(EDGE, CLOUD), faults) as (world, metered):
        requests, host = "rest_client_requests_total", "server:443"
        await world.runtime.synced.wait()
        assert metered(requests, method="GET", code="200", host=host) >= 7
        await world.bring_up("web", 1, within=5)
        await asyncio.sleep(0.5)
        assert metered(requests, method="POST", code="<error>", host=host) == 1
        assert metered(requests, method="POST", code="201") >= 1
        errors = "kubedsm_api_errors_total"
        assert metered(errors, verb="create", resource="pods/binding", code="<error>") == 1
        assert metered(errors) == 1
        timed = metered("rest_client_request_duration_seconds_count", verb="POST", host=host)
        assert timed == metered(requests, method="POST")


async def test_what_is_not_proven_and_what_workers_do_not_answer_is_counted():
    instruments = Instruments(VirtualClock(), "kubedsm", "server:443")
    placed = Certificate("pods placed", Status.FEASIBLE, 188, 203, of="priority 100")
    instruments.optimality_unproven("batch", (placed, Certificate("QoS", Status.FEASIBLE, 3)))
    instruments.optimality_unproven("batch", ())
    instruments.request_unanswered("preemption")
    text = generate_latest(instruments.registry).decode()
    assert total(text, "kubedsm_unproven_decisions_total", kind="batch") == 2
    assert total(text, "kubedsm_unproven_decisions_total", kind="suggestion") == 0
    # A priority is no label.
    gaps = "kubedsm_decision_gap_ratio"
    assert total(text, f"{gaps}_count") == 1
    assert total(text, f"{gaps}_sum", kind="batch", goal="pods_placed") == pytest.approx(15 / 203)
    unanswered = "kubedsm_unanswered_questions_total"
    assert total(text, unanswered, question="preemption") == 1
    assert total(text, unanswered, question="suggestion") == 0
    assert "_created" not in text
