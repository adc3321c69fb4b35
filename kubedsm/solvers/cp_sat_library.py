"""CP-SAT library in the solver process: conversion of programmes and solutions.

CP-SAT uses integer arithmetic, hence bounds are exact. Rows are divided by the greatest common
divisor of the coefficients, since small coefficients accelerate propagation.
"""

import math
from threading import Event, Thread
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from kubedsm.optimizer.programming.programme import UNBOUNDED, Programme, Solved, Status
from kubedsm.solvers.process import Request

_STATUS = {
    cp_model.OPTIMAL: Status.OPTIMAL,
    cp_model.FEASIBLE: Status.FEASIBLE,
    cp_model.INFEASIBLE: Status.INFEASIBLE,
}
#: Distance to the next whole number that counts as rounding: bounds are floats.
_WHOLE = 1e-6
#: Seconds of an idle core in a deterministic second of CP-SAT, and strategies that take turns, with
#: a deterministic limit each. Measured.
_IDLE_SECONDS, _STRATEGIES = 2.5, 4
#: Seconds between looks for STOP.
_LOOK = 0.05


def solve_request(request: Request, stopped: Event) -> Solved:
    """Solve an integer programme with CP-SAT; return the solution and the upper bound that CP-SAT
    claims.
    """
    model = cp_model.CpModel()
    variables = [model.new_int_var(0, upper, "") for upper in request.programme.upper.tolist()]
    _add_rows(model, variables, request.programme)
    model.maximize(cp_model.LinearExpr.weighted_sum(variables, request.goal.tolist()))
    hint = [] if request.hint is None or request.plain else request.hint.tolist()
    for variable, value in zip(variables, hint, strict=False):
        model.add_hint(variable, value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = request.workers
    if request.plain:
        solver.parameters.cp_model_presolve = False
        solver.parameters.symmetry_level = 0
        solver.parameters.random_seed = 1
    if math.isfinite(request.seconds):
        solver.parameters.max_time_in_seconds = request.seconds
    if math.isfinite(request.effort):
        work = request.effort / _IDLE_SECONDS
        if request.workers != 1:
            # The strategies take turns: equal solutions with any number of threads.
            solver.parameters.interleave_search = True
            work /= _STRATEGIES
        solver.parameters.max_deterministic_time = work
    status = _STATUS.get(_run_solver(solver, model, stopped), Status.UNKNOWN)
    effort = solver.response_proto.deterministic_time * _IDLE_SECONDS
    if status in {Status.INFEASIBLE, Status.UNKNOWN}:
        return Solved(status, effort=effort)  # without a solution CP-SAT gives 0 as bound
    most = math.floor(solver.best_objective_bound + _WHOLE)
    values = np.array([solver.value(variable) for variable in variables], dtype=np.int64)
    return Solved(status, values, most, effort=effort)


def _run_solver(solver: cp_model.CpSolver, model: cp_model.CpModel, stopped: Event) -> Any:
    """Run CP-SAT on the model, and interrupt the search when the parent process sends `STOP`."""
    over = Event()

    def watch() -> None:
        while not over.wait(_LOOK):
            if stopped.is_set():
                solver.stop_search()

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return solver.solve(model)
    finally:
        over.set()
        watcher.join()


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
