"""Write gate: API writes pass only until a deadline, which each Lease renewal extends.

A write after the deadline waits for a moment, since a delayed event loop may not have read the
response to a renewal yet. Then the write is refused before a byte is sent. When the gate shuts,
writes waiting for a connection send nothing, and writes in flight are abandoned. Reads always pass.
The gate also shuts when the wall clock has passed the deadline, since the monotonic clock of a
suspended machine stands still. If that clock was set forward, the next renewal opens the gate.
"""

import asyncio
import math
from typing import NoReturn

import attrs

from kubedsm.kube.client.port import (
    Cluster,
    ClusterFront,
    OutcomeUnknown,
    Request,
    Response,
    not_sent,
)
from kubedsm.process.clock import Clock

READS = frozenset({"GET", "HEAD"})
#: timer resolution in seconds
RESOLUTION = 0.001
#: maximum wait of a write at a shut gate, as long as a slow renewal may take, and polling interval,
#: in seconds
PATIENCE, LOOK = 3.0, 0.05


class WriteGate(ClusterFront):
    """API client wrapper that refuses writes unless this process leads; initially shut.

    `open_until` opens the gate.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        super().__init__(cluster)
        self._clock = clock
        self._until = -math.inf
        self._wall_until = math.inf
        self._under_way: set[asyncio.Timeout] = set()
        self._changed = asyncio.Event()
        #: until then a write whose sender was cancelled may still arrive
        self._unsettled_until = -math.inf

    def open_until(self, moment: float, wall: float = math.inf) -> None:
        """Permit writes until a deadline in monotonic seconds, including writes in flight.

        `wall`: the same deadline in seconds since the epoch.
        """
        self._until, self._wall_until = moment, wall
        self._changed.set()

    def shut(self) -> None:
        """Close the write gate immediately: no further write is sent to the API server."""
        self.open_until(-math.inf)

    async def settle(self) -> None:
        """Close the gate, and wait until no earlier write can still reach the API server."""
        self.shut()
        await self._clock.sleep(max(0.0, self._unsettled_until - self._clock.monotonic()))

    @property
    def is_open(self) -> bool:
        return self._clock.monotonic() < self._until and self._clock.wall() < self._wall_until

    async def watch(self) -> NoReturn:
        """Cancel writes in flight when the gate shuts; runs as a background task."""
        while True:
            self._changed.clear()
            while self.is_open:
                await self._clock.sleep(max(RESOLUTION, self._until - self._clock.monotonic()))
            now = asyncio.get_running_loop().time()
            for write in [w for w in self._under_way if not w.expired()]:
                write.reschedule(now)
            await self._changed.wait()

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send an API request; a write only while the gate is open. See `Cluster.request`."""
        if request.method in READS:
            return await self.cluster.request(request, timeout=timeout)
        if not await self._await_opening():
            raise not_sent(request)
        gated = attrs.evolve(request, may_leave=lambda: self.is_open)
        given_up = asyncio.timeout(None)
        try:
            async with given_up:
                self._under_way.add(given_up)
                try:
                    return await self.cluster.request(gated, timeout=timeout)
                finally:
                    self._under_way.discard(given_up)
        except TimeoutError:
            what = "cancelled: this process may no longer lead"
            raise OutcomeUnknown(f"{request.method} {request.path}: {what}") from None
        except asyncio.CancelledError:
            self._unsettled_until = max(self._until, self._unsettled_until)
            raise

    async def _await_opening(self) -> bool:
        """Return True if the gate is open, or opens within `PATIENCE` seconds."""
        until = self._clock.monotonic() + PATIENCE
        while not self.is_open and self._clock.monotonic() < until:
            await self._clock.sleep(LOOK)
        return self.is_open
