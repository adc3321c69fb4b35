"""Integer linear programmes as values (variables, constraint rows), and the protocol of solvers."""

import enum
import math
from collections.abc import Iterable, Sequence
from typing import Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.deadline import Deadline

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: No limit of a row.
UNBOUNDED = 2**62
#: No variable, in the columns of a row.
NO_VARIABLE = -1
#: Variables, and their coefficients or one for all.
Term = tuple["Ints | Sequence[int]", "Ints | Sequence[int] | int"]
#: Binary places of a multiplier in integer arithmetic.
_MULTIPLIER_BITS = 60


@attrs.frozen(eq=False)
class Programme:
    """Integer linear programme: integer variables from 0 to `upper`, and linear constraint rows.

    Each row requires least <= coefficients @ values <= most.
    """

    #: V
    upper: Ints
    #: M + 1: of row i the entries from starts[i] to starts[i + 1]
    starts: Ints
    #: variable and coefficient of each entry
    columns: Ints
    coefficients: Ints
    #: M, both; -UNBOUNDED and UNBOUNDED where there is none
    least: Ints
    most: Ints

    def allows(self, values: Ints) -> bool:
        """Return True if the variable values satisfy all bounds and constraint rows, in exact
        integer arithmetic.
        """
        if bool((values < 0).any() or (values > self.upper).any()):
            return False
        parts = np.concatenate((np.zeros(1, np.int64), self.coefficients * values[self.columns]))
        sums = np.diff(parts.cumsum()[self.starts])
        return bool((sums >= self.least).all() and (sums <= self.most).all())

    def dual_bound(self, goal: Ints, multipliers: Floats) -> int:
        """Return an upper bound on goal @ values by weak duality, in exact integer arithmetic.

        multipliers: one per row, from the solver's linear relaxation. Arbitrary multipliers give a
        valid bound, so the solver need not be trusted. Complexity: O(entries).
        """
        scaled = [math.trunc(math.ldexp(each, _MULTIPLIER_BITS)) for each in multipliers.tolist()]
        reduced: list[int] = [weight << _MULTIPLIER_BITS for weight in goal.tolist()]
        starts, total = self.starts.tolist(), 0
        for row, multiplier in enumerate(scaled):
            limit = int(self.most[row] if multiplier > 0 else self.least[row])
            if not multiplier or abs(limit) >= UNBOUNDED:
                continue
            total += multiplier * limit
            entries = slice(starts[row], starts[row + 1])
            for column, coefficient in zip(
                self.columns[entries].tolist(), self.coefficients[entries].tolist(), strict=True
            ):
                reduced[column] -= multiplier * coefficient
        upper: list[int] = self.upper.tolist()
        total += sum(cost * most for cost, most in zip(reduced, upper, strict=True) if cost > 0)
        return total >> _MULTIPLIER_BITS

    def at_least(self, weights: Ints, least: int) -> "Programme":
        """Return the programme with one more row: weights @ values is at least the given amount."""
        columns = np.flatnonzero(weights)
        return attrs.evolve(
            self,
            starts=np.append(self.starts, self.starts[-1] + len(columns)),
            columns=np.concatenate((self.columns, columns)),
            coefficients=np.concatenate((self.coefficients, weights[columns])),
            least=np.append(self.least, least),
            most=np.append(self.most, UNBOUNDED),
        )


