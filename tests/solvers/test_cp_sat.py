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


@needs_ortools
@pytest.mark.http
def test_it_begins_with_what_it_is_given_and_is_as_good_as_that():
    programme, goal = drawn(7, variables=60)
    better = CpSat(workers=1).maximise(programme, goal, NO_DEADLINE)
    hardly = CpSat(workers=1, effort=0.02)
    again, and_again = (
        hardly.maximise(programme, goal, NO_DEADLINE, better.values) for _ in range(2)
    )
    assert goal @ again.values == goal @ better.values
    assert again.bound >= goal @ again.values
    assert (again.bound, again.status) == (and_again.bound, and_again.status)


@needs_ortools
@pytest.mark.http
def test_there_may_be_nothing_or_no_time():
    goal = np.array([1])
    assert CpSat().maximise(of_one(least=2), goal, NO_DEADLINE).status is Status.INFEASIBLE
    passed = Deadline(lambda: 1.0, 1.0)
    assert CpSat().maximise(of_one(most=1), goal, passed).status is Status.UNKNOWN
    hardly = CpSat(workers=1, effort=0.002).maximise(*drawn(7, variables=300), NO_DEADLINE)
    assert (hardly.status, hardly.bound) == (Status.UNKNOWN, None)


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
