"""Scene of the page with rows set by a test, and its stream."""

import asyncio
import json
from contextlib import asynccontextmanager

from kubedsm.dashboard.rows import Changes, Snapshot, StatusRow
from kubedsm.dashboard.server.stream import Stream
from kubedsm.process.clock import SystemClock
from kubedsm.process.supervisor import Supervisor
from support.serving_pages import page_showing, served


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
async def page_of(rows, access=None):
    """Serve the page of these rows; yield its URL."""
    clock = SystemClock()
    async with served(page_showing(stream_of(ToldScene(rows), clock), clock, access)) as url:
        yield url
