"""Costs that only grow, as `match` adds them up and as they bound a placement."""

import random
from itertools import product

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
from support import drawing
from support.placement_instances import drawn, node, pod, resources, snapshot


def climbing(rng, kinds, nodes, most):
    """Ladders drawn at random."""
    steps = np.array([sorted(rng.choices(range(5), k=most)) for _ in range(3)], dtype=np.int64)
    which = np.array([rng.choices(range(3), k=kinds) for _ in range(nodes)], dtype=np.int64)
    return Ladders(which.reshape(nodes, kinds), steps)


def test_a_table_has_the_least_charge_then_the_least_fragmentation_of_every_vector():
    for seed in drawing.drawn(range(60)):
        case, rng = drawn(seed, most=4), random.Random(seed)
        edge, free = case.tier(Tier.EDGE), case.snapshot.free
        fragmentation = Fragmentation(mix=request_mix(case.snapshot))
        rows = NodeRows.of(edge, free)
        of_batch = group_kinds(case.batch, rows)
        ladders = climbing(rng, len(of_batch), len(edge), max(1, len(case.batch)))
        measured = [vector for vector, _ in fragmentation.mix]
        packing = PlacementProblem.of(of_batch, rows, measured, ladders)
        table = build_table(packing, fragmentation, Bounds())
        costs = table.costs()
        best = {}
        for loads in every_load(packing):
            room = packing.room_after(loads)
            charged = sum(
                int(ladders.steps[ladders.which[n, k], : loads[n, k]].sum())
                for n, k in np.ndindex(loads.shape)
            )
            lost = fragmentation.costs(packing.axes, packing.allocatable, room)
            vector = tuple(loads.sum(axis=0).tolist())
            cost = (charged, int((lost >> table.digits.lost).sum()))
            best[vector] = min(cost, best.get(vector, cost))
        assert {v for v in np.ndindex(costs.shape) if costs[v] < UNREACHABLE} == set(best)
        for vector, (charged, lost) in best.items():
            assert costs[vector] == charged * table.digits.charge + lost, seed
            assert table.charges(np.array(vector, dtype=np.int64)) == charged


def every_load(packing):
    counts = packing.counts.tolist()
    ranges = [range(count + 1) for _ in packing.nodes for count in counts]
    for numbers in product(*ranges):
        loads = np.array(numbers, dtype=np.int64).reshape(len(packing.nodes), len(counts))
        fits = (loads <= packing.most).all() and (loads.sum(axis=0) <= packing.counts).all()
        if fits and (packing.free - loads @ packing.requests >= 0).all():
            yield loads


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


def test_which_are_alike():
    first, which = group_equal_rows(np.array([[1], [2], [1], [3]]), np.array([[0], [0], [0], [0]]))
    assert first.tolist() == [0, 1, 3]
    assert which.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(("shape", "first"), [((0, 2), []), ((3, 0), [0])])
def test_nodes_without_looks_are_alike(shape, first):
    found, which = group_equal_rows(np.zeros(shape, dtype=np.int64))
    assert (found.tolist(), which.tolist()) == (first, [0] * shape[0])
