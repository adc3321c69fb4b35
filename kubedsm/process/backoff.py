"""How long to wait before trying again."""

import random

import attrs


@attrs.frozen(slots=True)
class Doubling:
    """Delays that double from `first` to `most` seconds."""

    first: float
    most: float

    def after(self, failures: int) -> float:
        """The delay when it failed once more, after so many failures in a row."""
        # The power would grow without bound, and the delay is long capped.
        return min(self.most, self.first * 2.0 ** min(failures, 16))


class Backoff:
    """Delays that double from `first` to `most` seconds, each up to half longer by chance.

    The chance keeps clients that failed together from coming back together.
    """

    def __init__(self, rng: random.Random, *, first: float = 0.8, most: float = 30.0) -> None:
        self._rng = rng
        self._delays = Doubling(first, most)
        self._failures = 0

    @property
    def failures(self) -> int:
        """In a row."""
        return self._failures

    def failed(self) -> float:
        """Count a failure; the seconds to wait after it."""
        delay = self._delays.after(self._failures)
        self._failures += 1
        return delay * self._rng.uniform(1.0, 1.5)

    def succeeded(self) -> None:
        self._failures = 0
