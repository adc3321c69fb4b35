"""What the cluster has not, or has slower than the configuration expects, is told once."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from kubedsm.app.cluster_warnings import GRACE
from kubedsm.config.settings import load
from kubedsm.kube.client.port import ObjectName
from kubedsm.model.model import Workload
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, DEPLOYMENTS, EVENTS, NODES
from kubedsm_lab.emulator.paper import node
from support.answers import tell, tell_nothing
from support.metered import metering, total
from support.move_scenes import CONFIGURATION, LARGE_CLOUD, open_edge, quiet, settle_on_cloud
from support.worlds import CLOUD, EDGE, emulated

NAME = ObjectName("kubedsm", "kubedsm")
TEXT = "services: {default/web: {qos: 1}, default/vido: {qos: 0.5}, 'bathc/*': {qos: 0}}"
OURS = ("service without match", "service matches", "service no longer matches")


@asynccontextmanager
async def configured(*nodes, text=TEXT, source=NAME):
    async with emulated(*nodes, configuration=load(text, "test"), source=source) as world:
        world.config_map(**{"config.yaml": text})
        with capture_logs() as logs:
            async with world.scheduler():
                yield world, logs


def told(logs, *events):
    return [log for log in logs if log["event"] in events]


def on_the_map(world):
    return [e for e in world.api.list(EVENTS, NAME.namespace) if e["reason"] == "ServicesUnmatched"]


async def test_a_key_that_matches_nothing_is_told_once_after_a_while_and_when_it_matches():
    async with configured(EDGE, CLOUD) as (world, logs):
        world.deploy("web", 1)
        await asyncio.sleep(GRACE / 2)
        world.deploy("video", 1)
        assert told(logs, *OURS) == []
        await asyncio.sleep(1000)
        warnings = told(logs, *OURS)
        assert [log["log_level"] for log in warnings] == ["warning", "warning"]
        assert "did you mean default/video?" in warnings[0]["error"]
        [event] = on_the_map(world)
        assert (event["type"], event.get("series")) == ("Warning", None)
        assert event["message"] == "; ".join(log["error"] for log in warnings)
        world.deploy("vido", 1)
        await asyncio.sleep(1000)
        assert [log["key"] for log in told(logs, *OURS)[2:]] == ["default/vido"]
        # A workload that only rests is no mistake.
        world.scale("web", 0)
        await asyncio.sleep(1000)
        [ceased] = told(logs, *OURS)[3:]
        assert (ceased["log_level"], ceased["key"]) == ("info", "default/web")
        for replicas in (1, 0, 1, 0):
            world.scale("web", replicas)
            await asyncio.sleep(200)
        assert [log["event"] for log in told(logs, *OURS)[4:]] == ["service matches"]
        assert len(on_the_map(world)) == 1


async def test_a_key_that_is_removed_and_given_again_is_told_again():
    text = "services: {default/web: {qos: 1}}"
    async with configured(CLOUD, text=text) as (world, logs):
        for number, document in enumerate((text, "{}", text), 1):
            patch = {"data": {"config.yaml": document}}
            world.patch(CONFIGMAPS, NAME.name, patch, namespace=NAME.namespace)
            await asyncio.sleep(2 * GRACE)
            assert len(told(logs, "service without match")) == (number + 1) // 2


async def test_a_tier_without_nodes_and_demand_at_an_unknown_site_are_told():
    tiers, text = ("tier without nodes", "tier has nodes"), "{default/web: {demand: {berlin: 1}}}"
    async with configured(CLOUD, text=f"services: {text}") as (world, logs):
        world.deploy("web", 1)
        await asyncio.sleep(GRACE / 2)
        [tier] = told(logs, *tiers)
        assert tier["log_level"] == "warning"
        assert tier["error"].startswith("no node is edge, so all pods go to the cloud")
        assert told(logs, "demand at an unknown site") == []
        world.api.create(NODES, EDGE)
        await asyncio.sleep(200)
        [site], [event] = told(logs, "demand at an unknown site"), on_the_map(world)
        for line in (site["error"], event["message"]):
            assert line.startswith("no edge node is at site 'berlin'")
        world.api.delete(NODES, "", "c1")
        await asyncio.sleep(100)
        since = [log.get("tier") or log["error"][:16] for log in told(logs, *tiers)[1:]]
        assert since == ["edge", "no node is cloud"]


QUICK = load("suggester: {period: 1s}", "test")


def annotate(world, name, **annotations):
    """A new template, and so a rollout."""
    named = {f"kubedsm.io/{key}": value for key, value in annotations.items()}
    patch = {"spec": {"template": {"metadata": {"annotations": named}}}}
    world.patch(DEPLOYMENTS, name, patch)


async def test_a_service_leaves_the_edge_to_others_when_its_tenant_wishes_so():
    async with emulated(EDGE, CLOUD, configuration=QUICK) as world, world.scheduler() as runtime:
        for name in ("web", "api"):
            world.deploy(name, 4, cpu="900m")
        await world.until(lambda: world.placed()["e1"] == 4, 60)
        at_edge = max(("web", "api"), key=lambda name: world.placed(name)["e1"])
        annotate(world, at_edge, qos="0")
        workload = Workload("default", "Deployment", at_edge)
        await asyncio.sleep(60)
        qos_targets = runtime.configuration.current.policy.qos_targets_in(runtime.mirror.snapshot())
        assert qos_targets(workload).qos == 0
        assert world.placed(at_edge)["e1"] == 0


@pytest.mark.parametrize("configured", ["", "\nservices: {default/web: {mode: 'off'}}"])
async def test_a_pod_whose_migration_is_off_stays(configured):
    configuration = load("suggester: {period: 1s}" + configured, "test")
    async with emulated(LARGE_CLOUD, configuration=configuration) as world, world.scheduler():
        await settle_on_cloud(world, "web", 1)
        annotate(world, "web", migration="surge" if configured else "off")
        await asyncio.sleep(10)
        open_edge(world)
        await asyncio.sleep(30)
        assert world.placed("web") == {"c1": 1}


async def test_a_value_that_is_not_understood_is_told_once_and_ignored():
    async with emulated(EDGE, CLOUD, configuration=QUICK) as world, world.scheduler() as runtime:
        await world.bring_up("web", 4, within=10, cpu="100m")
        annotate(world, "web", qos="most")
        await asyncio.sleep(30)
        [event] = world.events("AnnotationIgnored")
        assert event["type"] == "Warning"
        assert event["message"] == "kubedsm.io/qos: 'most' is not a number between 0 and 1"
        assert event["involvedObject"]["name"].startswith("web-")
        qos_targets = runtime.configuration.current.policy.qos_targets_in(runtime.mirror.snapshot())
        assert qos_targets(Workload("default", "Deployment", "web")).qos == 1


WIDE = node("e1", "edge", "6", "16Gi")


def compared(world):
    """The reasons of the Events of this on Deployments, in the order in which they came."""
    reasons = ("EdgeSlower", "EdgeFasterAgain", "EdgeNotCompared")
    found = [event for reason in reasons for event in world.events(reason, about="Deployment")]
    return [event["reason"] for event in sorted(found, key=lambda event: event["eventTime"])]


async def samples(world, number, *times):
    for _ in range(number):
        await asyncio.sleep(30)
        tell(world, *times)


async def spread(world):
    """Two pods at the edge, and three in the cloud, which would be at the edge."""
    await world.bring_up("web", 2, within=3)
    await samples(world, 2, 300, 200)
    world.scale("web", 5)
    await world.until_bound(5, 3, "web")


async def test_it_is_not_filled_further_and_one_event_says_so_until_it_is_fast_again():
    async with metering(emulated(WIDE, CLOUD, configuration=CONFIGURATION)) as (world, metered):
        await spread(world)
        assert world.placed("web") == {"e1": 2, "c1": 3}
        await samples(world, 3, 300, 200)
        assert world.placed("web") == {"e1": 2, "c1": 3}
        assert compared(world) == ["EdgeSlower"]
        [event] = world.events("EdgeSlower", about="Deployment")
        assert event["type"] == "Warning"
        assert event["message"].startswith("Requests take 300 ms at the edge and 200 ms in the")
        text = metered.text()
        assert total(text, "kubedsm_workload_edge_slower", workload="web") == 1
        assert total(text, "kubedsm_workloads_edge_slower") == 1
        seconds = "kubedsm_response_time_seconds"
        assert total(text, seconds, workload="web", tier="edge") == 0.3
        await samples(world, 1, 100, 200)
        await asyncio.sleep(20)
        assert world.placed("web") == {"e1": 2, "c1": 3}
        await samples(world, 1, 100, 200)
        await world.until(lambda: world.placed("web") == {"e1": 5}, 60)
        await quiet(world)
        await asyncio.sleep(10)
        assert compared(world) == ["EdgeSlower", "EdgeFasterAgain"]
        assert total(metered.text(), "kubedsm_workloads_edge_slower") == 0


async def test_once_nothing_is_measured_any_more_it_is_filled_as_promised():
    async with emulated(WIDE, CLOUD, configuration=CONFIGURATION) as world, world.scheduler():
        await spread(world)
        await asyncio.sleep(6)
        tell_nothing(world)
        await world.until(lambda: world.placed("web") == {"e1": 5}, 60)
        await quiet(world)
        await asyncio.sleep(10)
        assert compared(world) == ["EdgeSlower", "EdgeNotCompared"]
