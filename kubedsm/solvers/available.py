"""Which solvers there are here."""

from functools import cache
from importlib.util import find_spec
from typing import Literal

from kubedsm.optimizer.programming.programme import Solver
from kubedsm.solvers.cp_sat import CpSat
from kubedsm.solvers.highs import Highs

#: `off`: nobody is asked
SolverKind = Literal["highs", "cp-sat", "off"]

#: the library of each
LIBRARIES = {"highs": "highspy", "cp-sat": "ortools"}
#: what brings it, where it is not there anyway
_EXTRAS = {"cp-sat": " (pip install 'kubedsm[exact]')"}


@cache
def installed(kind: SolverKind) -> bool:
    return kind in LIBRARIES and find_spec(LIBRARIES[kind]) is not None


def lacking(kind: SolverKind) -> str:
    """What comes of it that its library is not installed; nothing if it is, or nobody is asked."""
    if kind == "off" or installed(kind):
        return ""
    return (
        f"solver: {LIBRARIES[kind]} is not installed{_EXTRAS.get(kind, '')}:"
        " beyond the bounds decisions are by heuristics, and not proven"
    )


def solver_of(kind: SolverKind, seconds: float) -> Solver | None:
    """One that takes no longer than that for each programme; None if there is none here."""
    if not installed(kind):
        return None
    if kind == "cp-sat":
        return CpSat(seconds)
    return Highs(seconds)
