"""Bounded recording of the dashboard: a snapshot of its rows, and all messages since.

The messages may be of several processes, one after the other; versions are per process. A
reconnected viewer gets all missed changes in a single message.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple, TypeGuard, cast

from kubedsm.dashboard.rows import (
    Changes,
    Message,
    Row,
    Rows,
    Snapshot,
    encode_message,
    list_tables,
)

#: limits of the messages kept: bytes, and seconds
ROOM = 8_000_000
SPAN = 3_600.0
#: fraction dropped at a time: dropped changes are applied to all snapshot rows
_PART = 1 / 8
#: missed messages above which a viewer gets the shorter snapshot
MISSED = 256


class Line(NamedTuple):
    """Message of the dashboard, with its encoding."""

    message: Message
    line: bytes


def is_restart(message: Message, ends: float) -> TypeGuard[Snapshot]:
    """Return True if the message replaces a recording with this end, in seconds since the epoch: a
    snapshot from before the end is of another clock, or begins another recording.
    """
    return isinstance(message, Snapshot) and message.at < ends


class Recording:
    """Bounded recording of dashboard messages; the oldest messages are merged into the snapshot."""

    def __init__(self, begins: Snapshot, room: int = ROOM, span: float = SPAN) -> None:
        self._room = room
        self._span = span
        self._begin(begins)

    def _begin(self, begins: Snapshot) -> None:
        self._begins = begins
        self._kept: deque[Line] = deque()
        self._bytes = 0
        #: latest process, and the version of its first snapshot
        self.run = begins.run
        self._first = begins.version

    @property
    def ends(self) -> float:
        """Time of the latest message."""
        return self._kept[-1].message.at if self._kept else self._begins.at

    @classmethod
    def of(cls, past: Iterable[Message], now: Snapshot) -> "Recording":
        """Return a recording of earlier messages and a snapshot; repeated snapshots of recorded
        versions are left out.
        """
        messages = iter((*past, now))
        recording = cls(next(each for each in messages if isinstance(each, Snapshot)))
        for each in messages:
            is_repeated = isinstance(each, Snapshot) and each.run == recording.run
            if not (is_repeated and each.version <= recording.version):
                recording.add(each)
        return recording

    @property
    def version(self) -> int:
        """Version number of the latest recorded message of the dashboard."""
        return self._kept[-1].message.version if self._kept else self._begins.version

    def add(self, message: Message) -> bytes:
        """Record and encode the next message; above the size limits, the oldest messages are
        merged.

        Changes are of the process of the last snapshot.
        """
        if is_restart(message, self.ends):
            self._begin(message)
            return encode_message(message)
        if isinstance(message, Snapshot):
            self.run, self._first = message.run, message.version
        kept = Line(message, encode_message(message))
        self._kept.append(kept)
        self._bytes += len(kept.line)
        if self._is_over(self._room, message.at - self._span):
            self._forget(message.at)
        return kept.line

    def _is_over(self, room: float, begin: float) -> bool:
        return self._bytes > room or self._kept[0].message.at < begin

    def _forget(self, now: float) -> None:
        room, begin = self._room * (1 - _PART), now - self._span * (1 - _PART)
        over = []
        while self._kept and self._is_over(room, begin):
            over.append(self._kept.popleft())
            self._bytes -= len(over[-1].line)
        self._begins = apply_changes(self._begins, [kept.message for kept in over])

    def lines(self, version: int | None = None) -> Iterator[bytes]:
        """Yield the recording as JSON lines: all of it, or only the changes after the version of
        the latest process, if still available.
        """
        if version is None or not self._oldest <= version <= self.version:
            yield encode_message(self._begins)
            yield from (kept.line for kept in self._kept)
        else:
            yield from reversed([kept.line for kept in self._later(version)])

    @property
    def _oldest(self) -> int:
        """Oldest version of the latest process after which all changes are recorded."""
        return self._begins.version if self._begins.run == self.run else self._first

    def _later(self, version: int) -> Iterator[Line]:
        """Iterate over the recorded messages after the version, newest first."""
        return takewhile(lambda kept: kept.message.version > version, reversed(self._kept))

    def since(self, version: int) -> Changes | None:
        """Return the changed rows since the version of the latest process; None if no longer
        available, or too many.
        """
        if not max(self._oldest, self.version - MISSED) <= version <= self.version:
            return None
        later = [kept.message for kept in self._later(version)]
        return join_changes(each for each in reversed(later) if isinstance(each, Changes))

    @property
    def last(self) -> Snapshot:
        """All rows as of the latest message."""
        return apply_changes(self._begins, [kept.message for kept in self._kept])


def join_changes(changes: Iterable[Changes]) -> Changes | None:
    """Merge successive changes of dashboard rows, with the last state of each row; None without
    changes.
    """
    rows: dict[str, dict[str, Row | None]] = {}
    last = None
    for last in changes:
        for table, some in list_tables(last.rows):
            rows.setdefault(table, {}).update(some)
    return last and Changes(last.version, last.at, cast(Rows, rows))


def apply_changes(snapshot: Snapshot, messages: Iterable[Message]) -> Snapshot:
    """Apply successive messages to a snapshot of the dashboard; return the new snapshot."""
    rows = {table: dict(some) for table, some in list_tables(snapshot.rows)}
    version, at, run = snapshot.version, snapshot.at, snapshot.run
    for each in messages:
        if isinstance(each, Snapshot):
            rows, run = {}, each.run
        for table, some in list_tables(each.rows):
            kept = rows.setdefault(table, {})
            for key, row in some.items():
                if row is None:
                    kept.pop(key, None)
                else:
                    kept[key] = row
        version, at = each.version, each.at
    return Snapshot(version, at, cast(Rows, rows), run)
