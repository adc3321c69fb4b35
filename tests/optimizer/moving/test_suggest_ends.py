"""Suggesting comes to an end: every suggestion carried out leaves something better for good."""

from collections import Counter
from itertools import pairwise, product

import attrs
import pytest

from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, quality
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.optimizer.placing.immediate import immediate_schedule
from support import drawing
from support.literal_moves import allowed, carried_out, put
from support.suggest_instances import crowded_case, drawn_case

ENOUGH = 60


def bound(shot, bindings):
    """Return the snapshot after binding the pods, which then run."""
    for pod, node, _ in bindings:
        assert allowed(shot, pod, node)
        shot = put(shot, attrs.evolve(pod, node_name=node, phase="Running", ready=True), node)
    return shot


def rounds(case, limits, algorithm):
    """Suggest and carry out until there is nothing left to suggest; the scores on the way."""
    shot, scores = case.snapshot, []
    while len(scores) < ENOUGH:
        found = suggest(shot, case.qos_targets, case.objective, limits, algorithm=algorithm)
        scores.append((found.before, found.after))
        if not found.moves:
            assert found.after == found.before
            return scores
        shot = carried_out(shot, found)
        if found.awaited:
            # Their room is there now; who gets it is the immediate scheduler's to say.
            waiting = shot.schedulable(shot.pods.values())
            decision = immediate_schedule(shot, waiting, case.qos_targets, case.objective)
            after = quality(decision.shares_after, case.qos_targets, case.objective)
            assert after >= found.after.qos
            shot = bound(shot, decision.bindings)
        else:
            assert shot.census.shares == found.after.shares
    raise AssertionError(f"no end after {ENOUGH} suggestions")


@pytest.mark.parametrize("algorithm", ["exact", "paper"])
@pytest.mark.parametrize("draw", [drawn_case, crowded_case])
def test_on_random_clusters(algorithm, draw):
    seen = Counter()
    for seed in drawing.drawn(range(3000, 3200)):
        case = draw(seed)
        limits = attrs.evolve(case.limits, defragment=seed % 2 == 0)
        scores = rounds(case, limits, algorithm)
        for before, after in scores[:-1]:
            assert (after.qos, -after.fragmentation) > (before.qos, -before.fragmentation), seed
            if after.qos == before.qos:
                assert limits.defragment
        for (_, after), (before, _) in pairwise(scores):
            assert before.qos >= after.qos, seed
        seen["moved"] += len(scores) > 1
        seen["more than once"] += len(scores) > 2
        seen["tidied"] += any(b != a and b.qos == a.qos for b, a in scores)
    assert seen["moved"] >= 4, seen
    assert seen["tidied"], seen
    if algorithm == "exact":
        assert seen["more than once"], seen


@pytest.mark.parametrize("algorithm", ["exact", "paper"])
def test_where_nothing_is_left_to_gain_no_look_would_find_anything(algorithm, monkeypatch):
    """What is answered at once is what looking for moves comes to."""
    objectives = (Objective(), Objective(beta=0.0, gamma=10), Objective(kind="ecmus"))
    at_once = 0
    for seed, objective in product(drawing.drawn(range(300)), objectives):
        case = drawn_case(seed)
        shot = case.snapshot
        arguments = (shot, case.qos_targets, objective, SuggestLimits())
        if Gains.of(shot, case.qos_targets, objective).possible:
            continue
        found = suggest(*arguments, algorithm=algorithm)
        with monkeypatch.context() as always:
            always.setattr(Gains, "possible", True)
            looked = suggest(*arguments, algorithm=algorithm)
        assert found == looked, seed
        at_once += any(share.total for share in looked.before.shares.values())
    assert at_once > 7
