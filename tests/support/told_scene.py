"""Scene of the page with rows set by a test, its stream, and its server on loopback."""

import asyncio
import json
from contextlib import asynccontextmanager

from aiohttp import web

from kubedsm.dashboard.rows import Changes, Snapshot, StatusRow
from kubedsm.dashboard.server.access import Access
from kubedsm.dashboard.server.app import page_app
from kubedsm.dashboard.server.stream import Stream
from kubedsm.process.clock import SystemClock
from kubedsm.process.http_limits import PAGE, listen
from kubedsm.process.supervisor import Supervisor


@asynccontextmanager
async def served(app, port=0):
    """Serve the application; yield the URL."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    url = await listen(runner, "127.0.0.1", port, PAGE)
    try:
        yield url
    finally:
        await runner.cleanup()


class ToldScene:
    """Scene whose rows are those given by table, and a status; its times follow `begins`."""

    def __init__(self, rows=None, begins=0.0):
        self.version, self.said, self.news = 0, "", "begun"
        self.begins = begins
        self.rows = rows or {}
        self.stirred = asyncio.Event()

    def say(self, news):
        self.news = news

    def look(self):
        self.stirred.clear()
        if self.news == self.said:
            return None
        self.version, self.said = self.version + 1, self.news
        return Changes(self.version, self.begins + self.version, self._rows())

    def snapshot(self):
        return Snapshot(self.version, self.begins + self.version, self._rows())

    def _rows(self):
        return {"status": {"now": StatusRow(self.said)}} | self.rows


def stream_of(scene, clock, *history, **leader):
    supervisor = Supervisor(clock, None)
    return Stream(scene.look, scene.snapshot, scene.stirred, clock, supervisor, *history, **leader)


def headlines(stream):
    """Return the headline of each message in the recording."""
    lines = map(json.loads, stream.recording.lines())
    return [line["rows"]["status"]["now"]["headline"] for line in lines]


@asynccontextmanager
async def page_of(rows, access=Access()):  # noqa: B008 - a value
    """Serve the page of these rows; yield its URL."""
    clock = SystemClock()
    async with served(page_app(stream_of(ToldScene(rows), clock), clock, access)) as url:
        yield url
