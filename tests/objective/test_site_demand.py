import random

import attrs
import pytest

from kubedsm.model.model import Share, Tier, Workload
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.site_demand import SiteGoal, count_sites
from kubedsm.objective.site_shares import list_sites, list_worst_losses, sum_sites
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from support import drawing
from support.placement_instances import asking, node, pod, resources, snapshot
from support.site_instances import (
    LABELS,
    demand_of,
    literal_near,
    most_reachable,
    plain_target,
    site_node,
)

CART = Workload("shop", "Deployment", "cart")


def drawn_demand(rng, pairs=()):
    weights = {site: rng.randint(0, 4) for site in "abcd"} | {"a": 1}
    return demand_of(weights, rng.choice((0.0, 0.3, 0.7, 1.0)), pairs)


def test_equals_the_literal_form_with_a_matrix_and_one_more_at_each_site():
    for seed in drawing.drawn(range(5100, 5300)):
        rng = random.Random(seed)
        pairs = {(s, t): rng.random() for s in "abc" for t in "abcde"}
        demand = drawn_demand(rng, pairs.items() if seed % 2 else ())
        total = rng.randint(1, 9)
        there = {site: n for site in "abcde" if (n := rng.randint(0, 3))}
        near = demand.near(there.items(), total)
        assert near == pytest.approx(literal_near(demand, there, total))
        more = demand.near_with_one_more(sorted(there.items()), total, "abcde")
        for site, found in zip("abcde", more, strict=True):
            then = {**there, site: there.get(site, 0) + 1}
            assert found == pytest.approx(literal_near(demand, then, total))
            assert found >= near - 1e-12 or pairs


def test_apportioned_replicas_reach_what_any_reach():
    for seed in drawing.drawn(range(5300, 5400)):
        rng = random.Random(seed)
        demand, total = drawn_demand(rng), rng.randint(1, 5)
        replicas = demand.apportion(total, total)
        assert sum(replicas.values()) == total
        assert demand.near(replicas.items(), total) == pytest.approx(most_reachable(demand, total))


def test_target_by_site_is_proportional():
    share = Share(3, 8, (("a", 3),))
    rows = list_sites(share, plain_target(0.5, a=3, b=1))
    assert [(s.site, s.part, s.wanted, s.replicas) for s in rows] == [
        ("a", 0.75, 3, 3),
        ("b", 0.25, 1, 0),
    ]
    rows = list_sites(Share(1, 8, (("d", 1),)), plain_target(0.5, a=3, b=1))
    assert [(s.site, s.part, s.wanted, s.replicas) for s in rows] == [
        ("a", 0.75, 3, 0),
        ("b", 0.25, 1, 0),
        ("d", 0.0, 0, 1),
    ]


def test_edge_pods_count_by_site_and_those_without_a_site_together():
    nodes = [site_node("n1", "berlin"), node("n2", Tier.EDGE), node("n3", Tier.EDGE)]
    nodes.append(node("c", Tier.CLOUD))
    pods = [pod(f"p-{each.name}", "cart", resources(1), on=each.name) for each in nodes]
    shares = count_sites(snapshot(nodes, pods), LABELS, [CART]).census.shares
    assert shares[CART] == Share(3, 4, (("", 2), ("berlin", 1)))


def test_totals_by_site_add_up():
    shares = {
        CART: Share(3, 8, (("a", 3),)),
        Workload("shop", "Deployment", "other"): Share(2, 2, (("b", 2),)),
        Workload("shop", "Deployment", "plain"): Share(1, 2),
    }
    targets = {"cart": plain_target(0.5, a=3, b=1), "other": plain_target(b=1)}
    a, b = sum_sites(shares, lambda w: targets.get(w.name, QosTarget()))
    assert (a.site, a.demand, a.served, a.targeted) == ("a", 6.0, 3.0, 3.0)
    assert (a.reached_share, a.target_share, a.replicas, a.missing) == (0.5, 0.5, 3, 0)
    assert (b.site, b.demand, b.served, b.targeted) == ("b", 4.0, 2.0, 3.0)
    assert (b.reached_share, b.target_share, b.replicas, b.missing) == (0.5, 0.75, 2, 1)


def goal(demand=None, target=None, kept=None, **more):
    return SiteGoal(
        LABELS,
        None if demand is None else lambda _: demand,
        kept and (lambda _: kept),
        lambda _: target,
        0.02,
        0.05,
        0.08,
        **more,
    )


def resolved(shot, of_goal):
    policy = KubeDSM(lambda _: QosTarget(0.5), Objective(), sites=of_goal)
    return policy.qos_targets_in(shot)(CART)


