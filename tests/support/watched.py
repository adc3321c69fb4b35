"""A scheduler on an emulated cluster, in real time, and the page that shows it."""

from contextlib import asynccontextmanager

from kubedsm.clock import SystemClock
from kubedsm.configuration.sections import MigrationSettings, SuggesterSettings
from kubedsm.configuration.services import Service
from kubedsm.configuration.settings import Configuration
from kubedsm.emulator.api.resources import NODES
from kubedsm.emulator.emulated_cluster import Timing
from kubedsm.page.opening import page_of
from kubedsm.page.scene import Scene
from support.worlds import CLOUD, EDGE, emulated

#: moves that begin soon, and last long enough to be looked at
BRISK = Timing(start_delay=1.0, stop_delay=0.3)
CONFIGURATION = Configuration(
    suggester=SuggesterSettings(period=0.5),
    migration=MigrationSettings(cooldown=0.5, drain_delay=0.3, deadline=10.0),
    services={"default/half": Service(qos=0.5), "default/none": Service(qos=0.0)},
)


@asynccontextmanager
async def watched(*nodes, timing=BRISK, configuration=CONFIGURATION):
    """Enter a world with a scheduler in it, and the URL of its page."""
    clock = SystemClock()
    async with emulated(
        *(nodes or (EDGE, CLOUD)), timing=timing, clock=clock, configuration=configuration
    ) as world:
        scene = Scene(clock)
        async with world.scheduler(listener=scene) as runtime:
            await runtime.synced.wait()
            async with page_of(runtime, scene, clock) as url:
                yield world, url


def cordon(world, node, *, cordoned=True):
    patch = {"spec": {"unschedulable": cordoned}}
    world.api.patch(NODES, "", node, patch, "application/merge-patch+json")
