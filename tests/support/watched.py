"""A scheduler on an emulated cluster, in real time, and the page that shows it."""

from contextlib import asynccontextmanager

import attrs

from kubedsm.clock import SystemClock
from kubedsm.configuration.sections import MigrationSettings, SuggesterSettings
from kubedsm.configuration.services import Service
from kubedsm.configuration.settings import Configuration
from kubedsm.emulator.api.resources import NODES
from kubedsm.emulator.emulated_cluster import Timing
from kubedsm.page.opening import page_of
from kubedsm.page.scene import Scene
from kubedsm.runtime.assembly import Runtime
from support.worlds import CLOUD, EDGE, World, emulated

#: moves that begin soon, and last long enough to be looked at
BRISK = Timing(start_delay=1.0, stop_delay=0.3)
CONFIGURATION = Configuration(
    suggester=SuggesterSettings(period=0.5),
    migration=MigrationSettings(cooldown=0.5, drain_delay=0.3, deadline=10.0),
    services={"default/half": Service(qos=0.5), "default/none": Service(qos=0.0)},
)


@attrs.frozen
class Watched:
    """A world, and the scheduler in it."""

    world: World
    runtime: Runtime
    scene: Scene

    def page(self, port=0):
        """Enter its page, for a URL."""
        return page_of(self.runtime, self.scene, self.world.clock, ("127.0.0.1", port))

    def cordon(self, node, *, cordoned=True):
        patch = {"spec": {"unschedulable": cordoned}}
        self.world.api.patch(NODES, "", node, patch, "application/merge-patch+json")


@asynccontextmanager
async def scheduling(*nodes, timing=BRISK, configuration=CONFIGURATION):
    """Enter a world with a scheduler in it."""
    nodes, clock = nodes or (EDGE, CLOUD), SystemClock()
    async with emulated(*nodes, timing=timing, clock=clock, configuration=configuration) as world:
        scene = Scene(clock)
        async with world.scheduler(listener=scene) as runtime:
            await runtime.synced.wait()
            yield Watched(world, runtime, scene)


@asynccontextmanager
async def watched(*nodes, **how):
    """The same, with the URL of its page."""
    async with scheduling(*nodes, **how) as there, there.page() as url:
        yield there, url
