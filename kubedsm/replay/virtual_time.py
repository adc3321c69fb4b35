"""An event loop whose clock jumps to the next thing there is to do, and never waits.

Nothing in it may wait for the world outside: no sockets, no threads.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StandstillError(RuntimeError):
    """All tasks wait for others, and nothing will ever happen again."""


class _Jump(selectors.SelectSelector):
    """Where a loop waits for input until its next timer: there is no input, so time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StandstillError("every task waits, and no timer is set")
        self.now += max(0.0, timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Begins at 0 seconds."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run. Raises StandstillError if the coroutine would wait for ever."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
