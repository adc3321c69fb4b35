"""The programme of a batch, against the tables where these can say what is best."""

import random
from collections import Counter

import attrs
import numpy as np
import pytest

from kubedsm.core.goals.fragmentation import Fragmentation
from kubedsm.core.goals.objective import Objective
from kubedsm.core.packing.match import Bounds
from kubedsm.core.packing.problem import Packing, Rank, kinds
from kubedsm.core.placing.cloud import CloudRoom
from kubedsm.core.placing.decision import make_decision
from kubedsm.core.placing.integer_choice import integer_choice
from kubedsm.core.placing.split import demands
from kubedsm.core.solving.in_order import maximised_in_order
from kubedsm.core.world.deadline import NO_DEADLINE
from kubedsm.core.world.model import Tier
from kubedsm.solvers.highs import Highs
from support.placement_instances import drawn

OBJECTIVES = (
    Objective(),
    Objective(beta=0.0),
    Objective(gamma=10.0),
    Objective("proportional", gamma=0.2),
    Objective("latency"),
    Objective("ecmus"),
)


def drawn_kinds(seed, case, rows):
    """Some with two turns, some with nodes that they like less."""
    rng, of_batch = random.Random(seed), kinds(case.batch, rows)
    if seed % 3 == 0:
        of_batch = [attrs.evolve(k, rank=Rank(0, 0, at % 2)) for at, k in enumerate(of_batch)]
    names = [node.name for node in rows.nodes]
    return [
        attrs.evolve(kind, penalties={n: rng.randint(1, 3) for n in names if rng.random() < 0.4})
        for kind in of_batch
    ]


def loads_of(packing, targets):
    kind_of = {pod.uid: at for at, kind in enumerate(packing.kinds) for pod in kind.pods}
    row_of = {node.name: at for at, node in enumerate(packing.nodes)}
    loads = packing.nothing()
    for pod, node in targets:
        loads[row_of[node], kind_of[pod.uid]] += 1
    return loads, Counter((pod.workload, kind_of[pod.uid]) for pod, _ in targets)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: f"{o.kind}-{o.beta}-{o.gamma}")
def test_its_best_is_what_the_tables_say(objective):
    tight = full = 0
    for seed in range(OBJECTIVES.index(objective), 240, len(OBJECTIVES)):
        case = drawn(seed, most=9)
        at_edge, in_cloud = (case.snapshot.in_turn(tier) for tier in (Tier.EDGE, Tier.CLOUD))
        of_batch = drawn_kinds(seed, case, at_edge + in_cloud)
        edge, cloud = Packing.of(of_batch, at_edge), Packing.of(of_batch, in_cloud)
        shares = case.snapshot.shares()
        choice = make_decision(
            edge, cloud, shares, case.promises, objective, Fragmentation(), Bounds()
        )
        assert choice.proven
        whole = CloudRoom.of(cloud, Bounds()).whole.sum(axis=0)
        ever = cloud.counts * cloud.feasible.any(axis=0)
        roomy = whole if (whole == ever).all() and seed % 5 else None
        members = demands(edge, shares, case.promises, objective)
        posed = integer_choice(edge, cloud, members, objective, roomy=roomy)
        (on_edge, picks), (elsewhere, _) = (
            loads_of(edge, choice.edge),
            loads_of(cloud, choice.cloud),
        )
        known = posed.hint(on_edge, elsewhere, picks)
        assert posed.programme.allows(known)
        found = maximised_in_order(
            posed.programme, posed.goals, Highs(), NO_DEADLINE, np.zeros_like(known)
        )
        assert found.proven
        for goal in posed.goals:
            worth, expected = int(goal.weights @ found.values), int(goal.weights @ known)
            # The tables take the cloud to have its best nodes for all.
            if goal.name != "preferences" or roomy is not None:
                assert abs(worth - expected) <= goal.slack, (seed, goal.name)
        assert sum(posed.picks(found.values).values()) == found.values[posed.taken].sum()
        tight += len(choice.edge) + len(choice.cloud) < len(case.batch)
        full += roomy is not None
    assert min(tight, full) >= 5
