"""A bound on this process' CPU time, as a container's limit is one: the kernel's CFS quota.

In each period of 100 ms so much of it may be used, by all threads together; then they wait for the
next one. So requests that are worked on at once share the cores that the limit leaves them. It is a
stand-in: only work that asks waits, what else the process does merely counts.
"""

import threading
import time
from collections.abc import Callable

#: seconds, the kernel's default
PERIOD = 0.1
#: a sleep that ends later than it begins, however times are rounded
_SHORTEST = 1e-4


class Quota:
    def __init__(
        self,
        cores: float,
        used: Callable[[], float] = time.process_time,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`used` is the CPU time until now, all in seconds."""
        self._share = cores * PERIOD
        self._used, self._now, self._sleep = used, now, sleep
        self._lock = threading.Lock()
        #: when the period is over, and what may be used until then
        self._ends, self._allowed = now(), used()

    def wait(self) -> None:
        """Return when there is CPU time left; what was used beyond it is taken off the next."""
        while (left := self._throttled()) is not None:
            self._sleep(max(left, _SHORTEST))

    def _throttled(self) -> float | None:
        """Seconds until the next period, if this one's share is used up."""
        with self._lock:
            now, used = self._now(), self._used()
            if now >= self._ends:
                periods = 1 + (now - self._ends) // PERIOD
                self._ends += periods * PERIOD
                # Nothing is saved up.
                self._allowed = min(self._allowed + periods * self._share, used + self._share)
            return self._ends - now if used >= self._allowed else None
