"""Costs that only grow, as `match` adds them up and as they bound a placement."""

import numpy as np

from kubedsm.model.model import Tier
from kubedsm.model.node_index import NodeRows
from kubedsm.objective.fragmentation import SCALE, Fragmentation, request_mix
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds, Digits, build_table
from kubedsm.optimizer.matching.problem import (
    Ladders,
    PlacementProblem,
    group_kinds,
)
from support.placement_instances import node, pod, resources, snapshot


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
