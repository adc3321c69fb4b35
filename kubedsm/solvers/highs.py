"""HiGHS: branch and cut, by the library `highspy`.

It computes with floats, to within 1e-6 of each row: what it finds is rounded and checked, and where
that breaks a row by a little, the rows are made so much tighter for another try.
"""

import math

import attrs
import highspy
import numpy as np
from numpy.typing import NDArray

from kubedsm.core.solving.programme import UNBOUNDED, Ints, Programme, Solved, Status
from kubedsm.core.world.deadline import Deadline

_INFINITY = highspy.kHighsInf
#: of the greatest coefficient of a row: more than what HiGHS lets a row be broken by
_TIGHTER = 4e-6
#: what is nearer to the next whole number than this is that number
_WHOLE = 1e-6
_RELATIVE = 1e-9
#: the presolve rule for parallel rows and columns, as a bit
_PARALLEL = 1 << 13
_LEAST_SECONDS = 0.001


@attrs.frozen
class Highs:
    """The limits hold for each programme by itself, whatever its deadline."""

    name = "highs"
    seconds: float = math.inf
    #: of its search; so many make the same of equal programmes, however busy the machine is
    nodes: int | None = None

    def maximise(
        self, programme: Programme, goal: Ints, deadline: Deadline, hint: Ints | None = None
    ) -> Solved:
        found = self._found(programme, goal, deadline, hint, 0.0)
        if found.status is Status.UNKNOWN and found.values is not None:
            tighter = self._found(programme, goal, deadline, hint, _TIGHTER)
            if tighter.values is not None and tighter.status is not Status.UNKNOWN:
                return Solved(Status.FEASIBLE, tighter.values, found.bound)
            return Solved(Status.UNKNOWN, None, found.bound)
        return found

    def _found(
        self,
        programme: Programme,
        goal: Ints,
        deadline: Deadline,
        hint: Ints | None,
        tighter: float,
    ) -> Solved:
        """What it finds; of unknown status, with values, if these break a row by a little."""
        seconds = min(self.seconds, deadline.left)
        if seconds < _LEAST_SECONDS:
            return Solved(Status.UNKNOWN)
        scale = float(np.abs(goal).max(initial=0)) or 1.0
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        # After a restart, and by that rule, it has called optimal what was not (1.15.1).
        highs.setOptionValue("mip_allow_restart", False)
        highs.setOptionValue("presolve_rule_off", _PARALLEL)
        highs.setOptionValue("mip_rel_gap", 0.0)
        highs.setOptionValue("mip_abs_gap", min(1e-6, 0.5 / scale))
        if math.isfinite(seconds):
            highs.setOptionValue("time_limit", seconds)
        if self.nodes is not None:
            highs.setOptionValue("mip_max_nodes", self.nodes)
        if seconds < math.inf:
            # It may pass before its time, for something more urgent.
            for event in (highs.cbMipInterrupt, highs.cbSimplexInterrupt):
                event.subscribe(lambda asked: asked.interrupt(deadline.passed))
        highs.passModel(_model(programme, goal / scale, tighter))
        if hint is not None:
            solution = highspy.HighsSolution()
            solution.col_value = hint.astype(np.float64)
            highs.setSolution(solution)
        highs.run()
        return _read(highs, programme, goal, scale)


def _model(programme: Programme, costs: NDArray[np.float64], tighter: float) -> highspy.HighsLp:
    number, starts = len(programme.upper), programme.starts
    rows = len(programme.least)
    lengths = np.diff(starts)
    # Rows of bytes and rows of pods alike: each in parts of its greatest coefficient.
    greatest = np.ones(rows)
    np.maximum.at(greatest, np.repeat(np.arange(rows), lengths), np.abs(programme.coefficients))
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = number, rows
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
    model.a_matrix_.start_ = starts
    model.a_matrix_.index_ = programme.columns
    model.a_matrix_.value_ = programme.coefficients / np.repeat(greatest, lengths)
    return model


def _read(highs: highspy.Highs, programme: Programme, goal: Ints, scale: float) -> Solved:
    model, info = highs.getModelStatus(), highs.getInfo()
    if model == highspy.HighsModelStatus.kInfeasible:
        return Solved(Status.INFEASIBLE)
    most = info.mip_dual_bound * scale
    bound = math.floor(most + max(_WHOLE, abs(most) * _RELATIVE)) if math.isfinite(most) else None
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Solved(Status.UNKNOWN, bound=bound)
    values = np.rint(np.asarray(highs.getSolution().col_value)).astype(np.int64)
    if not programme.allows(values):
        return Solved(Status.UNKNOWN, values, bound)
    if model == highspy.HighsModelStatus.kOptimal:
        return Solved(Status.OPTIMAL, values, int(goal @ values))
    return Solved(Status.FEASIBLE, values, bound)
