"""Pods that make room for others, on placements that leave pods out."""

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import Tier
from kubedsm.model.node_index import NodeRows
from kubedsm.optimizer.matching.best_fit import add_by_ejection_chains, best_fit_increasing
from kubedsm.optimizer.matching.match import Bounds, build_table
from kubedsm.optimizer.matching.problem import PlacementProblem, Rank, group_kinds
from support import drawing
from support.drawn_packings import drawn_packing
from support.placement_instances import node, pod, resources


def packing_of(cores, requests, ranks=()):
    """Nodes of so many cores, and a pod for each of the requests, all kinds of their own."""
    nodes = [node(f"n{at}", Tier.EDGE, cpu, 64) for at, cpu in enumerate(cores)]
    pods = [pod(f"p{at}", f"w{at}", resources(cpu)) for at, cpu in enumerate(requests)]
    rows = NodeRows.of(nodes, {each.name: each.allocatable for each in nodes})
    turn = {f"p{at}": Rank(overdue=rank) for at, rank in enumerate(ranks)}
    of_batch = [
        attrs.evolve(kind, rank=turn.get(kind.pods[0].name, Rank()))
        for kind in group_kinds(pods, rows)
    ]
    return PlacementProblem.of(of_batch, rows)


def loads(packing, homes):
    """The named pods on these nodes."""
    placed = packing.nothing()
    for kind, each in enumerate(packing.kinds):
        if each.pods[0].name in homes:
            placed[homes[each.pods[0].name], kind] = 1
    return placed


def names(packing, placed):
    return {packing.kinds[kind].pods[0].name for kind in np.flatnonzero(placed.sum(axis=0))}


def test_one_drives_out_one_that_drives_out_another():
    """The largest can only have the first node; whose pod must go where the third is now."""
    packing = packing_of((4, 3, 2), (1.5, 2.5, 3.5))
    begun = loads(packing, {"p1": 0, "p0": 1})
    assert names(packing, add_by_ejection_chains(packing, begun, 1, 9, NO_DEADLINE)) == {"p0", "p1"}
    assert names(packing, add_by_ejection_chains(packing, begun, 2, 0, NO_DEADLINE)) == {"p0", "p1"}
    placed = add_by_ejection_chains(packing, begun, 2, 9, NO_DEADLINE)
    assert names(packing, placed) == {"p0", "p1", "p2"}


def test_one_of_a_lesser_turn_stays_out_for_one_of_a_greater_and_for_no_other():
    for rank, expected in ((1, {"p1"}), (0, {"p0"})):
        packing = packing_of((2,), (1.5, 1.75), (0, rank))
        placed = add_by_ejection_chains(packing, loads(packing, {"p0": 0}), 1, 9, NO_DEADLINE)
        assert names(packing, placed) == expected


def test_without_time_nothing_changes():
    packing = packing_of((4, 2), (1.5, 3.5))
    begun = loads(packing, {"p0": 0})
    assert (add_by_ejection_chains(packing, begun, 3, 9, Deadline(lambda: 1.0)) == begun).all()


def test_what_comes_of_it_fits_and_is_seldom_less_than_could_be():
    placed = most = before = 0
    for seed in drawing.drawn(range(300)):
        packing, _ = drawn_packing(seed)
        packing = attrs.evolve(packing, ladders=None)
        begun = best_fit_increasing(packing)
        found = add_by_ejection_chains(packing, begun, 3, 100, NO_DEADLINE)
        assert (packing.room_after(found) >= 0).all()
        assert (found <= packing.most).all()
        assert (found.sum(axis=0) <= packing.counts).all()
        assert found.sum() >= begun.sum()
        table = build_table(packing, None, Bounds())
        best = max((sum(v) for v in np.argwhere(table.costs() < 2**61).tolist()), default=0)
        before += int(begun.sum())
        placed += int(found.sum())
        most += best
    assert before < placed <= most
    assert placed >= most - 2
