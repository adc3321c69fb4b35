"""A pod that has waited for long is placed before any number of newer ones."""

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


def test_the_one_that_has_waited_goes_first():
    batch = waiting(PATIENCE + 1)
    assert "large-0" in names(scheduled(snapshot(NODES, batch), batch))


def test_until_then_the_most_pods_count():
    batch = waiting(PATIENCE)
    assert "large-0" not in names(scheduled(snapshot(NODES, batch), batch))


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


def test_as_many_old_ones_are_placed_as_if_there_were_no_new_ones():
    kept = lost = 0
    for seed in drawing.drawn(range(200)):
        rng = random.Random(seed)
        case = drawn(seed, most=9)
        aged = {p.uid: attrs.evolve(p, created=rng.choice((10.0, 100.0))) for p in case.batch}
        shot = attrs.evolve(case.snapshot, pods={**case.snapshot.pods, **aged})
        batch = list(aged.values())
        old = [p for p in batch if p.created == 10.0]
        levels = {p.pod_class.priority for p in batch}
        if len(levels) > 1 or len(old) in (0, len(batch)):
            continue

        def placed(decision, old=old):
            return sum(binding.pod in old for binding in decision.bindings)

        assert placed(scheduled(shot, batch)) == placed(scheduled(shot, old)), seed
        kept += 1
        lost += placed(scheduled(shot, batch, patience=1e9)) < placed(scheduled(shot, old))
    assert kept >= 12
    assert lost >= 3


def test_under_rules_about_other_pods_too():
    apart = near(app("old"), key="kubernetes.io/hostname")
    old = ruled("old", {"app": "old"}, spread=(evenly(app("old")),))
    newer = [ruled(f"new-{n}", {"app": "new"}, anti_affinity=(apart,)) for n in range(2)]
    for age, placed in ((PATIENCE, {"new-0", "new-1"}), (PATIENCE + 1, {"old"})):
        batch = [attrs.evolve(old, created=1000.0 - age)]
        batch += [attrs.evolve(p, created=1000.0) for p in newer]
        assert names(scheduled(cluster([zoned("e1", "x")], batch), batch)) == placed
