import numpy as np

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.optimizer.programming.programme import Rows, Status
from kubedsm.solvers.available import Highs, solver_of


def test_a_byte_too_much_is_too_much():
    """HiGHS takes a row for kept that is broken by a millionth of it."""
    rows, whole = Rows(), 2**36
    variables = rows.variables([1, 1])
    rows.add(variables, [whole // 2 + 1, whole // 2], most=whole)
    solved = Highs().maximise(rows.programme(), np.array([3, 2]), NO_DEADLINE)
    assert solved.values.tolist() == [1, 0]
    assert solved.bound >= 3


def test_there_may_be_nothing():
    rows = Rows()
    rows.add(rows.variables([1]), [1], least=2)
    assert Highs().maximise(rows.programme(), np.array([1]), NO_DEADLINE).status is (
        Status.INFEASIBLE
    )


def test_without_time_nothing_is_said():
    rows = Rows()
    rows.add(rows.variables([1]), [1], most=1)
    passed = Deadline(lambda: 1.0, 1.0)
    assert Highs().maximise(rows.programme(), np.array([1]), passed).status is Status.UNKNOWN


def test_it_begins_with_what_it_is_given():
    """With one node to search it knows no better than that, or what its heuristics find."""
    rows, rng = Rows(), np.random.default_rng(3)
    variables = rows.variables(np.ones(60, dtype=np.int64))
    for _ in range(20):
        rows.add(variables, rng.integers(50, 100, 60), most=1500)
    programme, goal = rows.programme(), rng.integers(1, 100, 60)
    better = Highs(nodes=200).maximise(programme, goal, NO_DEADLINE)
    again = Highs(nodes=1).maximise(programme, goal, NO_DEADLINE, better.values)
    assert programme.allows(again.values)
    assert goal @ again.values >= goal @ better.values
    assert again.bound >= goal @ again.values


def test_one_that_is_off_or_not_there_is_none():
    assert solver_of("off", 1.0) is None
    assert solver_of("highs", 1.0).name == "highs"
