"""Supervisor of background loops: catches, logs and counts exceptions, and restarts loops.

A programming error or an unexpected object affects a single pod, plan or decision, never the
process. Every caught exception increments a counter, produces an error in the log, and fails tests.
"""

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

import attrs
import structlog

from kubedsm.process.backoff import Backoff
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import LogThrottle

log = structlog.get_logger()

T = TypeVar("T")
#: coroutine function of a background task
Work = Callable[[], Coroutine[Any, Any, None]]

#: seconds of successful operation before the back-off is reset
WORKED_AFTER = 60.0


@attrs.define(eq=False)
class _Loop:
    """Background loop under supervision, with its failures and restarts."""

    part: str
    #: time of the first failure after successful operation
    failing_since: float | None = None
    #: time of the last restart; None during the back-off
    restarted: float | None = None


@attrs.define(eq=False)
class Catching(AbstractContextManager["Catching"]):
    """Context manager that logs an exception with context; several for each bind, so that a
    generator would be too slow.
    """

    _log: Callable[[str, Exception, Mapping[str, object]], None]
    _part: str
    _context: Mapping[str, object] = {}
    #: the exception, if any
    error: Exception | None = attrs.field(default=None, init=False)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error
        self._log(self._part, error, self._context)
        return True


class Supervisor:
    """Supervisor of background work: logs and counts exceptions; cancellation propagates."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._throttle = LogThrottle(clock)
        #: number of caught exceptions by component
        self.caught: Counter[str] = Counter()
        #: monotonic time of each component's last caught exception
        self._caught_at: dict[str, float] = {}
        self._loops: list[_Loop] = []
        #: given the component and a context, the context manager of its work
        self.catch_errors = partial(Catching, self._log_caught)

    def notify_observers(
        self, part: str, observers: Iterable[Callable[[T], object]], change: T, **context: object
    ) -> None:
        """Call every observer of a change; log exceptions and continue."""
        for observer in observers:
            try:
                observer(change)
            except Exception as error:  # noqa: BLE001 - the purpose of this class
                self._log_caught(part, error, context)

    def isolate_failures(
        self, part: str, action: Callable[[list[T]], object], items: list[T]
    ) -> list[T]:
        """Apply the action to all given objects, bisecting after exceptions; return the objects for
        which the action fails.
        """
        try:
            action(items)
        except Exception as error:  # noqa: BLE001 - as above
            cause = error
        else:
            return []
        middle = len(items) // 2
        halves = (items[:middle], items[middle:]) if middle else ()
        failed = [item for half in halves for item in self.isolate_failures(part, action, half)]
        if not failed:
            self._log_caught(part, cause, {"items": ", ".join(map(str, items))})
        return failed if middle else items

    async def keep(self, part: str, loop: Work) -> None:
        """Run a background loop forever, restarted with back-off after exceptions."""
        backoff, state = Backoff(self._rng), _Loop(part)
        self._loops.append(state)
        try:
            while True:
                began = self._clock.monotonic()
                with self.catch_errors(part) as caught:
                    await loop()
                if caught.error is None:
                    return
                now = self._clock.monotonic()
                if now - began >= WORKED_AFTER:
                    backoff.reset_failures()
                    state.failing_since = None
                if state.failing_since is None:
                    state.failing_since = now
                state.restarted = None
                await self._clock.sleep(backoff.count_failure())
                state.restarted = self._clock.monotonic()
        finally:
            self._loops.remove(state)

    def caught_within(self, seconds: float) -> dict[str, int]:
        """Return the exception counts of background components with an exception in the given
        recent period.
        """
        since = self._clock.monotonic() - seconds
        return {part: self.caught[part] for part, at in self._caught_at.items() if at >= since}

    def list_parts(self) -> set[str]:
        """Return the names of the supervised background loops."""
        return {loop.part for loop in self._loops}

    def list_failing(self) -> dict[str, float]:
        """Return repeatedly failing background loops, with seconds since the first failure."""
        now, failing = self._clock.monotonic(), dict[str, float]()
        for loop in self._loops:
            works = loop.restarted is not None and now - loop.restarted >= WORKED_AFTER
            if loop.failing_since is not None and not works:
                failing[loop.part] = max(now - loop.failing_since, failing.get(loop.part, 0.0))
        return failing

    def _log_caught(self, part: str, error: Exception, context: Mapping[str, object]) -> None:
        self.caught[part] += 1
        self._caught_at[part] = self._clock.monotonic()
        more = self._throttle.count_suppressed(part, repr(error))
        if more is not None:
            about = {name: str(value) for name, value in context.items()}
            log.error(
                "internal error", part=part, error=repr(error), more=more, exc_info=error, **about
            )
