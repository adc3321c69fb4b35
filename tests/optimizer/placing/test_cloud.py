"""Where pods go in the cloud, or one by one, against a look at all nodes for each of them."""

import attrs
import numpy as np

from kubedsm.model.model import serving_order
from kubedsm.optimizer.matching.best_fit import order_by_size
from kubedsm.optimizer.matching.problem import PlacementProblem
from kubedsm.optimizer.placing.cloud import (
    allocation_score,
    allocation_scores,
    place_least_allocated,
)
from kubedsm.optimizer.placing.heuristics import place_one_by_one
from support import drawing
from support.drawn_problems import drawn_batch, drawn_packing


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


def literal_one_by_one(whole, number):
    """All nodes rated for each pod."""
    room, loads = whole.free.copy(), whole.nothing()
    size = np.maximum(whole.allocatable[:, :2], 1)
    line = sorted((serving_order(p), kind) for kind, of in enumerate(whole.kinds) for p in of.pods)
    for _, kind in line:
        asked, best = whole.requests[kind], None
        for node in range(len(room)):
            if (room[node] < asked).any() or loads[node, kind] >= whole.most[node, kind]:
                continue
            before = (size[node] - room[node, :2]) / size[node]
            then = size[node] - room[node, :2] + asked[:2]
            after = then / size[node]
            balance = abs(before[1] - before[0]) - abs(after[1] - after[0])
            score = allocation_scores(size[[node]], then[None])[0] + 200 * (node < number)
            rated = score + 25 * balance
            if best is None or rated > best[0]:
                best = rated, node
        if best is not None:
            room[best[1]] -= asked
            loads[best[1], kind] += 1
    return loads


def test_one_by_one_is_as_if_all_nodes_were_rated_for_each_pod():
    left_out = []
    for seed in drawing.drawn(range(150)):
        _, edge, cloud = drawn_batch(seed, 14)
        whole = PlacementProblem.of(edge.kinds, edge.rows + cloud.rows)
        found = place_one_by_one(whole, len(edge.free))
        assert (found == literal_one_by_one(whole, len(edge.free))).all(), seed
        left_out.append(int(found.sum()) < int(whole.counts.sum()))
    assert 0.1 < sum(left_out) / len(left_out) < 0.9
