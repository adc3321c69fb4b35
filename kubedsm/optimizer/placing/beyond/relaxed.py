"""What no placement of a batch exceeds, for want of an exact answer.

As if all nodes that take a pod of some kind were one, pods could be cut into pieces, and only one
resource were scarce: whichever makes it least.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubedsm.model.node_index import Mask
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.objective import Objective
from kubedsm.optimizer.matching.problem import Packing
from kubedsm.optimizer.placing.beyond.greedy import steepest
from kubedsm.optimizer.placing.beyond.integer_choice import PLACED, QOS, levels_of, turns_of
from kubedsm.optimizer.placing.split import Demand

#: what a sum of floats may be off by
_ROUNDED = 0.01


def bounds(
    edge: Packing, cloud: Packing, members: Sequence[Demand], objective: Objective
) -> dict[tuple[str, str], int]:
    """Of pods placed by turn and of QoS by level: the goal's name and whose it is, and its bound.

    As the goals of `integer_choice`: QoS is what the batch adds to it, in nano-units.
    """
    most: dict[tuple[str, str], int] = {}
    whole = Packing.of(edge.kinds, edge.rows + cloud.rows)
    takes = np.minimum(whole.fitting.sum(axis=0), whole.counts)
    for called, of_turn in turns_of(edge):
        kinds = np.repeat(np.flatnonzero(of_turn), takes[of_turn])
        room = _room(whole, of_turn)
        most[PLACED, called] = _most(np.ones(len(kinds)), whole.requests[kinds], room)
    takes = np.minimum(edge.fitting.sum(axis=0), edge.counts)
    for called, of_level in levels_of(members):
        gains, requests = [np.zeros(0)], [edge.requests[:0]]
        concerned = np.zeros(len(takes), dtype=np.bool_)
        for member in (members[at] for at in of_level):
            has = member.counts > 0
            concerned |= has
            number = int(np.minimum(member.counts, takes).sum())
            # A pod that would be a loss can stay away.
            ways = np.array(steepest(member.scores(objective)[: number + 1].tolist()))
            gains.append(np.maximum(ways, 0.0))
            requests.append(np.tile(edge.requests[has].min(axis=0), (number, 1)))
        room = _room(edge, concerned)
        most[QOS, called] = _most(np.concatenate(gains), np.concatenate(requests), room)
    return most


def _room(packing: Packing, kinds: Mask) -> Ints:
    """R, on all nodes that take a pod of one of these kinds."""
    room: Ints = packing.free[packing.feasible[:, kinds].any(axis=1)].sum(axis=0)
    return room


def _most(gains: NDArray[np.float64], requests: Ints, room: Ints) -> int:
    """The most that some of these pods gain together; K, K x R, R."""
    least = float(gains.sum())
    for asked, free in zip(requests.T.astype(np.float64), room.tolist(), strict=True):
        dear = np.flatnonzero(asked)
        best = dear[np.argsort(-gains[dear] / asked[dear], kind="stable")]
        sums = np.concatenate(([0.0], asked[best].cumsum()))
        worth = np.concatenate(([0.0], gains[best].cumsum()))
        found = float(np.interp(free, sums, worth)) + float(gains[asked == 0].sum())
        least = min(least, found)
    return int(least + _ROUNDED)
