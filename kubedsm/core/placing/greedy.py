"""Which pods go to the edge when there are too many possibilities to compare.

One pod after the other, by priority: the one that adds most QoS for its size, the sizes and gains
looked at anew after every pick; each on the node where it fits best.
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
    room = BestFit(edge)
    picks: Picks = {}
    taken = [0] * len(members)
    # (member, kind) in name order; one that finds no room any more never will.
    candidates = [(m, kind) for m, member in enumerate(members) for kind in member.kinds()]

    def score(candidate: tuple[int, int]) -> tuple[tuple[int, int], float]:
        m, kind = candidate
        values, number = members[m].values, taken[m]
        gain = float(values[number + 1] - values[number])
        return edge.kinds[kind].rank.turn, gain / size[kind]

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
