"""The greedy pick, against all candidates rated anew for each pod."""

import attrs
import numpy as np

from kubedsm.model.model import Tier
from kubedsm.model.node_index import NodeRows
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.best_fit import BestFit, kind_sizes
from kubedsm.optimizer.matching.problem import PlacementProblem, Rank, group_kinds
from kubedsm.optimizer.placing.heuristics import pick_greedily
from kubedsm.optimizer.placing.split import list_demands
from support import drawing
from support.placement_instances import drawn, node, pod, resources, snapshot


def literal_pick(edge, members):
    size, room, picks, taken = kind_sizes(edge), BestFit(edge), {}, [0] * len(members)
    candidates = [(m, kind) for m, member in enumerate(members) for kind in member.kinds()]

    def rated(candidate):
        m, kind = candidate
        values, at = members[m].values.tolist(), taken[m]
        steepest = max((v - values[at]) / n for n, v in enumerate(values[at + 1 :], 1))
        return edge.kinds[kind].rank.turn, steepest / size[kind]

    while candidates:
        best = max(candidates, key=rated)
        m, kind = best
        pick = (members[m].workload, kind)
        if room.place(kind) is None:
            candidates = [c for c in candidates if c[1] != kind]
            continue
        taken[m] += 1
        picks[pick] = picks.get(pick, 0) + 1
        if picks[pick] == members[m].counts[kind]:
            candidates.remove(best)
    return picks, room.loads


def test_the_pod_that_adds_most_for_its_size_comes_first():
    full = several = ranked = 0
    for seed in drawing.drawn(range(500)):
        case = drawn(seed, most=9)
        rows = NodeRows.of(case.tier(Tier.EDGE), case.snapshot.free)
        of_batch = group_kinds(case.batch, rows)
        if seed % 3 == 0:
            ranks = [Rank(priority=at % 2, overdue=at % 3) for at in range(len(of_batch))]
            of_batch = [attrs.evolve(k, rank=r) for k, r in zip(of_batch, ranks, strict=True)]
            ranked += len(of_batch) > 1
        edge = PlacementProblem.of(of_batch, rows)
        objective = Objective(gamma=10, beta=(0.0, 0.5)[seed % 2], alpha=1.0)
        members = list_demands(edge, case.snapshot.census.shares, case.qos_targets, objective)
        picks, loads = pick_greedily(edge, members)
        expected, placed = literal_pick(edge, members)
        assert (picks, loads.tolist()) == (expected, placed.tolist()), seed
        full += 0 < loads.sum() < edge.counts.sum()
        several += any(len(member.kinds()) > 1 for member in members)
    assert min(full, several, ranked) >= 10


def test_what_is_not_wanted_at_the_edge_only_stays_where_it_is():
    nodes = [node("e1", Tier.EDGE, 4, 64)]
    pods = [pod(f"web-{at}", "web", resources(1)) for at in range(3)]
    shot = snapshot(nodes, pods)
    edge = PlacementProblem.of(group_kinds(pods, shot.in_turn(Tier.EDGE)), shot.in_turn(Tier.EDGE))
    members = list_demands(edge, shot.census.shares, lambda _: QosTarget(most=0), Objective())
    there = np.array([[2]])
    picks, loads = pick_greedily(edge, members, there, np.array([1]))
    assert picks == {(pods[0].workload, 0): 2}
    assert loads.tolist() == there.tolist()
    assert pick_greedily(edge, members)[0] == {}
