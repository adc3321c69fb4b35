"""An event loop whose clock jumps to the next thing there is to do, and never waits.

Nothing in it may wait for the world outside: no sockets, no threads.
"""

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
#: what is called at each moment, when nothing is left to be done at it; with the next one
Passing = Callable[[float], None]


class StandstillError(RuntimeError):
    """All tasks wait for others, and nothing will ever happen again."""


class _Jump(selectors.SelectSelector):
    """Where a loop waits for input until its next timer: there is no input, so time passes."""

    def __init__(self, passing: Passing | None) -> None:
        super().__init__()
        self.now = 0.0
        self._passing = passing

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StandstillError("every task waits, and no timer is set")
        then = self.now + max(0.0, timeout)
        if self._passing is not None and then > self.now:
            self._passing(then)
        self.now = then
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Begins at 0 seconds. With an `order`, tasks that are ready go on in the order it draws.

    asyncio promises none between tasks; without `order` it is first come, first served. `passing`
    sees each moment without taking part in it: tasks go on as if nobody looked.
    """

    _ready: deque[asyncio.Handle]

    def __init__(self, order: random.Random | None = None, passing: Passing | None = None) -> None:
        self._jump = _Jump(passing)
        self._order = order
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now

    def _run_once(self) -> None:
        if self._order is not None and len(self._ready) > 1:
            places = [place for place, handle in enumerate(self._ready) if _is_step(handle)]
            drawn = [self._ready[place] for place in places]
            self._order.shuffle(drawn)
            for place, handle in zip(places, drawn, strict=True):
                self._ready[place] = handle
        super()._run_once()  # type: ignore[misc]  # asyncio's own loops override it, too


def _is_step(handle: asyncio.Handle) -> bool:
    """Whether it has a task go on; other callbacks rely on their order."""
    callback = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001 - no other way to tell
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


def run_in_virtual_time(
    main: Coroutine[Any, Any, T],
    order: random.Random | None = None,
    passing: Passing | None = None,
) -> T:
    """As asyncio.run. Raises StandstillError if the coroutine would wait for ever."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(order, passing)) as runner:
        return runner.run(main)
