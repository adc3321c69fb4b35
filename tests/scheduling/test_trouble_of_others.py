"""The trouble of one tenant, such as slow or refusing webhooks, stays its own and is told."""

import asyncio

import attrs
import orjson
import pytest
from structlog.testing import capture_logs

from kubedsm.config.settings import load
from kubedsm.kube.client.port import Response
from kubedsm.model.mirror import ReservationError
from kubedsm.scheduling import scheduling_cycle
from kubedsm_lab.chaos.faults import OUTCOMES
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, EVENTS, NODES, PODS
from kubedsm_lab.emulator.front import Faults, RequestFault
from kubedsm_lab.emulator.paper import node
from support.faults import Failing
from support.full_clusters import (
    APPLY,
    ENABLED,
    HIGH,
    HIGHEST,
    SLOW_STOP,
    filled,
    half_full,
    in_pieces,
    large,
    placed,
    preempting,
    urgent,
)
from support.move_scenes import (
    CONFIGURATION,
    LARGE_CLOUD,
    SMALL_EDGE,
    migrating,
    open_edge,
    settle_on_cloud,
)
from support.worlds import CLOUD, EDGE, emulated

TIMED_OUT = Response(
    500, b'{"kind": "Status", "code": 500, "reason": "InternalError", "message": "timed out"}'
)
DENIED = Response(
    403, b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "webhook denied"}'
)
STUCK = {"metadata": {"finalizers": ["example.com/stuck"]}}


def webhook(subresource, part, response=TIMED_OUT, delay=9.0):
    """Webhook for a subresource of the pods of one app or namespace: it fails after a delay."""
    return Failing(
        lambda request: request.path.endswith(f"/{subresource}") and part in request.path,
        RequestFault(response, delay=delay),
    )


def pool(name, cpu):
    made = node(name, "cloud", cpu, "8Gi")
    made["metadata"]["labels"]["pool"] = name
    return made


