"""Pods go where their users are, at the start and when demand changes; seen by metrics and page."""

import asyncio

from structlog.testing import capture_logs

from kubedsm.config.settings import load
from kubedsm.model.events import MeasuredApplied
from kubedsm.model.measured import Measured
from kubedsm.model.model import Workload
from kubedsm_lab.emulator.api.resources import SERVICES
from support.metered import Metered
from support.sites import NORTH, cordon, running, two_sites, where
from support.viewing import Viewer

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
        cordon(world, *NORTH)
        world.deploy("web", 4)
        await running(world, 4)
        # One for its own users; the others answer sooner than from the cloud.
        assert where(world) == {"s": 4}
        cordon(world, *NORTH, cordoned=False)
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
