"""Algorithm 3 with migration: which candidates go to the edge, and which pods make room."""

import attrs
import numpy as np

from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.gains import Gains, standing
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.paper.free_edge import FreeEdge


@attrs.frozen(eq=False)
class MigrationDecision:
    #: I: how many candidates of each item
    chosen: Ints
    #: how many of `FreeEdge`'s pods leave for them
    freed: int
    #: nano-units of QoS, of all priorities together
    gain: int
    #: how many choices there were
    choices: int


def make_decision_with_migration(
    problem: EdgeProblem, candidates: Ints, freeing: FreeEdge, gains: Gains
) -> MigrationDecision:
    """The choice with the greatest QoS, then the fewest migrations; candidates: I, counts of each.

    The paper tries every subset, and reorders the edge for each. QoS depends on counts only, and
    not on moves inside the edge: so counts are tried, and the edge is reordered once, for the
    choice that is made. Of equal choices the first in lexicographic order.
    """
    choices = np.argwhere(np.ones(tuple((candidates + 1).tolist()), dtype=np.bool_))
    number = len(choices)
    freed = freeing.needed(choices @ problem.requests)
    possible = np.flatnonzero(freed < len(freeing.room))
    choices, freed = choices[possible], freed[possible]
    gain = gains.of_vectors(
        [item.workload for item in problem.items], choices - freeing.counts[freed]
    )
    moves = choices.sum(axis=1) + freed
    best = int(np.lexsort((moves, -standing(gain)))[0])
    return MigrationDecision(choices[best], int(freed[best]), int(gain[best].sum()), number)
