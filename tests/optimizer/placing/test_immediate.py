"""Decisions keep to room and rules, and are as good as they say."""

from collections import Counter

import pytest

from kubedsm.model.model import Tier
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.batch_mip import PLACED, QOS, list_shortfalls
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.optimizer.programming.in_order import NO_PROOF, Certificate, Proof
from kubedsm.optimizer.programming.programme import Status
from support import drawing
from support.literal_rules import reasons, rejection
from support.placement_instances import drawn, node, pod, resources, snapshot
from support.placement_literal import fragmentation_after, literal_fragmentation, qos_with
from support.rule_instances import drawn_batch

DEFAULT = Objective()
NONE = Bounds(states=0, steps=0, loads=0)


def schedule(shot, pods, bounds=None, qos_targets=lambda _: QosTarget()):
    return immediate_schedule(shot, pods, qos_targets, DEFAULT, bounds=bounds)


def check(case, decision):
    """Room, rules and everything the decision says of itself."""
    shot = case.snapshot
    free = dict(shot.free)
    for waiting, name, tier in decision.bindings:
        at = shot.nodes[name]
        assert at.tier is tier
        assert reasons(waiting.pod_class, at, free[name]) == ()
        free[name] -= waiting.requests
    bound = [waiting.uid for waiting, _, _ in decision.bindings]
    assert sorted([*bound, *decision.unplaced]) == sorted(p.uid for p in case.batch)
    for uid, why in decision.unplaced.items():
        assert set(why) == set(shot.nodes)
        assert why == {
            name: rejection(shot.pods[uid].pod_class, at, free[name])
            for name, at in shot.nodes.items()
        }
    chosen = [waiting for waiting, _, tier in decision.bindings if tier is Tier.EDGE]
    assert decision.score_before == qos_with(case, [], DEFAULT)
    assert decision.score_after == qos_with(case, chosen, DEFAULT)
    assert decision.score_after >= decision.score_before
    measured = Fragmentation(mix=request_mix(shot))
    assert fragmentation_after(shot, decision) == sum(
        literal_fragmentation(measured, at, free[at.name]) for at in shot.of_tier(Tier.EDGE)
    )


def compare(shot, rough, exact):
    """What is proven is the best, and of what is not there is no more than the bounds say."""
    assert not any(each.proven for each in rough.certificates)
    certificates = {(each.goal, each.of): each for each in rough.certificates}
    placed, qos = certificates.get((PLACED, "")), certificates.get((QOS, ""))
    if placed:
        assert placed.value == len(rough.bindings)
        assert placed.bound >= len(exact.bindings)
        assert not rough.proof.placed
    same = len(rough.bindings) == len(exact.bindings)
    if qos and same:
        assert qos.value == rough.score_after - rough.score_before
        assert qos.bound >= exact.score_after - exact.score_before
        assert not rough.proof.qos
    if exact.proof.whole:
        assert same or (len(rough.bindings) < len(exact.bindings) and not rough.proof.placed)
        if rough.proof.qos:  # fewer pods may have more QoS
            assert rough.score_after >= exact.score_after
            assert rough.score_after == exact.score_after or not same
        less, least = (fragmentation_after(shot, of) for of in (rough, exact))
        assert less == least or not rough.proof.whole
    return bool(placed), bool(qos)


@pytest.mark.parametrize(
    "bounds", [NONE, Bounds(states=2), Bounds(states=1, steps=1, loads=1), Bounds(loads=1)]
)
def test_beyond_the_bounds_a_decision_is_sound_and_says_what_is_proven(bounds):
    seen, kept, possible = Counter(), 0, 0
    for seed in drawing.drawn(range(300), one_in=6):
        case = drawn(seed, most=12)
        rough, exact = (
            schedule(case.snapshot, case.batch, of, case.qos_targets) for of in (bounds, None)
        )
        check(case, rough)
        check(case, exact)
        told = compare(case.snapshot, rough, exact)
        kept, possible = kept + len(rough.bindings), possible + len(exact.bindings)
        seen["placed"] += told[0]
        seen["qos"] += told[1]
        if exact.proof.whole and not rough.proof.whole:
            seen[rough.proof] += 1
    proofs = [proof for proof in seen if isinstance(proof, Proof)]
    assert any(proof.placed and not proof.qos for proof in proofs), seen
    assert any(proof.qos for proof in proofs), seen
    assert NO_PROOF in seen
    assert min(seen["placed"], seen["qos"]) >= 1, seen
    assert kept >= 0.95 * possible


def test_what_rules_among_pods_cost_may_be_missing():
    """Nobody has shown that they cost it."""
    seen = []
    for seed in drawing.drawn(range(120)):
        shot, batch = drawn_batch(seed)
        seen.append(compare(shot, schedule(shot, batch, NONE), schedule(shot, batch)))
    assert min(map(sum, zip(*seen, strict=True))) >= 1


def test_what_was_found_without_asking_what_pods_like_says_so():
    shot, batch = drawn_batch(670)
    found, best = schedule(shot, batch, Bounds(states=32)), schedule(shot, batch)
    assert found.proof == Proof(preferences=False, spread=False, fragmentation=False)
    assert best.proof.preferences
    assert found.bindings != best.bindings


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
def test_a_proof_in_words(proof, words):
    assert proof.words == words
    assert proof.whole == (words == "proven optimal")


def test_an_empty_batch():
    decision = schedule(snapshot([node("e", Tier.EDGE), node("c", Tier.CLOUD)], []), [])
    assert (decision.bindings, decision.unplaced, decision.proof.whole) == ((), {}, True)
    assert decision.score_before == decision.score_after == 0


def test_the_oldest_pods_of_a_workload_go_to_the_edge():
    pods = [pod(f"a-{i}", "a", resources(1, 1), created=float(-i)) for i in range(3)]
    nodes = [node("e", Tier.EDGE, cpu=2), node("c", Tier.CLOUD, cpu=9)]
    decision = schedule(snapshot(nodes, pods), pods)
    assert [(b.pod.name, b.node) for b in decision.bindings] == [
        ("a-2", "e"),
        ("a-1", "e"),
        ("a-0", "c"),
    ]


def test_of_what_comes_after_a_goal_that_was_missed_nothing_is_known():
    best = {(PLACED, "priority 10"): 3, (PLACED, "priority 0"): 5, (QOS, "priority 0"): 700}
    reached = {(PLACED, "priority 10"): 3, (PLACED, "priority 0"): 4, (QOS, "priority 0"): 600}
    assert list(list_shortfalls(reached, best, ())) == [
        Certificate(PLACED, Status.FEASIBLE, 4, 5, of="priority 0")
    ]
