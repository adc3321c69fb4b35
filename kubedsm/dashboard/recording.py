"""Bounded recording of the dashboard: a snapshot of its rows, and all changes since.

A reconnected viewer gets all missed changes in a single message.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

import msgspec

from kubedsm.dashboard.rows import Changes, Row, Snapshot, Table, encode_message

#: limits of the changes kept: bytes, and seconds
ROOM = 8_000_000
SPAN = 3_600.0
#: fraction dropped at a time: dropped changes are applied to all snapshot rows
_PART = 1 / 8
#: missed messages above which a viewer gets the shorter snapshot
MISSED = 256


class _Line(NamedTuple):
    changes: Changes
    line: bytes


class Recording:
    """Bounded recording of dashboard messages; the oldest changes are merged into the snapshot."""

    def __init__(self, begins: Snapshot, room: int = ROOM, span: float = SPAN) -> None:
        self._room = room
        self._span = span
        self._begins = begins
        self._kept: deque[_Line] = deque()
        self._bytes = 0

    @property
    def version(self) -> int:
        """Version number of the latest recorded change."""
        return self._kept[-1].changes.version if self._kept else self._begins.version

    def add(self, changes: Changes) -> bytes:
        """Record and encode the next changes; above the limits, the oldest changes are dropped."""
        kept = _Line(changes, encode_message(changes))
        self._kept.append(kept)
        self._bytes += len(kept.line)
        if self._is_over(self._room, changes.at - self._span):
            self._forget(changes.at)
        return kept.line

    def _is_over(self, room: float, begin: float) -> bool:
        return self._bytes > room or self._kept[0].changes.at < begin

    def _forget(self, now: float) -> None:
        room, begin = self._room * (1 - _PART), now - self._span * (1 - _PART)
        over = []
        while self._kept and self._is_over(room, begin):
            over.append(self._kept.popleft())
            self._bytes -= len(over[-1].line)
        self._begins = apply_changes(self._begins, [kept.changes for kept in over])

    def lines(self, version: int | None = None) -> Iterator[bytes]:
        """Yield the recording as JSON lines: all, or changes after the version if available."""
        if version is None or not self._begins.version <= version <= self.version:
            yield encode_message(self._begins)
            version = self._begins.version
        yield from reversed([kept.line for kept in self._later(version)])

    def _later(self, version: int) -> Iterator[_Line]:
        """Iterate over the recorded changes after the version, newest first."""
        return takewhile(lambda kept: kept.changes.version > version, reversed(self._kept))

    def since(self, version: int) -> Changes | None:
        """Return the changed rows since the version; None if no longer available, or too many."""
        if not max(self._begins.version, self.version - MISSED) <= version <= self.version:
            return None
        return join_changes(reversed([kept.changes for kept in self._later(version)]))


def join_changes(changes: Iterable[Changes]) -> Changes | None:
    """Merge successive changes of dashboard rows, with the last state of each row; None without
    changes.
    """
    rows: dict[Table, dict[str, Row | None]] = {}
    last = None
    for last in changes:
        for table, some in last.rows.items():
            rows.setdefault(table, {}).update(some)
    return last and Changes(last.version, last.at, rows)


def apply_changes(snapshot: Snapshot, changes: Iterable[Changes]) -> Snapshot:
    """Apply successive row changes to a snapshot of the dashboard; return the new snapshot."""
    rows = {table: dict(some) for table, some in snapshot.rows.items()}
    version, at = snapshot.version, snapshot.at
    for each in changes:
        for table, some in each.rows.items():
            kept = rows.setdefault(table, {})
            for key, row in some.items():
                if row is None:
                    kept.pop(key, None)
                else:
                    kept[key] = row
        version, at = each.version, each.at
    return msgspec.structs.replace(snapshot, version=version, at=at, rows=rows)
