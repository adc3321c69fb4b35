"""Best fit, against a look at all nodes for each pod, and pods that make room for others."""

import random

import attrs
import numpy as np
import pytest

from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.model.model import Tier
from kubedsm.model.node_index import NodeRows
from kubedsm.optimizer.matching.best_fit import BestFit, add_by_ejection_chains
from kubedsm.optimizer.matching.problem import PlacementProblem, Rank, group_kinds
from support import drawing
from support.drawn_problems import drawn_packing
from support.placement_instances import node, pod, resources


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
            assert room.place(kind) == node, seed
            if node is None:
                refused += 1
            else:
                loads[node, kind] += 1
                placed += 1
            assert room.loads.tolist() == loads.tolist(), seed
    assert min(placed, refused) >= 100


@pytest.mark.parametrize(
    ("cores", "requests", "overdue", "begun", "limits", "expected"),
    [
        # p2 can only have the first node, whose pod must go where the third is now.
        ((4, 3, 2), (1.5, 2.5, 3.5), None, {"p1": 0, "p0": 1}, (1, 9), {"p0", "p1"}),
        ((4, 3, 2), (1.5, 2.5, 3.5), None, {"p1": 0, "p0": 1}, (2, 0), {"p0", "p1"}),
        ((4, 3, 2), (1.5, 2.5, 3.5), None, {"p1": 0, "p0": 1}, (2, 9), {"p0", "p1", "p2"}),
        # One stays out for one of a greater turn, and for no other.
        ((2,), (1.5, 1.75), None, {"p0": 0}, (1, 9), {"p0"}),
        ((2,), (1.5, 1.75), "p1", {"p0": 0}, (1, 9), {"p1"}),
    ],
)
def test_pods_drive_each_other_out(cores, requests, overdue, begun, limits, expected):
    nodes = [node(f"n{at}", Tier.EDGE, cpu, 64) for at, cpu in enumerate(cores)]
    pods = [pod(f"p{at}", f"w{at}", resources(cpu)) for at, cpu in enumerate(requests)]
    rows = NodeRows.of(nodes, {each.name: each.allocatable for each in nodes})
    kinds = group_kinds(pods, rows)
    names = [kind.pods[0].name for kind in kinds]
    ranks = [Rank(overdue=1 if name == overdue else 0) for name in names]
    packing = PlacementProblem.of(
        [attrs.evolve(kind, rank=rank) for kind, rank in zip(kinds, ranks, strict=True)], rows
    )
    loads = packing.nothing()
    for name, at in begun.items():
        loads[at, names.index(name)] = 1
    placed = add_by_ejection_chains(packing, loads, *limits, NO_DEADLINE)
    assert {names[kind] for kind in np.flatnonzero(placed.sum(axis=0))} == expected
