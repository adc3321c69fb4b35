"""Random packing problems, with many equal nodes or of the batches of both tiers, and the values of
their solutions.
"""

import random
from collections import Counter

import attrs
import numpy as np

from kubedsm.model.model import Tier
from kubedsm.model.node_index import NodeRows
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.objective import Objective
from kubedsm.optimizer.matching.problem import Kind, Ladders, PlacementProblem, Rank, group_kinds
from support.placement_instances import drawn, node, pod, resources, snapshot

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
    here = [pod for pod, name in targets if name in packing.row_of]
    picks = Counter((pod.workload, packing.kind_of[pod.uid]) for pod in here)
    return packing.count_loads(targets), picks


def worth_of(edge, cloud, choice, members):
    """Return the objective of a solution: pods placed by turn, QoS less unevenness, penalties."""
    (on_edge, picks), (in_cloud, _) = (loads_of(tier, choice.targets) for tier in (edge, cloud))
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


def drawn_packing(seed):
    """Draw a packing problem, mostly with more nodes than pods, and a fragmentation or None."""
    rng = random.Random(seed)
    zones = rng.choice(("a", "ab", "abc"))
    nodes = [
        node(
            f"e{i}",
            Tier.EDGE,
            rng.choice((2, 3)),
            rng.choice((3, 4)),
            rng.choice((1, 2, 110)),
            labels={"topology.kubernetes.io/zone": rng.choice(zones)},
        )
        for i in range(rng.randint(0, 9))
    ]
    names = [each.name for each in nodes]
    of_batch = []
    for k in range(rng.randint(1, 2)):
        requests = resources(rng.choice((0, 0.5, 1)), rng.choice((0.5, 1, 2)))
        services = [rng.choice("abc") for _ in range(rng.randint(1, 3))]
        pods = tuple(pod(f"{k}-{i}", of, requests) for i, of in enumerate(services))
        open_to = np.array([rng.random() < 0.9 for _ in names], dtype=np.bool_)
        once = open_to & np.array([rng.random() < 0.1 for _ in names], dtype=np.bool_)
        disliked = {name: rng.randint(1, 2) for name in names if rng.random() < 0.3}
        picky = disliked if rng.random() < 0.5 else {}
        of_batch.append(Kind(requests, pods, open_to, once=once, penalties=picky))
    waiting = [each for kind in of_batch for each in kind.pods]
    held = {name: resources(rng.choice((0, 0, 1)), rng.choice((0, 0, 1)), 0) for name in names}
    shot = snapshot(nodes, waiting, held)
    ladders = None
    if rng.random() < 0.6:
        steps = [sorted(rng.choices(range(3), k=3)) for _ in range(3)]
        which = [rng.choices(range(3), k=len(of_batch)) for _ in names]
        listed = np.array(which, dtype=np.int64).reshape(len(names), len(of_batch))
        ladders = Ladders(listed, np.array(steps, dtype=np.int64))
    mix, rows = request_mix(shot), NodeRows.of(nodes, shot.free)
    packing = PlacementProblem.of(of_batch, rows, (vector for vector, _ in mix), ladders)
    measure = rng.choice((Measure.UNUSABLE, Measure.PRODUCT, None))
    return packing, Fragmentation(measure, mix) if measure else None
