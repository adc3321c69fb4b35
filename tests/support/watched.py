"""Scheduler on an emulated cluster in real time, with its page."""

from contextlib import asynccontextmanager, contextmanager

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.config.sections import MigrationSettings, SuggesterSettings
from kubedsm.config.services import Service
from kubedsm.config.settings import Configuration
from kubedsm.dashboard.server.app import page_of
from kubedsm.dashboard.state.scene import Scene
from kubedsm.process.clock import SystemClock
from kubedsm_lab.emulator.emulated_cluster import Timing
from kubedsm_lab.emulator.paper import node
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
    """World with a running scheduler and the scene of its page."""

    world: World
    runtime: Runtime
    scene: Scene

    def page(self, port=0):
        """Serve the page; yield its URL."""
        return page_of(self.runtime, self.scene, self.world.clock, ("127.0.0.1", port))

    def rows(self, table):
        """Return the rows of a table, as of the last look."""
        return self.scene.snapshot().rows[table]


@asynccontextmanager
async def scheduling(*nodes, timing=BRISK, configuration=CONFIGURATION):
    """Run a world with a scheduler in real time."""
    nodes, clock = nodes or (EDGE, CLOUD), SystemClock()
    with _alone():
        async with emulated(
            *nodes, timing=timing, clock=clock, configuration=configuration
        ) as world:
            scene = Scene(clock)
            async with world.scheduler(listener=scene) as runtime:
                await runtime.synced.wait()
                yield Watched(world, runtime, scene)


@contextmanager
def _alone():
    """Unwrap exception groups with a single exception, which hide the failing test line."""
    try:
        yield
    except BaseExceptionGroup as error:
        failed = error
        while isinstance(failed, BaseExceptionGroup) and len(failed.exceptions) == 1:
            (failed,) = failed.exceptions
        raise failed from None


@asynccontextmanager
async def watched(*nodes, **how):
    """Run a world with a scheduler and its page; yield both the world and the URL."""
    async with scheduling(*nodes, **how) as there, there.page() as url:
        yield there, url


@asynccontextmanager
async def all_there_is():
    """Run a world whose page shows every kind of row, and a migration for some seconds."""
    nodes = (
        node("e1", "edge", "4", "8Gi", zone="north"),
        node("e2", "edge", "2", "4Gi", zone="north"),
        node("e3", "edge", "4", "8Gi", zone="south"),
        node("c1", "cloud", "20", "40Gi"),
        node("c2", "cloud", "8", "16Gi"),
        node("other", "", "8", "16Gi"),
    )
    slow = attrs.evolve(BRISK, start_delay=4.0, monitor_grace=1.0)
    async with watched(*nodes, timing=slow) as (there, url):
        world = there.world
        world.cordon("e1", "e3")
        for name, replicas in (("web", 3), ("half", 4), ("none", 2)):
            world.deploy(name, replicas, cpu="500m")
        world.deploy("large", 2, cpu="100")
        await world.until_bound(9, 20)
        world.cluster.disconnect("c2")
        world.cordon("e1", cordoned=False)
        await world.until(lambda: there.rows("nodes")["c2"].state, 20)
        await world.until(lambda: there.rows("status")["now"].moving, 20)
        yield there, url
