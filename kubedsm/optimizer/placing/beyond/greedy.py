"""Which pods go to the edge when there are too many possibilities to compare.

One pod after the other, by priority: the one that adds most QoS for its size, the sizes and gains
looked at anew after every pick; each on the node where it fits best. A pod adds what it and as many
more of its workload add on average, if that is more: a promise that counts when it is kept in full
is kept pod by pod. One that is not wanted on the edge takes no room there that others do not have.
"""

import heapq
from collections.abc import Sequence

from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.best_fit import BestFit, sizes
from kubedsm.optimizer.matching.problem import Packing
from kubedsm.optimizer.placing.split import Demand, Picks

#: less of its priority, of its patience and of its score; whose it is, its kind, and how many of
#: the workload had been taken when it was looked at
_Candidate = tuple[int, int, float, int, int, int]


class DrawnIn:
    """An edge that has so many pods of each kind already, and takes others from elsewhere."""

    def __init__(self, room: BestFit, there: Ints, elsewhere: Ints) -> None:
        """room: with those that are there. elsewhere: how many could come of each kind."""
        self._room = room
        self._there = there.tolist()
        self.elsewhere = elsewhere.copy()

    @property
    def loads(self) -> Ints:
        return self._room.loads

    def keep(self, kind: int) -> bool:
        """Let one stay that is there already; False if there is none."""
        if self._there[kind]:
            self._there[kind] -= 1
            return True
        return False

    def place(self, kind: int) -> bool:
        if self.keep(kind):
            return True
        if not self.elsewhere[kind] or not self._room.place(kind):
            return False
        self.elsewhere[kind] -= 1
        return True


def pick_greedily(edge: Packing, members: Sequence[Demand], room: BestFit | DrawnIn) -> Picks:
    """Pick the pods that get the room, and put them there.

    No deadline cuts this short, because unpicked pods would go to the cloud. Each pick costs one
    heap operation per kind of the picked workload, and one search over the nodes.
    """
    size = sizes(edge)
    gains = [steepest(member.values.tolist()) for member in members]
    picks: Picks = {}
    taken = [0] * len(members)

    def candidate(m: int, kind: int) -> _Candidate:
        priority, overdue = edge.kinds[kind].rank.turn
        return -priority, -overdue, -gains[m][taken[m]] / size[kind], m, kind, taken[m]

    def put(m: int, kind: int) -> bool:
        if members[m].wants(taken[m] + 1):
            return room.place(kind)
        return isinstance(room, DrawnIn) and room.keep(kind)

    # The best first, of equal ones the first in name order.
    candidates = [candidate(m, kind) for m, member in enumerate(members) for kind in member.kinds()]
    heapq.heapify(candidates)
    while candidates:
        *_, m, kind, looked_at = heapq.heappop(candidates)
        # One that has been looked at anew since is in there again; one that finds no room any more
        # never will.
        if looked_at != taken[m] or not put(m, kind):
            continue
        taken[m] += 1
        pick = (members[m].workload, kind)
        picks[pick] = picks.get(pick, 0) + 1
        for other in members[m].kinds():
            if picks.get((members[m].workload, other), 0) < int(members[m].counts[other]):
                heapq.heappush(candidates, candidate(m, other))
    return picks


def steepest(values: Sequence[int]) -> list[float]:
    """From each of the values but the last, the steepest way up to any that comes later."""

    def slope(start: int, end: int) -> float:
        return (values[end] - values[start]) / (end - start)

    found: list[float] = []
    corners = [len(values) - 1]  # of the least concave curve above what comes later, backwards
    for start in range(len(values) - 2, -1, -1):
        while len(corners) > 1 and slope(start, corners[-1]) <= slope(corners[-1], corners[-2]):
            corners.pop()
        found.append(slope(start, corners[-1]))
        corners.append(start)
    return found[::-1]
