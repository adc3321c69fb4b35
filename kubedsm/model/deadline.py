"""Until when a decision may be thought about.

The core has no clock. A decision may be asked for with a deadline, which is looked at between
steps; the best that is known then is taken, and said to be unproven.
"""

import math
from collections.abc import Callable

import attrs


class OutOfTimeError(Exception):
    """The time for thinking is up. It never leaves the core."""


def _nothing() -> float:
    return 0.0


@attrs.frozen(slots=True)
class Deadline:
    """By default there is none."""

    #: how much of the time for the decision has been spent; 1 is all of it
    spent: Callable[[], float] = _nothing
    #: how long all of it is
    seconds: float = math.inf
    #: what is not decided by then is not wanted: whoever looks gets an OutOfTimeError
    strict: bool = False

    @property
    def left(self) -> float:
        """Seconds; for those who cannot be interrupted."""
        return max(0.0, 1 - self.spent()) * self.seconds

    def part(self, fraction: float) -> "Deadline":
        """An earlier one: after that part of the time that is left."""
        begun = self.spent()
        share = max(1 - begun, 0.0) * fraction
        if not share:
            return Deadline(lambda: 1.0, 0.0)
        return Deadline(lambda: (self.spent() - begun) / share, share * self.seconds)

    @property
    def passed(self) -> bool:
        """Nothing better is looked for any more. Raises OutOfTimeError if it is strict."""
        passed = self.spent() >= 1
        if passed and self.strict:
            raise OutOfTimeError
        return passed

    def check(self) -> None:
        """Raise OutOfTimeError once it has passed."""
        if self.passed:
            raise OutOfTimeError


NO_DEADLINE = Deadline()
