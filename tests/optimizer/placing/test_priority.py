"""Pods go to nodes by priority, and the oldest first after a while."""

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
from support.rule_instances import app, cluster, evenly, near, zoned
from support.rule_instances import pod as ruled


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


PATIENCE = 60.0


def qos_targets(_):
    return QosTarget()


def scheduled(shot, batch, patience=PATIENCE):
    return immediate_schedule(shot, batch, qos_targets, Objective(), patience=patience)


def names(decision):
    return {binding.pod.name for binding in decision.bindings}


NODES = [node("e1", Tier.EDGE, 4, 64), node("c1", Tier.CLOUD, 4, 64)]


def waiting(age, *, priority=0, now=1000.0):
    large = pod("large-0", "large", resources(8 / 2), created=now - age)
    small = [pod(f"small-{n}", "small", resources(1), created=now) for n in range(8)]
    raised = attrs.evolve(large.pod_class, priority=priority)
    return [attrs.evolve(large, pod_class=raised), *small]


def test_it_has_waited_until_now_though_all_are_as_old():
    batch = waiting(PATIENCE / 2)
    shot = snapshot(NODES, batch)
    assert "large-0" not in names(scheduled(shot, batch))
    later = attrs.evolve(shot, at=1000.0 + PATIENCE * 0.9)
    assert "large-0" in names(scheduled(later, batch))


def test_priority_comes_before_patience():
    batch = waiting(PATIENCE * 100, priority=-1)
    assert "large-0" not in names(scheduled(snapshot(NODES, batch), batch))


def test_whose_age_nobody_knows_is_not_taken_for_old():
    batch = waiting(PATIENCE * 2)
    batch[0] = attrs.evolve(batch[0], created=0.0)
    assert "large-0" not in names(scheduled(snapshot(NODES, batch), batch))


def aged(case, rng):
    """The case with pods of which some have waited for longer than the patience."""
    pods = [attrs.evolve(p, created=rng.choice((100.0, 150.0, 1000.0))) for p in case.batch]
    by_uid = {p.uid: p for p in pods}
    return attrs.evolve(case.snapshot, pods={**case.snapshot.pods, **by_uid}, at=1000.0), pods


def test_the_oldest_that_a_node_takes_is_placed():
    kept = otherwise_lost = 0
    for seed in drawing.drawn(range(200)):
        case = drawn(seed, most=9)
        shot, batch = aged(case, random.Random(seed))
        if len({p.pod_class.priority for p in batch}) > 1:
            continue
        old = sorted((p for p in batch if p.created < 1000), key=lambda p: (p.created, p.name))
        oldest = next((p for p in old if names(scheduled(shot, [p]))), None)
        if oldest is None:
            continue
        assert oldest.name in names(scheduled(shot, batch)), seed
        kept += 1
        otherwise_lost += oldest.name not in names(scheduled(shot, batch, patience=1e9))
    assert kept >= 12
    assert otherwise_lost >= 1


def test_age_takes_hardly_a_place_of_an_overloaded_cluster():
    """Pods of all ages ask for half as much again as the nodes have."""
    by_age = most = strictly = 0
    for seed in range(5):
        rng = random.Random(seed)
        nodes = [node(f"e{n}", Tier.EDGE, 16, 64) for n in range(3)]
        nodes += [node(f"c{n}", Tier.CLOUD, 16, 64) for n in range(3)]
        sizes, batch = (1, 2, 3, 5), []
        while sum(p.requests.cpu for p in batch) < 1.5 * 6 * 16_000:
            n, size = len(batch), rng.choice(sizes)
            batch.append(pod(f"p{n}", f"s{size}", resources(size), created=rng.uniform(1, 900)))
        shot = attrs.evolve(snapshot(nodes, batch), at=1000.0)
        most += len(names(scheduled(shot, batch, patience=1e9)))
        by_age += len(names(scheduled(shot, batch)))
        strictly += len(batch)
    assert most - by_age <= 0.01 * most
    assert most < strictly


def test_a_pod_that_no_node_takes_does_not_keep_others_from_precedence():
    huge = pod("huge-0", "huge", resources(9), created=1.0)
    batch = [huge, *waiting(PATIENCE + 1)]
    assert "large-0" in names(scheduled(snapshot(NODES, batch), batch))


def test_under_rules_about_other_pods_too():
    apart = near(app("old"), key="kubernetes.io/hostname")
    old = ruled("old", {"app": "old"}, spread=(evenly(app("old")),))
    newer = [ruled(f"new-{n}", {"app": "new"}, anti_affinity=(apart,)) for n in range(2)]
    for age, placed in ((PATIENCE, {"new-0", "new-1"}), (PATIENCE + 1, {"old"})):
        batch = [attrs.evolve(old, created=1000.0 - age)]
        batch += [attrs.evolve(p, created=1000.0) for p in newer]
        assert names(scheduled(cluster([zoned("e1", "x")], batch), batch)) == placed
