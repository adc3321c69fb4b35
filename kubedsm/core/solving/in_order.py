"""Goals of which each counts only among what is best for those before it.

Each is maximised by itself, and what it came to is required of the ones after it, at least.
(Sections 2 and 3 of "Optimising Kubernetes pod placement with constraint programming"; a solver
need not be able to go on where it stopped, as it is given what was found before to begin with.)
"""

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from kubedsm.core.solving.programme import UNBOUNDED, Ints, Programme, Solved, Solver, Status
from kubedsm.core.world.deadline import Deadline


@attrs.frozen(eq=False)
class Goal:
    """What is to be as much as can be."""

    name: str
    #: V
    weights: Ints
    #: of the time that is left when its turn comes, the part that it may take
    part: float = 0.5
    #: what comes after it may cost so much of it: what is lost by rounding the weights
    slack: int = 0
    #: it cannot come to more, whoever knows that; a solver is not asked for what does
    most: int | None = None
    #: whose, if that is not said by the name: `priority 100`
    of: str = ""
    #: how many make one of what people are told
    unit: int = 1


@attrs.frozen(slots=True)
class Certificate:
    """How sure it is that a goal came to no less than it could, given those before it."""

    goal: str
    status: Status
    #: what it came to; None if nothing was found
    value: int | None = None
    #: the most that it could have come to; None if nothing is known
    bound: int | None = None
    #: seconds
    seconds: float = 0.0
    #: as in `Goal`
    of: str = ""
    unit: int = 1

    @property
    def proven(self) -> bool:
        return self.status is Status.OPTIMAL

    @property
    def gap(self) -> float | None:
        """What may be missing, as a part of the bound; 0 if it is proven."""
        if self.proven:
            return 0.0
        if self.value is None or self.bound is None:
            return None
        return max(0.0, (self.bound - self.value) / max(1, abs(self.bound)))

    @property
    def words(self) -> str:
        """Such as `pods placed: 188 of at most 203 (gap 7 %)`."""
        goal = f"{self.goal} of {self.of}" if self.of else self.goal
        if self.value is None:
            return f"{goal}: nothing found"
        if self.bound is None or self.gap is None:
            return f"{goal}: {self._told(self.value):g}, and no bound is known"
        most = f"{self._told(self.value):g} of at most {self._told(self.bound):g}"
        return f"{goal}: {most} (gap {100 * self.gap:.1f} %)"

    def as_json(self) -> dict[str, Any]:
        return {
            "goal": self.goal,
            "of": self.of or None,
            "value": self._told(self.value),
            "bound": self._told(self.bound),
            "gap": None if self.gap is None else round(self.gap, 6),
            "proven": self.proven,
        }

    def _told(self, amount: int | None) -> float | None:
        return amount if amount is None or self.unit == 1 else amount / self.unit


def unproven(certificates: Iterable[Certificate]) -> str:
    """What is not proven of a decision, in a line; nothing if there is nothing."""
    return "; ".join(each.words for each in certificates if not each.proven)


@attrs.frozen(eq=False)
class Found:
    #: V; None if nothing was found, nor hinted at
    values: Ints | None
    #: one for each of the goals
    certificates: tuple[Certificate, ...]

    @property
    def proven(self) -> bool:
        return all(certificate.proven for certificate in self.certificates)


def maximised_in_order(
    programme: Programme,
    goals: Sequence[Goal],
    solver: Solver,
    deadline: Deadline,
    hint: Ints | None = None,
) -> Found:
    """The values that are best for the first goal, and of these for the second, and so on.

    hint: values to begin with. If the programme allows them they are the least that is found: a
    goal for which the solver finds nothing better keeps them, and if nothing could be better by the
    bounds of the variables alone the solver is not asked.
    """
    best = hint if hint is not None and programme.allows(hint) else None
    certificates: list[Certificate] = []
    for goal in goals:
        begun = deadline.left
        limit = int(np.maximum(goal.weights, 0) @ programme.upper)
        limit = limit if goal.most is None else min(limit, goal.most)
        if best is not None and int(goal.weights @ best) >= limit - goal.slack:
            solved = Solved(Status.OPTIMAL, best, limit)
        else:
            solved = solver.maximise(
                programme, goal.weights, deadline.part(goal.part), hint if best is None else best
            )
        if solved.values is not None and (
            best is None or int(goal.weights @ solved.values) > int(goal.weights @ best)
        ):
            best = solved.values
        bound = limit if solved.bound is None else min(limit, solved.bound)
        seconds = begun - deadline.left if np.isfinite(begun) else 0.0
        certificate = Certificate(
            goal.name, solved.status, None, bound, seconds, goal.of, goal.unit
        )
        certificates.append(certificate if best is None else _reached(certificate, goal, best))
        value = certificates[-1].value
        if value is None:
            # Nothing was found for this one: what comes after it has nothing to keep to.
            continue
        columns = np.flatnonzero(goal.weights)
        # Not the bound as well: between two great numbers a solver may find nothing.
        least = value - goal.slack
        programme = programme.with_row(columns, goal.weights[columns], least, UNBOUNDED)
    if best is not None:
        # What was kept to at least may be more since.
        certificates = [_reached(*of, best) for of in zip(certificates, goals, strict=True)]
    return Found(best, tuple(certificates))


def _reached(certificate: Certificate, goal: Goal, values: Ints) -> Certificate:
    """With what these values come to."""
    value, bound, status = int(goal.weights @ values), certificate.bound, certificate.status
    if status is not Status.OPTIMAL:
        proven = bound is not None and value >= bound - goal.slack
        status = Status.OPTIMAL if proven else Status.FEASIBLE
    return attrs.evolve(certificate, value=value, status=status)
