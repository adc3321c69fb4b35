"""Sites: pods are where users are, and one that is partitioned is not one that died."""

import asyncio
from contextlib import asynccontextmanager

import attrs
from structlog.testing import capture_logs

from kubedsm.cli.migration_advice import advise
from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.sections import MigrationSettings, SiteSettings
from kubedsm.config.services import Service
from kubedsm.config.settings import Configuration, load
from kubedsm.model.events import Change, MeasuredApplied, NodeApplied
from kubedsm.model.measured import Measured
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Node, NodeName, Resources, Taint, Workload
from kubedsm.scheduling.site_monitor import Sites
from kubedsm_lab.emulator.api.resources import SERVICES
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.handles import handle_of
from support.metered import Metered, metering
from support.sites import GRACE, NORTH, SETTLE, SOUTH, TOLERATION, running, two_sites, where
from support.viewing import Viewer


@asynccontextmanager
async def six_running(**how):
    """Six pods that run at two sites with a scheduler."""
    async with two_sites(**how) as world:
        world.deploy("web", 6)
        async with world.scheduler():
            await running(world, 6)
            yield world


async def cut_until_evicted(world, *names):
    world.cluster.disconnect(*names)
    await asyncio.sleep(GRACE + TOLERATION + 15.0)


def pinned(site):
    return {"nodeSelector": {"kubedsm.io/site": site}}


def moves(logs):
    return [entry for entry in logs if entry["event"] == "migration begun"]


async def test_a_cut_that_kubernetes_does_not_act_on_moves_nothing():
    async with six_running() as world:
        before = {pod["metadata"]["uid"] for pod in world.pods()}
        with capture_logs() as logs:
            world.cluster.disconnect(*NORTH)
            await asyncio.sleep(GRACE + TOLERATION - 20.0)
            world.cluster.reconnect(*NORTH)
            await asyncio.sleep(SETTLE + 60.0)
        assert {pod["metadata"]["uid"] for pod in world.pods()} == before
        assert moves(logs) == []


async def test_replacements_go_to_the_cloud_and_come_back_once_the_site_is_steady():
    async with six_running() as world:
        there = {p["metadata"]["uid"] for p in world.pods() if p["spec"]["nodeName"] in NORTH}
        with capture_logs() as logs:
            await cut_until_evicted(world, *NORTH)
            # The other site has room for them all.
            stood_in = where(world)
            assert stood_in == {"n-": len(there), "s": 6 - len(there), "c": len(there)}
            assert world.cluster.serving() >= there
            await asyncio.sleep(300.0)
            assert where(world) == stood_in
            world.cluster.reconnect(*NORTH)
            await asyncio.sleep(SETTLE - 2.0)
            assert where(world) == {"s": 6 - len(there), "c": len(there)}
            assert moves(logs) == []
            await asyncio.sleep(60.0)
        # Some of them may find a place at the other site.
        assert "c" not in where(world)
        assert len(moves(logs)) == len(there)


async def test_a_stand_in_says_why_it_is_in_the_cloud():
    async with six_running() as world:
        await cut_until_evicted(world, *NORTH)
        [one, *_] = [p for p in world.pods() if p["spec"]["nodeName"] == "c1"]
        name = one["metadata"]["name"]
        said = {e["involvedObject"]["name"]: e["message"] for e in world.events("Scheduled")}
        assert "north partitioned, its pods are replaced in the cloud" in said[name]
        decisions, uid = world.runtime.decisions, one["metadata"]["uid"]
        explained = decisions.explain(decisions.recall(uid, f"default/{name}"))
        advice = {node.node: node.change for node in explained.nodes}
        assert advice.pop("c1") is None
        assert all("site.settle" in said for said in advice.values())
        # Those that come on top are as welcome as any.
        at_south = where(world)["s"]
        world.scale("web", 8)
        await asyncio.sleep(5.0)
        assert where(world)["s"] == at_south + 2


async def test_the_room_of_what_is_cut_off_is_not_given_away():
    async with two_sites() as world:
        world.deploy("web", 8, **pinned("north"))
        async with world.scheduler() as runtime:
            await running(world, 8)
            await cut_until_evicted(world, *NORTH)
            assert where(world) == {"n-": 8, "?": 8}
            assert [runtime.mirror.free[name].cpu for name in NORTH] == [0, 0]
            # An impostor that minds no taint finds no room there.
            world.deploy("other", 1, **pinned("north"), tolerations=[{"operator": "Exists"}])
            await asyncio.sleep(10.0)
            assert where(world, "other") == {"?": 1}
            world.cluster.reconnect(*NORTH)
            # What fits nowhere else need not wait until the site is steady.
            await asyncio.sleep(30.0)
            assert where(world)["n"] == 8


