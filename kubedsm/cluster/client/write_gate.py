"""The one place where all writes pass: open until a moment that is put off as long as we lead.

A write that comes later is refused before anything is sent; one that waits for its connection at
that moment keeps its bytes, and one that is under way is given up. Reads always pass.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import NoReturn

import attrs

from kubedsm.clock import Clock
from kubedsm.cluster.client.port import Cluster, OutcomeUnknown, Request, Response, not_sent

READS = frozenset({"GET", "HEAD"})
#: seconds; a moment that is nearer has come
RESOLUTION = 0.001


class WriteGate:
    """A `Cluster` in front of another one. Shut until `open_until` is called."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._until = -math.inf
        self._under_way: set[asyncio.Timeout] = set()
        self._changed = asyncio.Event()
        #: until then a write whose sender was cancelled may still arrive
        self._unsettled_until = -math.inf

    def open_until(self, moment: float) -> None:
        """Let writes pass until then, by the clock's monotonic time, in place of any earlier time.

        Those under way go on as well.
        """
        self._until = moment
        self._changed.set()

    def shut(self) -> None:
        """Let no write pass any more."""
        self.open_until(-math.inf)

    async def settle(self) -> None:
        """Shut, and return when nothing that has passed can arrive any more."""
        self.shut()
        await self._clock.sleep(max(0.0, self._unsettled_until - self._clock.monotonic()))

    @property
    def is_open(self) -> bool:
        return self._clock.monotonic() < self._until

    async def watch(self) -> NoReturn:
        """Give up what is under way at the moment the gate shuts; to be run beside its users."""
        while True:
            self._changed.clear()
            while self.is_open:
                await self._clock.sleep(max(RESOLUTION, self._until - self._clock.monotonic()))
            now = asyncio.get_running_loop().time()
            for write in [w for w in self._under_way if not w.expired()]:
                write.reschedule(now)
            await self._changed.wait()

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As `Cluster.request`."""
        if request.method in READS:
            return await self._cluster.request(request, timeout=timeout)
        if not self.is_open:
            raise not_sent(request)
        gated = attrs.evolve(request, may_leave=lambda: self.is_open)
        given_up = asyncio.timeout(None)
        try:
            async with given_up:
                self._under_way.add(given_up)
                try:
                    return await self._cluster.request(gated, timeout=timeout)
                finally:
                    self._under_way.discard(given_up)
        except TimeoutError:
            what = "given up, since we may not be leading any more"
            raise OutcomeUnknown(f"{request.method} {request.path}: {what}") from None
        except asyncio.CancelledError:
            self._unsettled_until = max(self._until, self._unsettled_until)
            raise

    def stream(
        self, request: Request, *, timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As `Cluster.stream`."""
        return self._cluster.stream(request, timeout=timeout)
