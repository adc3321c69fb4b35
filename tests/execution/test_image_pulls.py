"""Migrations to nodes that have to pull the pod's image first."""

import asyncio
from contextlib import asynccontextmanager

import attrs
import pytest

from kubedsm.model.images import USUAL_SPEED
from kubedsm.model.model import NodeName
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.paper import node
from support.move_scenes import CONFIGURATION, ReadyPods, quiet, settle_on_cloud
from support.worlds import QUICK, emulated

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

IMAGE, OTHER = "docker.io/library/pause:latest", "docker.io/library/other:1"
SIZE, SPEED = 230_000_000, 5_000_000.0
#: seconds to pull the image
PULL = SIZE / SPEED


def reporting(made, *images):
    """Return the node with the images in its status."""
    listed = [{"names": [name], "sizeBytes": SIZE} for name in images]
    return {**made, "status": {**made["status"], "images": listed}}


CLOUD = reporting(node("c1", "cloud", "20", "40Gi"), IMAGE)
EDGE = reporting(node("e1", "edge", "2", "8Gi"), OTHER)


def list_images(world, name):
    images = world.api.get(NODES, "", name)["status"]["images"]
    return {each for image in images for each in image["names"]}


@asynccontextmanager
async def pulling(configuration=CONFIGURATION, replicas=1, **more):
    """Run a scheduler with replicas of web in the cloud, where nodes pull images at `SPEED`."""
    timing = attrs.evolve(QUICK, pull_speed=SPEED)
    async with (
        emulated(CLOUD, timing=timing, configuration=configuration) as world,
        world.scheduler(**more),
    ):
        await settle_on_cloud(world, "web", replicas)
        yield world


async def test_a_replacement_may_take_as_long_as_its_pull():
    """The deadline of a migration is 10 s, a pull takes 46."""
    async with pulling() as world:
        ready = ReadyPods(world, "web").watch()
        world.api.create(NODES, EDGE)
        await world.until(lambda: world.placed("web") == {"e1": 1}, 120)
        await quiet(world)
        assert len(world.events("Migrated")) == 1
        assert not world.events("MigrationFailed", "Deployment")
        assert ready.lowest == 1
        assert IMAGE in list_images(world, "e1")
        speed = world.runtime.mirror.pull_speeds[NodeName("e1")]
        assert 0.9 * SPEED < speed < SPEED < USUAL_SPEED


async def test_a_second_replacement_finds_the_image_there():
    async with pulling(replicas=2) as world:
        world.api.create(NODES, EDGE)
        await world.until(lambda: world.placed("web") == {"e1": 2}, 180)
        await quiet(world)
        mirror = world.runtime.mirror
        snapshot = mirror.snapshot()
        assert snapshot.nodes[NodeName("e1")].images[IMAGE] == SIZE
        assert not world.events("MigrationFailed", "Deployment")


async def test_without_reports_of_images_the_deadline_holds():
    async with pulling() as world:
        silent = node("e1", "edge", "2", "8Gi")
        world.api.create(NODES, silent)
        await world.until(lambda: world.placed("web") == {"e1": 1}, 15)
        await asyncio.sleep(1)
        assert not world.runtime.mirror.pull_speeds
