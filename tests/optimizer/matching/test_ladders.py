"""Costs that only grow, as `match` adds them up and as they bound a placement."""

import random

import numpy as np
import pytest

from kubedsm.model.model import Tier
from kubedsm.model.node_index import NodeRows
from kubedsm.objective.fragmentation import SCALE, Fragmentation, request_mix
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds, Digits, build_table
from kubedsm.optimizer.matching.problem import (
    Ladders,
    PlacementProblem,
    group_equal_rows,
    group_kinds,
)
from support.placement_instances import node, pod, resources, snapshot


def climbing(rng, kinds, nodes, most):
    """Ladders drawn at random."""
    steps = np.array([sorted(rng.choices(range(5), k=most)) for _ in range(3)], dtype=np.int64)
    which = np.array([rng.choices(range(3), k=kinds) for _ in range(nodes)], dtype=np.int64)
    return Ladders(which.reshape(nodes, kinds), steps)


def test_the_least_that_so_many_pods_cost_is_of_the_cheapest_steps():
    rng = random.Random(3)
    for _ in range(200):
        count, nodes = rng.randint(1, 6), rng.randint(1, 5)
        ladders = climbing(rng, 1, nodes, count)
        cheapest = sorted(ladders.steps[ladders.which[:, 0]].ravel().tolist())
        expected = [sum(cheapest[:n]) for n in range(count + 1)]
        assert ladders.least(0, np.arange(nodes), count).tolist() == expected


def test_no_placement_costs_more_than_the_greatest():
    rng = random.Random(4)
    for _ in range(100):
        ladders = climbing(rng, 2, 3, 4)
        counts = [rng.randint(0, 4), rng.randint(0, 4)]
        loads = np.zeros((3, 2), dtype=np.int64)
        for kind, count in enumerate(counts):
            for _ in range(count):
                loads[rng.randrange(3), kind] += 1
        cost = sum(ladders.of(np.arange(3), loads).tolist())
        assert cost <= ladders.greatest(counts)


def test_only_fragmentation_gives_way_where_costs_are_too_large_for_64_bits():
    nodes = [node(f"e{i}", Tier.EDGE) for i in range(300)]
    pods = [pod(f"p{i}", "web", resources(0.1, 0.1)) for i in range(3)]
    shot = snapshot(nodes, pods)
    rows = NodeRows.of(nodes, shot.free)
    of_batch = group_kinds(pods, rows)
    for crowd, exact in ((10, True), (10**7, False)):
        steps = np.array([[crowd, crowd + 1, crowd + 2]], dtype=np.int64)
        ladders = Ladders(np.zeros((300, 1), dtype=np.int64), steps)
        packing = PlacementProblem.of(of_batch, rows, ladders=ladders)
        digits = Digits.of(packing)
        assert (digits.lost == 0) is exact
        assert digits.charge > len(nodes) * (SCALE >> digits.lost)
        assert digits.penalty > digits.charge * ladders.greatest([3])
        assert digits.penalty * 2 < UNREACHABLE
        table = build_table(packing, Fragmentation(mix=request_mix(shot)), Bounds())
        assert table.charges(np.array([3])) == 3 * crowd


@pytest.mark.parametrize(("shape", "first"), [((0, 2), []), ((3, 0), [0])])
def test_nodes_without_looks_are_alike(shape, first):
    found, which = group_equal_rows(np.zeros(shape, dtype=np.int64))
    assert (found.tolist(), which.tolist()) == (first, [0] * shape[0])