async def test_a_workload_that_goes_on_serving_there_has_its_share_of_the_edge():
    half = Configuration(services={"*": Service(qos=1.0), "default/web": Service(qos=0.5)})
    async with two_sites(south="3", configuration=half) as world:
        world.cordon(*SOUTH)
        world.deploy("web", 4)
        async with world.scheduler():
            await running(world, 4)
            world.cordon(*SOUTH, cordoned=False)
            world.cluster.disconnect(*NORTH)
            await asyncio.sleep(GRACE + 5.0)
            world.deploy("other", 5)
            await asyncio.sleep(TOLERATION + 10.0)
            assert where(world, "web") == {"n-": 4, "c": 4}
            assert where(world, "other") == {"s": 5}
            # Both want the last place of the edge, and web has four pods at the edge that serve.
            world.scale("web", 5)
            world.scale("other", 6)
            await asyncio.sleep(5.0)
            assert where(world, "other") == {"s": 6}
            assert where(world, "web") == {"n-": 4, "c": 5}


async def test_a_single_lost_node_is_no_cut():
    async with six_running() as world:
        lost = sum(pod["spec"]["nodeName"] == "n1" for pod in world.pods())
        with capture_logs() as logs:
            await cut_until_evicted(world, "n1")
            assert not world.runtime.sites.away()
            # Its pods are replaced at the edge, as there is room.
            assert where(world) == {
                "n-": lost,
                "n": where(world)["n"],
                "s": 6 - where(world)["n"],
            }
        assert not [entry for entry in logs if entry["event"].startswith("site")]


class Alone:
    """The owner of what is away, with two nodes and nothing else."""

    def __init__(self):
        self.mirror, self.clock = ClusterMirror(), VirtualClock()
        current = CurrentConfiguration(Configuration(site=SiteSettings(settle=10.0)), 0.0)
        handle = handle_of(self.clock, mirror=self.mirror, configuration=current)
        self.sites = Sites(handle)
        handle.synced.set()

    def heard(self, heard):
        taints = () if heard else (Taint("node.kubernetes.io/unreachable", "", "NoSchedule"),)
        labels = {"kubedsm.io/tier": "edge", "kubedsm.io/site": "north"}
        for name in NORTH:
            applied = NodeApplied(Node(name, labels, Resources(), taints))
            self.sites.observe(self.mirror.apply(applied))
        return self.sites.away()

    async def unsteady_after_a_cut(self):
        """How long it is, in seconds."""
        assert self.heard(False).partitioned
        await asyncio.sleep(1.0)
        since = self.clock.monotonic()
        assert self.heard(True).stabilising
        while self.sites.away():  # noqa: ASYNC110 - nobody tells of the time
            await asyncio.sleep(1.0)
        return round(self.clock.monotonic() - since)


async def test_a_site_that_flaps_waits_longer_each_time():
    alone = Alone()
    waits = [await alone.unsteady_after_a_cut() for _ in range(6)]
    assert waits == [10, 20, 40, 80, 160, 160]
    await asyncio.sleep(3590.0)
    assert await alone.unsteady_after_a_cut() == 160
    await asyncio.sleep(3610.0)
    assert await alone.unsteady_after_a_cut() == 10


async def test_new_pods_go_to_a_site_that_is_not_steady_only_if_nothing_else_takes_them():
    async with metering(two_sites(south="1", cloud="3")) as (world, metered):

        def count(state):
            return metered("kubedsm_sites", state=state)

        await asyncio.sleep(1.0)
        assert count("cut") == 0
        world.cluster.disconnect(*NORTH)
        await asyncio.sleep(GRACE + 5.0)
        assert count("cut") == 1
        world.cluster.reconnect(*NORTH)
        await asyncio.sleep(5.0)
        assert (count("cut"), count("unsteady")) == (0, 1)
        await world.bring_up("web", 4, within=5)
        assert where(world) == {"s": 2, "c": 2}
        await world.bring_up("more", 3, within=5)
        assert where(world, "more") == {"c": 1, "n": 2}
        # Nor is anything moved there before.
        world.scale("more", 0)
        await asyncio.sleep(60.0)
        assert where(world) == {"s": 2, "c": 2}
        await asyncio.sleep(SETTLE)
        assert (where(world), count("unsteady")) == ({"s": 2, "n": 2}, 0)


async def test_what_to_move_now_is_told_without_what_is_away():
    async with six_running() as world:
        await cut_until_evicted(world, *NORTH)
        free = attrs.evolve(Configuration(), migration=MigrationSettings(price=0.0))
        assert advise(world.runtime.mirror.snapshot(), free).suggestion.moves == ()
        nowhere = attrs.evolve(free, site=SiteSettings(label=()))
        assert advise(world.runtime.mirror.snapshot(), nowhere).suggestion.moves


async def test_without_labels_no_node_is_at_a_site():
    configuration = Configuration(site=SiteSettings(label=()))
    async with six_running(configuration=configuration) as world:
        await cut_until_evicted(world, *NORTH)
        assert not world.runtime.sites.away()
        assert "c" not in where(world)


