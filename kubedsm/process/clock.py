"""Monotonic and wall clocks of the process, and deadlines.

With virtual time in simulations and tests, both clocks follow the event loop.
"""

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol

import attrs

from kubedsm.model.deadline import URGENT_SHARE, Deadline


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
    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        return asyncio.sleep(seconds)


@attrs.frozen
class VirtualClock(SystemClock):
    """Reproducible clock: wall time starts at a constant and follows the event loop."""

    epoch: float = 1_767_225_600.0  # 2026-01-01T00:00:00Z

    def wall(self) -> float:
        return self.epoch + asyncio.get_running_loop().time()


def deadline_in(seconds: float, clock: Clock, share: float = URGENT_SHARE) -> Deadline:
    """Return the deadline of a scheduling decision with a time limit of some seconds, from now."""
    until = clock.monotonic() + seconds
    return Deadline.within(seconds, lambda: until - clock.monotonic(), share)