def anywhere_but(name):
    term = {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": [name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


@pytest.mark.parametrize("priorities", [(HIGH, HIGHEST), (HIGHEST, HIGH)])
async def test_hanging_evictions_of_one_tenant_delay_preemption_for_another_once(priorities):
    nodes = [pool(f"a{number}", "1") for number in range(6)]
    hanging = webhook("eviction", "/theirs-")
    async with preempting(*nodes, pool("b", "1")) as world, world.scheduler(faults=hanging):
        await world.bring_up("ours", 1, within=3, nodeSelector={"pool": "b"})
        await world.bring_up("theirs", 6, within=3)
        await asyncio.sleep(2)
        urgent(world, "other", 1, priorities[0], affinity=anywhere_but("b"))
        await asyncio.sleep(1)
        urgent(world, "urgent", nodeSelector={"pool": "b"}, priority=priorities[1])
        await world.until(lambda: world.placed("urgent") == {"b": 1}, 60)


async def test_a_victim_that_never_stops_stops_no_migrations():
    configuration = load(
        "{suggester: {period: 1s}, preemption: enabled,"
        " migration: {price: 0s, cooldown: 1s, drainDelay: 1s, deadline: 10s}}",
        "test",
    )
    nodes = LARGE_CLOUD, pool("b", "2")
    async with emulated(*nodes, configuration=configuration) as world, world.scheduler():
        await settle_on_cloud(world, "web", 1)
        await world.bring_up("low", 2, within=3, nodeSelector={"pool": "b"})
        await asyncio.sleep(2)
        for pod in world.pods("low"):
            world.patch(PODS, pod["metadata"]["name"], STUCK)
        world.deploy("urgent", 1, priorityClassName=HIGH, nodeSelector={"pool": "b"})
        await world.until(lambda: world.events("Preempted"), 20)
        open_edge(world, SMALL_EDGE)
        await world.until(lambda: world.placed("web") == {"e1": 1}, 120)


async def test_hanging_binds_of_one_tenant_stop_no_migrations():
    big, hanging = node("c1", "cloud", "20", "40Gi", pods=1000), webhook("binding", "/shop/pods/")
    setting = {"configuration": CONFIGURATION}
    async with emulated(big, **setting) as world, world.scheduler(faults=hanging):
        await settle_on_cloud(world, "web", 1)
        world.namespace("shop")
        for number in range(60):
            world.create_pod(f"pod-{number}", "10m", "shop")
        await asyncio.sleep(60)
        open_edge(world, SMALL_EDGE)
        await world.until(lambda: world.placed("web") == {"e1": 1}, 120)


async def test_a_nominated_pod_takes_no_capacity_from_a_more_important_one():
    configuration = attrs.evolve(ENABLED, batch=attrs.evolve(ENABLED.batch, idle=0.1))
    nodes = pool("n", "2"), pool("m", "2")
    how = {"configuration": configuration, "timing": SLOW_STOP}
    async with preempting(*nodes, **how) as world, world.scheduler():
        slow = {"terminationGracePeriodSeconds": 30}
        world.deploy("low", 2, cpu="1", nodeSelector={"pool": "n"}, **slow)
        at_m = {"nodeSelector": {"pool": "m"}}
        world.deploy("blocker", 1, cpu="2", priorityClassName=HIGHEST, **at_m)
        await world.until_bound(3, 3)
        await asyncio.sleep(2)
        urgent(world, "mid", cpu="2")
        await world.until(lambda: len(world.events("Preempted")) == 2, 5)
        await asyncio.sleep(1)
        urgent(world, "top", cpu="2", priority=HIGHEST, **at_m)
        await asyncio.sleep(3)
        [blocker] = world.pods("blocker")
        world.scale("blocker", 0)
        await asyncio.sleep(0.2)
        world.api.delete(PODS, "default", blocker["metadata"]["name"], grace_seconds=0)
        await world.until(lambda: world.placed("top") == {"m": 1}, 3)


async def test_a_nominated_pod_is_not_tried_at_each_report_of_its_node():
    async with preempting(timing=SLOW_STOP) as world, world.scheduler() as runtime:
        await filled(world, terminationGracePeriodSeconds=3000)
        for pod in world.pods("low"):
            world.patch(PODS, pod["metadata"]["name"], STUCK)
        urgent(world)
        await world.until(lambda: world.events("Preempted"), 5)
        await asyncio.sleep(30)
        attempts, pop = [], runtime.queue.pop
        runtime.queue.pop = lambda limit: attempts.append(limit) or pop(limit)
        for number in range(100):
            world.patch(NODES, "e1", {"metadata": {"annotations": {"heartbeat": str(number)}}})
            await asyncio.sleep(1)
        assert len(attempts) < 10


async def test_a_refused_preemption_for_a_pod_that_is_gone_leaves_nothing():
    class Refusing(Faults):
        def on_request(self, request):
            if not request.path.endswith("/eviction"):
                return None
            if world.api.list(DEPLOYMENTS, "default", fields="metadata.name=urgent"):
                world.api.delete(DEPLOYMENTS, "default", "urgent")
            return attrs.evolve(OUTCOMES["429-budget"], delay=3.0)

    async with preempting() as world, world.scheduler(faults=Refusing()) as runtime:
        await filled(world)
        urgent(world)
        await asyncio.sleep(60)
        assert not runtime.preemptor._shunned


async def test_pods_of_a_planned_batch_whose_binds_fail_to_begin_are_tried_again(
    monkeypatch, caught
):
    monkeypatch.setattr(scheduling_cycle, "INLINE_LIMIT", 0)
    async with emulated(EDGE, CLOUD) as world, world.scheduler() as runtime:
        place, failures = runtime.manager.place, []

        def fail_once(bindings):
            if bindings and not failures:
                failures.append(bindings)
                raise ReservationError("once")
            place(bindings)

        runtime.scheduler.manager.place = fail_once
        world.deploy("web", 4)
        await asyncio.sleep(300)
        assert None not in world.placed()
        assert [type(error) for error in caught] == [ReservationError]
        caught.clear()


async def test_a_more_important_pod_that_fits_nowhere_does_not_stop_packing():
    async with in_pieces() as world, world.scheduler():
        await half_full(world)
        nowhere = {"nodeSelector": {"gpu": "yes"}}
        world.deploy("impossible", 1, cpu="1", priorityClassName=HIGH, **nowhere)
        await asyncio.sleep(10)
        large(world)
        await world.until(lambda: placed(world) == 1, 120)


async def test_unschedulable_pods_that_come_and_go_do_not_stop_packing():
    free = attrs.evolve(APPLY, migration=attrs.evolve(APPLY.migration, price=0.0))
    async with in_pieces(configuration=free) as world, world.scheduler():
        await half_full(world)
        large(world)
        for number in range(60):
            world.deploy(f"x{number % 2}", 1, cpu="64")
            await asyncio.sleep(1)
            world.api.delete(DEPLOYMENTS, "default", f"x{number % 2}")
            await asyncio.sleep(0.5)
        assert placed(world) == 1


async def test_a_packed_pod_whose_binds_are_refused_does_not_stop_packing():
    denied = webhook("binding", "/large-", DENIED, 0.0)
    async with in_pieces(nodes=4, faults=denied) as world, world.scheduler():
        await half_full(world, 4)
        large(world)
        await asyncio.sleep(15)
        large(world, "other")
        await world.until(lambda: placed(world, "other"), 40)


WIDE = node("c1", "cloud", "1000", "2000Gi", pods=1000)


@attrs.define
class Webhook(Faults):
    """An admission webhook that refuses the binds of one namespace, each with a message its own."""

    namespace: str
    status: int = 403
    refusing: bool = True
    binds: int = 0

    def on_request(self, request):
        if f"/namespaces/{self.namespace}/pods/" not in request.path or not self.refusing:
            return None
        if not request.path.endswith("/binding"):
            return None
        self.binds += 1
        name = request.path.split("/")[-2]
        message = f'admission webhook "w" denied the request: {name}: request {self.binds}'
        reason = {403: "Forbidden", 422: "Invalid", 500: "InternalError"}[self.status]
        status = {"kind": "Status", "code": self.status, "reason": reason, "message": message}
        return RequestFault(Response(self.status, orjson.dumps(status)))


def create_pods(world, namespace, count):
    world.namespace(namespace)
    there = len(world.api.list(PODS, namespace))
    for number in range(there, there + count):
        world.create_pod(f"web-{number}", "100m", namespace)


@pytest.mark.parametrize("status", [403, 422, 500])
async def test_a_pod_whose_bind_is_refused_says_so(status):
    async with emulated(EDGE) as world, world.scheduler(faults=Webhook("shop", status)):
        create_pods(world, "shop", 1)
        await asyncio.sleep(3)
        [pod] = world.api.list(PODS, "shop")
        [condition] = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
        assert (condition["status"], condition["reason"]) == ("False", "SchedulerError")
        assert condition["message"].startswith(f"binding rejected: {status} ")
        assert 'webhook "w" denied the request' in condition["message"]
        event = world.api.list(EVENTS, "shop")[-1]
        assert (event["type"], event["reason"]) == ("Warning", "FailedScheduling")
        assert event["message"].startswith("binding rejected: ")


async def test_no_migration_of_a_workload_begins_while_binds_of_its_pods_are_refused():
    webhook = Webhook("default", refusing=False)
    async with migrating(LARGE_CLOUD) as world, world.scheduler(faults=webhook):
        await settle_on_cloud(world, "web", 1)
        webhook.refusing = True
        world.scale("web", 2)
        await asyncio.sleep(3)
        open_edge(world, SMALL_EDGE)
        await asyncio.sleep(20)
        assert len(world.pods("web")) == 2
        assert world.events("MigrationFailed") == []
        webhook.refusing = False
        await world.until(lambda: world.placed("web") == {"e1": 2}, 60)


async def test_hundreds_of_refused_binds_cost_little_and_are_logged_once_a_minute():
    webhook = Webhook("shop")
    async with emulated(EDGE, WIDE) as world, world.scheduler(faults=webhook):
        with capture_logs() as logs:
            create_pods(world, "shop", 150)
            await asyncio.sleep(90)
        assert webhook.binds < 150 + 90 + 10
        warnings = [entry for entry in logs if entry["log_level"] == "warning"]
        assert [w["event"] for w in warnings] == ["bind refused"] * 2
        assert warnings[1]["more"] > 150
        told = {event["involvedObject"]["uid"] for event in world.api.list(EVENTS, "shop")}
        assert len(told) == 150
