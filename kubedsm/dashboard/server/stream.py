"""What viewers are told, as server-sent events: each as fast as it reads, and nobody waits for it.

Nothing is kept for a viewer but the version that it has. One that reads slowly finds more in the
next message, never more messages; one that does not read at all costs nothing.
"""

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping

import msgspec

from kubedsm.dashboard.messages import Changes, Snapshot, encoded
from kubedsm.dashboard.recording import Film
from kubedsm.process.clock import Clock
from kubedsm.process.supervisor import Supervisor

#: seconds from one look to the next: with viewers, without, and when something is soon over
LOOK, GLANCE, AT_ONCE = 0.25, 1.0, 0.1
#: seconds without news, after which viewers are told that we are still here
SILENCE = 10.0
#: seconds after which a stream ends: a viewer that reads asks again, and loses nothing
LASTS = 60.0
_NUMBER = re.compile("[0-9]{1,15}")


class Stream:
    """Looks again and again, keeps what was seen, and tells it to whoever views.

    `stirred` is set when there is something to be seen that may be over by the next look, and
    cleared by a look.
    """

    def __init__(
        self,
        look: Callable[[], Changes | None],
        snapshot: Callable[[], Snapshot],
        stirred: asyncio.Event,
        clock: Clock,
        supervisor: Supervisor,
    ) -> None:
        #: of this process: versions of another one say nothing here
        self.run_id = secrets.token_hex(4)
        self._see = look
        self._scene = snapshot
        self._stirred = stirred
        self._clock = clock
        self._supervisor = supervisor
        with supervisor.catch_errors("page"):
            look()
        self.film = Film(self._snapshot())
        self.viewers = 0
        self._spoke = clock.monotonic()
        self._heard = asyncio.Event()
        #: what brings viewers up to date, by the version that they have: encoded once for all
        self._lines: dict[int | None, bytes] = {}

    async def run(self) -> None:
        """Look until cancelled; what is wrong with what is seen is nobody else's affair."""
        while True:
            await self._pause()
            with self._supervisor.catch_errors("page"):
                self._look()

    async def _pause(self) -> None:
        await self._clock.sleep(AT_ONCE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((LOOK if self.viewers else GLANCE) - AT_ONCE):
                await self._stirred.wait()

    def _look(self) -> None:
        now, changes = self._clock.monotonic(), self._see()
        if changes is not None:
            self._lines = {self.film.version: self.film.add(changes)}
        if changes is not None or now - self._spoke >= SILENCE:
            self._spoke = now
            self._heard.set()
            self._heard = asyncio.Event()

    def known(self, query: Mapping[str, str]) -> int | None:
        """The version that somebody says to have already, if it is one of ours."""
        after, run = query.get("after", ""), query.get("run")
        return int(after) if run == self.run_id and _NUMBER.fullmatch(after) else None

    async def messages(self, version: int | None) -> AsyncGenerator[bytes]:
        """Yield a viewer's updates from that version on, for `LASTS` seconds.

        An empty one says that there is no news.
        """
        ends = self._clock.monotonic() + LASTS
        self.viewers += 1
        try:
            while self._clock.monotonic() < ends:
                heard = self._heard
                if version == self.film.version:
                    await heard.wait()
                if version == self.film.version:
                    yield b""
                    continue
                line, version = self._line(version), self.film.version
                yield line
        finally:
            self.viewers -= 1

    def _line(self, version: int | None) -> bytes:
        if version not in self._lines:
            missed = None if version is None else self.film.since(version)
            if missed is None and version is not None:
                return self._line(None)
            self._lines[version] = encoded(missed or self._snapshot())
        return self._lines[version]

    def _snapshot(self) -> Snapshot:
        return msgspec.structs.replace(self._scene(), run=self.run_id)
