"""History of the dashboard on disk: the recording's messages in a bounded SQLite file.

A thread appends the messages in batches. A chapter begins with a snapshot; the oldest chapters are
deleted. An unusable file costs the history and one log line, never the scheduler.
"""

import asyncio
import math
import sqlite3
import threading
import zlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import msgspec
import structlog

from kubedsm.dashboard.recording import ROOM, Line, apply_changes, is_restart
from kubedsm.dashboard.rows import Message, Snapshot, decode_message, encode_message
from kubedsm.process.clock import Clock

log = structlog.get_logger()

FILE = "history.sqlite3"
#: format of the file
VERSION = 1
#: bytes of encoded messages in the file at most, and in a chapter after its snapshot at least
MOST, CHAPTER = 2 * ROOM, ROOM // 8
#: seconds between two batches
PAUSE = 2.0
#: seconds to wait for a lock of another process
_TIMEOUT = 1.0
_SCHEMA = f"""
PRAGMA user_version = {VERSION};
CREATE TABLE batches (id INTEGER PRIMARY KEY, chapter INTEGER, bytes INTEGER, lines BLOB);
"""


class History:
    """Writer of the history: collects messages, and appends them to the file in a thread."""

    def __init__(self, folder: Path, clock: Clock, most: int = MOST) -> None:
        """`most`: bytes of encoded messages in the file."""
        self._file = _File(folder / FILE, most)
        self._clock = clock
        self._most = most
        self._waiting: list[Line] = []
        self._bytes = 0
        #: the disk has not responded for too long
        self._given_up = False

    async def read(self) -> list[Message]:
        """Return the messages of earlier processes, oldest first; empty for an unusable file."""
        return await asyncio.to_thread(self._file.read)

    def append(self, message: Message, line: bytes) -> None:
        """Append a message and its encoding with the next batch."""
        if self._given_up:
            return
        self._waiting.append(Line(message, line))
        self._bytes += len(line)
        if self._bytes > self._most:
            self._given_up = True
            self._waiting.clear()
            log.warning("history not kept", file=str(self._file.path), error="the disk hangs")

    async def run(self) -> None:
        """Write batches until cancelled; then close the file."""
        try:
            while True:
                await self._clock.sleep(PAUSE)
                await asyncio.to_thread(self._file.write, self._take())
        finally:
            await asyncio.to_thread(self._file.close, self._take())

    def _take(self) -> Sequence[Line]:
        taken, self._waiting, self._bytes = self._waiting, [], 0
        return taken


class _File:
    """SQLite file with the messages; logs errors once."""

    def __init__(self, path: Path, most: int) -> None:
        self.path = path
        self._most = most
        #: a cancelled write goes on in its thread while the file is to be closed
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        #: all rows as of the last message; None before the first
        self._now: Snapshot | None = None
        #: bytes after which a chapter ends, and those of the current chapter
        self._enough, self._written = 0, math.inf
        self._is_failing = False

    def read(self) -> list[Message]:
        """Return the stored messages; empty with a log line if they cannot be read."""
        try:
            rows = self._connect().execute("SELECT lines FROM batches ORDER BY id").fetchall()
            lines = chain.from_iterable(zlib.decompress(packed).split(b"\n") for (packed,) in rows)
            return list(map(decode_message, lines))
        except (msgspec.DecodeError, zlib.error, TypeError) as error:
            self._move_aside(f"damaged: {error}")
        except (sqlite3.Error, OSError) as error:
            self._handle(error)
        finally:
            self._disconnect()
        return []

    def write(self, batch: Sequence[Line]) -> None:
        """Append messages; log the first of several failures."""
        with self._lock:
            self._append(batch)

    def close(self, batch: Sequence[Line] = ()) -> None:
        """Append the last messages, and close the file."""
        with self._lock:
            self._append(batch)
            self._disconnect()

    def _append(self, batch: Sequence[Line]) -> None:
        if not batch:
            return
        before = self._now
        replacing = _find_restart(batch, before)
        batch = batch[replacing or 0 :]
        self._now = apply_changes(before or Snapshot(0, 0.0, {}), [each.message for each in batch])
        lines, begins = [each.line for each in batch], isinstance(batch[0].message, Snapshot)
        if not begins and before is not None and self._written > self._enough:
            lines.insert(0, encode_message(before))
            begins = True
        try:
            self._insert(lines, begins, replaces=replacing is not None)
        except (sqlite3.Error, OSError) as error:
            self._handle(error)
            self._written = math.inf  # a chapter without gaps has to begin
        else:
            self._is_failing = False

    def _insert(self, lines: Sequence[bytes], begins: bool, replaces: bool) -> None:
        size = sum(map(len, lines))
        if begins and 4 * len(lines[0]) > self._most:
            raise OSError(f"a snapshot has {len(lines[0])} bytes, too many for {self._most}")
        if begins:
            self._enough, self._written = len(lines[0]) + max(CHAPTER, len(lines[0])), 0
        connection, packed = self._connect(), zlib.compress(b"\n".join(lines), 1)
        with connection:
            if replaces:
                connection.execute("DELETE FROM batches")
            [[last]] = connection.execute("SELECT max(chapter) FROM batches")
            chapter = (last or 0) + begins
            connection.execute(
                "INSERT INTO batches (chapter, bytes, lines) VALUES (?, ?, ?)",
                (chapter, size, packed),
            )
            while True:
                [[held, oldest]] = connection.execute(
                    "SELECT sum(bytes), min(chapter) FROM batches"
                )
                if held <= self._most or oldest == chapter:
                    break
                connection.execute("DELETE FROM batches WHERE chapter = ?", (oldest,))
        self._written += size

    def _connect(self) -> sqlite3.Connection:
        """Open the file if necessary; a file of an unknown format is moved aside."""
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection, found = _open(self.path)
            if found not in (0, VERSION):
                self._move_aside(f"format {found}, not {VERSION}")
                self._connection, _ = _open(self.path)
        return self._connection

    def _handle(self, error: Exception) -> None:
        """Log an error unless the last access failed, too; move a damaged file aside."""
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, sqlite3.OperationalError
        ):
            self._move_aside(f"damaged: {error}")
        elif not self._is_failing:
            self._is_failing = True
            log.warning("history not kept", file=str(self.path), error=str(error))

    def _move_aside(self, why: str) -> None:
        self._disconnect()
        aside = self.path.with_suffix(".aside")
        try:
            self.path.replace(aside)
            self.path.with_name(f"{FILE}-wal").unlink(missing_ok=True)
        except OSError as error:
            self._handle(error)
        else:
            log.warning("history moved aside", file=str(self.path), to=str(aside), why=why)

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()


def _find_restart(batch: Sequence[Line], before: Snapshot | None) -> int | None:
    """Return the index of the last message that replaces all messages before."""
    ends, found = before.at if before else 0.0, None
    for index, (message, _) in enumerate(batch):
        if is_restart(message, ends):
            found = index
        ends = message.at
    return found


def _open(path: Path) -> tuple[sqlite3.Connection, int]:
    """Open or make an SQLite file for one process, so that a second one does not write, too. Return
    it with the version of its format.
    """
    connection = sqlite3.connect(path, timeout=_TIMEOUT, check_same_thread=False)
    try:
        for setting in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {setting}")
        [[found]] = connection.execute("PRAGMA user_version")
        if not found:
            connection.executescript(_SCHEMA)
    except sqlite3.Error:
        connection.close()
        raise
    return connection, found
