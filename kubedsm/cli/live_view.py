"""Output of `kubedsm watch`: tables on a terminal, or one line per scheduler activity."""

import os
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from importlib.util import find_spec

import msgspec

from kubedsm.cli.console import print_json, remark
from kubedsm.dashboard.rows import NewsRow, Snapshot
from kubedsm.dashboard.terminal.following import Away, Page, follow
from kubedsm.dashboard.terminal.seen import TypedSnapshot, news_text
from kubedsm.process.clock import Clock, rfc3339
from kubedsm.terminal.echo import echo

Updates = AsyncGenerator[Snapshot | Away]


async def show_updates(page: Page, clock: Clock, output: str) -> None:
    """Show the scheduler's state until cancelled: tables on a terminal, else line by line.

    Raise NotShownError.
    """
    updates = follow(page, clock)
    if output == "text" and is_interactive():
        if find_spec("textual") is not None:
            from kubedsm.dashboard.terminal.watch_app import show_tables

            await show_tables(page, updates, clock)
            return
        remark("tables need the extra kubedsm[watch] (pip install 'kubedsm[watch]'); news follow")
    await _print_news(updates, page.server, as_json=output == "json")


def is_interactive() -> bool:
    """Return True if a user reads and types on a terminal that can move its cursor."""
    terminals = sys.stdin.isatty() and sys.stdout.isatty()
    return terminals and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


class NewsCursor:
    """Position in the rows of recent activity, to display each row only once."""

    def __init__(self) -> None:
        self._run = ""
        self._last = -1

    def since(self, snapshot: Snapshot) -> Iterator[NewsRow]:
        """Yield the activity rows not yet displayed, oldest first; numbering restarts with the
        process.
        """
        if snapshot.run != self._run:
            self._run, self._last = snapshot.run, -1
        rows = snapshot.rows.get("news", {})
        for number in sorted(int(key) for key in rows if int(key) > self._last):
            row = rows[str(number)]
            if row is not None:
                self._last = number
                yield row


def news_line(row: NewsRow) -> str:
    return f"{rfc3339(row.at)}  {'warning: ' if row.warning else ''}{news_text(row)}"


async def _print_news(updates: Updates, server: str, *, as_json: bool) -> None:
    """Print a line per scheduler activity on stdout; connection changes go to stderr."""
    cursor, connected = NewsCursor(), False
    async with aclosing(updates):
        async for update in updates:
            if isinstance(update, Away):
                connected = False
                remark(f"{update.why}; retrying")
                continue
            if not connected:
                connected = True
                remark(f"{server}: {TypedSnapshot.of(update).status.headline}")
            for row in cursor.since(update):
                if as_json:
                    print_json({**msgspec.to_builtins(row), "at": rfc3339(row.at)})
                else:
                    echo(news_line(row))
