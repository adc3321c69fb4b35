"""Where pods go in the cloud, against a look at all nodes for each of them."""

import attrs
import numpy as np

from kubedsm.optimizer.matching.best_fit import order_by_size
from kubedsm.optimizer.placing.cloud import allocation_score, place_least_allocated
from support import drawing
from support.drawn_packings import drawn_packing


def literal_spread(packing, counts):
    """Each pod on the node that is best of all as it comes."""
    loads = packing.nothing()
    for kind in order_by_size(packing, largest_first=True):
        for _ in range(int(counts[kind])):
            room = packing.room_after(loads)
            rated = [
                (_key(packing, kind, n, loads, room), n)
                for n in range(len(packing.nodes))
                if loads[n, kind] < packing.most[n, kind]
                and ((packing.requests[kind] <= room[n]) | (packing.requests[kind] == 0)).all()
            ]
            if rated:
                loads[min(rated)[1], kind] += 1
    return loads


def _key(packing, kind, n, loads, room):
    charged = 0
    if packing.ladders:
        charged = int(packing.ladders.steps[packing.ladders.which[n, kind], loads[n, kind]])
    size = packing.allocatable[n, :2].tolist()
    used = (packing.allocatable - room + packing.requests[kind])[n, :2].tolist()
    score = allocation_score(size, used)
    return int(packing.penalties[n, kind]), charged, -score, int(loads[n].sum())


def literal_least_allocated(packing, counts):
    loads = literal_spread(packing, counts)
    if packing.ladders and loads.sum() < counts.sum():
        packing = attrs.evolve(packing, ladders=None)
        loads = max(loads, literal_spread(packing, counts), key=packing.worth)
    if packing.penalties.any() and loads.sum() < counts.sum():
        packing = attrs.evolve(packing, penalties=np.zeros_like(packing.penalties))
        loads = max(loads, literal_spread(packing, counts), key=packing.worth)
    return loads


def test_each_pod_goes_to_the_best_of_all_nodes():
    short = several = shared = charged = disliked = 0
    for seed in drawing.drawn(range(600)):
        packing, _ = drawn_packing(seed)
        for counts in (packing.counts, packing.counts // 2):
            loads = place_least_allocated(packing, counts)
            assert loads.tolist() == literal_least_allocated(packing, counts).tolist(), seed
            short += bool(0 < loads.sum() < counts.sum())
            several += bool((loads > 1).any())
            shared += bool(((loads > 0).sum(axis=1) > 1).any())
            charged += packing.ladders is not None
            disliked += bool((loads * packing.penalties).any())
    assert min(short, several, shared, charged, disliked) >= 10
