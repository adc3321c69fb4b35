"""Annotations of a pod template: they count as soon as a pod has them, or are told to be wrong."""

import asyncio

import pytest

from kubedsm.config.settings import load
from kubedsm.model.model import Workload
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS
from support.move_scenes import LARGE_CLOUD, open_edge, settle_on_cloud
from support.worlds import CLOUD, EDGE, emulated

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
        world.deploy("web", 4, cpu="100m")
        await world.until_bound(4, 10)
        annotate(world, "web", qos="most")
        await asyncio.sleep(30)
        [event] = world.events("AnnotationIgnored")
        assert event["type"] == "Warning"
        assert event["message"] == "kubedsm.io/qos: 'most' is not a number between 0 and 1"
        assert event["involvedObject"]["name"].startswith("web-")
        qos_targets = runtime.configuration.current.policy.qos_targets_in(runtime.mirror.snapshot())
        assert qos_targets(Workload("default", "Deployment", "web")).qos == 1
