"""Graceful termination by operating-system signals."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_by_signals() -> Iterator[asyncio.Event]:
    """Yield an asyncio event that SIGINT and SIGTERM set during the block, for graceful
    termination.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
