"""Metrics: each thing is counted when it happens, and each gauge is of the moment of the scrape."""

import asyncio

import attrs
import pytest
from prometheus_client import generate_latest

import kubedsm
from kubedsm.config.settings import load
from kubedsm.kube.client.port import Unreachable
from kubedsm.observability.instruments import Instruments
from kubedsm.observability.reading import Leadership
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.optimizer.programming.programme import Status
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, PODS
from kubedsm_lab.emulator.front import Delivery, RequestFault
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.faults import OUTCOMES, Failing
from support.full_clusters import filled, preempting, urgent
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


WEB = {"namespace": "default", "kind": "Deployment", "workload": "web"}
HALF = load("services: {default/web: {qos: 0.5}}\nsuggester: {mode: 'off'}", "test")


async def test_edge_share_promise_and_gap_of_each_workload():
    async with metering(emulated(node("e1", "edge", "2", "8Gi"), CLOUD, configuration=HALF)) as (
        world,
        metered,
    ):
        await world.bring_up("web", 4, within=2)
        await world.bring_up("db", 1, within=2)
        await asyncio.sleep(0.5)
        assert metered("kubedsm_workload_edge_share", **WEB) == 0.5
        assert metered("kubedsm_workload_promised_edge_share", **WEB) == 0.5
        assert metered("kubedsm_workload_qos_gap", **WEB) == 0
        assert metered("kubedsm_workload_pods", **WEB) == 4
        assert metered("kubedsm_workload_edge_share", workload="db") == 0
        assert metered("kubedsm_workload_qos_gap", workload="db") == 1
        assert metered("kubedsm_edge_share") == 2 / 5
        assert metered("kubedsm_edge_share_deviation") == 0.25
        assert metered("kubedsm_workloads") == 2
        assert metered("kubedsm_workloads_below_promise") == 1
        world.api.delete(DEPLOYMENTS, "default", "db")
        await asyncio.sleep(3)
        assert metered("kubedsm_workload_qos_gap", workload="db") is None
        assert metered("kubedsm_workloads_below_promise") == 0


async def test_pods_are_pending_by_queue_and_the_edge_has_room_that_no_pod_can_use():
    async with metering(emulated(EDGE, CLOUD)) as (world, metered):
        await world.runtime.synced.wait()
        world.deploy("gated", 2, schedulingGates=[{"name": "example.com/wait"}])
        world.deploy("huge", 1, cpu="64")
        await asyncio.sleep(1)
        pending = "scheduler_pending_pods"
        assert metered(pending, queue="gated") == 2
        assert metered(pending, queue="unschedulable") == 1
        assert metered(pending) == 3
        for pod in world.pods("gated"):
            patch = {"spec": {"schedulingGates": None}}
            world.patch(PODS, pod["metadata"]["name"], patch)
        await world.until_bound(2, 2)
        assert metered(pending) == 1
    unlabelled = node("n1", "edge", "1", "1Gi")
    unlabelled["metadata"]["labels"] = {"kubernetes.io/hostname": "n1"}
    product = load("fragmentation: product\nsuggester: {mode: 'off'}", "test")
    async with metering(emulated(EDGE, CLOUD, unlabelled, configuration=product)) as (
        world,
        metered,
    ):
        await world.runtime.synced.wait()
        tiers = [metered("kubedsm_nodes", tier=t) for t in ("edge", "cloud", "none")]
        assert tiers == [1, 1, 1]
        assert metered("kubedsm_edge_fragmentation") == pytest.approx(0.9)
        await world.bring_up("web", 1, within=2, cpu="2", memory="4Gi")
        assert metered("kubedsm_edge_fragmentation") == pytest.approx(1 - 0.5 * 0.5)


class ClosedWatch:
    """Closes the watch of pods at its first line, and keeps it from being opened again."""

    closed, shut = False, True

    def on_request(self, request):
        refused = self.shut and self.closed and request.path == "/api/v1/pods"
        return RequestFault(Unreachable("refused")) if refused else None

    def on_line(self, request, line):
        if self.closed or request.path != "/api/v1/pods":
            return None
        self.closed = True
        return Delivery((line,), end="broken")


