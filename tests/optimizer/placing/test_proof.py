"""A decision says of what it is proven that nothing better exists."""

from collections import Counter

import pytest

from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.optimizer.programming.in_order import NO_PROOF, Proof
from support import drawing
from support.placement_instances import drawn
from support.rule_instances import drawn_batch

#: too few for any search
NONE = Bounds(states=1, steps=1, loads=1)


def scheduled(shot, batch, bounds=None):
    return immediate_schedule(shot, batch, lambda _: QosTarget(), Objective(), bounds=bounds)


def test_what_is_said_without_a_search_is_so():
    seen = Counter()
    for seed in drawing.drawn(range(600), one_in=6):
        case = drawn(seed, most=8)
        best = scheduled(case.snapshot, case.batch)
        found = scheduled(case.snapshot, case.batch, NONE)
        if not best.proven or found.proven:
            continue
        seen[found.proof] += 1
        if found.proof.placed:
            assert len(found.bindings) == len(best.bindings), seed
        if found.proof.qos:
            assert found.score_after == best.score_after, seed
    assert sum(seen.values()) > 10
    assert any(proof.placed and not proof.qos for proof in seen), seen
    assert any(proof.qos for proof in seen), seen
    assert NO_PROOF in seen


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        (Proof(), "proven optimal"),
        (
            Proof(spread=False, fragmentation=False),
            "proven optimal in pods placed and QoS and preferences only",
        ),
        (NO_PROOF, "not proven optimal"),
    ],
)
def test_it_is_told_in_words(proof, words):
    assert proof.words == words
    assert proof.whole == (words == "proven optimal")


def test_what_was_found_without_asking_what_pods_like_says_so():
    shot, batch = drawn_batch(670)
    found, best = scheduled(shot, batch, Bounds(states=32)), scheduled(shot, batch)
    assert found.proof == Proof(preferences=False, spread=False, fragmentation=False)
    assert best.proof.preferences
    assert found.bindings != best.bindings
