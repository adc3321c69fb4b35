"""Stream of dashboard updates as server-sent events, at the pace at which each viewer reads.

Per-viewer state consists of the version. Slow viewers get larger messages, never additional
messages; viewers without reads cost nothing.
"""

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

import msgspec

from kubedsm.dashboard.recording import Recording
from kubedsm.dashboard.rows import Changes, Message, Snapshot, encode_message
from kubedsm.process.clock import Clock
from kubedsm.process.supervisor import Supervisor

#: seconds between two evaluations: with viewers, without, and when something may soon be over
LOOK, GLANCE, AT_ONCE = 0.25, 1.0, 0.1
#: seconds without changes before a keep-alive message
SILENCE = 10.0
#: maximum duration of a stream in seconds; viewers reconnect without loss
LASTS = 60.0
_NUMBER = re.compile("[0-9]{1,15}")


class Stream:
    """Periodic recomputation of the dashboard's rows: records changes, and transmits them to
    viewers.

    `stirred` is set for short-lived changes, which require an immediate evaluation.
    `past`: messages of earlier processes, oldest first.
    `keep`: receives each recorded message with its encoding.
    """

    def __init__(
        self,
        look: Callable[[], Changes | None],
        snapshot: Callable[[], Snapshot],
        stirred: asyncio.Event,
        clock: Clock,
        supervisor: Supervisor,
        past: Iterable[Message] = (),
        keep: Callable[[Message, bytes], None] = lambda *_: None,
    ) -> None:
        #: process id for viewers: versions are meaningless across processes
        self.run_id = secrets.token_hex(4)
        self._see = look
        self._scene = snapshot
        self._stirred = stirred
        self._clock = clock
        self._supervisor = supervisor
        with supervisor.catch_errors("page"):
            look()
        begins = self._take_snapshot()
        self.recording = Recording.of(past, begins)
        self._keep = keep
        keep(begins, encode_message(begins))
        self.viewers = 0
        self._sent = clock.monotonic()
        self._news = asyncio.Event()
        #: encoded update by viewer version, shared between viewers
        self._lines: dict[int | None, bytes] = {}

    async def run(self) -> None:
        """Recompute the dashboard's rows and record changes periodically, until cancelled; errors
        are logged.
        """
        while True:
            await self._await_look()
            with self._supervisor.catch_errors("page"):
                self._record_changes()

    async def _await_look(self) -> None:
        await self._clock.sleep(AT_ONCE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((LOOK if self.viewers else GLANCE) - AT_ONCE):
                await self._stirred.wait()

    def _record_changes(self) -> None:
        now, changes = self._clock.monotonic(), self._see()
        if changes is not None:
            version = self.recording.version
            self._lines = {version: self._record(changes)}
        if changes is not None or now - self._sent >= SILENCE:
            self._sent = now
            self._news.set()
            self._news = asyncio.Event()

    def _record(self, message: Message) -> bytes:
        line = self.recording.add(message)
        self._keep(message, line)
        return line

    def known(self, query: Mapping[str, str]) -> int | None:
        """Return the row version that the viewer already received from this process, or None."""
        after, run = query.get("after", ""), query.get("run")
        return int(after) if run == self.recording.run and _NUMBER.fullmatch(after) else None

    async def messages(self, version: int | None) -> AsyncGenerator[bytes]:
        """Yield updates after the version, for `LASTS` seconds; empty for keep-alive messages."""
        ends = self._clock.monotonic() + LASTS
        self.viewers += 1
        try:
            while self._clock.monotonic() < ends:
                news = self._news
                if version == self.recording.version:
                    await news.wait()
                if version == self.recording.version:
                    yield b""
                    continue
                line, version = self._encode_update(version), self.recording.version
                yield line
        finally:
            self.viewers -= 1

    def _encode_update(self, version: int | None) -> bytes:
        if version not in self._lines:
            missed = None if version is None else self.recording.since(version)
            if missed is None and version is not None:
                return self._encode_update(None)
            self._lines[version] = encode_message(missed or self._take_snapshot())
        return self._lines[version]

    def _take_snapshot(self) -> Snapshot:
        return msgspec.structs.replace(self._scene(), run=self.run_id)
