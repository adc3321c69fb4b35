"""What was told, kept as long as there is room for it: a snapshot, and all changes since.

Whoever was away for a while has what it missed in one message.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

import msgspec

from kubedsm.dashboard.messages import Changes, Snapshot, encoded
from kubedsm.dashboard.rows import Row, Table

#: bytes of changes that are kept, and seconds that they go back
ROOM = 8_000_000
SPAN = 3_600.0
#: which part goes at a time when there is more: what goes is added to all rows of the snapshot
_PART = 1 / 8
#: messages that may be missed; of more a snapshot says as much in less
MISSED = 256


class _Kept(NamedTuple):
    changes: Changes
    line: bytes


class Film:
    """The one owner of what was told."""

    def __init__(self, begins: Snapshot, room: int = ROOM, span: float = SPAN) -> None:
        self._room = room
        self._span = span
        self._begins = begins
        self._kept: deque[_Kept] = deque()
        self._bytes = 0

    @property
    def version(self) -> int:
        """Of the last message."""
        return self._kept[-1].changes.version if self._kept else self._begins.version

    def add(self, changes: Changes) -> bytes:
        """Take note of the next changes, and encode them; the oldest are forgotten in turn."""
        kept = _Kept(changes, encoded(changes))
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
        self._begins = after(self._begins, [kept.changes for kept in over])

    def lines(self, version: int | None = None) -> Iterator[bytes]:
        """All of it, or what came after that version, if all of that is kept."""
        if version is None or not self._begins.version <= version <= self.version:
            yield encoded(self._begins)
            version = self._begins.version
        yield from reversed([kept.line for kept in self._later(version)])

    def _later(self, version: int) -> Iterator[_Kept]:
        """What came after that version, the last first."""
        return takewhile(lambda kept: kept.changes.version > version, reversed(self._kept))

    def since(self, version: int) -> Changes | None:
        """What has changed since then, at one go; None if that is not kept, or too much."""
        if not max(self._begins.version, self.version - MISSED) <= version <= self.version:
            return None
        return joined(reversed([kept.changes for kept in self._later(version)]))


def joined(changes: Iterable[Changes]) -> Changes | None:
    """As one: of each row what it came to; None if there are none."""
    rows: dict[Table, dict[str, Row | None]] = {}
    last = None
    for last in changes:
        for table, some in last.rows.items():
            rows.setdefault(table, {}).update(some)
    return last and Changes(last.version, last.at, rows)


def after(snapshot: Snapshot, changes: Iterable[Changes]) -> Snapshot:
    """The snapshot with these changes made, one after the other."""
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
