"""`kubedsm uninstall` in virtual time: interrupted migrations, marks on pods, and what stays."""

import json
import random

import pytest

from kubedsm.cli.options import Kubeconfig, RemovalOptions
from kubedsm.cli.removal import NOT_ALL, remove_traces
from kubedsm.kube.calls.image_pulls import PULL_COMMAND
from kubedsm.kube.client.port import ObjectName
from kubedsm.model.model import PULL_LABEL
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, PODS
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import workload
from support.move_scenes import LARGE_CLOUD, ReadyPods, is_detached, migrating, open_edge
from support.worlds import small_pod

COST = "controller.kubernetes.io/pod-deletion-cost"


def marks(world):
    """Labels and annotations on pods that KubeDSM may have written."""
    return {
        key
        for pod in world.api.list(PODS)
        for part in ("labels", "annotations")
        for key in pod["metadata"].get(part, {})
        if key.startswith("kubedsm.io/") or key == COST
    }


async def uninstall(world, capsys, *, apply=True, opt_out=False, output="json"):
    options = RemovalOptions(
        Kubeconfig(), ObjectName(), carry_out=apply, opt_out=opt_out, output=output
    )
    front = EmulatedFront(world.cluster.routes, world.clock, latency=0.01)
    code = await remove_traces(front, options, world.clock, random.Random(0))
    lines = capsys.readouterr().out.splitlines()
    return code, json.loads(lines[-1]) if output == "json" else lines


@pytest.fixture
async def interrupted():
    """A scheduler that was killed in the middle of a migration."""
    async with migrating(LARGE_CLOUD, default_scheduler=True) as world:
        world.api.create(NAMESPACES, {"metadata": {"name": "kubedsm"}})
        async with world.scheduler():
            await world.bring_up("web", 2, within=3)
            open_edge(world)
            await world.until(lambda: any(map(is_detached, world.pods())), 20)
        yield world


async def test_an_interrupted_migration_is_rolled_back_and_no_mark_is_left(interrupted, capsys):
    world = interrupted
    ready = ReadyPods(world, "web").watch()
    before = {pod["metadata"]["name"] for pod in world.pods()}
    code, found = await uninstall(world, capsys, apply=False)
    assert code == 0
    assert len(found["detachedPods"]) >= 1
    assert len(found["markedPods"]) >= 2
    assert found["optedIn"] == ["deployment/default/web"]
    assert {pod["metadata"]["name"] for pod in world.pods()} == before
    code, found = await uninstall(world, capsys)
    assert code == 0
    assert found["detachedPods"] == found["markedPods"] == []
    assert found["optedIn"] == ["deployment/default/web"]
    assert marks(world) == set()
    assert ready.lowest >= 2


async def test_a_pod_that_only_pulls_images_is_removed(capsys):
    async with migrating(LARGE_CLOUD) as world:
        world.api.create(NAMESPACES, {"metadata": {"name": "kubedsm"}})
        container = {"name": "c", "image": "web:1", "command": [PULL_COMMAND]}
        metadata = {"name": "web-pull", "namespace": "default", "labels": {PULL_LABEL: "true"}}
        spec = {"nodeName": "c1", "restartPolicy": "Never", "containers": [container]}
        world.api.create(PODS, {"metadata": metadata, "spec": spec}, namespace="default")
        code, found = await uninstall(world, capsys, apply=False)
        assert (code, found["pullingPods"]) == (0, ["default/web-pull"])
        code, found = await uninstall(world, capsys)
        assert (code, found["pullingPods"], world.pods()) == (0, [], [])


async def test_workloads_opt_out_on_request_and_the_default_scheduler_places_them(
    interrupted, capsys
):
    world = interrupted
    before = world.api.get(DEPLOYMENTS, "default", "web")["spec"]["template"]["spec"]
    assert before["schedulerName"] == "kubedsm"
    code, lines = await uninstall(world, capsys, opt_out=True, output="text")
    lines = [line for line in lines if line.startswith("removed: ")]
    assert code == 0
    assert lines[0].startswith("removed: migration of 2 detached pods: default/web-")
    assert lines[1].startswith("removed: labels and annotations of ")
    assert lines[2:] == ["removed: opt-in of deployment/default/web"]
    await world.until(lambda: len(world.pods()) == 2, 60)
    assert {pod["spec"]["schedulerName"] for pod in world.pods()} == {"default-scheduler"}
    assert marks(world) == set()


async def test_marks_of_users_stay(capsys):
    async with migrating(LARGE_CLOUD) as world:
        world.api.create(NAMESPACES, {"metadata": {"name": "kubedsm"}})
        async with world.scheduler():
            await world.bring_up("web", 2, within=3)
            own = workload("own", 1, small_pod({"cpu": "1"}), labels={"kubedsm.io/tier": "cloud"})
            own["spec"]["template"]["metadata"]["annotations"] = {COST: "-100"}
            world.api.create(DEPLOYMENTS, own, namespace="default")
            chosen = world.pods("web")[0]["metadata"]["name"]
            world.patch(PODS, chosen, {"metadata": {"annotations": {COST: "7"}}})
            await world.until_bound(3, 3)
        code, _ = await uninstall(world, capsys)
        assert code == 0
        left = {
            pod["metadata"]["labels"]["app"]: pod["metadata"]
            for pod in world.pods()
            if "annotations" in pod["metadata"]
        }
        assert left["own"]["labels"]["kubedsm.io/tier"] == "cloud"
        assert left["own"]["annotations"][COST] == "-100"
        assert left["web"]["annotations"] == {COST: "7"}
        assert "kubedsm.io/tier" not in left["web"]["labels"]


async def test_a_forged_mark_is_reported_and_does_not_stop_the_removal(interrupted, capsys):
    world = interrupted
    world.deploy("fake", 1)
    await world.until(lambda: world.pods("fake"), 5)
    (fake,) = world.pods("fake")
    label = {"metadata": {"labels": {"kubedsm.io/migrating": "x"}}}
    world.patch(PODS, fake["metadata"]["name"], label)
    code, found = await uninstall(world, capsys)
    assert code == NOT_ALL
    assert found["detachedPods"] == [f"default/{fake['metadata']['name']}"]
    assert found["markedPods"] == []


async def test_the_schedulers_deployment_is_scaled_to_zero(capsys):
    async with migrating(LARGE_CLOUD) as world:
        world.api.create(NAMESPACES, {"metadata": {"name": "kubedsm"}})
        world.deploy("kubedsm", 2, namespace="kubedsm", schedulerName="default-scheduler")
        assert world.api.list(CONFIGMAPS, "kubedsm") == []
        assert (await uninstall(world, capsys))[0] == 0
        assert world.api.get(DEPLOYMENTS, "kubedsm", "kubedsm")["spec"]["replicas"] == 0
