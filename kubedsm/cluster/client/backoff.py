"""How long to wait before trying again."""

import random


class Backoff:
    """Delays that double from `first` to `most` seconds, each up to half longer by chance.

    The chance keeps clients that failed together from coming back together.
    """

    def __init__(self, rng: random.Random, *, first: float = 0.8, most: float = 30.0) -> None:
        self._rng = rng
        self._first = first
        self._most = most
        self._failures = 0

    @property
    def failures(self) -> int:
        """In a row."""
        return self._failures

    def failed(self) -> float:
        """Count a failure; the seconds to wait after it."""
        # Beyond 2**16 the delay is capped anyway, and the power would grow without bound.
        delay = min(self._most, self._first * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return delay * self._rng.uniform(1.0, 1.5)

    def succeeded(self) -> None:
        self._failures = 0
