"""Migrations to nodes that have to pull the pod's image first."""

import asyncio
from functools import partial

from kubedsm.execution.migrations import STARTS
from kubedsm.execution.orphan_sweep import SWEEP
from kubedsm.kube.calls.image_pulls import PULL_COMMAND
from kubedsm.model.images import USUAL_SPEED
from kubedsm.model.model import MIGRATION_ANNOTATION, PULL_LABEL, NodeName
from kubedsm_lab.emulator.api.resources import NODES, PODS
from kubedsm_lab.emulator.paper import node
from support.faults import Failing
from support.image_pulls import AHEAD, EDGE, IMAGE, PULL, SPEED, pulling
from support.move_scenes import ReadyPods, quiet


def list_images(world, name):
    images = world.api.get(NODES, "", name)["status"]["images"]
    return {each for image in images for each in image["names"]}


async def go_to_the_edge(world):
    """Let the pod be migrated to an edge node, which lacks its image."""
    world.api.create(NODES, EDGE)
    await world.until(lambda: world.placed("web") == {"e1": 1}, 120)
    await quiet(world)


async def test_a_replacement_may_take_as_long_as_its_pull():
    """The deadline of a migration is 10 s, a pull takes 46."""
    async with pulling() as world:
        ready = ReadyPods(world, "web").watch()
        await go_to_the_edge(world)
        assert len(world.events("Migrated")) == 1
        assert not world.events("MigrationFailed", "Deployment")
        assert ready.lowest == 1
        assert IMAGE in list_images(world, "e1")
        speed = world.runtime.mirror.pull_speeds[NodeName("e1")]
        assert 0.9 * SPEED < speed < SPEED < USUAL_SPEED


async def test_without_reports_of_images_the_deadline_holds():
    async with pulling() as world:
        silent = node("e1", "edge", "2", "8Gi")
        world.api.create(NODES, silent)
        await world.until(lambda: world.placed("web") == {"e1": 1}, 15)
        await asyncio.sleep(1)
        assert not world.runtime.mirror.pull_speeds


def pullers(world):
    return [pod for pod in world.pods() if PULL_LABEL in pod["metadata"].get("labels", {})]


class Timeline:
    """Recorder of the time with two pods of web, and of the pods that pull images."""

    def __init__(self, world):
        self.doubled, self.pullers = 0.0, []
        self._world, self._since = world, None
        world.api.store.subscribe(self._observe)

    def _observe(self, change):
        if change.resource is not PODS:
            return
        pod, now = change.object, self._world.clock.monotonic()
        if change.type == "ADDED" and PULL_LABEL in pod["metadata"]["labels"]:
            self.pullers.append(pod)
        double = len(self._world.pods("web")) > 1
        if double and self._since is None:
            self._since = now
        elif not double and self._since is not None:
            self.doubled, self._since = self.doubled + now - self._since, None


async def test_images_are_pulled_before_the_replacement_is_created():
    async with pulling(AHEAD) as world:
        seen, ready = Timeline(world), ReadyPods(world, "web").watch()
        await go_to_the_edge(world)
        assert seen.doubled < 10 < PULL
        assert ready.lowest == 1
        [puller] = seen.pullers
        spec = puller["spec"]
        assert spec["nodeName"] == "e1"
        assert [each["image"] for each in spec["containers"]] == ["pause"]
        assert not pullers(world)
        assert len(world.events("Migrated")) == 1


async def test_a_user_may_forbid_a_migration_while_its_images_are_pulled():
    def forbid(change):
        pod = change.object
        if change.type == "ADDED" and PULL_LABEL in pod["metadata"].get("labels", {}):
            [web], off = world.pods("web"), {"annotations": {MIGRATION_ANNOTATION: "off"}}
            world.patch(PODS, web["metadata"]["name"], {"metadata": off})

    async with pulling(AHEAD) as world:
        world.api.store.subscribe(forbid)
        world.api.create(NODES, EDGE)
        await asyncio.sleep(2 * PULL)
        assert world.placed("web") == {"c1": 1}
        [event] = world.events("MigrationFailed", "Deployment")
        assert "its migration mode is off" in event["message"]


async def test_a_refusal_by_a_quota_means_a_migration_without():
    async with pulling(AHEAD) as world:
        world.quota(**{"requests.cpu": "10"})
        seen = Timeline(world)
        await go_to_the_edge(world)
        assert not seen.pullers
        assert len(world.events("Migrated")) == 1


def create_puller(world, name, command):
    """Create a pod that looks as if it pulled an image."""
    container = {"name": "c", "image": "other:1", "command": [command]}
    labels = {PULL_LABEL: "kubedsm"}
    how = {"nodeName": "c1", "restartPolicy": "Never", "containers": [container]}
    world.create_pod(name, labels=labels, **how)


async def test_pods_of_a_scheduler_that_ended_are_removed_but_not_those_with_a_forged_label():
    async with pulling(AHEAD) as world:
        create_puller(world, "left", PULL_COMMAND)
        create_puller(world, "forged", "sleep")
        await asyncio.sleep(2 * SWEEP + 5)
        assert [pod["metadata"]["name"] for pod in pullers(world)] == ["forged"]


async def test_a_forged_label_is_checked_once():
    reads = Failing(lambda r: r.method == "GET" and "/pods/forged" in r.path, None)
    async with pulling(AHEAD, faults=reads) as world:
        for number in range(20):
            create_puller(world, f"forged-{number}", "sleep")
        await asyncio.sleep(4 * SWEEP)
        assert len(pullers(world)) == reads.count == 20


async def test_a_pull_that_the_kubelet_rejects_is_none():
    def reject(change):
        pod = change.object
        is_new = change.resource is PODS and change.type == "ADDED"
        if is_new and PULL_LABEL in pod["metadata"].get("labels", {}):
            status = {"phase": "Failed", "reason": "OutOfpods", "message": "Pod was rejected"}
            patch = partial(world.patch, PODS, pod["metadata"]["name"], {"status": status})
            asyncio.get_running_loop().call_later(0.1, partial(patch, subresource="status"))

    async with pulling(AHEAD) as world:
        world.api.store.subscribe(reject)
        await go_to_the_edge(world)
        assert world.runtime.mirror.pull_speeds[NodeName("e1")] < 1.1 * SPEED
        assert not world.events("MigrationFailed", "Deployment")


async def test_the_end_of_leadership_ends_a_pull():
    async with pulling(AHEAD) as world:
        world.api.create(NODES, EDGE)
        await world.until(lambda: pullers(world), 20)
        [puller] = pullers(world)
        world.runtime.manager.abort_steps(STARTS, "test")
        name = puller["metadata"]["name"]
        await world.until(
            lambda: name not in [pod["metadata"]["name"] for pod in pullers(world)], 5
        )
        assert not world.runtime.mirror.pull_speeds
