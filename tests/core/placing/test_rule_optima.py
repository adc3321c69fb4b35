"""Decisions among pods with rules about each other, beside trying everything."""

import random
from collections import Counter

from kubedsm.core.goals.objective import Objective, Promise
from kubedsm.core.placing.immediate import immediate_schedule
from kubedsm.core.policies.registry import POLICIES
from kubedsm.core.rules.feasibility import Feasibility
from kubedsm.core.world.serving_order import serving_order
from support.placement_literal import standing
from support.rule_instances import drawn_batch


def promises(workload):
    return Promise(0.5 if workload.name.endswith("-0") else 1.0)


def best_of_all(snapshot, batch):
    """The best that any order and any choice of nodes reaches, each pod seeing those before it."""
    found = {}

    def extend(feasibility, homes):
        key = frozenset(homes.items())
        if key in found:
            return
        found[key] = standing(snapshot, batch, homes, promises)
        for p in batch:
            if p.uid not in homes:
                for name in feasibility.feasible(p):
                    extend(feasibility.with_pod(p, name), {**homes, p.uid: name})

    extend(Feasibility.of(snapshot), {})
    return max(found.values())


def test_a_proven_decision_is_the_best_and_the_others_are_mostly():
    seen = Counter()
    for seed in range(600):
        snapshot, batch = drawn_batch(seed)
        if len(batch) > 4 or len(snapshot.nodes) > 4:
            continue
        decision = immediate_schedule(snapshot, batch, promises, Objective())
        homes = {binding.pod.uid: binding.node for binding in decision.bindings}
        reached, best = standing(snapshot, batch, homes, promises), best_of_all(snapshot, batch)
        assert reached <= best
        if decision.proven:
            assert reached == best, seed
        seen[decision.proven, reached == best] += 1
    assert seen[True, True] > 100
    assert sum(seen[False, best] for best in (True, False)) > 20
    assert seen[False, False] <= 0.05 * sum(seen.values())


def test_hardly_ever_does_kube_scheduler_place_more_one_by_one():
    seen = Counter()
    for seed in range(500):
        snapshot, batch = drawn_batch(seed)
        ours = immediate_schedule(snapshot, batch, promises, Objective())
        kube_scheduler = POLICIES["kube-scheduler"](promises, Objective())
        theirs = kube_scheduler.place(
            snapshot, sorted(batch, key=serving_order), random.Random(seed)
        )
        seen["ours" if served(batch, ours) > served(batch, theirs) else "even"] += 1
        seen["theirs"] += served(batch, ours) < served(batch, theirs)
    # There it was lucky with its nodes.
    assert seen["theirs"] <= 2, seen
    assert seen["ours"] >= 10, seen


def served(batch, decision):
    """How many pods have a node, those of the highest priority first."""
    found = Counter(binding.pod.pod_class.priority for binding in decision.bindings)
    return [found[p] for p in sorted({p.pod_class.priority for p in batch}, reverse=True)]
