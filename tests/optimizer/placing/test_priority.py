"""Batches of several priorities: higher ones first, in who is placed and in whose QoS counts."""

import random
from collections import Counter

import attrs
import pytest

from kubedsm.model.model import Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.immediate import immediate_schedule
from support import drawing
from support.literal_rules import reasons
from support.placement_instances import Instance, drawn, node, pod, resources, snapshot
from support.placement_literal import every_placement, homes_of, standing


def ranked(seed, most=4):
    """An instance whose pods have priorities, most workloads one for all of theirs."""
    case = drawn(seed, most=most)
    rng = random.Random(seed)
    usual = {w.name: rng.choice((0, 5, 10)) for w in sorted({p.workload for p in case.batch})}

    def of(one):
        priority = rng.choice((0, 5, 10)) if rng.random() < 0.15 else usual[one.workload.name]
        return attrs.evolve(one, pod_class=attrs.evolve(one.pod_class, priority=priority))

    batch = tuple(map(of, case.batch))
    pods = {**case.snapshot.pods, **{one.uid: one for one in batch}}
    return Instance(attrs.evolve(case.snapshot, pods=pods), batch, case.targets)


def decided(case, bounds=None):
    return immediate_schedule(
        case.snapshot, case.batch, case.qos_targets, Objective(), bounds=bounds
    )


def reached(case, decision):
    return standing(case.snapshot, case.batch, homes_of(decision), case.qos_targets)


def best_of_all(case):
    placements = every_placement(case)
    return max(standing(case.snapshot, case.batch, homes, case.qos_targets) for homes in placements)


def test_equals_trying_every_node_for_every_pod():
    seen = Counter()
    for seed in drawing.drawn(range(250)):
        case = ranked(seed)
        decision = decided(case)
        assert decision.proof.placed
        assert decision.proof.qos
        assert reached(case, decision) == best_of_all(case), seed
        placed = {binding.pod.uid for binding in decision.bindings}
        priorities = {p.pod_class.priority for p in case.batch}
        seen["several"] += len(priorities) > 1
        seen["left out"] += len(priorities) > 1 and len(placed) < len(case.batch)
    assert min(seen.values()) >= 5, seen


@pytest.mark.parametrize("bounds", [Bounds(states=2), Bounds(loads=4)])
def test_beyond_the_bounds_the_high_come_first_too(bounds):
    for seed in drawing.drawn(range(400)):
        case = ranked(seed, most=10)
        decision = decided(case, bounds)
        for uid in decision.unplaced:
            out = case.snapshot.pods[uid].pod_class
            free = dict(case.snapshot.free)
            for binding in decision.bindings:
                if binding.pod.pod_class.priority >= out.priority:
                    free[binding.node] -= binding.pod.requests
            assert all(reasons(out, n, free[n.name]) for n in case.snapshot.nodes.values()), seed


EDGE = node("edge", Tier.EDGE, cpu=1)


def test_more_priorities_than_64_bits_can_tell_apart():
    pods = tuple(pod(f"a-{i}", f"w{i}", resources(1, 1), priority=i) for i in range(70))
    case = Instance(snapshot([EDGE], pods), pods, {})
    decision = decided(case)
    assert not decision.proof.whole
    assert [b.pod.name for b in decision.bindings] == ["a-69"]


def test_all_of_a_workload_count_with_its_highest():
    # One pod of a is urgent, and so is the promise to a: its other pod takes the edge before b's.
    urgent = pod("a-0", "a", resources(0.5, 1), priority=10)
    other = pod("a-1", "a", resources(0.5, 1))
    third = pod("b-0", "b", resources(0.5, 1), priority=5)
    pods = (urgent, other, third)
    case = Instance(
        snapshot([EDGE, node("cloud", Tier.CLOUD, cpu=8)], pods), pods, {"b": QosTarget(weight=100)}
    )
    homes = {b.pod.name: b.node for b in decided(case).bindings}
    assert homes == {"a-0": "edge", "a-1": "edge", "b-0": "cloud"}