class Rows:
    """Builder of an integer linear programme: adds variables and constraint rows."""

    def __init__(self) -> None:
        self._upper: list[Ints] = []
        self._number = 0
        self._columns: list[Ints] = []
        self._coefficients: list[Ints] = []
        self._lengths: list[int] = []
        self._least: list[int] = []
        self._most: list[int] = []

    @property
    def number(self) -> int:
        """Number of variables added so far."""
        return self._number

    def variables(self, upper: "Ints | Sequence[int]") -> Ints:
        """Add variables with upper bounds; return the variable numbers in the same shape."""
        bounds = np.asarray(upper, dtype=np.int64)
        numbers = np.arange(self._number, self._number + bounds.size).reshape(bounds.shape)
        self._upper.append(bounds.ravel())
        self._number += bounds.size
        return numbers

    def sparse(self, upper: Ints) -> Ints:
        """Add variables as `variables` does, but none where the upper bound is zero: NO_VARIABLE
        there.
        """
        numbers = np.full(upper.shape, NO_VARIABLE, dtype=np.int64)
        numbers[upper > 0] = self.variables(upper[upper > 0])
        return numbers

    def add(self, *terms: Term, least: int = -UNBOUNDED, most: int = UNBOUNDED) -> None:
        """Add a constraint row: the sum of variables times coefficients is within bounds. A
        variable may occur once.
        """
        length = 0
        for columns, coefficients in terms:
            numbers = np.asarray(columns, dtype=np.int64)
            weights = np.broadcast_to(np.asarray(coefficients, dtype=np.int64), numbers.shape)
            exists = numbers != NO_VARIABLE
            self._columns.append(numbers[exists])
            self._coefficients.append(weights[exists])
            length += int(exists.sum())
        self._lengths.append(length)
        self._least.append(int(least))
        self._most.append(int(most))

    def add_chain(self, steps: Ints) -> None:
        """Add constraint rows: each of the variables is at most the preceding variable."""
        ones = np.ones((max(0, len(steps) - 1), 1), dtype=np.int64)
        self.add_each(np.column_stack((steps[1:], steps[:-1])), np.hstack((ones, -ones)), 0 * ones)

    def add_each(self, columns: Ints, coefficients: Ints, most: Ints) -> None:
        """Add one constraint row for each line of the variable matrix, with upper bounds."""
        self._columns.append(columns.ravel())
        self._coefficients.append(coefficients.ravel())
        self._lengths += [columns.shape[1]] * len(columns)
        self._least += [-UNBOUNDED] * len(columns)
        self._most += most.ravel().tolist()

    def programme(self) -> Programme:
        return Programme(
            _concatenate(self._upper),
            np.concatenate(([0], np.cumsum(self._lengths, dtype=np.int64))).astype(np.int64),
            _concatenate(self._columns),
            _concatenate(self._coefficients),
            np.array(self._least, dtype=np.int64),
            np.array(self._most, dtype=np.int64),
        )


def _concatenate(parts: Iterable[Ints]) -> Ints:
    return np.concatenate((np.zeros(0, dtype=np.int64), *parts))


class Status(enum.StrEnum):
    """Status of a solver's result, such as optimal or infeasible, as the solver claims."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    #: no solution found in time, and no proof of infeasibility
    UNKNOWN = "unknown"


@attrs.frozen(eq=False)
class Solved:
    """Unverified result of a solver: status, variable values and bound; `in_order` verifies the
    values before use.
    """

    status: Status
    #: V; None unless a solution was found
    values: Ints | None = None
    #: claimed upper bound on the goal; None if unknown
    bound: int | None = None
    #: M, dual multipliers of the linear relaxation, for `Programme.dual_bound`
    multipliers: Floats | None = None
    #: reason why there is no answer
    note: str = ""
    #: work done, in seconds of an idle core, by counts that do not depend on the machine
    effort: float = 0.0


class Solver(Protocol):
    """Protocol of integer-programming solvers."""

    @property
    def name(self) -> str:
        """Name of the solver in logs and tables."""

    def maximise(
        self,
        programme: Programme,
        goal: Ints,
        deadline: Deadline,
        hint: Ints | None = None,
        *,
        plain: bool = False,
    ) -> Solved:
        """Return values that maximise goal @ values, or the best found before the deadline.

        goal: integer coefficients of the variables. hint: a start solution, preferably feasible.
        plain: disable presolve, symmetry detection and other shortcuts, for an independent second
        opinion.
        """
