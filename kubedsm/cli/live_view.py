"""Live view of `kubedsm watch`: a picture in the terminal, or one line per news."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from pathlib import Path

import attrs
from rich.live import Live

from kubedsm.app.assembly import Runtime
from kubedsm.cli.cluster import connect_cluster, wait_until_synced
from kubedsm.cli.console import print_json, remark
from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import KEY, Configuration, load
from kubedsm.dashboard.rows import Snapshot
from kubedsm.dashboard.server.stream import LOOK
from kubedsm.dashboard.state.scene import Scene
from kubedsm.dashboard.terminal.following import Away
from kubedsm.dashboard.terminal.picture import (
    NewsCursor,
    TypedSnapshot,
    news_json,
    news_line,
    render_picture,
)
from kubedsm.kube.calls.reads import get_config_map
from kubedsm.kube.client.port import Cluster, ClusterError, ObjectName
from kubedsm.kube.joining import TIMEOUT, greet
from kubedsm.kube.wire.errors import WireError
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo

Updates = AsyncGenerator[Snapshot | Away]
#: seconds between two drawings without an update: the picture shows ages
REDRAW = 1.0


async def show_updates(server: str, updates: Updates, output: str) -> None:
    """Show the updates until cancelled: in place if the terminal can, else line by line."""
    console = Console(highlight=False)
    if output == "text" and console.is_terminal and not console.is_dumb_terminal:
        await _Picture(server, console, SystemClock()).draw_updates(updates)
    else:
        await _print_news(updates, server, as_json=output == "json")


async def show_cluster(
    kubeconfig: Path | None,
    context: str | None,
    configuration: Configuration | None,
    config_map: ObjectName,
    output: str,
) -> None:
    """Follow and display the cluster, without a scheduler, until cancelled."""
    clock = SystemClock()
    async with connect_cluster(kubeconfig, context) as cluster:
        await greet(cluster, timeout=TIMEOUT)
        known = configuration or await _read_configuration(cluster, config_map)
        scene = Scene(clock, knows_targets=known is not None)
        runtime = Runtime(cluster, known or Configuration(), clock, random.Random(), listener=scene)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(runtime.follow())
            await wait_until_synced(runtime)
            await show_updates(cluster.server, _poll_scene(runtime, scene, clock), output)
            following.cancel()


async def _read_configuration(cluster: Cluster, name: ObjectName) -> Configuration | None:
    """Read the scheduler's configuration; None, with a remark, if unreadable."""
    try:
        found = await get_config_map(cluster, name.namespace, name.name, timeout=TIMEOUT)
        if KEY in found.data:
            return load(found.data[KEY], f"ConfigMap {name}, {KEY}")
        why = f"it has no {KEY}"
    except (ClusterError, WireError, DocumentError) as error:
        why = str(error)
    remark(f"QoS targets are not shown, for ConfigMap {name} cannot be read: {why}; see --config")
    return None


async def _poll_scene(runtime: Runtime, scene: Scene, clock: Clock) -> Updates:
    """Yield a snapshot whenever the followed cluster has changed."""
    while True:
        if scene.look(runtime, None, clock.wall()) is not None:
            yield scene.snapshot()
        await clock.sleep(LOOK)


@attrs.define
class _Picture:
    """Picture of the latest update, redrawn periodically to update ages."""

    server: str
    console: Console
    clock: Clock
    _seen: TypedSnapshot | None = None
    #: time of the latest update, on the local clock
    _updated: float = 0.0
    #: reason for missing updates; empty while connected
    _away: str = ""

    async def draw_updates(self, updates: Updates) -> None:
        """Draw until cancelled; the screen is taken over with the first snapshot."""
        with ExitStack() as stack:
            live = Live(console=self.console, auto_refresh=False, screen=True)
            async with asyncio.TaskGroup() as tasks, aclosing(updates):
                async for update in updates:
                    if isinstance(update, Away):
                        self._away = update.why
                    else:
                        if self._seen is None:
                            stack.enter_context(live)
                            tasks.create_task(self._redraw(live))
                        self._away, self._updated = "", self.clock.monotonic()
                        self._seen = TypedSnapshot.of(update)
                    self._draw(live)

    async def _redraw(self, live: Live) -> None:
        while True:
            await self.clock.sleep(REDRAW)
            self._draw(live)

    def _draw(self, live: Live) -> None:
        if self._seen is None:
            return
        now = self._seen.at + self.clock.monotonic() - self._updated
        width, height = self.console.size
        live.update(
            render_picture(self._seen, now, self.server, self._away, width, height), refresh=True
        )


async def _print_news(updates: Updates, server: str, *, as_json: bool) -> None:
    """Print a line per news on stdout; the state of the connection goes to stderr."""
    news, connected = NewsCursor(), False
    async with aclosing(updates):
        async for update in updates:
            if isinstance(update, Away):
                connected = False
                remark(f"{update.why}; retrying")
                continue
            if not connected:
                connected = True
                remark(f"{server}: {TypedSnapshot.of(update).status.headline}")
            for row in news.since(update):
                if as_json:
                    print_json(news_json(row))
                else:
                    echo(news_line(row))
