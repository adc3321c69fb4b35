"""Measured load comes and goes: it is used while it is known, and its loss costs nothing else."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from kubedsm.app.assembly import Runtime
from kubedsm.app.live_configuration import KEY
from kubedsm.app.prometheus import Failure
from kubedsm.config.settings import load
from kubedsm.kube.client.port import ObjectName
from kubedsm.model.measured import NOTHING_MEASURED, Usage
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, EVENTS
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.metered import Metered
from support.worlds import CLOUD, DOWN, EDGE, FakePrometheus, emulated


def node_series(**values):
    """Return the node query results with one value per node."""
    return {
        f"node_{kind}": {(("instance", f"{name}:9100"),): value for name, value in values.items()}
        for kind in ("cpu", "memory", "net", "disk")
    }


NAME = ObjectName("kubedsm", "kubedsm")
NOT_PODS = "pod: {cpu: '', memory: '', net: '', disk: ''}"
TEXT = f"loadAware: {{prometheus: 'http://p', period: 10s, queries: {{{NOT_PODS}}}}}"
BUSY = node_series(e1=1000.0, c1=2000.0)


class Scene:
    def __init__(self, world, metered):
        self.world, self.metered, self.prometheus = world, metered, world.prometheus

    @property
    def measured(self):
        return self.world.runtime.mirror.snapshot().measured

    def told(self):
        listed = self.world.api.list(EVENTS, NAME.namespace)
        told = [e for e in listed if e["reason"].startswith("Load")]
        assert all(e["involvedObject"]["name"] == NAME.name for e in told)
        return [(e["reason"], e["type"]) for e in sorted(told, key=lambda e: e["eventTime"])]

    def message(self):
        [*_, last] = [e for e in self.world.api.list(EVENTS, NAME.namespace)
                      if e["reason"] == "LoadUnknown"]  # fmt: skip
        return last["message"]

    def edit(self, text):
        self.world.patch(CONFIGMAPS, NAME.name, {"data": {KEY: text}}, namespace=NAME.namespace)

    async def after(self, seconds):
        await self.world.clock.sleep(seconds)

    async def still_places(self, name):
        await self.world.bring_up(name, 2, within=2, cpu="100m", memory="1Mi")


@asynccontextmanager
async def measured_world(said=BUSY, text=TEXT, **prometheus):
    fake = FakePrometheus(VirtualClock(), dict(said), **prometheus)
    configuration = load(text, "test")
    async with emulated(
        EDGE, CLOUD, configuration=configuration, source=NAME, prometheus=fake
    ) as world:
        world.config_map(**{KEY: text})
        metered = Metered(world)
        async with world.scheduler(instruments=metered.instruments):
            await world.clock.sleep(1)
            yield Scene(world, metered)


UNKNOWN, KNOWN = ("LoadUnknown", "Warning"), ("LoadKnown", "Normal")


async def test_what_is_measured_is_known_from_the_first_period_on_and_renewed_in_each():
    async with measured_world() as scene:
        e1 = Usage(1000.0, 1000.0, 1000.0, 1000.0)
        assert scene.measured.nodes == {"e1": e1, "c1": Usage(2000.0, 2000.0, 2000.0, 2000.0)}
        assert scene.metered("kubedsm_load_nodes") == 2
        first = scene.measured.at
        scene.prometheus.said |= node_series(e1=3000.0, c1=2000.0)
        await scene.after(10)
        assert scene.measured.at == first + 10
        assert scene.measured.nodes["e1"].cpu == 3000
        assert scene.measured.before.nodes["e1"] == e1
        assert scene.metered("kubedsm_load_age_seconds") == pytest.approx(1, abs=0.5)
        assert [asked[0] for asked in scene.prometheus.asked[1:]] == [
            pytest.approx(scene.prometheus.asked[0][0] + 10)
        ]
        assert scene.told() == []


async def test_prometheus_gone_and_back():
    """What was known is used for three periods; each end is told once, whatever happens between."""
    async with measured_world() as scene:
        scene.prometheus.failure = DOWN
        await scene.after(25)
        assert scene.measured.nodes
        assert scene.told() == []
        await scene.after(20)
        assert scene.measured == NOTHING_MEASURED
        assert scene.metered("kubedsm_load_nodes") == 0
        await scene.after(300)
        assert scene.told() == [UNKNOWN]
        assert scene.message() == (
            "node_cpu, node_disk, node_memory and others: Connection refused;"
            " pods are placed by their requests"
        )
        await scene.still_places("web")
        assert scene.metered("kubedsm_load_queries_total", query="node_cpu", result="failed") > 30
        scene.prometheus.failure = None
        await scene.after(10)
        assert scene.measured.nodes
        await scene.after(100)
        assert scene.told() == [UNKNOWN, KNOWN]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "node_net: no series"),
        (Failure("422 parse error: unexpected <eof>"), "node_net: 422 parse error"),
        ({(("instance", "e1"),): float("nan")}, "node_net: not used: 1 not finite"),
        ({(("instance", "e1"),): -1.0}, "node_net: not used: 1 negative"),
        ({(("instance", "e1"),): 1e300}, "node_net: not used: 1 too large"),
        ({(): 1.0}, "node_net: no series belongs to a node or pod of this cluster"),
        ([((("node", n),), 1.0) for n in ("e1", "e1:1")], "1 with several series"),
    ],
)
async def test_one_query_without_use_is_left_out_and_told_once(said, why):
    async with measured_world(BUSY | {"node_net": said}) as scene:
        await scene.after(200)
        assert scene.measured.nodes["e1"] == Usage(1000.0, 1000.0, None, 1000.0)
        assert scene.told() == [UNKNOWN]
        assert why in scene.message()
        result = "failed" if isinstance(said, Failure) else "empty"
        count = scene.metered("kubedsm_load_queries_total", query="node_net", result=result)
        assert count == len(scene.prometheus.asked)
        await scene.still_places("web")


@pytest.mark.parametrize("age", [31.0, -31.0])
async def test_samples_of_another_time_are_of_no_use(age):
    async with measured_world(age=age) as scene:
        assert scene.measured == NOTHING_MEASURED
        assert "2 not within 30 s of now" in scene.message()
        scene.prometheus.age = age * 29 / 31
        await scene.after(10)
        assert scene.measured.nodes


async def test_a_change_of_the_configuration_holds_at_once():
    async with measured_world() as scene:
        scene.edit(TEXT.replace("http://p", "http://other"))
        scene.prometheus.failure = DOWN
        await scene.after(1)
        assert [whom.prometheus for _, whom, _ in scene.prometheus.asked] == [
            "http://p",
            "http://other",
        ]
        assert scene.measured == NOTHING_MEASURED
        scene.prometheus.failure = None
        scene.edit(TEXT.replace("10s", "5s"))
        await scene.after(1)
        assert scene.measured.nodes
        scene.edit(TEXT.replace("queries: {", "queries: {node: {net: mine, disk: ''}, "))
        await scene.after(1)
        asked = scene.prometheus.asked[-1][2]
        assert asked["node_net"] == "mine"
        assert "node_disk" not in asked
        count = len(scene.prometheus.asked)
        scene.edit("loadAware: {}")
        await scene.after(60)
        assert scene.measured == NOTHING_MEASURED
        assert len(scene.prometheus.asked) == count


async def test_what_was_asked_before_a_change_is_not_taken_in():
    async with measured_world(delay=5.0) as scene:
        scene.edit("loadAware: {}")
        await scene.after(30)
        assert scene.measured == NOTHING_MEASURED
        assert scene.metered("kubedsm_load_queries_total") is None


async def test_a_standby_asks_nobody():
    async with measured_world() as scene:
        world, asked = scene.world, FakePrometheus(scene.world.clock, BUSY)
        standby = Runtime(
            world.front, world.configuration, world.clock, random.Random(1), prometheus=asked
        )
        following = asyncio.create_task(standby.follow())
        await scene.after(60)
        assert standby.synced.is_set()
        following.cancel()
        await asyncio.wait([following])
        assert asked.asked == []
        assert len(scene.prometheus.asked) > 5
