"""Event loop in virtual time: the clock jumps to the next timer, so the loop never waits.

Tasks must not wait for anything outside of the loop: no sockets, no threads.
"""

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import attrs

T = TypeVar("T")
#: called at the end of each moment with the next moment
Passing = Callable[[float], None]


@attrs.frozen
class VirtualClock:
    """Reproducible clock: wall time starts at a constant and follows the event loop."""

    epoch: float = 1_767_225_600.0  # 2026-01-01T00:00:00Z

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return self.epoch + asyncio.get_running_loop().time()

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        return asyncio.sleep(seconds)


#: maximum turns of the event loop at one moment
TURNS = 1_000_000


class StandstillError(RuntimeError):
    """Error: virtual time stands still, as all tasks wait and no timer is set, or as callbacks set
    further callbacks at the same moment without end.
    """


class _Jump(selectors.SelectSelector):
    """Selector without file descriptors that advances virtual time to the next timer."""

    def __init__(self, passing: Passing | None) -> None:
        super().__init__()
        self.now = 0.0
        self._turns = 0
        self._passing = passing

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StandstillError("every task waits, and no timer is set")
        then = self.now + max(0.0, timeout)
        self._turns = 0 if then > self.now else self._turns + 1
        if self._turns > TURNS:
            self._turns = 0
            raise StandstillError(f"the moment {self.now:g} s goes on for {TURNS:,} turns")
        if self._passing is not None and then > self.now:
            self._passing(then)
        self.now = then
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio event loop in virtual time, which begins at 0 seconds.

    asyncio guarantees no order of ready tasks: `order` draws a random one, otherwise it is first
    come, first served. `passing` is called before each advance of the clock, and does not influence
    the tasks.
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
    """Return whether the event-loop callback resumes a task; such callbacks may be reordered,
    others not.
    """
    callback = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001 - no other way to tell
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


def run_in_virtual_time(
    main: Coroutine[Any, Any, T],
    order: random.Random | None = None,
    passing: Passing | None = None,
) -> T:
    """Run a coroutine to completion on an event loop in virtual time; the counterpart of
    asyncio.run.

    Raises StandstillError instead of waiting without end.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(order, passing)) as runner:
        return runner.run(main)
