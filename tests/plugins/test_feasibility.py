"""All rules at once, beside their literal form, and one step at a time."""

import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm.model.model import NodeName
from kubedsm.model.selectors import Requirement
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.fit import TIER
from support.drawing import examples
from support.literal_rules import literal_rule
from support.rule_instances import HOST, app, cluster, drawn, drawn_pod, near, pod, zoned


@examples(133)
@given(st.integers(0, 2**40))
def test_the_same_verdicts_as_the_literal_rules(seed):
    snapshot, waiting = drawn(seed)
    feasibility = Feasibility.of(snapshot)
    for newcomer in waiting:
        refused = feasibility.rejections(newcomer, tier=False)
        for node in snapshot.nodes.values():
            rejection = refused.get(node.name)
            if rejection is not None and rejection.everywhere:
                continue  # a pod that contradicts itself
            expected = literal_rule(snapshot, newcomer, node)
            assert (rejection.rule if rejection else None) == expected, (newcomer, node)


def test_only_kube_scheduler_takes_a_node_without_a_tier():
    newcomer = pod("p")
    nodes = [zoned("n1"), zoned("n2", tier=None)]
    feasibility = Feasibility.of(cluster(nodes, [newcomer]))
    assert feasibility.feasible(newcomer) == ["n1"]
    assert list(feasibility.rejections(newcomer)) == ["n2"]
    assert feasibility.rejections(newcomer, tier=False) == {}
    assert feasibility.rejection(newcomer, NodeName("n2")).rule == TIER.name


def _snapshot_with(snapshot, newcomer, name):
    placed = attrs.evolve(newcomer, node_name=name)
    return attrs.evolve(
        snapshot,
        pods={**snapshot.pods, newcomer.uid: placed},
        free={**snapshot.free, name: snapshot.free[name] - newcomer.requests},
        placed={**snapshot.placed, newcomer.uid: name},
    )


def _snapshot_without(snapshot, uid):
    gone, name = snapshot.pods[uid], snapshot.placed[uid]
    return attrs.evolve(
        snapshot,
        pods={other: p for other, p in snapshot.pods.items() if other != uid},
        free={**snapshot.free, name: snapshot.free[name] + gone.requests},
        placed={other: at for other, at in snapshot.placed.items() if other != uid},
    )


@examples(66)
@given(st.integers(0, 2**40))
def test_pods_that_come_and_go_leave_what_a_fresh_look_finds(seed):
    snapshot, waiting = drawn(seed)
    rng = random.Random(seed)
    feasibility = Feasibility.of(snapshot)
    for step in range(6):
        for newcomer in waiting:  # so that something is remembered
            feasibility.feasible(newcomer)
        bound = sorted(snapshot.placed)
        if bound and rng.random() < 0.5:
            uid = rng.choice(bound)
            feasibility, snapshot = feasibility.without_pod(uid), _snapshot_without(snapshot, uid)
        else:
            newcomer = drawn_pod(rng, f"step-{step}")
            name = rng.choice(sorted(snapshot.nodes))
            feasibility = feasibility.with_pod(newcomer, name)
            snapshot = _snapshot_with(snapshot, newcomer, name)
    fresh = Feasibility.of(snapshot)
    for newcomer in waiting:
        assert feasibility.rejections(newcomer) == fresh.rejections(newcomer)
        assert feasibility.feasible(newcomer) == fresh.feasible(newcomer)


@examples(50)
@given(st.integers(0, 2**40))
def test_equivalent_pods_have_equal_verdicts_and_equal_effects(seed):
    snapshot, waiting = drawn(seed)
    rng = random.Random(seed)
    one = rng.choice(waiting)
    # Same class, namespace and labels, but for one that no selector looks at.
    other = attrs.evolve(one, uid=f"{one.uid}-b", name="b", labels={**one.labels, "name": "b"})
    feasibility = Feasibility.of(snapshot)
    assert feasibility.equivalence(one) == feasibility.equivalence(other)
    assert feasibility.rejections(one) == feasibility.rejections(other)
    name = rng.choice(sorted(snapshot.nodes))
    with_one, with_other = feasibility.with_pod(one, name), feasibility.with_pod(other, name)
    for newcomer in waiting:
        assert with_one.rejections(newcomer) == with_other.rejections(newcomer)


def test_a_pod_that_the_snapshot_does_not_have_is_judged_by_all_its_labels():
    there = pod("there", {"side": "s"}, on="n1")
    feasibility = Feasibility.of(cluster([zoned("n1"), zoned("n2")], [there]))
    side = near((Requirement("side", "Exists"),), HOST)
    stranger = pod("stranger", anti_affinity=(side,))
    assert feasibility.feasible(stranger) == ["n2"]
    assert feasibility.with_pod(stranger, NodeName("n2")).feasible(pod("next", {"side": "s"})) == [
        "n1"
    ]


def test_what_is_added_twice_or_was_never_there_is_refused():
    feasibility = Feasibility.of(cluster([zoned("n1")], []))
    newcomer = pod("a")
    once = feasibility.with_pod(newcomer, NodeName("n1"))
    with pytest.raises(ValueError, match="shop/a is on a node already"):
        once.with_pod(newcomer, NodeName("n1"))
    with pytest.raises(KeyError):
        feasibility.without_pod(newcomer.uid)
    with pytest.raises(KeyError):
        feasibility.with_pod(newcomer, NodeName("gone"))
    assert once.without_pod(newcomer.uid).feasible(newcomer) == ["n1"]


def test_pods_whose_rules_select_a_pod_are_interested_in_it():
    friendly = pod("friendly", on="n1", affinity=(near(app("b")),))
    hostile = pod("hostile", on="n1", anti_affinity=(near(app("a")),))
    nodes = [zoned("n1", "x"), zoned("n2", "y")]
    feasibility = Feasibility.of(cluster(nodes, [friendly, hostile]))
    assert feasibility.has_interested_pods(pod("a", {"app": "a"}))
    assert not feasibility.has_interested_pods(pod("c", {"app": "c"}))
    # The friend's rule is broken already, and of concern to the pods that it selects alone.
    assert len(feasibility.broken_rules([pod("b", {"app": "b"})])) == 1
    assert not feasibility.broken_rules([pod("a", {"app": "a"})])
    # Who looks for company may find some once more pods have come, who avoids it may not.
    lonely, shy = pod("l", affinity=(near(app("c")),)), pod("s", anti_affinity=(near(app("c")),))
    come = Feasibility.of(cluster(nodes, [pod("d", {"app": "c"}, on="n1"), friendly]))
    assert feasibility.verdict(lonely).openable.tolist() == [True, True]
    assert come.verdict(shy).openable.tolist() == [False, True]
