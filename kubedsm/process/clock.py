"""Monotonic and wall clocks of the process.

In simulations and tests with virtual time, both clocks follow the event loop.
"""

import asyncio
import time
from collections.abc import Awaitable, Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol

#: resolution of timers in seconds, and the minimum of a timer
RESOLUTION = 1e-6


def rfc3339(at: float, *, micro: bool = True) -> str:
    """Format a time, in seconds since the epoch, as Kubernetes' MicroTime; else its Time."""
    return datetime.fromtimestamp(at, UTC).strftime(f"%Y-%m-%dT%H:%M:%S{'.%f' * micro}Z")


class Clock(Protocol):
    def monotonic(self) -> float:
        """Return monotonic seconds since an arbitrary moment."""

    def wall(self) -> float:
        """Return wall-clock seconds since the epoch."""

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Suspend the current task for some seconds."""


class SystemClock:
    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    sleep = staticmethod(asyncio.sleep)


async def ends_within(seconds: float | None, work: Awaitable[object]) -> bool:
    """Await work, for up to some seconds (None: without limit); return False if cut short."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return False
    return True
