"""Random packing problems with many equal nodes and several distinguishing features."""

import random

import numpy as np

from kubedsm.model.model import Tier
from kubedsm.model.node_index import NodeRows
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.matching.problem import Kind, Ladders, PlacementProblem
from support.placement_instances import node, pod, resources, snapshot


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


def drawn_spread(seed, packing):
    """Draw the nodes of existing replicas of the problem's workloads."""
    rng = random.Random(seed)
    spread = ReplicaSpread(packing.rows.index.zones, {}, {})
    for workload in sorted({each.workload for kind in packing.kinds for each in kind.pods}):
        for name in packing.rows.index.names:
            if rng.random() < 0.4:
                spread.put(workload, name, rng.randint(1, 3))
    return spread
