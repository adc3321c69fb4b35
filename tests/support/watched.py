"""A scheduler on an emulated cluster, in real time, and the page that shows it."""

import asyncio
from contextlib import asynccontextmanager

from aiohttp import web

from kubedsm.clock import SystemClock
from kubedsm.configuration.sections import MigrationSettings, SuggesterSettings
from kubedsm.configuration.services import Service
from kubedsm.configuration.settings import Configuration
from kubedsm.emulator.api.resources import NODES
from kubedsm.emulator.emulated_cluster import Timing
from kubedsm.listening import listen
from kubedsm.monitoring.reading import Leadership
from kubedsm.page.scene import Scene
from kubedsm.page.serving import routes
from kubedsm.page.stream import Stream
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
        scene = Scene()
        async with world.scheduler(listener=scene) as runtime:
            await runtime.synced.wait()
            stream = Stream(
                lambda: scene.look(runtime, Leadership(), clock.wall()), scene.snapshot, clock
            )
            async with _served(stream) as url:
                yield world, url


@asynccontextmanager
async def _served(stream):
    app = web.Application()
    app.add_routes(routes(stream))
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    async with asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(stream.run())
        try:
            yield await listen(runner, "127.0.0.1", 0)
        finally:
            await runner.cleanup()
            looking.cancel()


def cordon(world, node, *, cordoned=True):
    patch = {"spec": {"unschedulable": cordoned}}
    world.api.patch(NODES, "", node, patch, "application/merge-patch+json")
