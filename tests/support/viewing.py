"""Viewer of the page that receives changes only."""

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager

import msgspec

from kubedsm.dashboard.rows import encode_message
from kubedsm.dashboard.state.scene import Scene
from kubedsm.observability.reading import Leadership


class Viewer:
    """Client of a scene that applies the change messages to its rows."""

    def __init__(self, world, leadership=Leadership()):  # noqa: B008 - a value
        self.scene = Scene(world.clock)
        self.leadership = leadership
        #: all that was told
        self.messages = []
        self._world = world
        self._rows = defaultdict(dict)

    def look(self):
        """Return the changes since the last look, as decoded JSON; None if there are none."""
        changes = self.scene.look(self._world.runtime, self.leadership, self._world.clock.wall())
        if changes is None:
            return None
        told = msgspec.json.decode(encode_message(changes))
        self.messages.append(told)
        for table, rows in told["rows"].items():
            for key, row in rows.items():
                if row is None:
                    del self._rows[table][key]
                else:
                    self._rows[table][key] = row
        return told

    async def watch(self, seconds, every=0.25):
        for _ in range(round(seconds / every)):
            self.look()
            await asyncio.sleep(every)
        self.look()

    def __getitem__(self, table):
        return self._rows[table]

    @property
    def status(self):
        return self["status"]["now"]

    def pods(self, workload):
        """Return state and node of a workload's pod rows."""
        rows = [row for row in self["pods"].values() if row["workload"] == workload]
        return sorted((row["state"], row.get("node", "")) for row in rows)

    def news(self, kind=None):
        rows = self["news"].values()
        return [row["text"] for row in rows if kind in (None, row["kind"])]

    def whole(self):
        """Return all rows as a new client receives them."""
        return msgspec.json.decode(encode_message(self.scene.snapshot()))["rows"]


@asynccontextmanager
async def viewing(making, *leadership, **scheduler):
    """Run a scheduler in the world that is entered; yield the world, and a viewer of it."""
    async with making as world:
        viewer = Viewer(world, *leadership)
        async with world.scheduler(listener=viewer.scene, **scheduler) as runtime:
            await runtime.synced.wait()
            yield world, viewer
