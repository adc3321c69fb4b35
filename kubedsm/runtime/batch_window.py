"""How long a batch stays open for pods that come with those that wait."""

import asyncio
import contextlib

from kubedsm.clock import Clock
from kubedsm.configuration.settings import BatchSettings
from kubedsm.runtime.scheduling_queue import RESOLUTION, SchedulingQueue


async def batch_window(
    queue: SchedulingQueue, clock: Clock, batch: BatchSettings, closed: asyncio.Event
) -> None:
    """Wait until no new pod came for `idle` seconds, or the batch is `max` old or `size` big.

    Or until `closed` is set, before.
    """
    opened = clock.monotonic()
    while len(queue) < batch.size and not closed.is_set():
        closes = min(queue.last_arrival + batch.idle, opened + batch.max)
        remaining = closes - clock.monotonic()
        if remaining < RESOLUTION:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(remaining):
                await closed.wait()
