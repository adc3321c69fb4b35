"""Deadlines of decisions. Pure code has no clock: it checks the deadline between steps.

After the deadline the best known result is returned, unproven.
"""

import math
from collections.abc import Callable

import attrs


class OutOfTimeError(Exception):
    """Error: a strict deadline has passed. The optimizer always catches it."""


@attrs.frozen(slots=True)
class Deadline:
    """Deadline of a placement or migration decision; without arguments, no deadline."""

    #: part of the time budget that is spent, up to 1
    spent: Callable[[], float] = lambda: 0.0
    #: length of the time budget
    seconds: float = math.inf
    #: a late result is useless: checks raise OutOfTimeError
    strict: bool = False

    @property
    def left(self) -> float:
        """Remaining seconds until the deadline, for solvers."""
        return max(0.0, 1 - self.spent()) * self.seconds

    def part(self, fraction: float) -> "Deadline":
        """Return an earlier deadline that ends after the given fraction of the remaining time."""
        begun = self.spent()
        share = max(1 - begun, 0.0) * fraction
        if not share:
            return Deadline(lambda: 1.0, 0.0)
        return Deadline(lambda: (self.spent() - begun) / share, share * self.seconds)

    @property
    def passed(self) -> bool:
        """True if the deadline has passed. Raises OutOfTimeError if strict."""
        passed = self.spent() >= 1
        if passed and self.strict:
            raise OutOfTimeError
        return passed

    def check(self) -> None:
        """Raise OutOfTimeError once the deadline has passed."""
        if self.spent() >= 1:
            raise OutOfTimeError


NO_DEADLINE = Deadline()
