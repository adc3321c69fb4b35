"""HiGHS: branch and cut, by the library `highspy` in a process of its own."""

import math

import attrs

from kubedsm.model.deadline import Deadline
from kubedsm.optimizer.programming.programme import Ints, Programme, Solved
from kubedsm.solvers.process import Request, solve


@attrs.frozen
class Highs:
    """Solver HiGHS. The limits hold for each programme, next to its deadline."""

    name = "highs"
    seconds: float = math.inf
    #: limit on the search tree: equal programmes get equal answers, however busy the machine is
    nodes: int | None = None

    def maximise(
        self,
        programme: Programme,
        goal: Ints,
        deadline: Deadline,
        hint: Ints | None = None,
        *,
        plain: bool = False,
    ) -> Solved:
        request = Request(programme, goal, hint, self.seconds, plain, nodes=self.nodes)
        return solve(self.name, request, deadline)