async def test_watches_that_are_opened_again_and_those_that_do_not_work():
    faults = ClosedWatch()
    async with metering(emulated(EDGE, CLOUD), faults) as (world, metered):
        await world.runtime.synced.wait()
        assert metered("kubedsm_watch_restarts_total") == 0
        assert metered("kubedsm_watch_objects", kind="Node") == 2
        world.deploy("web", 1)
        await asyncio.sleep(2)
        assert metered("kubedsm_watch_troubled", kind="Pod") == 1
        assert metered("kubedsm_watch_troubled") == 1
        errors = metered("kubedsm_api_errors_total", verb="watch", resource="pods")
        assert errors >= 1
        faults.shut = False
        await asyncio.sleep(10)
        assert metered("kubedsm_watch_restarts_total", kind="Pod") == 1
        assert metered("kubedsm_watch_troubled", kind="Pod") == 0
        assert metered("kubedsm_watch_relists_total", kind="Pod") == 0
        assert metered("kubedsm_watch_unreadable_objects_total", kind="Pod") == 0


async def test_who_leads_what_is_configured_and_what_runs():
    async with metering(emulated(EDGE, CLOUD)) as (world, metered):
        await world.runtime.synced.wait()
        leads = "leader_election_master_status"
        assert metered(leads, name="kubedsm") == 1
        metered.leadership = Leadership(leading=False, holder="other")
        assert metered(leads, name="kubedsm") == 0
        now = world.runtime.configuration
        assert metered("kubedsm_configuration_generation") == 1
        now.replace("batch: {size: 7}", "a test", world.clock.wall())
        await asyncio.sleep(7)
        assert metered("kubedsm_configuration_generation") == 2
        assert metered("kubedsm_configuration_age_seconds") == pytest.approx(7)
        assert metered("kubedsm_configuration_valid") == 1
        now.refuse("batch.idle: no")
        assert metered("kubedsm_configuration_valid") == 0
        assert metered("kubedsm_build_info", version=kubedsm.__version__) == 1


async def test_moving_is_paused_while_the_switch_is_set_or_unknown():
    faults = Failing(lambda request: "/configmaps" in request.path, OUTCOMES["unreachable"])
    async with metering(emulated(EDGE, CLOUD), faults) as (world, metered):
        await world.runtime.synced.wait()
        assert metered("kubedsm_paused") == 1
        faults.on = False
        await asyncio.sleep(60)
        assert metered("kubedsm_paused") == 0
        world.config_map(paused="true")
        await asyncio.sleep(1)
        assert metered("kubedsm_paused") == 1


async def test_events_that_could_not_be_written_are_counted():
    faults = Failing(
        lambda r: r.method == "POST" and r.path.endswith("/events"), OUTCOMES["unreachable"]
    )
    async with metering(emulated(EDGE, CLOUD), faults) as (world, metered):
        await world.bring_up("web", 2, within=2)
        await asyncio.sleep(1)
        assert metered("kubedsm_events_lost_total") == 2


PREEMPTIONS = "scheduler_preemption_attempts_total"
VICTIMS = "scheduler_preemption_victims"


async def test_an_attempt_and_its_victims_are_counted():
    async with metering(preempting()) as (world, metered):
        await filled(world)
        assert metered(PREEMPTIONS) == metered(f"{VICTIMS}_count") == 0
        urgent(world, cpu="1500m")
        await world.until(lambda: world.bound("urgent") == 1, 5)
        assert metered(f"{VICTIMS}_count") == 1
        assert metered(f"{VICTIMS}_sum") == 2
        assert metered(f"{VICTIMS}_bucket", le="1.0") == 0
        assert metered(f"{VICTIMS}_bucket", le="2.0") == 1
        # Those whose room it took want some too, and there is nobody less important.
        await asyncio.sleep(1)
        assert metered(PREEMPTIONS) > 1
        assert metered(f"{VICTIMS}_count") == 1
