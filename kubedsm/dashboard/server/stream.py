"""Stream of dashboard updates as server-sent events, at the pace at which each viewer reads.

Per-viewer state consists of the version. Slow viewers get larger messages, never additional
messages; viewers without reads cost nothing.
"""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing

import msgspec

from kubedsm.dashboard.recording import Recording
from kubedsm.dashboard.rows import Changes, Message, Snapshot, encode_message
from kubedsm.dashboard.server.leader import LeaderPage
from kubedsm.process.clock import Clock, ends_within
from kubedsm.process.supervisor import Supervisor

#: seconds between two evaluations: with viewers, without, and when something may soon be over
LOOK, GLANCE, AT_ONCE = 0.25, 1.0, 0.1
#: seconds without changes before a keep-alive message
SILENCE = 10.0
#: maximum duration of a stream in seconds; viewers reconnect without loss
LASTS = 60.0
#: seconds between two attempts of a standby to read the leader's page
RETRY = 2.0
#: tolerated difference between the clocks of two replicas, and of a clock set back, in seconds
SKEW = 5.0
_NUMBER = re.compile("[0-9]{1,15}")


class Stream:
    """Periodic recomputation of the dashboard's rows: records changes, and transmits them to
    viewers.

    `stirred` is set for short-lived changes, which require an immediate evaluation.
    `past`: messages of earlier processes, oldest first.
    `keep`: receives each recorded message with its encoding.
    `leader`: page of another process, which a standby shows as long as that process responds.
    `learn`: receives each message of another process.
    """

    def __init__(
        self,
        look: Callable[[], Changes | None],
        snapshot: Callable[[], Snapshot],
        stirred: asyncio.Event,
        clock: Clock,
        supervisor: Supervisor,
        past: Collection[Message] = (),
        keep: Callable[[Message, bytes], None] = lambda *_: None,
        leader: LeaderPage | None = None,
        learn: Callable[[Message], None] = lambda _: None,
    ) -> None:
        #: process id for viewers: versions are meaningless across processes
        self.run_id = secrets.token_hex(4)
        self._see = look
        self._scene = snapshot
        self._stirred = stirred
        self._clock = clock
        self._supervisor = supervisor
        self._leader = leader
        self._learn = learn
        with supervisor.catch_errors("page"):
            look()
        begins = self._take_snapshot()
        self.recording = Recording.of(past, begins)
        self._keep = keep
        keep(begins, encode_message(begins))
        for message in past:
            learn(message)
        #: the recording's latest messages are of the leader
        self._follows = False
        self.viewers = 0
        self._sent = clock.monotonic()
        self._news = asyncio.Event()
        #: encoded update by viewer version, shared between viewers
        self._lines: dict[int | None, bytes] = {}

    async def run(self) -> None:
        """Recompute the dashboard's rows and record changes periodically, until cancelled; errors
        are logged. A standby records the leader's messages in place of changed rows.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_on())
            if self._leader is not None:
                tasks.create_task(self._follow_leader(self._leader))

    async def _look_on(self) -> None:
        while True:
            await self._await_look()
            with self._supervisor.catch_errors("page"):
                message: Message | None = self._see()
                if self._follows:
                    message = None
                elif message is not None and message.at < self.recording.ends - SKEW:
                    # The clock was set back: another recording begins.
                    message = self._take_snapshot()
                self._publish(message)

    async def _follow_leader(self, leader: LeaderPage) -> None:
        def known() -> dict[str, str]:
            if self.recording.run == self.run_id:
                return {}
            return {"after": str(self.recording.version), "run": self.recording.run}

        while True:
            with self._supervisor.catch_errors("page"):
                async with aclosing(leader.messages(known)) as messages:
                    async for message in messages:
                        self._take_message(message)
                if self._follows:
                    self._follows = False
                    self._publish(self._continue_recording())
            await self._clock.sleep(RETRY)

    def _continue_recording(self) -> Snapshot:
        """Return all rows of this process, at a time after the leader's last message."""
        snapshot, ends = self._take_snapshot(), self.recording.ends
        is_near = ends < self._clock.wall() + SKEW
        return msgspec.structs.replace(snapshot, at=max(snapshot.at, ends)) if is_near else snapshot

    def _take_message(self, message: Message) -> None:
        """Record a message of the leader; changes need the snapshot that they belong to."""
        run = message.run if isinstance(message, Snapshot) else self.recording.run
        is_known = run == self.recording.run and message.version <= self.recording.version
        if is_known or run == self.run_id:
            return
        self._follows = True
        self._learn(message)
        self._publish(message)

    async def _await_look(self) -> None:
        await self._clock.sleep(AT_ONCE)
        await ends_within((LOOK if self.viewers else GLANCE) - AT_ONCE, self._stirred.wait())

    def _publish(self, message: Message | None) -> None:
        """Record the next message, if any, and notify the viewers."""
        now = self._clock.monotonic()
        if message is not None:
            version, follows = self.recording.version, isinstance(message, Changes)
            line = self.recording.add(message)
            self._keep(message, line)
            self._lines = {version: line} if follows else {}
        if message is not None or now - self._sent >= SILENCE:
            self._sent = now
            self._news.set()
            self._news = asyncio.Event()

    def known(self, query: Mapping[str, str]) -> int | None:
        """Return the row version that the viewer already received from this process, or None."""
        after, run = query.get("after", ""), query.get("run")
        return int(after) if run == self.recording.run and _NUMBER.fullmatch(after) else None

    async def messages(self, version: int | None) -> AsyncGenerator[bytes]:
        """Yield updates after the version, for `LASTS` seconds; empty for keep-alive messages."""
        ends, run = self._clock.monotonic() + LASTS, self.recording.run
        self.viewers += 1
        try:
            while self._clock.monotonic() < ends:
                news = self._news
                if run != self.recording.run:
                    run, version = self.recording.run, None
                if version == self.recording.version:
                    await news.wait()
                    if (run, version) == (self.recording.run, self.recording.version):
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
            whole = self.recording.last if self._follows else self._take_snapshot()
            self._lines[version] = encode_message(missed or whole)
        return self._lines[version]

    def _take_snapshot(self) -> Snapshot:
        return msgspec.structs.replace(self._scene(), run=self.run_id)
