"""How the scheduler itself stands: its role, its configuration, what it may do, what is wrong."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from kubedsm.app.assembly import Runtime
from kubedsm.kube.client.dry_run import DryRun
from kubedsm.kube.client.port import ObjectName
from kubedsm.observability.reading import Leadership
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, NAMESPACES
from kubedsm_lab.emulator.front import EmulatedFront
from support.fake_prometheus import DOWN, FakePrometheus
from support.move_scenes import MERGE
from support.preemptions import SLOW_STOP, preempting, urgent
from support.sites import GRACE, NORTH, SETTLE, running, two_sites
from support.viewing import Viewer
from support.worlds import CLOUD, EDGE, emulated

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


@asynccontextmanager
async def runtime_in(world, viewer, part, *, dry_run=False):
    """One of which only that part runs."""
    front = EmulatedFront(world.cluster.routes, world.clock, latency=0.01)
    world.runtime = Runtime(
        DryRun(front) if dry_run else front,
        world.configuration,
        world.clock,
        random.Random(0),
        listener=viewer.scene,
        prometheus=FakePrometheus(world.clock, failure=DOWN),
        dry_run=dry_run,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(getattr(world.runtime, part)())
        await world.runtime.synced.wait()
        yield
        running.cancel()


async def test_a_cluster_is_seen_where_nothing_is_decided():
    async with emulated(EDGE, CLOUD) as world:
        async with world.scheduler():
            world.deploy("web", 2)
            await world.until_bound(2, 5)
        viewer = Viewer(world, leadership=None)
        async with runtime_in(world, viewer, "follow"):
            await viewer.watch(3)
            assert viewer.status["role"] == "watching"
            assert viewer.status["headline"] == "watching the cluster; nothing is decided here"
            world.scale("web", 3)
            await viewer.watch(1)
            assert viewer.pods("default/web")[-1] == ("waiting", "")
            row = viewer["workloads"]["default/web"]
            assert (row["total"], row["ready"], row["waiting"]) == (3, 2, 1)
            assert row.get("promise") is None
            assert "missing" not in row


async def test_a_standby_says_who_leads_and_a_new_leader_that_it_does():
    async with emulated(EDGE) as world:
        viewer = Viewer(world, Leadership(False, "other_1b9e-uuid"))
        async with world.scheduler(listener=viewer.scene) as runtime:
            await runtime.synced.wait()
            viewer.look()
            assert viewer.status["headline"] == "standby: other leads"
            viewer.leadership = Leadership(False, "")
            viewer.look()
            assert viewer.status["troubles"][0].startswith("No scheduler is known to lead")
            viewer.leadership = Leadership(True, "we")
            viewer.look()
            assert viewer.status["role"] == "leading"
            assert viewer.news("state") == ["no leader is known", "this scheduler leads"]


async def test_a_dry_run_says_where_a_pod_would_go_and_leaves_it_waiting():
    async with emulated(EDGE, CLOUD) as world:
        viewer = Viewer(world)
        async with runtime_in(world, viewer, "run", dry_run=True):
            world.deploy("web", 1)
            await asyncio.sleep(2)
            viewer.look()
            [row] = viewer["pods"].values()
            assert (row["state"], row["message"]) == (
                "waiting",
                "it would be bound to e1, but this is a dry run",
            )
            assert viewer.status["dryRun"]
            await asyncio.sleep(15)
            viewer.look()
            assert "troubles" not in viewer.status


async def test_configurations_and_the_pause_switch_are_followed():
    source = ObjectName("kubedsm", "kubedsm")
    async with emulated(EDGE, CLOUD, source=source) as world:
        world.api.create(NAMESPACES, {"metadata": {"name": "kubedsm"}})
        made = {"metadata": {"name": "kubedsm"}, "data": {"config.yaml": "{}"}}
        world.api.create(CONFIGMAPS, made, namespace="kubedsm")
        viewer = Viewer(world)

        async def say(**data):
            world.api.patch(CONFIGMAPS, "kubedsm", "kubedsm", {"data": data}, MERGE)
            await asyncio.sleep(1)
            viewer.look()

        async with world.scheduler(listener=viewer.scene) as runtime:
            await runtime.synced.wait()
            viewer.look()
            before = viewer.status["configured"]
            await say(paused="true")
            assert viewer.status["paused"]
            await say(paused="false")
            assert "paused" not in viewer.status
            await say(**{"config.yaml": "suggester: {mode: suggest}"})
            assert (viewer.status["mode"], viewer.status["generation"]) == ("suggest", 2)
            assert viewer.status["configured"] > before
            await say(**{"config.yaml": "suggester: {mode: perhaps}"})
            assert "suggester.mode" in viewer.status["refusal"]
            [trouble] = viewer.status["troubles"]
            assert trouble.startswith("The latest configuration is refused: ")
            assert [text.partition(":")[0] for text in viewer.news("state")] == [
                "migrations are paused",
                "migrations are resumed",
                "another configuration is in force",
                "the configuration is refused",
            ]
            [event] = viewer.news("event")
            assert event.startswith("ConfigurationRefused: ")


async def test_pods_that_others_hold_back_say_who_does():
    async with emulated(EDGE) as world:
        viewer = Viewer(world)
        async with world.scheduler(listener=viewer.scene) as runtime:
            await runtime.synced.wait()
            world.deploy("gated", 1, schedulingGates=[{"name": "example.com/quota"}])
            world.deploy("theirs", 1, schedulerName="other")
            await asyncio.sleep(1)
            viewer.look()
            rows = {row["workload"]: row for row in viewer["pods"].values()}
            gated, theirs = rows["default/gated"], rows["default/theirs"]
            assert gated["state"] == "gated"
            assert gated["message"].endswith("gates are removed: example.com/quota")
            assert (theirs["state"], theirs["message"]) == (
                "waiting",
                "it waits for the scheduler other",
            )
            assert "waiting" not in viewer.status
            assert viewer["workloads"].keys() == {"default/gated"}


async def test_room_that_is_being_made_is_shown_where_it_is():
    async with preempting(timing=SLOW_STOP) as world:
        viewer = Viewer(world)
        async with world.scheduler(listener=viewer.scene) as runtime:
            await runtime.synced.wait()
            world.deploy("low", 2, terminationGracePeriodSeconds=20)
            await world.until_bound(2, 5)
            await asyncio.sleep(1)
            urgent(world, "high")
            await asyncio.sleep(3)
            viewer.look()
            [row] = [r for r in viewer["pods"].values() if r["workload"] == "default/high"]
            assert (row["state"], row["roomOn"]) == ("waiting", "e1")
            assert viewer.pods("default/low").count(("leaving", "e1")) == 1


async def test_a_site_that_is_cut_off_is_told_as_one_thing():
    async with two_sites() as world:
        viewer = Viewer(world)
        async with world.scheduler(listener=viewer.scene) as runtime:
            await runtime.synced.wait()
            world.deploy("web", 2)
            await running(world, 2)
            viewer.look()
            world.cluster.disconnect(*NORTH)
            await asyncio.sleep(GRACE + 15)
            viewer.look()
            assert {viewer["nodes"][name]["state"] for name in NORTH} == {"cut off"}
            said = "site north (n1, n2) is cut off: its pods are left alone"
            assert viewer.status["headline"] == said
            world.cluster.reconnect(*NORTH)
            await asyncio.sleep(20)
            viewer.look()
            assert {viewer["nodes"][name]["state"] for name in NORTH} == {"settling"}
            assert "troubles" not in viewer.status
            await asyncio.sleep(SETTLE)
            viewer.look()
            assert viewer.news("state") == [
                "site north is cut off: pods on n1, n2 are left alone",
                "site north is back: n1, n2",
                "node n1 accepts pods again",
                "node n2 accepts pods again",
            ]
