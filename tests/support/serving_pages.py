"""Server of the page, or of another web application, on loopback."""

from contextlib import asynccontextmanager

from aiohttp import web

from kubedsm.dashboard.server.access import Access
from kubedsm.dashboard.server.app import page_app
from kubedsm.process.http_limits import PAGE, listen


def page_showing(stream, clock, access=None):
    return page_app(stream, clock, access or Access())


@asynccontextmanager
async def served(app, port=0):
    """Serve the application; yield the URL."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    url = await listen(runner, "127.0.0.1", port, PAGE)
    try:
        yield url
    finally:
        await runner.cleanup()
