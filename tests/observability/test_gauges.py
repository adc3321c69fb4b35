"""Each gauge says how the cluster and the scheduler are at the moment of the scrape."""

import asyncio

import pytest

import kubedsm
from kubedsm.config.settings import load
from kubedsm.kube.client.port import Unreachable
from kubedsm.observability.reading import Leadership
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, PODS
from kubedsm_lab.emulator.front import Delivery, RequestFault
from kubedsm_lab.emulator.paper import node
from support.faults import OUTCOMES, Failing
from support.full_clusters import filled, preempting, urgent
from support.metered import metering
from support.worlds import CLOUD, EDGE, emulated

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


ATTEMPTS = "scheduler_preemption_attempts_total"
VICTIMS = "scheduler_preemption_victims"


async def test_an_attempt_and_its_victims_are_counted():
    async with metering(preempting()) as (world, metered):
        await filled(world)
        assert metered(ATTEMPTS) == metered(f"{VICTIMS}_count") == 0
        urgent(world, cpu="1500m")
        await world.until(lambda: world.bound("urgent") == 1, 5)
        assert metered(f"{VICTIMS}_count") == 1
        assert metered(f"{VICTIMS}_sum") == 2
        assert metered(f"{VICTIMS}_bucket", le="1.0") == 0
        assert metered(f"{VICTIMS}_bucket", le="2.0") == 1
        # Those whose room it took want some too, and there is nobody less important.
        await asyncio.sleep(1)
        assert metered(ATTEMPTS) > 1
        assert metered(f"{VICTIMS}_count") == 1
