"""The rows of a running scheduler: complete, right at every look, and told once."""

import asyncio

import attrs

from kubedsm.config.settings import load
from kubedsm.dashboard.state.tables import REFRESH, PodTable, WorkloadTable
from kubedsm.kube.client.port import ObjectName
from kubedsm.model.events import MeasuredApplied
from kubedsm.model.measured import Measured, Usage
from kubedsm.observability.reading import Leadership, read
from kubedsm_lab.chaos.faults import answer
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, DEPLOYMENTS, NODES, STATEFUL_SETS
from kubedsm_lab.emulator.front import RequestFault
from kubedsm_lab.emulator.paper import node, workload
from support.faults import Failing
from support.full_clusters import SLOW_STOP, preempting, urgent
from support.move_scenes import LARGE_CLOUD, migrating, open_edge, quiet, settle_on_cloud
from support.sites import GRACE, NORTH, SETTLE, running, two_sites
from support.viewing import Viewer, viewing
from support.worlds import CLOUD, EDGE, emulated, small_pod

HALF = "{suggester: {mode: 'off'}, services: {'*': {qos: 0.5}}}"


async def test_a_pod_is_seen_from_waiting_with_its_rule_until_it_is_ready():
    async with viewing(emulated(EDGE)) as (world, viewer):
        world.deploy("web", 1, cpu="6")
        await world.until(lambda: world.events("FailedScheduling"), 5)
        viewer.look()
        [(name, row)] = viewer["pods"].items()
        assert (row["state"], row["rules"]) == ("waiting", ["NodeResourcesFit"])
        assert row["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert viewer.status["waiting"] == viewer["workloads"]["default/web"]["waiting"] == 1
        assert viewer.status["headline"] == f"{name} waits for a node: {row['message']}"
        assert viewer.look() is None
        await asyncio.sleep(12)
        viewer.look()
        [_, trouble] = viewer.status["troubles"]
        assert trouble.startswith(f"{name} cannot be scheduled: 0/1 nodes are available")

        world.api.create(NODES, node("e2", "edge", "8", "16Gi"))
        await world.until_bound(1, 5)
        viewer.look()
        [row] = viewer["pods"].values()
        assert (row["state"], row["node"]) == ("starting", "e2")
        assert "message" not in row
        assert "rules" not in row
        await asyncio.sleep(5)
        viewer.look()
        assert viewer.pods("default/web") == [("ready", "e2")]
        kept = {"edge": 1, "total": 1, "target": 1.0, "weight": 1.0, "ready": 1}
        assert viewer["workloads"]["default/web"] == {"kind": "Deployment", **kept}
        assert viewer.status["headline"] == "idle: every QoS target is met"
        assert viewer.status["bound"] == 1
        assert viewer.status["bindP50"] > 10_000


async def test_what_is_told_of_changes_is_what_is_there():
    """By a scene that was there all along, and by one that sees all anew."""
    async with viewing(migrating(LARGE_CLOUD, node("c2", "cloud", "4", "8Gi"))) as (world, viewer):
        viewer.look()
        assert viewer["nodes"].keys() == {"c1", "c2"}
        await settle_on_cloud(world, "web", 3)
        viewer.look()
        open_edge(world)
        for change in (
            lambda: world.scale("web", 5),
            lambda: world.cordon("c2"),
            lambda: world.deploy("more", 2),
            lambda: world.scale("web", 1),
            lambda: world.api.delete(NODES, "", "c2"),
            lambda: world.api.delete(DEPLOYMENTS, "default", "more"),
        ):
            change()
            await viewer.watch(3, every=0.4)
        await quiet(world)
        await asyncio.sleep(10)
        viewer.look()
        told = {table: dict(viewer[table]) for table in viewer.whole()}
        assert told == viewer.whole()
        anew = Viewer(world)
        anew.look()
        for table in ("nodes", "pods", "workloads"):
            assert _without_moments(told[table]) == _without_moments(anew.whole()[table])
        assert told["pods"]
        assert told["moves"]
        assert told["news"]


def _without_moments(rows):
    return {key: {k: v for k, v in row.items() if k != "since"} for key, row in rows.items()}


async def test_what_was_there_before_is_seen_and_is_no_news():
    async with emulated(EDGE, CLOUD) as world:
        async with world.scheduler():
            await world.bring_up("web", 2, within=5)
        viewer = Viewer(world)
        async with world.scheduler(listener=viewer.scene) as runtime:
            viewer.look()
            assert viewer.status["headline"] == "listing the cluster"
            assert "troubles" not in viewer.status
            await runtime.synced.wait()
            viewer.look()
            assert len(viewer["pods"]) == 2
            assert viewer["workloads"]["default/web"]["total"] == 2
            assert viewer.news("state") == []
            world.api.create(NODES, node("e2", "edge", "8", "16Gi"))
            await asyncio.sleep(1)
            viewer.look()
            assert viewer.news("state") == ["node e2 has joined"]
            assert "cpuUsed" not in viewer["nodes"]["e1"]
            sample = Measured(world.clock.wall(), {"e1": Usage(cpu=1000, memory=2**31)})
            runtime.mirror.apply(MeasuredApplied(sample))
            viewer.look()
            row = viewer["nodes"]["e1"]
            assert (row["cpuUsed"], row["memoryUsed"]) == (0.25, 0.25)


async def test_what_is_wrong_with_a_node_is_told_worst_first_and_that_it_is_cordoned():
    async with viewing(emulated(EDGE, CLOUD)) as (world, viewer):
        viewer.look()
        world.cordon("e1")
        await asyncio.sleep(0.1)
        viewer.look()
        assert (viewer["nodes"]["e1"]["state"], viewer["nodes"]["e1"]["cordoned"]) == (
            "cordoned",
            True,
        )
        assert "troubles" not in viewer.status
        world.cluster.disconnect("e1")
        await asyncio.sleep(60)
        viewer.look()
        row = viewer["nodes"]["e1"]
        assert (row["state"], row["cordoned"]) == ("unreachable", True)
        assert row["since"] == viewer.messages[-1]["at"]
        assert viewer.status["notices"] == ["Node e1 is unreachable."]
        world.cluster.reconnect("e1")
        world.cordon("e1", cordoned=False)
        await asyncio.sleep(60)
        viewer.look()
        assert "state" not in viewer["nodes"]["e1"]
        assert "cordoned" not in viewer["nodes"]["e1"]
        assert viewer.news("state") == [
            "node e1 is cordoned",
            "node e1 is unreachable",
            "node e1 accepts pods again",
        ]


async def test_what_changes_for_all_workloads_at_once_is_seen_of_all():
    async with viewing(emulated(EDGE, CLOUD)) as (world, viewer):
        await world.bring_up("web", 2, within=5)
        await asyncio.sleep(1)
        viewer.look()
        row = viewer["workloads"]["default/web"]
        assert (row["edge"], row["target"]) == (2, 1.0)
        assert viewer.status["shareDeviation"] == 0
        world.runtime.configuration.replace(HALF, "test", world.clock.wall())
        viewer.look()
        assert viewer["workloads"]["default/web"]["target"] == 0.5
        patch = {"metadata": {"labels": {"kubedsm.io/tier": "cloud", "nodetype": "cloud"}}}
        world.patch(NODES, "e1", patch)
        await asyncio.sleep(0.5)
        viewer.look()
        row = viewer["workloads"]["default/web"]
        assert (row["edge"], row["missing"]) == (0, 1)
        assert viewer.status["troubles"] == [
            (
                "No node is edge, so all pods go to the cloud: kubectl label node NAME"
                " kubedsm.io/tier=edge."
            ),
            (
                "1 of 1 service is below its edge target; worst default/web: 0 of 2 pods,"
                " target 50%; 0 of 0 cores and 0 of 0 Gi free at the edge."
            ),
        ]
        assert viewer.status["state"] == "degraded"


async def test_all_workloads_are_seen_again_after_the_clock_was_set_back():
    async with viewing(emulated(EDGE, CLOUD)) as (world, viewer):
        await world.bring_up("web", 1, within=5)
        viewer.look()
        table, pods = WorkloadTable(), PodTable()
        reading = read(world.runtime, Leadership(), world.clock.wall())
        table.look(reading, pods, knows_targets=True)
        earlier = attrs.evolve(reading, now=reading.now - 3600, policy=load(HALF, "test").policy)
        table.look(earlier, pods, knows_targets=True)
        assert table.rows["default/web"].target == 0.5


async def test_of_two_workloads_of_one_name_the_first_kind_has_the_row():
    async with viewing(emulated(EDGE, CLOUD)) as (world, viewer):
        world.deploy("web", 2)
        other = workload("db", 1, small_pod({"cpu": "100m"}), "StatefulSet")
        other["metadata"]["name"] = "web"
        world.api.create(STATEFUL_SETS, other, namespace="default")
        await world.until_bound(3, 5)
        await asyncio.sleep(REFRESH)
        for _ in range(3):
            viewer.look()
            row = viewer["workloads"]["default/web"]
            assert (row["kind"], row["total"], row["ready"]) == ("Deployment", 2, 2)
            world.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 0}})
            await asyncio.sleep(REFRESH - 1)


