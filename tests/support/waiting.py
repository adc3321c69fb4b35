"""Waiting for a condition in real time."""

import asyncio
import time

from support.processes import PATIENCE


def wait_until(condition):
    """Return the condition's value as soon as it is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


async def until(condition):
    """Wait until the condition holds. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - of any kind, in another process or thread
            await asyncio.sleep(0.01)