def two_sites(*pods):
    nodes = [site_node("n1", "berlin"), site_node("n2", "munich"), node("c", Tier.CLOUD)]
    return snapshot(nodes, [*pods, pod("p", "cart", resources(1), on="n1")])


def test_configured_before_measured_before_declared():
    wishes = asking("q", None, service="cart", rate=1.0)
    declared = attrs.evolve(wishes.wishes, demand=(("munich", 2.0),))
    shot = two_sites(attrs.evolve(wishes, wishes=declared))
    assert resolved(shot, goal()).demand.parts == (("munich", 1.0),)
    sampled = attrs.evolve(shot.measured, demand={CART: {"berlin": 3.0, "munich": 1.0}})
    measured = attrs.evolve(shot, measured=sampled)
    assert resolved(measured, goal()).demand.parts == (("berlin", 0.75), ("munich", 0.25))
    assert resolved(measured, goal({"berlin": 1})).demand.parts == (("berlin", 1.0),)
    # An empty mapping means one pool, whatever is measured.
    assert resolved(measured, goal({})).demand is None
    policy = KubeDSM(lambda _: QosTarget(), Objective(), sites=goal({"berlin": 1}))
    nobody = policy.qos_targets_in(shot, ())
    assert nobody(CART).demand is None


def test_demand_at_unknown_sites_is_left_out_unless_the_matrix_names_them():
    shot = two_sites()
    demand = {"berlin": 1, "hamburg": 3}
    assert resolved(shot, goal(demand)).demand.parts == (("berlin", 1.0),)
    near = goal(demand, matrix={("hamburg", "berlin"): 0.03})
    assert resolved(shot, near).demand.parts == (("berlin", 0.25), ("hamburg", 0.75))
    assert resolved(shot, goal({"hamburg": 3})).demand is None


def test_benefits_follow_latency():
    shot = two_sites()
    plain = resolved(shot, goal({"berlin": 1}))
    assert plain.demand.neighbour == pytest.approx(0.5)
    assert plain.qos == 0.5
    # 50 ms from a neighbour are within a target of 60 ms: every site is as good.
    within = resolved(shot, goal({"berlin": 1}, 0.06))
    assert within.demand.neighbour == 1.0
    assert within.qos == 1.0
    far = goal({"berlin": 1}, matrix={("berlin", "munich"): 0.09})
    assert dict(resolved(shot, far).demand.pairs) == {("berlin", "munich"): 0.0}


def test_measured_latencies_take_precedence_over_the_matrix_in_both_directions():
    declared = {("a", "b"): 0.05, ("b", "a"): 0.05, ("a", "c"): 0.03}
    goal = SiteGoal(LABELS, None, None, lambda _: None, 0.02, 0.05, 0.08, declared)
    measured = {("a", "b"): 0.04, ("a", ""): 0.09, ("b", ""): 0.11}
    found = goal.with_latencies(measured)
    assert found.matrix == {**declared, ("a", "b"): 0.04, ("b", "a"): 0.04}
    assert found.cloud == pytest.approx(0.1)
    assert found.benefit(0.04, None) == pytest.approx(0.75)
    assert goal.with_latencies(measured) is found
    assert goal.with_latencies({}) is goal
    assert goal.with_latencies({("a", ""): 0.01}).cloud == goal.cloud


def test_demand_and_resilience_are_those_of_the_workload():
    of_cart = attrs.evolve(goal(), demand=lambda w: {"berlin": 1} if w == CART else None)
    assert resolved(two_sites(), of_cart).demand.parts == (("berlin", 1.0),)
    kept = attrs.evolve(goal(), kept=lambda w: 0.5 if w == CART else 0.0)
    assert resolved(two_sites(), kept).demand.kept == 0.5


def test_the_worst_loss_of_each_workload_that_must_survive_one():
    absent, plain, whole, none = (
        Workload("shop", "Deployment", name) for name in ("absent", "plain", "whole", "without")
    )
    shares = {
        plain: Share(2, 4),
        CART: Share(4, 8, (("a", 3), ("b", 1))),
        whole: Share(1, 1, (("a", 1),)),
        none: Share(0, 2, ()),
    }
    kept = QosTarget(demand=attrs.evolve(demand_of({"a": 1}), kept=0.5))
    found = list_worst_losses(
        shares,
        lambda w: QosTarget() if w == whole else kept,
        [none, whole, plain, CART, absent],
    )
    assert [(loss.workload, loss.site, loss.lost, loss.left, loss.needed) for loss in found] == [
        (CART, "a", 3, 1, 4),
        (none, "", 0, 0, 1),
    ]
    assert str(found[0]).endswith("(worst: site a, with 3); resilience asks for 4: 3 too few")
    assert str(found[1]).endswith("has no pod at the edge; resilience asks for 1")