async def test_a_pod_whose_bind_is_refused_waits_and_says_why():
    refusal = RequestFault(answer(403, "Forbidden", b'{"message": "not on Mondays"}'))
    faults = Failing(lambda request: request.path.endswith("/binding"), refusal)
    async with viewing(emulated(EDGE), faults=faults) as (world, viewer):
        world.deploy("web", 1)
        await asyncio.sleep(0.5)
        viewer.look()
        [row] = viewer["pods"].values()
        assert (row["state"], row["message"].partition(":")[0]) == ("waiting", "binding rejected")
        assert "not on Mondays" in row["message"]


async def test_a_standby_says_who_leads_and_a_new_leader_that_it_does():
    async with viewing(emulated(EDGE), Leadership(False, "other_1b9e-uuid")) as (_, viewer):
        viewer.look()
        assert viewer.status["headline"] == "standby: other leads"
        [notice] = [each for each in viewer.status["notices"] if "standby" in each]
        assert "kubectl -n kubedsm port-forward pod/other 10270" in notice
        viewer.leadership = Leadership(False, "")
        viewer.look()
        assert viewer.status["troubles"][0].startswith("No scheduler is known to lead")
        viewer.leadership = Leadership(True, "we")
        viewer.look()
        assert viewer.status["role"] == "leading"
        assert viewer.news("state") == ["no leader is known", "this scheduler leads"]


