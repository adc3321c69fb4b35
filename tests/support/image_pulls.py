"""Clusters whose nodes pull images at a known speed."""

from contextlib import asynccontextmanager

import attrs

from kubedsm.config.settings import load
from kubedsm_lab.emulator.paper import node
from support.move_scenes import CONFIGURATION, settle_on_cloud
from support.worlds import QUICK, emulated

#: images are pulled before a migration begins
AHEAD = load(
    """
suggester: {period: 1s}
migration: {price: 0s, cooldown: 1s, drainDelay: 1s, deadline: 10s, prePull: true}
""",
    "test",
)
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
LARGE_EDGE = reporting(node("e1", "edge", "4", "8Gi"), OTHER)


@asynccontextmanager
async def pulling(configuration=CONFIGURATION, front=None, **more):
    """Run a scheduler with a pod of web in the cloud, where nodes pull images at `SPEED`."""
    timing = attrs.evolve(QUICK, pull_speed=SPEED)
    async with (
        emulated(CLOUD, timing=timing, configuration=configuration, faults=front) as world,
        world.scheduler(**more),
    ):
        await settle_on_cloud(world, "web", 1)
        yield world
