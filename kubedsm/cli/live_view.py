"""Live view of `kubedsm watch`: a redrawn terminal picture, or one line per scheduler activity."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing

import attrs
from rich.live import Live

from kubedsm.cli.console import print_json, remark
from kubedsm.dashboard.rows import Snapshot
from kubedsm.dashboard.terminal.following import Away
from kubedsm.dashboard.terminal.picture import (
    NewsCursor,
    TypedSnapshot,
    news_json,
    news_line,
    render_picture,
)
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo

Updates = AsyncGenerator[Snapshot | Away]
#: seconds between two drawings without an update: the picture shows ages
REDRAW = 1.0


async def show_updates(server: str, updates: Updates, output: str) -> None:
    """Show the scheduler's state until cancelled: redrawn on a terminal, else line by line."""
    console = Console(highlight=False)
    if output == "text" and console.is_terminal and not console.is_dumb_terminal:
        await _Picture(server, console, SystemClock()).draw_updates(updates)
    else:
        await _print_news(updates, server, as_json=output == "json")


@attrs.define
class _Picture:
    """Terminal picture of the scheduler's latest state, redrawn regularly to keep ages current."""

    server: str
    console: Console
    clock: Clock
    _seen: TypedSnapshot | None = None
    #: time of the latest update, on the local clock
    _updated: float = 0.0
    #: reason for missing updates; empty while connected
    _away: str = ""

    async def draw_updates(self, updates: Updates) -> None:
        """Redraw the picture until cancelled; take over the screen with the first snapshot."""
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
    """Print a line per scheduler activity on stdout; connection changes go to stderr."""
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
