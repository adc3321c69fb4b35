"""Deadlines of scheduling decisions: reproducible limits in computation steps, with a time limit
for safety.

Pure code has no clock: between steps it counts its work, and checks the limit. Equal problems get
equal decisions on an idle and on a busy machine, unless the time limit passes first; the meter
records this. After the deadline the best known result is returned, unproven.
"""

import math
from collections.abc import Callable
from typing import Self

import attrs

#: Steps in a second of an idle core: a step takes about a nanosecond.
STEPS_PER_SECOND = 10**9
#: Parts of a time limit in which an idle core does the permitted work: if pods wait for the
#: decision, and otherwise. The remainder is reserve for busy machines.
URGENT_SHARE, PATIENT_SHARE = 1 / 3, 1 / 10


class OutOfTimeError(Exception):
    """Error: a strict deadline has passed. The optimizer always catches it."""


@attrs.define(slots=True, eq=False)
class Meter:
    """Counter of the computation steps spent on one scheduling decision."""

    #: steps, estimated from the sizes of arrays
    steps: int = 0
    #: the time limit passed before the work limit
    out_of_time: bool = False


#: explanation of a decision that ran out of time
OUT_OF_TIME = "the time limit passed first; on an idle machine the decision may be better"


@attrs.frozen(slots=True)
class Deadline:
    """Deadline of a placement or migration decision; without arguments, no deadline."""

    #: part of the work limit that is spent, up to 1
    spent: Callable[[], float] = lambda: 0.0
    #: work limit, in seconds of an idle core
    seconds: float = math.inf
    #: a late result is useless: checks raise OutOfTimeError
    strict: bool = False
    #: remaining seconds of the time limit
    time_left: Callable[[], float] = lambda: math.inf
    meter: Meter = attrs.field(factory=Meter)

    @classmethod
    def within(cls, seconds: float, now: Callable[[], float], share: float = URGENT_SHARE) -> Self:
        """Return the deadline of a decision with a time limit of some seconds, from now.

        now: monotonic clock. share: part of the time limit for work on an idle core.
        """
        meter, work, until = Meter(), seconds * share, now() + seconds
        most = work * STEPS_PER_SECOND
        return cls(lambda: meter.steps / most, work, time_left=lambda: until - now(), meter=meter)

    @property
    def left(self) -> float:
        """Remaining computation time until the deadline, in seconds of an idle core, as a time
        limit for solvers.
        """
        return max(0.0, 1 - self.spent()) * self.seconds

    def part(self, fraction: float) -> "Deadline":
        """Return an earlier deadline that ends after the given fraction of the remaining
        computation.
        """
        begun = self.spent()
        share = max(1 - begun, 0.0) * fraction
        part = Deadline(time_left=self.time_left, meter=self.meter)
        if not share:
            return attrs.evolve(part, spent=lambda: 1.0, seconds=0.0)
        return attrs.evolve(
            part, spent=lambda: (self.spent() - begun) / share, seconds=share * self.seconds
        )

    def spend(self, steps: int) -> bool:
        """Count computation steps against the deadline; return True if the deadline has passed.

        Raises OutOfTimeError if strict.
        """
        self.meter.steps += steps
        passed = self.spent() >= 1
        if not passed and self.time_left() <= 0:
            self.meter.out_of_time = passed = True
        if passed and self.strict:
            raise OutOfTimeError
        return passed

    @property
    def passed(self) -> bool:
        """True if the deadline has passed. Raises OutOfTimeError if strict."""
        return self.spend(0)

    def check(self, steps: int = 0) -> None:
        """Count computation steps against the deadline; raise OutOfTimeError once the deadline has
        passed.
        """
        if self.spend(steps):
            raise OutOfTimeError


NO_DEADLINE = Deadline()
