"""Synthetic work of a request: CPU, memory, network or disk load, as in the load-aware paper.

Decimals of pi load the CPU, memory is held, bytes are returned, bytes are written to a disk.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable

import attrs

#: bytes of one write operation
_PIECE = bytes(2**20)
#: additional guard digits against accumulated rounding errors
_GUARD = 10**10
#: decimals between consecutive clock measurements: approximately 20 µs
_SOME_DECIMALS = 100
#: scheduling period of CFS in seconds, by default of the kernel, and shortest sleep despite
#: rounding
PERIOD, _SHORTEST = 0.1, 1e-4


@attrs.frozen
class Work:
    #: minimum service duration of a request in a slot, in seconds
    service_time: float = 0.0
    #: CPU seconds per request, and calculated decimals of pi
    cpu: float = 0.0
    pi_decimals: int = 0
    #: bytes allocated permanently; bytes of a response; bytes written per request
    memory: int = 0
    net: int = 0
    disk: int = 0
    #: cores shared between concurrent requests; 0: unlimited
    cpu_limit: float = 0.0

    @property
    def takes_a_thread(self) -> bool:
        return bool(self.cpu or self.pi_decimals or self.disk)

    def do(self, pause: Callable[[], None]) -> None:
        """Do the CPU and disk work of one request, in the calling thread. Raises OSError.

        `pause` is called repeatedly; it returns once the CPU quota permits to continue.
        """
        burn(self.cpu, pause)
        pause()
        pi(self.pi_decimals)
        write(self.disk)


def pi(decimals: int) -> int:
    """Return floor(π · 10^decimals), computed to load the CPU.

    Machin's formula: 16 arctan(1/5) - 4 arctan(1/239).
    """
    one: int = 10**decimals * _GUARD
    return (16 * _scale_arctan(5, one) - 4 * _scale_arctan(239, one)) // _GUARD


def _scale_arctan(inverse: int, one: int) -> int:
    """Return arctan(1 / inverse) · one, by the alternating power series."""
    power = total = one // inverse
    divisor, sign = 1, 1
    while power:
        power //= inverse * inverse
        divisor, sign = divisor + 2, -sign
        total += sign * (power // divisor)
    return total


def burn(seconds: float, pause: Callable[[], None]) -> None:
    """Consume the given CPU seconds in the calling thread; `pause` is called repeatedly and blocks
    while the CPU quota is exhausted.
    """
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pause()
        pi(_SOME_DECIMALS)


def write(size: int) -> None:
    """Write `size` bytes to a temporary file as disk load. Raises OSError."""
    if not size:
        return
    with tempfile.TemporaryFile(buffering=0) as file:
        for start in range(0, size, len(_PIECE)):
            file.write(_PIECE[: size - start])
        os.fsync(file.fileno())


class Quota:
    """CPU limit of this process: simulation of a container's CFS quota.

    All threads together use up to `cores` times the period in each period, then wait for the next.
    So concurrent requests share the cores of the limit. Only the work of requests waits; other CPU
    time of the process merely counts.
    """

    def __init__(
        self,
        cores: float,
        used: Callable[[], float] = time.process_time,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create a quota; `used` returns the accumulated CPU time. All durations are in seconds."""
        self._share = cores * PERIOD
        self._used, self._now, self._sleep = used, now, sleep
        self._lock = threading.Lock()
        #: end of the scheduling period, and remaining CPU time
        self._ends, self._allowed = now(), used()

    def wait(self) -> None:
        """Block while the CPU quota of the current period is exhausted; excess use is deducted from
        the next period.
        """
        while (left := self._wait_seconds()) is not None:
            self._sleep(max(left, _SHORTEST))

    def _wait_seconds(self) -> float | None:
        """Return the seconds until the next quota period if the current quota is exhausted;
        otherwise None.
        """
        with self._lock:
            now, used = self._now(), self._used()
            if now >= self._ends:
                periods = 1 + (now - self._ends) // PERIOD
                self._ends += periods * PERIOD
                # Unused time does not accumulate.
                self._allowed = min(self._allowed + periods * self._share, used + self._share)
            return self._ends - now if used >= self._allowed else None
