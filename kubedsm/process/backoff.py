"""Exponential back-off, and token-bucket rate limiters."""

import random

import attrs


@attrs.frozen(slots=True)
class Doubling:
    """Delays of an exponential back-off, doubling from `first` to `most` seconds."""

    first: float
    most: float

    def delay_after(self, failures: int) -> float:
        """Return the delay of the next retry after a number of earlier consecutive failures."""
        # Limits the exponent: the maximum delay is reached much earlier.
        return min(self.most, self.first * 2.0 ** min(failures, 16))


class Backoff:
    """Exponential back-off that counts consecutive failures, with up to 50% jitter.

    The jitter desynchronises clients after a simultaneous failure.
    """

    def __init__(self, rng: random.Random, *, first: float = 0.8, most: float = 30.0) -> None:
        self._rng = rng
        self._delays = Doubling(first, most)
        self._failures = 0

    @property
    def failures(self) -> int:
        """Return the number of consecutive failures."""
        return self._failures

    def count_failure(self, at_least: float = 0.0) -> float:
        """Count a failure; return the delay in seconds before the next attempt.

        `at_least`: delay that the other side asks for; only the longest delay is granted.
        """
        delay = min(max(at_least, self._delays.delay_after(self._failures)), self._delays.most)
        self._failures += 1
        return delay * self._rng.uniform(1.0, 1.5)

    def reset_failures(self) -> None:
        self._failures = 0


@attrs.define
class TokenBucket:
    """Token bucket: burst size and sustained rate, one token every `every` seconds."""

    burst: int
    every: float
    #: monotonic time of complete replenishment
    _full: float = attrs.field(default=float("-inf"), init=False)

    def take(self, now: float) -> float:
        """Take a token, possibly in advance; return the seconds until the token is available."""
        self._full = max(self._full, now) + self.every
        return max(0.0, self._full - now - self.burst * self.every)

    def take_now(self, now: float) -> bool:
        """Take a token, if immediately available; return True on success."""
        exists = max(self._full, now) + self.every <= now + self.burst * self.every
        if exists:
            self.take(now)
        return exists
