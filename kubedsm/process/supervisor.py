"""What fails is its own affair: caught, told once with its story, counted; the rest goes on.

A bug of ours, or an object that was not thought of, costs the pod, plan or decision that it
concerns, never the process. Nothing is hidden: each catch is an error in the log and in the
counter, and in the tests it fails the test.
"""

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs
import structlog

from kubedsm.process.backoff import Backoff
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause

log = structlog.get_logger()

T = TypeVar("T")
#: what is awaited
Work = Callable[[], Coroutine[Any, Any, None]]

#: a loop that ran for so many seconds has worked, and begins anew at once
WORKED_AFTER = 60.0


@attrs.define(eq=False)
class Kept:
    """A loop that is kept running. Moments on the clock."""

    part: str
    #: when it failed first, of the times that it did without having worked in between
    failing_since: float | None = None
    #: when it was begun anew, if it runs since it failed
    began: float | None = None


class Supervisor:
    """Catches what must not end the process; cancellation still does."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._said = SaidByCause(clock)
        #: how many exceptions were caught, by part
        self.caught: Counter[str] = Counter()
        self._kept: list[Kept] = []

    @contextmanager
    def catching(self, part: str, **story: object) -> Iterator[list[Exception]]:
        """Catch what is raised inside, into the list; `story` is told if anything is."""
        caught: list[Exception] = []
        try:
            yield caught
        except Exception as error:  # noqa: BLE001 - this is where everything is caught
            caught.append(error)
            self._catch(part, error, story)

    def tell(
        self, part: str, observers: Iterable[Callable[[T], object]], news: T, **story: object
    ) -> None:
        """Tell them all, whatever becomes of one."""
        for observer in observers:
            try:
                observer(news)
            except Exception as error:  # noqa: BLE001 - as above
                self._catch(part, error, story)

    def isolate(self, part: str, action: Callable[[list[T]], object], items: list[T]) -> list[T]:
        """Do it for all of them, or if that fails for each half; return those it fails for."""
        try:
            action(items)
        except Exception as error:  # noqa: BLE001 - as above
            cause = error
        else:
            return []
        middle = len(items) // 2
        halves = (items[:middle], items[middle:]) if middle else ()
        failed = [item for half in halves for item in self.isolate(part, action, half)]
        if not failed:
            self._catch(part, cause, {"items": ", ".join(map(str, items))})
        return failed if middle else items

    async def keep(self, part: str, loop: Work) -> None:
        """Run a loop, and again after a back-off as often as an exception ends it."""
        backoff, kept = Backoff(self._rng), Kept(part)
        self._kept.append(kept)
        try:
            while True:
                began = self._clock.monotonic()
                with self.catching(part) as caught:
                    await loop()
                if not caught:
                    return
                now = self._clock.monotonic()
                if now - began >= WORKED_AFTER:
                    backoff.succeeded()
                    kept.failing_since = None
                kept.failing_since = now if kept.failing_since is None else kept.failing_since
                kept.began = None
                await self._clock.sleep(backoff.failed())
                kept.began = self._clock.monotonic()
        finally:
            self._kept.remove(kept)

    def parts(self) -> set[str]:
        """The loops that are kept running, by their parts."""
        return {kept.part for kept in self._kept}

    def failing(self) -> dict[str, float]:
        """The loops that end again and again, and for how many seconds that has been so."""
        now, failing = self._clock.monotonic(), dict[str, float]()
        for kept in self._kept:
            works = kept.began is not None and now - kept.began >= WORKED_AFTER
            if kept.failing_since is not None and not works:
                failing[kept.part] = max(now - kept.failing_since, failing.get(kept.part, 0.0))
        return failing

    def _catch(self, part: str, error: Exception, story: dict[str, object]) -> None:
        self.caught[part] += 1
        more = self._said.more(part, repr(error))
        if more is not None:
            told = {name: str(value) for name, value in story.items()}
            log.error("caught", part=part, error=repr(error), more=more, exc_info=error, **told)
