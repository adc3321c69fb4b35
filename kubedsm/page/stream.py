"""What viewers are told, as server-sent events: each as fast as it reads, and nobody waits for it.

Nothing is kept for a viewer but the version that it has. One that reads slowly finds more in the
next message, never more messages; one that does not read at all costs nothing.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable

import msgspec

from kubedsm.clock import Clock
from kubedsm.page.film import Film
from kubedsm.page.messages import Changes, Snapshot, encoded

#: seconds from one look to the next, with viewers and without
LOOK, GLANCE = 0.25, 1.0
#: seconds without news, after which a viewer is told that we are still here
SILENCE = 10.0


class Stream:
    """Looks again and again, keeps what was seen, and tells it to whoever views."""

    def __init__(
        self,
        look: Callable[[], Changes | None],
        snapshot: Callable[[], Snapshot],
        clock: Clock,
    ) -> None:
        #: of this process: versions of another one say nothing here
        self.run_id = secrets.token_hex(4)
        self._look = look
        self._whole_scene = snapshot
        self._clock = clock
        look()
        self.film = Film(self._snapshot())
        self._news = asyncio.Event()
        self.viewers = 0
        #: encoded once for all viewers: the last changes, and the snapshot of a version
        self._last: tuple[int, bytes] = (0, b"")
        self._whole: tuple[int, bytes] = (-1, b"")

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            changes = self._look()
            if changes is not None:
                self._last = changes.version, self.film.add(changes)
                self._news.set()
                self._news = asyncio.Event()
            await self._clock.sleep(LOOK if self.viewers else GLANCE)

    async def messages(self, version: int | None) -> AsyncGenerator[bytes]:
        """What a viewer that has that version, or nothing yet, is told, until it goes.

        An empty one says that there is no news.
        """
        self.viewers += 1
        try:
            while True:
                news = self._news
                if version != self.film.version:
                    told, line = self._next(version)
                    version = told
                    yield line
                    continue
                try:
                    async with asyncio.timeout(SILENCE):
                        await news.wait()
                except TimeoutError:
                    yield b""
        finally:
            self.viewers -= 1

    def _next(self, version: int | None) -> tuple[int, bytes]:
        last, line = self._last
        if version is not None and version == last - 1:
            return last, line
        missed = None if version is None else self.film.since(version)
        if missed is not None:
            return missed.version, encoded(missed)
        if self._whole[0] != self.film.version:
            self._whole = self.film.version, encoded(self._snapshot())
        return self._whole

    def _snapshot(self) -> Snapshot:
        return msgspec.structs.replace(self._whole_scene(), run=self.run_id)
