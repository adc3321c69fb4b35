"""Heuristics that keep along what they know, beside forms of them that look at everything again."""

import numpy as np

from kubedsm.model.model import serving_order
from kubedsm.optimizer.matching.problem import PlacementProblem
from kubedsm.optimizer.placing.cloud import allocation_scores
from kubedsm.optimizer.placing.heuristics import place_one_by_one
from support import drawing
from support.drawn_batches import drawn_batch


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
