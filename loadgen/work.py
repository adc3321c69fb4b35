"""What a request costs a server: work that loads one resource each, as the load-aware paper has it.

Decimals of pi load the CPU, memory is held, bytes are returned, bytes are written to a disk.
"""

import os
import tempfile
import time
from collections.abc import Callable

import attrs

#: bytes of one write
_PIECE = bytes(2**20)
#: ten digits beyond those that are asked for, which rounding makes wrong
_GUARD = 10**10
#: decimals between two looks at the clock: some 20 µs
_SOME_DECIMALS = 100


@attrs.frozen
class Work:
    #: seconds that a request takes at the least, in one of the slots
    service_time: float = 0.0
    #: seconds of CPU, and decimals of pi
    cpu: float = 0.0
    pi_decimals: int = 0
    #: bytes: held all the time; of an answer; written for a request
    memory: int = 0
    net: int = 0
    disk: int = 0
    #: cores that all requests share; 0: as many as there are
    cpu_limit: float = 0.0

    @property
    def takes_a_thread(self) -> bool:
        return bool(self.cpu or self.pi_decimals or self.disk)

    def do(self, pause: Callable[[], None]) -> None:
        """What loads CPU and disk, in the thread that calls. Raises OSError.

        `pause` is called again and again; it returns when there is CPU time to be had.
        """
        burn(self.cpu, pause)
        pause()
        pi(self.pi_decimals)
        write(self.disk)


def pi(decimals: int) -> int:
    """floor(π · 10^decimals), by Machin's formula 16 arctan(1/5) - 4 arctan(1/239)."""
    one: int = 10**decimals * _GUARD
    return (16 * _arctan(5, one) - 4 * _arctan(239, one)) // _GUARD


def _arctan(inverse: int, one: int) -> int:
    """arctan(1 / inverse) · one, by its power series."""
    power = total = one // inverse
    divisor, sign = 1, 1
    while power:
        power //= inverse * inverse
        divisor, sign = divisor + 2, -sign
        total += sign * (power // divisor)
    return total


def burn(seconds: float, pause: Callable[[], None]) -> None:
    """Take so much of the CPU's time, whatever else runs on it."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pause()
        pi(_SOME_DECIMALS)


def write(size: int) -> None:
    """Write so many bytes to a disk, into a file that goes at once. Raises OSError."""
    if not size:
        return
    with tempfile.TemporaryFile(buffering=0) as file:
        for start in range(0, size, len(_PIECE)):
            file.write(_PIECE[: size - start])
        os.fsync(file.fileno())
