"""Best fit, against a look at all nodes for each pod."""

import random

import numpy as np

from kubedsm.optimizer.matching.best_fit import BestFit
from support import drawing
from support.drawn_packings import drawn_packing


def literal_place(packing, loads, kind):
    """Where it likes best, then where it leaves least; None if it fits nowhere."""
    room = packing.room_after(loads)
    scale = np.maximum(packing.allocatable[:, :2].max(axis=0, initial=1), 1)
    rated = [
        (int(packing.penalties[n, kind]), float((room[n, :2] / scale).sum()), n)
        for n in range(len(packing.nodes))
        if loads[n, kind] < packing.most[n, kind] and (room[n] >= packing.requests[kind]).all()
    ]
    return min(rated)[2] if rated else None


def test_each_pod_goes_where_it_leaves_least_of_all_nodes():
    placed = refused = 0
    for seed in drawing.drawn(range(400)):
        packing, _ = drawn_packing(seed)
        rng, loads = random.Random(seed), packing.nothing()
        room = BestFit(packing)
        for at in range(9):
            if at == 4:  # go on from there
                room = BestFit(packing, room.loads)
            kind = rng.randrange(len(packing.kinds))
            node = literal_place(packing, loads, kind)
            assert room.place(kind) is (node is not None), seed
            if node is None:
                refused += 1
            else:
                loads[node, kind] += 1
                placed += 1
            assert room.loads.tolist() == loads.tolist(), seed
    assert min(placed, refused) >= 100
