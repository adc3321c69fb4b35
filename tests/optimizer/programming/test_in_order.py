"""Goals in their order, against all values that there are."""

import itertools
import random

import numpy as np
import pytest

from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.optimizer.programming.in_order import (
    Certificate,
    Goal,
    describe_unproven,
    maximise_in_order,
)
from kubedsm.optimizer.programming.programme import Rows, Solved, Status
from kubedsm.solvers.available import Highs
from support import drawing


def drawn(rng):
    """A programme of few values, and two goals."""
    rows = Rows()
    variables = rows.variables([rng.randint(1, 3) for _ in range(4)])
    for _ in range(3):
        rows.add((variables, [rng.randint(0, 5) for _ in variables]), most=rng.randint(4, 15))
    goals = [np.array([rng.randint(-2, 3) for _ in variables]) for _ in range(2)]
    return rows.programme(), goals


@pytest.mark.parametrize("seed", drawing.drawn_cases(range(25)))
def test_the_best_for_the_first_goal_and_of_these_for_the_second(seed):
    programme, goals = drawn(random.Random(seed))
    every = itertools.product(*(range(n + 1) for n in programme.upper.tolist()))
    allowed = [v for v in map(np.array, every) if programme.allows(v)]
    best = max(tuple(int(goal @ v) for goal in goals) for v in allowed)
    found = maximise_in_order(
        programme, [Goal("one", goals[0]), Goal("two", goals[1])], Highs(), NO_DEADLINE
    )
    assert found.proven
    assert tuple(c.value for c in found.certificates) == best
    assert tuple(int(goal @ found.values) for goal in goals) == best


class Silent:
    name = "silent"

    def maximise(self, programme, goal, deadline, hint=None, *, plain=False):
        return Solved(Status.UNKNOWN, bound=7)


def test_what_it_began_with_is_kept_where_nothing_better_is_found():
    rows = Rows()
    rows.add((rows.variables([5, 5]), [1, 1]), most=7)
    hint = np.array([3, 2])
    found = maximise_in_order(
        rows.programme(), [Goal("all", np.array([1, 1]))], Silent(), NO_DEADLINE, hint
    )
    assert found.values.tolist() == [3, 2]
    assert found.certificates == (Certificate("all", Status.FEASIBLE, 5, 7),)
    assert found.certificates[0].gap == pytest.approx(2 / 7)


def test_what_reaches_a_bound_that_only_the_solver_claims_is_not_proven():
    rows = Rows()
    rows.add((rows.variables([5, 5]), [1, 1]), most=7)
    goals, hint = [Goal("all", np.array([1, 1]))], np.array([3, 4])
    found = maximise_in_order(rows.programme(), goals, Silent(), NO_DEADLINE, hint)
    assert not found.proven
    assert found.certificates[0].bound == 10


def test_what_is_not_allowed_is_never_the_answer():
    rows = Rows()
    rows.add((rows.variables([5]), [1]), most=3)
    goals = [Goal("all", np.array([1]))]
    found = maximise_in_order(rows.programme(), goals, Silent(), NO_DEADLINE, np.array([4]))
    assert found.values is None


def test_what_is_not_proven_is_told_in_what_people_count_in():
    placed = Certificate("pods placed", Status.FEASIBLE, 188, 203)
    qos = Certificate("QoS", Status.FEASIBLE, 1_500, 2_000, of="priority 100", unit=1_000)
    known = Certificate("evenness", Status.OPTIMAL, 3, 3)
    nothing = Certificate("preferences", Status.UNKNOWN)
    unbounded = Certificate("moves", Status.FEASIBLE, -4)
    assert describe_unproven((placed, known, qos)) == (
        "pods placed: 188 of at most 203 (gap 7.4 %);"
        " QoS of priority 100: 1.5 of at most 2 (gap 25.0 %)"
    )
    assert nothing.words == "preferences: nothing found"
    assert unbounded.words == "moves: -4, and no bound is known"
    assert not describe_unproven((known,))
    assert qos.as_json() == {
        "goal": "QoS",
        "of": "priority 100",
        "value": 1.5,
        "bound": 2.0,
        "gap": 0.25,
        "proven": False,
    }