async def test_a_node_that_becomes_not_ready_and_ready_again_is_logged_in_a_line_each():
    alone, before = Alone(), None
    turns = ((), ("unreachable",), ("unreachable", "other"), ("not-ready",), (), ("other",))
    with capture_logs() as logs:
        for keys in turns:
            taints = tuple(Taint(f"node.kubernetes.io/{key}", "", "NoSchedule") for key in keys)
            node = Node(NodeName("e1"), {}, Resources(), taints)
            alone.sites.observe(Change(node_before=before, node_after=node))
            before = node
        alone.sites.observe(Change(node_before=before))
    assert [(entry["event"], entry["node"], entry.get("ready")) for entry in logs] == [
        ("node not ready", "e1", "Unknown"),
        ("node not ready", "e1", "False"),
        ("node ready", "e1", None),
    ]


WEB = Workload("default", "Deployment", "web")
DECLARED = load("services: {default/web: {demand: {north: 3, south: 1}}}", "test")


async def test_declared_demand_decides_the_sites_and_is_measured():
    async with two_sites(configuration=DECLARED) as world:
        metered, viewer = Metered(world), Viewer(world)
        async with world.scheduler(instruments=metered.instruments, listener=viewer.scene):
            world.deploy("web", 8)
            await running(world, 8)
            assert where(world) == {"n": 6, "s": 2}
            assert metered("kubedsm_site_replicas", site="north") == 6
            assert metered("kubedsm_site_demand_pods", site="south") == 2
            assert metered("kubedsm_site_reached_share", site="south") == 1
            assert metered("kubedsm_site_target_share", site="south") == 1
            assert metered("kubedsm_site_missing_replicas", site="south") == 0
            assert metered("kubedsm_workload_near_share", workload="web") == 1
            await asyncio.sleep(6)
            viewer.look()
            north, south = viewer.status["sites"]
            assert north == {"site": "north", "reached": 1.0, "target": 1.0, "replicas": 6}
            assert south["replicas"] == 2


async def test_pods_follow_measured_demand_and_then_stay():
    async with two_sites() as world, world.scheduler() as runtime:

        def measure(at, north, south):
            demand = {WEB: {"north": north, "south": south}}
            runtime.handler.handle(MeasuredApplied(Measured(at, demand=demand)))

        measure(1.0, 30.0, 10.0)
        world.deploy("web", 4)
        await running(world, 4)
        assert where(world) == {"n": 3, "s": 1}
        await asyncio.sleep(120)
        measure(2.0, 10.0, 30.0)
        with capture_logs() as logs:
            await asyncio.sleep(300)
        assert where(world) == {"n": 1, "s": 3}
        begun = [log for log in logs if log["event"] == "migration begun"]
        assert len(begun) == 2


async def test_pods_do_not_follow_demand_that_flaps():
    async with two_sites() as world, world.scheduler() as runtime:
        world.deploy("web", 4)
        await running(world, 4)
        with capture_logs() as logs:
            for number in range(60):
                north, south = ((30.0, 10.0), (10.0, 30.0))[number % 2]
                sample = Measured(number + 1.0, demand={WEB: {"north": north, "south": south}})
                runtime.handler.handle(MeasuredApplied(sample))
                await asyncio.sleep(30)
        begun = [log for log in logs if log["event"] == "migration begun"]
        # At first nothing is known of how long demand lasts.
        assert len(begun) <= 4


async def test_a_cut_site_gets_nothing_and_its_demand_goes_to_neighbours():
    async with two_sites(configuration=DECLARED) as world, world.scheduler():
        world.cordon(*NORTH)
        world.deploy("web", 4)
        await running(world, 4)
        # One for its own users; the others answer sooner than from the cloud.
        assert where(world) == {"s": 4}
        world.cordon(*NORTH, cordoned=False)
        await asyncio.sleep(240)
        assert where(world) == {"n": 3, "s": 1}


async def test_a_service_that_sends_requests_anywhere_is_told_once_with_the_remedy():
    async with two_sites(configuration=DECLARED) as world:
        metered = Metered(world)
        world.service("web")
        with capture_logs() as logs:
            async with world.scheduler(instruments=metered.instruments):
                world.deploy("web", 2)
                await asyncio.sleep(700)
                [warning] = [log for log in logs if log["event"] == "service ignores sites"]
                assert "kubectl patch service web -n default" in warning["error"]
                assert metered("kubedsm_services_ignoring_sites") == 1
                [event] = world.events("ServiceIgnoresSites", "Deployment")
                assert event["type"] == "Warning"
                patch = {"spec": {"trafficDistribution": "PreferClose"}}
                world.patch(SERVICES, "web", patch)
                await asyncio.sleep(400)
                assert metered("kubedsm_services_ignoring_sites") == 0
