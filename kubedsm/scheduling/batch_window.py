"""How long a batch stays open for pods that come with those that wait."""

import asyncio
import contextlib
from collections.abc import Callable

from kubedsm.config.sections import BatchSettings
from kubedsm.process.clock import Clock
from kubedsm.scheduling.scheduling_queue import RESOLUTION, SchedulingQueue


async def batch_window(
    queue: SchedulingQueue,
    clock: Clock,
    batch: BatchSettings,
    closed: asyncio.Event,
    full: Callable[[], int],
) -> None:
    """Wait until no new pod came for `idle` seconds, or the batch is `max` old, or full.

    Or until `closed` is set, before. It is asked how many pods are a full one once there are
    `size`.
    """
    opened, most = clock.monotonic(), batch.size
    while not closed.is_set():
        if len(queue) >= most:
            most = full()
            if len(queue) >= most:
                return
        closes = min(queue.last_arrival + batch.idle, opened + batch.max)
        remaining = closes - clock.monotonic()
        if remaining < RESOLUTION:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(remaining):
                await closed.wait()
