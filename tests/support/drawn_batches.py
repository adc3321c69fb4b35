"""Random batches as packing problems of both tiers, and values of their solutions."""

import random
from collections import Counter

import attrs
import numpy as np

from kubedsm.model.model import Tier
from kubedsm.objective.objective import Objective
from kubedsm.optimizer.matching.problem import PlacementProblem, Rank, group_kinds
from support.placement_instances import drawn

OBJECTIVES = (
    Objective(),
    Objective(beta=0.0),
    Objective(gamma=10.0),
    Objective(gamma=0.2, evenness=0.65),
    Objective("latency"),
    Objective("ecmus"),
)


def drawn_batch(seed, most=9):
    """Draw a batch; return the instance, and the packing problems of edge and cloud.

    Some have two priorities, some have nodes with untolerated PreferNoSchedule taints.
    """
    case = drawn(seed, most)
    tiers = [case.snapshot.in_turn(tier) for tier in (Tier.EDGE, Tier.CLOUD)]
    rng, of_batch = random.Random(seed), group_kinds(case.batch, tiers[0] + tiers[1])
    if seed % 3 == 0:
        of_batch = [attrs.evolve(k, rank=Rank(0, 0, at % 2)) for at, k in enumerate(of_batch)]
    names = [node.name for rows in tiers for node in rows.nodes]
    picky = [
        attrs.evolve(kind, penalties={n: rng.randint(1, 3) for n in names if rng.random() < 0.4})
        for kind in of_batch
    ]
    return case, *(PlacementProblem.of(picky, rows) for rows in tiers)


def loads_of(packing, targets):
    """Return the nodes' loads, and the number of pods per node and kind."""
    kind_of = {pod.uid: at for at, kind in enumerate(packing.kinds) for pod in kind.pods}
    row_of = {node.name: at for at, node in enumerate(packing.nodes)}
    loads = packing.nothing()
    for pod, node in targets:
        loads[row_of[node], kind_of[pod.uid]] += 1
    return loads, Counter((pod.workload, kind_of[pod.uid]) for pod, _ in targets)


def worth_of(edge, cloud, choice, members):
    """Return the objective of a solution: pods placed by turn, QoS less unevenness, penalties."""
    (on_edge, picks), (in_cloud, _) = loads_of(edge, choice.edge), loads_of(cloud, choice.cloud)
    turns = [kind.rank.turn for kind in edge.kinds]
    placed = (on_edge.sum(axis=0) + in_cloud.sum(axis=0)).tolist()
    by_turn = [
        sum(n for n, turn in zip(placed, turns, strict=True) if turn == each)
        for each in sorted(set(turns), reverse=True)
    ]
    number = Counter()
    for (workload, _), of_kind in picks.items():
        number[workload] += of_kind
    worth = sum(int(member.values[number[member.workload]]) for member in members)
    least = np.where(cloud.feasible.any(axis=0), cloud.least_penalties, 0)
    left = edge.counts - on_edge.sum(axis=0)
    return by_turn, worth, -int((on_edge * edge.penalties).sum() + (left * least).sum())