async def test_configurations_and_the_pause_switch_are_followed():
    source = ObjectName("kubedsm", "kubedsm")
    async with emulated(EDGE, CLOUD, source=source) as world:
        world.config_map(**{"config.yaml": "{}"})
        viewer = Viewer(world)

        async def say(**data):
            world.patch(CONFIGMAPS, "kubedsm", {"data": data}, namespace="kubedsm")
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
    async with viewing(emulated(EDGE)) as (world, viewer):
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
    async with viewing(preempting(timing=SLOW_STOP)) as (world, viewer):
        await world.bring_up("low", 2, within=5, terminationGracePeriodSeconds=20)
        await asyncio.sleep(1)
        urgent(world, "high")
        await asyncio.sleep(3)
        viewer.look()
        [row] = [r for r in viewer["pods"].values() if r["workload"] == "default/high"]
        assert (row["state"], row["roomOn"]) == ("waiting", "e1")
        assert viewer.pods("default/low").count(("leaving", "e1")) == 1


async def test_a_site_that_is_cut_off_is_told_as_one_thing():
    async with viewing(two_sites()) as (world, viewer):
        world.deploy("web", 2)
        await running(world, 2)
        viewer.look()
        world.cluster.disconnect(*NORTH)
        await asyncio.sleep(GRACE + 15)
        viewer.look()
        assert {viewer["nodes"][name]["state"] for name in NORTH} == {"partitioned"}
        said = "site north (n1, n2) is partitioned: its pods are left alone"
        assert viewer.status["headline"] == said
        world.cluster.reconnect(*NORTH)
        await asyncio.sleep(20)
        viewer.look()
        assert {viewer["nodes"][name]["state"] for name in NORTH} == {"stabilising"}
        assert "troubles" not in viewer.status
        await asyncio.sleep(SETTLE)
        viewer.look()
        assert viewer.news("state") == [
            "site north is partitioned: pods on n1, n2 are left alone",
            "site north is reachable again: n1, n2",
            "node n1 accepts pods again",
            "node n2 accepts pods again",
        ]
