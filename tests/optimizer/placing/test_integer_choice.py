"""The programme of a batch, against the tables where these can say what is best."""

import numpy as np
import pytest

from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.objective.fragmentation import Fragmentation
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.batch_mip import LIKED, build_programme
from kubedsm.optimizer.placing.cloud import CloudRoom
from kubedsm.optimizer.placing.decision import make_decision
from kubedsm.optimizer.placing.split import list_demands
from kubedsm.optimizer.programming.in_order import maximise_in_order
from kubedsm.solvers.available import Highs
from support import drawing
from support.drawn_batches import OBJECTIVES, drawn_batch, loads_of


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: f"{o.kind}-{o.beta}-{o.gamma}")
def test_its_best_is_what_the_tables_say(objective):
    tight = endless = 0
    for seed in drawing.drawn(range(OBJECTIVES.index(objective), 240, len(OBJECTIVES))):
        case, edge, cloud = drawn_batch(seed)
        shares = case.snapshot.census.shares
        room = CloudRoom.of(cloud, Bounds())
        choice = make_decision(
            edge, room, shares, case.promises, objective, Fragmentation(), Bounds()
        )
        assert choice.proven
        roomy = room.endless if seed % 5 else None
        members = list_demands(edge, shares, case.promises, objective)
        posed = build_programme(edge, cloud, members, objective, roomy=roomy)
        on_edge, picks = loads_of(edge, choice.edge)
        known = posed.hint(on_edge, loads_of(cloud, choice.cloud)[0], picks)
        assert posed.programme.allows(known)
        found = maximise_in_order(
            posed.programme, posed.goals, Highs(), NO_DEADLINE, np.zeros_like(known)
        )
        assert found.proven
        for goal in posed.goals:
            worth, expected = int(goal.weights @ found.values), int(goal.weights @ known)
            # The tables take the cloud to have its best nodes for all.
            if goal.name != LIKED or roomy is not None:
                assert abs(worth - expected) <= goal.slack, (seed, goal.name)
        assert sum(posed.picks(found.values).values()) == found.values[posed.taken].sum()
        tight += len(choice.edge) + len(choice.cloud) < len(case.batch)
        endless += roomy is not None
    assert min(tight, endless) >= 1
