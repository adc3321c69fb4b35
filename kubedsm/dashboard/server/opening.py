"""The page of a scheduler, from entering to leaving: it looks, and serves what it sees."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.answers.asking import questions
from kubedsm.dashboard.server.access import Access
from kubedsm.dashboard.server.app import page_app
from kubedsm.dashboard.server.film_file import FilmFile
from kubedsm.dashboard.server.stream import Stream
from kubedsm.dashboard.state.scene import Scene
from kubedsm.observability.reading import Leadership
from kubedsm.process.clock import Clock
from kubedsm.process.http_limits import PAGE, listen

LOOPBACK = "127.0.0.1"
#: seconds that requests in progress are given when it ends
GRACE = 1.0


@asynccontextmanager
async def page_of(
    runtime: Runtime,
    scene: Scene,
    clock: Clock,
    address: tuple[str, int] = (LOOPBACK, 0),
    access: Access | None = None,
    leadership: Callable[[], Leadership | None] = Leadership,
) -> AsyncIterator[str]:
    """Serve the page of the runtime, whose listener the scene is; its URL.

    leadership: none of a runtime that only follows the cluster, for nothing is decided there.
    Raises AddressUnavailableError.
    """
    async with app_of(runtime, scene, clock, access or Access(), leadership) as app:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=GRACE)
        url = await listen(runner, *address, PAGE)
        try:
            yield url
        finally:
            await runner.cleanup()


@asynccontextmanager
async def app_of(
    runtime: Runtime,
    scene: Scene,
    clock: Clock,
    access: Access,
    leadership: Callable[[], Leadership | None] = Leadership,
) -> AsyncIterator[web.Application]:
    """The same, for a server that there is already."""
    stream = Stream(
        lambda: scene.look(runtime, leadership(), clock.wall()),
        scene.snapshot,
        scene.stirred,
        clock,
        runtime.supervisor,
    )
    async with asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(stream.run())
        try:
            film = FilmFile(stream, clock)
            yield page_app(stream, film, access, questions(runtime, scene, leadership))
        finally:
            looking.cancel()
