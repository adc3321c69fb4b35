"""Lexicographic optimisation: each goal is maximised among the optima of the preceding goals.

Each level is one solver call. The value becomes a constraint (a row) for the subsequent levels.
(Sections 2 and 3 of "Optimising Kubernetes pod placement with constraint programming".)

Solver results are verified. Values are checked against every row, and evaluated in exact integer
arithmetic. A level is proven optimal only if the value reaches an independently computed upper
bound, or if a second solver call without presolve and start solution finds no improvement.
"""

from collections.abc import Iterable, Sequence
from operator import or_
from typing import Any

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.optimizer.programming.programme import (
    Ints,
    Programme,
    Solved,
    Solver,
    Status,
)

#: Largest programme given to a solver. The linear relaxation takes about half a second, for twice
#: the variables eight seconds: more than a budget.
MOST_VARIABLES = 20_000
#: Floating-point error of solvers, relative to the greatest weight.
_ROUNDING = 4e-6
#: Notes on unproven levels.
NOT_CONFIRMED = "the solver's claim was not confirmed in time"
REFUTED = "the solver's claim was wrong"


@attrs.frozen(eq=False)
class Goal:
    """Linear objective (weights of the variables) of one goal in a lexicographic optimisation."""

    name: str
    #: V
    weights: Ints
    #: part of the remaining time for the level
    part: float = 0.5
    #: subsequent levels may lower the value by this much: rounding of the weights
    slack: int = 0
    #: known upper bound; a solution at the bound needs no solver
    most: int | None = None
    #: qualifier of the name, such as `priority 100`
    of: str = ""
    #: units of the weights in one displayed unit
    unit: int = 1


@attrs.frozen(slots=True)
class Certificate:
    """Optimality certificate: value and upper bound of an optimisation goal, given the values of
    the preceding goals.
    """

    goal: str
    status: Status
    #: value; None without a solution
    value: int | None = None
    #: upper bound; None if unknown
    bound: int | None = None
    #: seconds
    seconds: float = 0.0
    #: as in `Goal`
    of: str = ""
    unit: int = 1
    #: reason why the solver proved nothing
    note: str = ""

    @property
    def proven(self) -> bool:
        return self.status is Status.OPTIMAL

    @property
    def gap(self) -> float | None:
        """Relative optimality gap between value and upper bound; 0 if proven optimal, None if
        unknown.
        """
        if self.proven:
            return 0.0
        if self.value is None or self.bound is None:
            return None
        return max(0.0, (self.bound - self.value) / max(1, abs(self.bound)))

    @property
    def words(self) -> str:
        """Certificate as text, such as `pods placed: 188 of at most 203 (gap 7 %)`, with note."""
        return f"{self._amounts}; {self.note}" if self.note else self._amounts

    @property
    def _amounts(self) -> str:
        goal = f"{self.goal} of {self.of}" if self.of else self.goal
        if self.value is None:
            return f"{goal}: nothing found"
        if self.bound is None or self.gap is None:
            return f"{goal}: {self._display(self.value):g}, and no bound is known"
        most = f"{self._display(self.value):g} of at most {self._display(self.bound):g}"
        return f"{goal}: {most} (gap {100 * self.gap:.1f} %)"

    def as_json(self) -> dict[str, Any]:
        return {
            "goal": self.goal,
            "of": self.of or None,
            "value": self._display(self.value),
            "bound": self._display(self.bound),
            "gap": None if self.gap is None else round(self.gap, 6),
            "proven": self.proven,
            **({"note": self.note} if self.note else {}),
        }

    def _display(self, amount: int | None) -> float | None:
        return amount if amount is None or self.unit == 1 else amount / self.unit


def describe_unproven(certificates: Iterable[Certificate]) -> str:
    """Describe in words the goals whose values are not proven optimal; empty if all are proven."""
    return "; ".join(each.words for each in certificates if not each.proven)


@attrs.frozen(eq=False)
class Found:
    """Result of lexicographic optimisation: the best values, and a certificate per goal."""

    #: V; None if nothing was found, nor hinted at
    values: Ints | None
    #: in the order of the goals
    certificates: tuple[Certificate, ...]

    @property
    def proven(self) -> bool:
        return all(certificate.proven for certificate in self.certificates)


def maximise_in_order(
    programme: Programme,
    goals: Sequence[Goal],
    solver: Solver | None,
    deadline: Deadline,
    hint: Ints | None = None,
) -> Found:
    """Maximise the goals in lexicographic order over the integer programme; return values and
    certificates.

    solver: None evaluates the hint only. hint: a start solution. If the programme permits the start
    solution, the result is never worse. Goals that have reached their upper bound skip the solver.
    """
    best = hint if hint is not None and programme.allows(hint) else None
    certificates: list[Certificate] = []
    for goal in goals:
        begun = deadline.left
        level = _Level(programme, goal, deadline.part(goal.part), best)
        level.solve(solver, hint)
        best = level.best
        seconds = begun - deadline.left if np.isfinite(begun) else 0.0
        certificates.append(level.certificate(seconds))
        value = certificates[-1].value
        if value is None:
            # Without a solution subsequent goals have no limit to keep.
            continue
        # Only a lower limit: between two great numbers a solver may find nothing.
        programme = programme.at_least(goal.weights, value - goal.slack)
    if best is not None:
        certificates = [_revalue(*of, best) for of in zip(certificates, goals, strict=True)]
    return Found(best, tuple(certificates))


