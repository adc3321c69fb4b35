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

import structlog

from kubedsm.clock import Clock
from kubedsm.cluster.client.backoff import Backoff
from kubedsm.said_by_cause import SaidByCause

log = structlog.get_logger()

T = TypeVar("T")
#: what is awaited
Work = Callable[[], Coroutine[Any, Any, None]]

#: a loop that ran for so many seconds has worked, and begins anew at once
WORKED_AFTER = 60.0


class Supervisor:
    """Catches what must not end the process; cancellation still does."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._said = SaidByCause(clock)
        #: how many exceptions were caught, by part
        self.caught: Counter[str] = Counter()

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
        backoff = Backoff(self._rng)
        while True:
            began = self._clock.monotonic()
            with self.catching(part) as caught:
                await loop()
            if not caught:
                return
            if self._clock.monotonic() - began >= WORKED_AFTER:
                backoff.succeeded()
            await self._clock.sleep(backoff.failed())

    def _catch(self, part: str, error: Exception, story: dict[str, object]) -> None:
        self.caught[part] += 1
        more = self._said.more(part, repr(error))
        if more is not None:
            told = {name: str(value) for name, value in story.items()}
            log.error("caught", part=part, error=repr(error), more=more, exc_info=error, **told)
