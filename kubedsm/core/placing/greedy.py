"""Which pods go to the edge when there are too many possibilities to compare.

One pod after the other, by priority: the one that adds most QoS for its size, the sizes and gains
looked at anew after every pick; each on the node where it fits best. A pod adds what it and as many
more of its workload add on average, if that is more: a promise that counts when it is kept in full
is kept pod by pod.
"""

from collections.abc import Sequence

from kubedsm.core.goals.fragmentation import Ints
from kubedsm.core.packing.best_fit import BestFit, sizes
from kubedsm.core.packing.problem import Packing
from kubedsm.core.placing.split import Demand, Picks
from kubedsm.core.world.deadline import Deadline


def pick_greedily(
    edge: Packing, members: Sequence[Demand], deadline: Deadline
) -> tuple[Picks, Ints]:
    """Whose pods go to the edge, and their placement, N x S.

    This is what is done when there is no time for anything better, so it may take as much again.
    """
    size = sizes(edge)
    gains = [_steepest(member.values.tolist()) for member in members]
    room = BestFit(edge)
    picks: Picks = {}
    taken = [0] * len(members)
    # (member, kind) in name order; one that finds no room any more never will.
    candidates = [(m, kind) for m, member in enumerate(members) for kind in member.kinds()]

    def score(candidate: tuple[int, int]) -> tuple[tuple[int, int], float]:
        m, kind = candidate
        return edge.kinds[kind].rank.turn, gains[m][taken[m]] / size[kind]

    while candidates and not deadline.long_passed:
        best = max(candidates, key=score)
        m, kind = best
        if not room.place(kind):
            candidates = [c for c in candidates if c[1] != kind]
            continue
        taken[m] += 1
        pick = (members[m].workload, kind)
        picks[pick] = picks.get(pick, 0) + 1
        if picks[pick] == int(members[m].counts[kind]):
            candidates.remove(best)
    return picks, room.loads


def _steepest(values: Sequence[int]) -> list[float]:
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
