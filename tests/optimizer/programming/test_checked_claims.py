"""A solver's claims are checked at every level, whatever it says."""

import attrs
import numpy as np
import pytest

from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.optimizer.programming.in_order import (
    MOST_VARIABLES,
    NOT_CONFIRMED,
    REFUTED,
    Goal,
    maximise_in_order,
)
from kubedsm.optimizer.programming.programme import Rows, Solved, Status
from kubedsm.solvers.available import Highs
from support import drawing

LEVELS, SLACK = 3, 4


def posed():
    """Three goals; the linear relaxation settles none of them."""
    rows, rng = Rows(), np.random.default_rng(5)
    variables = rows.variables(np.full(12, 2))
    for _ in range(3):
        rows.add((variables, rng.integers(30, 120, 12)), most=371)
    weights = rng.integers(10, 40, 12), rng.integers(10, 40, 12), -rng.integers(10, 40, 12)
    return rows.programme(), [Goal(f"level {n}", w, slack=SLACK) for n, w in enumerate(weights)]


@attrs.define
class Liar:
    """HiGHS, except that its claim about one level is replaced."""

    lie: object
    level: int
    confirms: bool = True
    name = "liar"
    asked: int = -1

    def maximise(self, programme, goal, deadline, hint=None, *, plain=False):
        said = Highs().maximise(programme, goal, deadline, hint, plain=plain)
        if plain:
            lying = self.asked == self.level
            return said if self.confirms or not lying else Solved(Status.UNKNOWN)
        self.asked += 1
        return self.lie(said, goal) if self.asked == self.level else said


def claims_the_start_is_optimal(said, goal):
    nothing = np.zeros_like(said.values)
    return Solved(Status.OPTIMAL, nothing, int(goal @ nothing))


def claims_the_bound_of_another_solution(said, goal):
    """As HiGHS 1.16.0 does of a start solution."""
    return Solved(Status.OPTIMAL, np.zeros_like(said.values), int(goal @ said.values))


def breaks_a_row(said, goal):
    values = np.full_like(said.values, 2)
    return Solved(Status.OPTIMAL, values, int(goal @ values))


def claims_that_nothing_is_feasible(said, goal):
    return Solved(Status.INFEASIBLE)


def claims_an_optimum_without_values(said, goal):
    return Solved(Status.OPTIMAL, None, 1)


def claims_a_bound_below_its_solution(said, goal):
    return Solved(Status.FEASIBLE, said.values, int(goal @ said.values) - SLACK - 1)


LIES = [
    claims_the_start_is_optimal,
    claims_the_bound_of_another_solution,
    breaks_a_row,
    claims_that_nothing_is_feasible,
    claims_an_optimum_without_values,
    claims_a_bound_below_its_solution,
]


@pytest.mark.http
@pytest.mark.parametrize("level", range(LEVELS))
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_at_any_level_is_not_proven_and_the_best_known_solution_is_kept(lie, level):
    programme, goals = posed()
    truth = maximise_in_order(programme, goals, Highs(), NO_DEADLINE)
    assert truth.proven
    hint = truth.values.copy()
    hint[np.flatnonzero(hint)[0]] -= 1
    found = maximise_in_order(programme, goals, Liar(lie, level), NO_DEADLINE, hint)
    assert programme.allows(found.values)
    assert [c.proven for c in found.certificates[: level + 1]] == [True] * level + [False]
    assert found.certificates[level].note == REFUTED
    assert REFUTED in found.certificates[level].words
    assert found.certificates[level].as_json()["note"] == REFUTED
    for goal, certificate, best in zip(goals, found.certificates, truth.certificates, strict=True):
        assert certificate.value == int(goal.weights @ found.values)
        if certificate.proven and goal in goals[:level]:
            assert certificate.value >= best.value - SLACK
    if not level:
        assert found.certificates[0].value >= int(goals[0].weights @ hint)


@pytest.mark.http
@pytest.mark.parametrize("level", range(LEVELS - 1))  # at the last one there is nothing worse
def test_a_suboptimal_claim_that_contradicts_nothing_is_found_out_by_the_second_solve(level):
    programme, goals = posed()
    truth = maximise_in_order(programme, goals, Highs(), NO_DEADLINE)

    claimed = []

    def claims_less(said, goal):
        keeping = programme
        for each, certificate in zip(goals[:level], truth.certificates, strict=False):
            keeping = keeping.at_least(each.weights, certificate.value - SLACK)
        most = int(goal @ said.values) - SLACK - 1
        less = keeping.at_least(-goal, -most)
        values = Highs().maximise(less, goal, NO_DEADLINE).values
        claimed.append(int(goal @ values))
        return Solved(Status.OPTIMAL, values, claimed[-1])

    found = maximise_in_order(programme, goals, Liar(claims_less, level), NO_DEADLINE)
    assert not found.certificates[level].proven
    assert found.certificates[level].note == REFUTED
    assert found.certificates[level].value >= claimed[-1]
    alone = Liar(claims_less, level, confirms=False)
    found = maximise_in_order(programme, goals, alone, NO_DEADLINE)
    assert not found.certificates[level].proven
    # At a later level the solution of the level before it may be better than the claim.
    assert found.certificates[level].note in {NOT_CONFIRMED, REFUTED if level else ""}


class Asked:
    name = "asked"

    def maximise(self, *_, **__):
        raise AssertionError("a solver is asked")


def test_what_has_reached_its_bound_is_not_given_to_a_solver():
    rows = Rows()
    rows.add((rows.variables([5, 5]), [1, 1]), most=7)
    goal = Goal("all", np.array([1, 1]), most=7)
    found = maximise_in_order(rows.programme(), [goal], Asked(), NO_DEADLINE, np.array([3, 4]))
    assert found.proven


def test_what_is_too_large_is_not_given_to_a_solver_and_the_reason_is_said():
    rows = Rows()
    variables = rows.variables(np.ones(MOST_VARIABLES + 1, dtype=np.int64))
    rows.add((variables, np.ones(variables.size, dtype=np.int64)), most=3)
    goal, hint = Goal("all", np.ones(variables.size, dtype=np.int64)), np.zeros_like(variables)
    found = maximise_in_order(rows.programme(), [goal], Asked(), NO_DEADLINE, hint)
    assert found.certificates[0].words.endswith(
        "; too large for a solver: 20001 variables, 20000 at most"
    )


@pytest.mark.parametrize("seed", drawing.drawn_cases(range(20)))
def test_any_multipliers_give_a_bound_that_nothing_exceeds(seed):
    rng = np.random.default_rng(seed)
    programme, goals = posed()
    optimum = maximise_in_order(programme, goals[:1], Highs(), NO_DEADLINE).certificates[0].value
    for scale in (0.1, 1.0, 1e6):
        multipliers = rng.normal(0.0, scale, len(programme.least))
        assert programme.dual_bound(goals[0].weights, multipliers) >= optimum