class _Level:
    """Goal under optimisation: the best verified solution, and the known upper bounds."""

    def __init__(
        self, programme: Programme, goal: Goal, deadline: Deadline, best: Ints | None
    ) -> None:
        self.best = best
        self._programme = programme
        self._goal = goal
        self._deadline = deadline
        limit = int(np.maximum(goal.weights, 0) @ programme.upper)
        #: upper bound computed without trust in any solver
        self._bound = limit if goal.most is None else min(limit, goal.most)
        #: upper bound claimed by the solver; only reported
        self._claimed: int | None = None
        self._status = Status.UNKNOWN
        self._note = ""
        #: difference within rounding
        self._margin = _rounding_error(goal)

    @property
    def _value(self) -> int | None:
        return None if self.best is None else int(self._goal.weights @ self.best)

    def _reaches_bound(self, bound: int) -> bool:
        return self._value is not None and self._value >= bound - self._margin

    def solve(self, solver: Solver | None, hint: Ints | None) -> None:
        weights, size = self._goal.weights, len(self._programme.upper)
        if solver is None or self._reaches_bound(self._bound):
            return
        if size > MOST_VARIABLES:
            self._note = f"too large for a solver: {size} variables, {MOST_VARIABLES} at most"
            return
        start = hint if self.best is None else self.best
        solved = solver.maximise(self._programme, weights, self._deadline, start)
        self._note = solved.note
        if solved.multipliers is not None:
            exact = self._programme.dual_bound(weights, solved.multipliers)
            self._bound = min(self._bound, exact)
        if self._is_refuted(solved):
            self._note = REFUTED
        elif self._value is None:
            self._status = solved.status
        elif self._reaches_bound(self._bound):
            return
        elif solved.bound is not None and self._reaches_bound(solved.bound):
            self._confirm_optimum(solver)
        else:
            self._claimed = solved.bound

    def _is_refuted(self, solved: Solved) -> bool:
        """Record a better solution; return True if verification refutes the solver's claim."""
        if solved.status is Status.INFEASIBLE:
            return self.best is not None
        optimal = solved.status is Status.OPTIMAL
        if solved.values is None:
            refuted = optimal
        elif not self._programme.allows(solved.values):
            return True
        else:
            found = int(self._goal.weights @ solved.values)
            if self._value is None or found > self._value:
                self.best = solved.values
            # An optimum is its own bound.
            refuted = optimal and (solved.bound is None or solved.bound > found + self._margin)
        if self._value is None or solved.bound is None:
            return refuted
        return refuted or self._value > solved.bound + self._margin

    def _confirm_optimum(self, solver: Solver) -> None:
        """Confirm the optimum by asking the solver again, without presolve, for a greater value."""
        weights, value = self._goal.weights, self._value or 0
        harder = self._programme.at_least(weights, value + self._margin + 1)
        solved = solver.maximise(harder, np.zeros_like(weights), self._deadline, plain=True)
        if solved.status is Status.INFEASIBLE:
            self._bound = min(self._bound, value)
        elif solved.values is not None and harder.allows(solved.values):
            self.best, self._note = solved.values, REFUTED
        else:
            self._note = solved.note or NOT_CONFIRMED

    def certificate(self, seconds: float) -> Certificate:
        goal, value = self._goal, self._value
        bound = self._bound if self._claimed is None else min(self._bound, self._claimed)
        status, note = self._status, self._note
        if value is not None:
            proven = value >= self._bound - max(goal.slack, self._margin)
            status = Status.OPTIMAL if proven else Status.FEASIBLE
            note = "" if proven else note
        return Certificate(goal.name, status, value, bound, seconds, goal.of, goal.unit, note)


def _rounding_error(goal: Goal) -> int:
    greatest = int(np.abs(goal.weights).max(initial=0))
    return max(goal.slack, int(_ROUNDING * greatest))


def _revalue(certificate: Certificate, goal: Goal, values: Ints) -> Certificate:
    """Reevaluate the certificate of a goal for the final values, which may have improved."""
    value, bound = int(goal.weights @ values), certificate.bound
    status, note = certificate.status, certificate.note
    if bound is not None and value > bound + _rounding_error(goal):
        status, bound, note = Status.FEASIBLE, None, REFUTED
    elif not certificate.proven:
        status = Status.FEASIBLE
    return attrs.evolve(certificate, value=value, bound=bound, status=status, note=note)


_WORDS = {
    "placed": "pods placed",
    "qos": "QoS",
    "preferences": "preferences",
    "spread": "spread",
    "fragmentation": "fragmentation",
}


@attrs.frozen(slots=True)
class Proof:
    """Flags for each goal of a placement decision: True if its value is proven optimal, given the
    preceding goals.
    """

    #: pods placed, by priority
    placed: bool = True
    #: QoS
    qos: bool = True
    #: penalties
    preferences: bool = True
    #: replica spread within each tier
    spread: bool = True
    #: fragmentation of the edge
    fragmentation: bool = True

    @property
    def whole(self) -> bool:
        earlier = self.placed and self.qos and self.preferences
        return earlier and self.spread and self.fragmentation

    def or_else(self, other: "Proof") -> "Proof":
        """Combine two proofs about the same decision: a goal is proven if either proof says so."""
        return Proof(*map(or_, attrs.astuple(self), attrs.astuple(other)))

    @property
    def words(self) -> str:
        """Proof of optimality in words, such as `proven optimal`, for use in a sentence."""
        if self.whole:
            return "proven optimal"
        known = [_WORDS[what] for what, known in self.as_json().items() if known]
        return f"proven optimal in {' and '.join(known)} only" if known else "not proven optimal"

    def as_json(self) -> dict[str, bool]:
        return attrs.asdict(self)


NO_PROOF = Proof(*[False] * len(_WORDS))
