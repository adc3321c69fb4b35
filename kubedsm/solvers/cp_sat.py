"""CP-SAT: constraint programming with clause learning, by `ortools` in a process of its own."""

import math

import attrs

from kubedsm.model.deadline import Deadline
from kubedsm.optimizer.programming.programme import Ints, Programme, Solved
from kubedsm.solvers.process import Request, solve


@attrs.frozen
class CpSat:
    """Solver CP-SAT. The limits hold for each programme, next to its deadline."""

    name = "cp-sat"
    seconds: float = math.inf
    #: threads; 0: one for each core
    workers: int = 0
    #: limit in its own deterministic seconds; with one worker equal programmes get equal answers
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
        request = Request(
            programme, goal, hint, self.seconds, plain, workers=self.workers, effort=self.effort
        )
        return solve(self.name, request, deadline)
