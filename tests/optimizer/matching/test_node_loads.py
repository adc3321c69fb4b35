"""Which loads are tried where: as few as may be, and none missing that the best placement has."""

from itertools import product

import numpy as np
import pytest

from kubedsm.model.model import Tier
from kubedsm.model.node_index import NodeRows
from kubedsm.objective.fragmentation import SCALE, Fragmentation, request_mix
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds, Digits, build_table
from kubedsm.optimizer.matching.problem import Ladders, PlacementProblem, group_kinds
from support import drawing
from support.drawn_problems import drawn_packing
from support.placement_instances import node, pod, resources, snapshot


def literal_table(packing, fragmentation, digits):
    """Of every vector its cost and its placement, from all loads that fit on all nodes."""
    best = {(0,) * len(packing.kinds): (0, ())}
    for n in range(len(packing.nodes)):
        options = [
            (load, _cost(packing, fragmentation, digits, n, load)) for load in _fitting(packing, n)
        ]
        following = {}
        for vector, (cost, placed) in best.items():
            for load, more in options:
                then = tuple(a + b for a, b in zip(vector, load, strict=True))
                if (np.array(then) <= packing.counts).all():
                    # Of equal ones that which puts least on the last nodes, in lexicographic order.
                    way = (cost + more, (load, *placed))
                    following[then] = min(way, following.get(then, way))
        best = following
    return {vector: (cost, placed[::-1]) for vector, (cost, placed) in best.items()}


def _fitting(packing, n):
    for load in product(*(range(count + 1) for count in packing.counts.tolist())):
        if (load <= packing.most[n]).all():
            asked = np.array(load) @ packing.requests
            if ((asked <= packing.free[n]) | (asked == 0)).all():
                yield load


def _cost(packing, fragmentation, digits, n, load):
    cost = 0
    if fragmentation:
        room = packing.free[[n]] - np.array([load]) @ packing.requests
        cost = int(fragmentation.costs(packing.axes, packing.allocatable[[n]], room)[0])
        cost >>= digits.lost
    if packing.ladders:
        for kind, number in enumerate(load):
            steps = packing.ladders.steps[packing.ladders.which[n, kind]]
            cost += digits.charge * int(steps[:number].sum())
    return cost + digits.penalty * int(packing.penalties[n] @ load)


def test_the_table_is_that_of_all_loads_on_all_nodes():
    pruned = tried_everywhere = charged = disliked = 0
    for seed in drawing.drawn(range(600)):
        packing, fragmentation = drawn_packing(seed)
        literal = literal_table(packing, fragmentation, Digits.of(packing))
        table = build_table(packing, fragmentation, Bounds())
        costs = table.costs()
        reached = {v: int(costs[v]) for v in np.ndindex(costs.shape) if costs[v] < UNREACHABLE}
        assert reached == {vector: cost for vector, (cost, _) in literal.items()}, seed
        for vector, (_, placed) in literal.items():
            loads = table.loads(np.array(vector, dtype=np.int64))
            assert [tuple(load) for load in loads.tolist()] == list(placed), (seed, vector)
        everywhere = sum(len(list(_fitting(packing, n))) for n in range(len(packing.nodes)))
        pruned += len(table.tried.loads) < everywhere
        tried_everywhere += len(table.tried.loads) == everywhere > 0
        charged += packing.ladders is not None
        disliked += bool(packing.penalties.any())
    assert min(pruned, tried_everywhere, charged, disliked) >= 40


def alike_nodes(number, waiting, steps=None, size=4):
    nodes = [node(f"e{i}", Tier.EDGE, cpu=size, memory=size) for i in range(number)]
    pods = [pod(f"p{i}", "web", resources(1, 1)) for i in range(waiting)]
    shot = snapshot(nodes, pods)
    which = np.arange(number)[:, None] % 2
    ladders = None if steps is None else Ladders(which, np.array(steps, dtype=np.int64))
    rows = NodeRows.of(nodes, shot.free)
    return PlacementProblem.of(group_kinds(pods, rows), rows, ladders=ladders)


def test_of_nodes_that_are_alike_only_the_first_are_tried():
    table = build_table(alike_nodes(9, 3), None, Bounds())
    assert table.tried.nodes.tolist() == [0, 1, 2]
    # One pod on three nodes, two on two, three on one; and none on each.
    assert sorted(table.tried.loads.ravel().tolist()) == [0, 0, 0, 1, 1, 1, 2, 2, 3]


def test_no_more_pods_are_tried_on_a_node_than_are_charged_as_little_as_on_empty_ones():
    table = build_table(alike_nodes(9, 3, [[0, 1, 2], [1, 2, 3]]), None, Bounds())
    assert table.tried.nodes.tolist() == [0, 2, 4]
    assert sorted(table.tried.loads.ravel().tolist()) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("size", [1, 2])
def test_loads_are_enumerated_once_for_nodes_that_are_alike(size):
    packing = alike_nodes(50, 3, size=size)
    assert build_table(packing, None, Bounds(loads=size + 1)) is not None
    assert build_table(packing, None, Bounds(loads=size)) is None


def test_a_table_that_would_be_too_large_anyway_is_not_begun():
    packing = alike_nodes(50, 3)
    assert build_table(packing, None, Bounds(states=3, loads=0)) is None
    assert build_table(packing, None, Bounds(steps=64 * 8)) is None


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
