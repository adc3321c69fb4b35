import pytest

from kubedsm.model.model import Tier
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.immediate import immediate_schedule
from support import drawing
from support.literal_fit import reasons, rejection
from support.literal_match import literal_fragmentation
from support.placement_instances import drawn, node, pod, resources, snapshot
from support.placement_literal import qos_with

DEFAULT = Objective()


def schedule(shot, pods):
    return immediate_schedule(shot, pods, lambda _: QosTarget(), DEFAULT)


def check(case, decision, measure):
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
    measured = Fragmentation(measure, request_mix(shot))
    assert decision.fragmentation == sum(
        literal_fragmentation(measured, at, free[at.name]) for at in shot.of_tier(Tier.EDGE)
    )


@pytest.mark.parametrize("measure", list(Measure))
@pytest.mark.parametrize("bounds", [Bounds(), Bounds(states=2)])
def test_every_decision_keeps_to_room_and_rules(measure, bounds):
    for seed in drawing.drawn(range(300), one_in=6):
        case = drawn(seed, most=12)
        decision = immediate_schedule(
            case.snapshot, case.batch, case.qos_targets, DEFAULT, measure, bounds
        )
        check(case, decision, measure)


def test_an_empty_batch():
    decision = schedule(snapshot([node("e", Tier.EDGE), node("c", Tier.CLOUD)], []), [])
    assert (decision.bindings, decision.unplaced, decision.proven) == ((), {}, True)
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
