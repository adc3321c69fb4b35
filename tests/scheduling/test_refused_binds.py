"""Pods whose binds the API server refuses: told why, tried in turn, and no burden to others."""

import asyncio

import attrs
import orjson
import pytest
from structlog.testing import capture_logs

from kubedsm.kube.client.port import Response
from kubedsm_lab.emulator.api.resources import EVENTS, PODS
from kubedsm_lab.emulator.front import Faults, RequestFault
from kubedsm_lab.emulator.paper import node
from support.move_scenes import LARGE_CLOUD, SMALL_EDGE, migrating, open_edge, settle_on_cloud
from support.worlds import EDGE, emulated

CLOUD = node("c1", "cloud", "1000", "2000Gi", pods=1000)


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
    async with emulated(EDGE, CLOUD) as world, world.scheduler(faults=webhook):
        with capture_logs() as logs:
            create_pods(world, "shop", 150)
            await asyncio.sleep(90)
        assert webhook.binds < 150 + 90 + 10
        warnings = [entry for entry in logs if entry["log_level"] == "warning"]
        assert [w["event"] for w in warnings] == ["bind refused"] * 2
        assert warnings[1]["more"] > 150
        told = {event["involvedObject"]["uid"] for event in world.api.list(EVENTS, "shop")}
        assert len(told) == 150
