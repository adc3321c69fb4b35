"""What the configuration speaks of and the cluster has not is told once, and when it is over."""

import asyncio
from contextlib import asynccontextmanager

from structlog.testing import capture_logs

from kubedsm.app.cluster_warnings import GRACE
from kubedsm.config.settings import load
from kubedsm.kube.client.port import ObjectName
from kubedsm_lab.emulator.api.resources import EVENTS, NODES
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
