"""What is new, where no picture can change in place: in a pipe, or a file."""

from collections.abc import Iterator
from typing import Any

import msgspec

from kubedsm.dashboard.messages import Snapshot
from kubedsm.dashboard.rows import NewsRow
from kubedsm.explain.entries import rfc3339


class News:
    """Knows what has been told."""

    def __init__(self) -> None:
        self._run = ""
        self._last = -1

    def since(self, seen: Snapshot) -> Iterator[NewsRow]:
        """What was not told yet, the oldest first; another scheduler counts its own."""
        if seen.run != self._run:
            self._run, self._last = seen.run, -1
        rows = seen.rows.get("news", {})
        for number in sorted(int(key) for key in rows if int(key) > self._last):
            row = rows[str(number)]
            if isinstance(row, NewsRow):
                self._last = number
                yield row


def line_of(row: NewsRow) -> str:
    return f"{rfc3339(row.at)}  {'warning: ' if row.warning else ''}{text_of(row)}"


def text_of(row: NewsRow) -> str:
    """With what it is about, where the text does not name that."""
    about = row.pod or row.node or row.workload
    return row.text if about in row.text else f"{row.text} ({about})"


def json_of(row: NewsRow) -> dict[str, Any]:
    """The fields that say something, the time as the API has it."""
    return {**msgspec.to_builtins(row), "at": rfc3339(row.at)}
