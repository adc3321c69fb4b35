"""Available solvers, HiGHS and CP-SAT: their settings, and whether their libraries are
installed.
"""

import math
from functools import cache
from importlib.util import find_spec
from typing import ClassVar, Literal

import attrs

from kubedsm.model.deadline import Deadline
from kubedsm.optimizer.programming.programme import Ints, Programme, Solved, Solver
from kubedsm.solvers.process import Request, solve

#: `off`: no solver
SolverKind = Literal["highs", "cp-sat", "off"]

#: library of each solver
LIBRARIES = {"highs": "highspy", "cp-sat": "ortools"}
#: installation hints for optional libraries
_EXTRAS = {"cp-sat": " (pip install 'kubedsm[exact]')"}


@attrs.frozen
class _LibrarySolver:
    """Solver in a separate process, with limits per programme in addition to the deadline.

    The limit on counted work is the lesser of `effort` and a share of `seconds`: equal programmes
    get equal solutions on an idle and on a busy machine.
    """

    name: ClassVar[str]
    seconds: float = math.inf
    #: limit on the search tree: identical programmes get identical solutions
    nodes: int | None = None
    #: threads; 0: all cores
    workers: int = 0
    #: limit on counted work, in seconds of an idle core
    effort: float = math.inf

    def maximise(
        self,
        programme: Programme,
        goal: Ints,
        deadline: Deadline,
        hint: Ints | None = None,
        *,
        plain: bool = False,
    ) -> Solved:
        limits = (self.seconds, plain, self.nodes, self.workers, self.effort)
        return solve(self.name, Request(programme, goal, hint, *limits), deadline)


class Highs(_LibrarySolver):
    """Solver HiGHS: branch and bound with cutting planes; observes `nodes` and `effort`."""

    name = "highs"


class CpSat(_LibrarySolver):
    """CP-SAT: constraint programming with clause learning; observes `workers` and `effort`."""

    name = "cp-sat"


@cache
def is_installed(kind: SolverKind) -> bool:
    return kind in LIBRARIES and find_spec(LIBRARIES[kind]) is not None


def explain_missing(kind: SolverKind) -> str:
    """Return the consequence of a missing library; empty if installed, or without a solver."""
    if kind == "off" or is_installed(kind):
        return ""
    return (
        f"solver: {LIBRARIES[kind]} is not installed{_EXTRAS.get(kind, '')}:"
        " above the exact-search limit, decisions are heuristic and not proven optimal"
    )


def solver_of(kind: SolverKind, seconds: float) -> Solver | None:
    """Return a solver with a limit of `seconds` per programme; None if not installed."""
    if not is_installed(kind):
        return None
    return CpSat(seconds) if kind == "cp-sat" else Highs(seconds)
