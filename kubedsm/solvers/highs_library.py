"""HiGHS library in the solver process: conversion of programmes and solutions.

HiGHS uses floating-point arithmetic with a feasibility tolerance of 1e-6 per row. Solutions are
rounded and verified. After a slight violation, the programme is solved again with tighter rows.
"""

import math
import time
from threading import Event
from typing import Any

import attrs
import highspy
import numpy as np

from kubedsm.optimizer.programming.programme import (
    UNBOUNDED,
    Floats,
    Ints,
    Programme,
    Solved,
    Status,
)
from kubedsm.solvers.process import Request

_INFINITY = highspy.kHighsInf
#: Part of a row's greatest coefficient: more than HiGHS lets the row be broken by.
_TIGHTER = 4e-6
#: Integrality tolerance.
_WHOLE = 1e-6
_RELATIVE = 1e-9
#: Seconds of an idle core, as measured: a step of the search, more for each variable and for each
#: pair of variables; and for each variable before the search.
_STEP, _STEP_COLUMN, _STEP_PAIR, _ROOT_COLUMN = 1e-4, 2e-6, 1.6e-9, 2e-5
#: Presolve rule for parallel rows and columns, as a bit.
_PARALLEL = 1 << 13
#: HiGHS 1.16.0 maps a start solution into the presolved model with another objective value. It then
#: returns the start solution, with the bound of a better one, as optimal.
TAKES_START = (highspy.HIGHS_VERSION_MAJOR, highspy.HIGHS_VERSION_MINOR) < (1, 16)
_OPTIONS: dict[str, bool | float | str] = {
    "output_flag": False,
    "threads": 1,
    # After a restart, and by that presolve rule, it has called optimal what was not (1.15.1).
    "mip_allow_restart": False,
    "presolve_rule_off": _PARALLEL,
    "mip_rel_gap": 0.0,
}
#: Options of a verification run: without components known for incorrect results.
_PLAIN: dict[str, bool | float | str] = {
    "presolve": "off",
    "mip_detect_symmetry": False,
    "random_seed": 1,
}


def solve_request(request: Request, stopped: Event) -> Solved:
    """Solve a programme with HiGHS; return solution, claimed bound, and dual multipliers."""
    until, effort = time.monotonic() + request.seconds, _Effort(request, stopped)
    answer = _Solve(request, effort, until, 0.0).answer()
    if answer.status is Status.UNKNOWN and answer.values is not None:
        tighter = _Solve(request, effort, until, _TIGHTER).answer()
        if tighter.values is not None and tighter.status is not Status.UNKNOWN:
            answer = Solved(Status.FEASIBLE, tighter.values, answer.bound)
        else:
            answer = Solved(Status.UNKNOWN, None, answer.bound)
    return attrs.evolve(answer, effort=effort.spent)


class _Effort:
    """Counter of HiGHS's work: HiGHS asks for interruption between steps of its search."""

    def __init__(self, request: Request, stopped: Event) -> None:
        columns = len(request.programme.upper)
        self._step = _STEP + _STEP_COLUMN * columns + _STEP_PAIR * columns**2
        self._most, self._stopped = request.effort, stopped
        #: seconds of an idle core
        self.spent = _ROOT_COLUMN * columns

    def step(self, asked: Any) -> None:
        """Count a step, and interrupt HiGHS after the limit."""
        self.spent += self._step
        asked.interrupt(self._stopped.is_set() or self.spent > self._most)


class _Solve:
    """Single run of HiGHS on an integer programme, with constraint rows tightened by a margin
    against rounding errors.
    """

    def __init__(self, request: Request, effort: _Effort, until: float, tighter: float) -> None:
        self._request, self._effort, self._until = request, effort, until
        self._scale = float(np.abs(request.goal).max(initial=0)) or 1.0
        self._greatest = _greatest_coefficients(request.programme)
        self._model = _make_model(
            request.programme, request.goal / self._scale, self._greatest, tighter
        )

    def answer(self) -> Solved:
        """Run HiGHS. Status unknown with values: the solution slightly violates a row."""
        request = self._request
        highs = self._make_highs()
        highs.setOptionValue("mip_abs_gap", min(1e-6, 0.5 / self._scale))
        if request.nodes is not None:
            highs.setOptionValue("mip_max_nodes", request.nodes)
        if highs.passModel(self._model) == highspy.HighsStatus.kError:
            return Solved(Status.UNKNOWN)
        if request.hint is not None and TAKES_START and not request.plain:
            start = highspy.HighsSolution()
            start.col_value = request.hint.astype(np.float64)
            highs.setSolution(start)
        highs.run()
        found = _read_solution(highs, request.programme, self._scale)
        if found.status is not Status.OPTIMAL or not request.goal.any():
            return found
        return Solved(found.status, found.values, found.bound, self._dual_multipliers())

    def _make_highs(self) -> Any:
        highs = highspy.Highs()
        for option, value in (_OPTIONS | (_PLAIN if self._request.plain else {})).items():
            highs.setOptionValue(option, value)
        left = self._until - time.monotonic()
        if math.isfinite(left):
            highs.setOptionValue("time_limit", max(left, 0.0))
        for event in (highs.cbMipInterrupt, highs.cbSimplexInterrupt):
            event.subscribe(self._effort.step)
        return highs

    def _dual_multipliers(self) -> Floats | None:
        highs = self._make_highs()
        self._model.integrality_ = []
        highs.passModel(self._model)
        highs.run()
        solution = highs.getSolution()
        if not solution.dual_valid:
            return None
        duals: Floats = np.asarray(solution.row_dual) * self._scale / self._greatest
        return duals


def _greatest_coefficients(programme: Programme) -> Floats:
    """Return the greatest coefficient of each row, as rows count bytes and pods alike."""
    rows = len(programme.least)
    greatest = np.ones(rows)
    lengths = np.diff(programme.starts)
    np.maximum.at(greatest, np.repeat(np.arange(rows), lengths), np.abs(programme.coefficients))
    return greatest


def _make_model(programme: Programme, costs: Floats, greatest: Floats, tighter: float) -> Any:
    number = len(programme.upper)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = number, len(greatest)
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = costs
    model.col_lower_ = np.zeros(number)
    model.col_upper_ = programme.upper.astype(np.float64)
    model.integrality_ = [highspy.HighsVarType.kInteger] * number
    equal = programme.least == programme.most
    margin = np.where(equal, 0.0, tighter)
    model.row_lower_ = np.where(
        programme.least <= -UNBOUNDED, -_INFINITY, programme.least / greatest + margin
    )
    model.row_upper_ = np.where(
        programme.most >= UNBOUNDED, _INFINITY, programme.most / greatest - margin
    )
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = programme.starts
    model.a_matrix_.index_ = programme.columns
    model.a_matrix_.value_ = programme.coefficients / np.repeat(greatest, np.diff(programme.starts))
    return model


def _read_solution(highs: Any, programme: Programme, scale: float) -> Solved:
    status, info = highs.getModelStatus(), highs.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Solved(Status.INFEASIBLE)
    most = info.mip_dual_bound * scale
    bound = math.floor(most + max(_WHOLE, abs(most) * _RELATIVE)) if math.isfinite(most) else None
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Solved(Status.UNKNOWN, bound=bound)
    values: Ints = np.rint(np.asarray(highs.getSolution().col_value)).astype(np.int64)
    if not programme.allows(values):
        return Solved(Status.UNKNOWN, values, bound)
    optimal = status == highspy.HighsModelStatus.kOptimal
    return Solved(Status.OPTIMAL if optimal else Status.FEASIBLE, values, bound)
