"""Touches, spread and fragmentation as one number of 64 bits, in which the first leads."""

from typing import Self

import attrs

from kubedsm.objective.fragmentation import SCALE
from kubedsm.optimizer.matching.match import UNREACHABLE
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.suggestion import SuggestLimits

#: Of the numbers; more than that is unreachable.
_GREATEST = UNREACHABLE // 2


@attrs.frozen
class Digits:
    """What each counts in that number."""

    touch: int
    spread: int
    #: so many pairs count as one; more than 1 only where 64 bits would be too few
    pairs: int

    @classmethod
    def of(cls, problem: EdgeProblem, limits: SuggestLimits) -> Self:
        touches = 2 * limits.max_moves
        # A touch changes one node, by no more than all that its fragmentation can be.
        spread = 4 * SCALE * (min(len(problem.nodes), touches) + 1)
        most, room = problem.spread.most_added(touches), _GREATEST // (touches * spread)
        pairs = 1 + most // max(1, room // 2 - 1)
        return cls(2 * (most // pairs + 1) * spread, spread, pairs)

    def parts(self, cost: int) -> tuple[int, int]:
        """The spread and the fragmentation that a cost without touches is made of."""
        spread = (cost + self.spread // 2) // self.spread
        return spread, cost - spread * self.spread
