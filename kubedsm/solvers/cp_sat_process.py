"""CP-SAT in a process of its own: what `cp_sat` asks, `ortools` answers.

It computes with whole numbers, so that what it finds needs no checking, and bounds are exact. Rows
are divided by what all their coefficients have in common: it is quicker with small numbers.
"""

import math
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

import numpy as np
from ortools.sat.python import cp_model

from kubedsm.core.solving.programme import UNBOUNDED, Programme, Solved, Status
from kubedsm.solvers.cp_sat import READY, Asked

_STATUS = {
    cp_model.OPTIMAL: Status.OPTIMAL,
    cp_model.FEASIBLE: Status.FEASIBLE,
    cp_model.INFEASIBLE: Status.INFEASIBLE,
}
#: bounds are floats
_WHOLE = 1e-6


def solved(asked: Asked) -> Solved:
    model = cp_model.CpModel()
    variables = [model.new_int_var(0, upper, "") for upper in asked.programme.upper.tolist()]
    _add_rows(model, variables, asked.programme)
    model.maximize(cp_model.LinearExpr.weighted_sum(variables, asked.goal.tolist()))
    hint = [] if asked.hint is None else asked.hint.tolist()
    for variable, value in zip(variables, hint, strict=False):
        model.add_hint(variable, value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = asked.workers
    if math.isfinite(asked.seconds):
        solver.parameters.max_time_in_seconds = asked.seconds
    if math.isfinite(asked.effort):
        solver.parameters.max_deterministic_time = asked.effort
    status = _STATUS.get(solver.solve(model), Status.UNKNOWN)
    if status is Status.INFEASIBLE:
        return Solved(status)
    most = math.floor(solver.best_objective_bound + _WHOLE)
    if status is Status.UNKNOWN:
        return Solved(status, bound=most)
    values = np.array([solver.value(variable) for variable in variables], dtype=np.int64)
    return Solved(status, values, int(asked.goal @ values) if status is Status.OPTIMAL else most)


def _add_rows(
    model: cp_model.CpModel, variables: list[cp_model.IntVar], programme: Programme
) -> None:
    starts = programme.starts.tolist()
    limits = zip(programme.least.tolist(), programme.most.tolist(), strict=True)
    for row, (least, most) in enumerate(limits):
        part = slice(starts[row], starts[row + 1])
        named = [variables[column] for column in programme.columns[part].tolist()]
        amounts = programme.coefficients[part]
        common = int(np.gcd.reduce(amounts)) or 1
        model.add_linear_constraint(
            cp_model.LinearExpr.weighted_sum(named, (amounts // common).tolist()),
            cp_model.INT_MIN if least <= -UNBOUNDED else -(-least // common),
            cp_model.INT_MAX if most >= UNBOUNDED else most // common,
        )


def main() -> None:
    """Answer, until nobody is there to ask."""
    # What a terminal sends to all of us is for the one that asks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(int(sys.argv[1])) as asker, suppress(EOFError, ConnectionError):
        asker.send(READY)
        while True:
            asker.send(solved(asker.recv()))


if __name__ == "__main__":
    main()
