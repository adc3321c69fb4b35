"""So many at once, and so many a second for ever."""

import attrs


@attrs.define
class TokenBucket:
    """`burst` may be taken at once; each comes back after `every` seconds, one after the other."""

    burst: int
    every: float
    #: when none will be missing
    _full: float = attrs.field(default=float("-inf"), init=False)

    def take(self, now: float) -> float:
        """Take one; the seconds until it is there."""
        self._full = max(self._full, now) + self.every
        return max(0.0, self._full - now - self.burst * self.every)

    def take_now(self, now: float) -> bool:
        """Take one that is there, if one is."""
        there = max(self._full, now) + self.every <= now + self.burst * self.every
        if there:
            self.take(now)
        return there
