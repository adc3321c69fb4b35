"""The oldest pod that has waited for long, and that a node takes, is placed before any others."""

import random

import attrs

from kubedsm.model.model import Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.placing.immediate import immediate_schedule
from support import drawing
from support.placement_instances import drawn, node, pod, resources, snapshot
from support.rule_instances import app, cluster, evenly, near, zoned
from support.rule_instances import pod as ruled

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
