"""HiGHS and CP-SAT answer alike."""

import numpy as np
import pytest

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.optimizer.programming.programme import Rows, Status
from kubedsm.solvers.available import CpSat, Highs, explain_missing, is_installed, solver_of

needs_ortools = pytest.mark.skipif(
    not is_installed("cp-sat"), reason="ortools is not installed (pip install 'kubedsm[exact]')"
)


def of_one(**limits):
    rows = Rows()
    rows.add((rows.variables([1]), [1]), **limits)
    return rows.programme()


def drawn(seed, variables=25):
    rows, rng = Rows(), np.random.default_rng(seed)
    numbers = rows.variables(rng.integers(1, 3, variables))
    for _ in range(6):
        rows.add((numbers, rng.integers(0, 2**33, variables)), most=2**35)
    rows.add((numbers, np.ones(variables, dtype=np.int64)), least=2)
    return rows.programme(), rng.integers(-10, 100, variables)


@needs_ortools
@pytest.mark.http
@pytest.mark.parametrize("seed", range(2))
def test_it_finds_what_highs_finds(seed):
    programme, goal = drawn(seed)
    ours = CpSat(workers=1).maximise(programme, goal, NO_DEADLINE)
    theirs = Highs().maximise(programme, goal, NO_DEADLINE)
    assert ours.status is theirs.status is Status.OPTIMAL
    assert programme.allows(ours.values)
    assert goal @ ours.values == goal @ theirs.values == ours.bound


CP_SAT = needs_ortools, pytest.mark.http


@pytest.mark.parametrize("solver", [Highs(), pytest.param(CpSat(), marks=CP_SAT)])
def test_there_may_be_nothing_or_no_time(solver):
    goal, passed = np.array([1]), Deadline(lambda: 1.0, 1.0)
    assert solver.maximise(of_one(least=2), goal, NO_DEADLINE).status is Status.INFEASIBLE
    assert solver.maximise(of_one(most=1), goal, passed).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("solver", "hardly"),
    [
        (Highs(nodes=200), Highs(nodes=1)),
        pytest.param(CpSat(workers=1), CpSat(workers=1, effort=0.02), marks=CP_SAT),
    ],
)
def test_it_begins_with_what_it_is_given_and_is_as_good_as_that(solver, hardly):
    programme, goal = drawn(7, variables=60)
    better = solver.maximise(programme, goal, NO_DEADLINE)
    again, and_again = (
        hardly.maximise(programme, goal, NO_DEADLINE, better.values) for _ in range(2)
    )
    assert programme.allows(again.values)
    assert goal @ again.values >= goal @ better.values
    assert again.bound >= goal @ again.values
    assert (again.bound, again.status) == (and_again.bound, and_again.status)


@needs_ortools
@pytest.mark.http
def test_without_an_answer_in_time_no_bound_is_claimed():
    hardly = CpSat(workers=1, effort=0.002).maximise(*drawn(7, variables=300), NO_DEADLINE)
    assert (hardly.status, hardly.bound) == (Status.UNKNOWN, None)


def test_a_byte_too_much_is_too_much():
    """HiGHS takes a row for kept that is broken by a millionth of it."""
    rows, whole = Rows(), 2**36
    variables = rows.variables([1, 1])
    rows.add((variables, [whole // 2 + 1, whole // 2]), most=whole)
    solved = Highs().maximise(rows.programme(), np.array([3, 2]), NO_DEADLINE)
    assert solved.values.tolist() == [1, 0]
    assert solved.bound >= 3


def test_where_it_is_not_installed_that_is_said(monkeypatch):
    monkeypatch.setattr("kubedsm.solvers.available.find_spec", lambda _: None)
    is_installed.cache_clear()
    try:
        assert solver_of("cp-sat", 1.0) is None
        assert explain_missing("cp-sat") == (
            "solver: ortools is not installed (pip install 'kubedsm[exact]'):"
            " above the exact-search limit, decisions are heuristic and not proven optimal"
        )
    finally:
        is_installed.cache_clear()


def test_one_that_is_off_or_not_there_is_none():
    assert solver_of("off", 1.0) is None
    assert solver_of("highs", 1.0).name == "highs"
