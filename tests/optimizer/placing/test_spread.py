"""Replicas of a workload survive the loss of a node, as far as that costs nothing else."""

import random
from collections import Counter
from itertools import combinations

import attrs
import pytest

from kubedsm.model.model import PodAffinityTerm, SchedulingRules, Tier
from kubedsm.model.node_index import zone_of
from kubedsm.model.selectors import Requirement
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.optimizer.programming.in_order import Proof
from support import drawing
from support.placement_instances import Instance, node, pod, resources, snapshot
from support.placement_literal import every_placement, homes_of, qos_with

ZONE = "topology.kubernetes.io/zone"
OBJECTIVE = Objective(gamma=10)
SMALL = resources(0.01, 1 / 64)


def placed(nodes, batch, there=(), bounds=None, qos_target=QosTarget(), **more):  # noqa: B008
    shot = snapshot(nodes, [*there, *batch])
    return immediate_schedule(shot, batch, lambda _: qos_target, OBJECTIVE, bounds=bounds, **more)


def by_node(decision, service=None):
    return Counter(b.node for b in decision.bindings if service in (None, b.pod.workload.name))


def replicas(service, number, requests=SMALL, **more):
    return [pod(f"{service}-{n:03}", service, requests, **more) for n in range(number)]


def edge(number, **more):
    return [node(f"e{n}", Tier.EDGE, **more) for n in range(number)]


CLOUD = node("cloud", Tier.CLOUD, 64, 256)
#: nothing is searched for
NONE = Bounds(states=1, steps=1, loads=1)


@pytest.mark.parametrize("bounds", [None, NONE])
def test_a_burst_is_even(bounds):
    decision = placed([*edge(5), CLOUD], replicas("web", 200), bounds=bounds)
    assert set(by_node(decision).values()) == {40}


def test_heuristics_prove_no_least_fragmentation():
    batch = [*replicas("web", 1), *replicas("db", 1)]
    assert placed([*edge(2), CLOUD], batch, bounds=NONE).proof == Proof(fragmentation=False)


def test_a_burst_is_even_in_a_large_cloud():
    nodes = [node(f"c{n:04}", Tier.CLOUD) for n in range(5000)]
    assert set(by_node(placed(nodes, replicas("web", 200))).values()) == {1}


def zoned(name, zone, tier=Tier.EDGE, **more):
    return node(name, tier, labels={ZONE: zone}, **more)


def by_zone(nodes, decision):
    zones = {n.name: zone_of(n).zone for n in nodes}
    return Counter(zones[b.node] for b in decision.bindings)


@pytest.mark.parametrize("bounds", [None, NONE])
@pytest.mark.parametrize("tier", list(Tier))
def test_two_zones(tier, bounds):
    # The first nodes by name, and by fragmentation, are in one zone.
    sizes = {"a": 2, "b": 4}
    nodes = [zoned(f"{z}{n}", z, tier, cpu=sizes[z]) for z in "ab" for n in range(3)]
    for number in (2, 4, 6):
        decision = placed(nodes, replicas("web", number, resources(0.5, 0.5)), bounds=bounds)
        assert by_zone(nodes, decision) == {"a": number / 2, "b": number / 2}
        assert set(by_node(decision).values()) == {1}


def test_a_batch_that_rules_have_a_say_in_is_spread_too():
    term = PodAffinityTerm(ZONE, (Requirement("app", "In", ("db",)),), ("shop",))
    rules = SchedulingRules(anti_affinity=(term,))
    nodes = [zoned("a0", "a"), zoned("a1", "a"), zoned("b0", "b"), zoned("b1", "b")]
    database = attrs.evolve(pod("db", "db", SMALL, on="b0"), labels={"app": "db"})
    decision = placed(nodes, replicas("web", 4, rules=rules), [database])
    assert by_node(decision) == {"a0": 2, "a1": 2}


def test_pods_that_rules_bring_together_are_spread_there():
    # They are to be in one zone, whichever: what was planned for the other zone is put right.
    near = PodAffinityTerm(ZONE, (Requirement("app", "In", ("web",)),), ("shop",))
    nodes = [zoned(f"{zone}{n}", zone) for zone in "ab" for n in range(2)]
    batch = replicas("web", 4, rules=SchedulingRules(affinity=(near,)))
    batch = [attrs.evolve(p, labels={"app": "web"}) for p in batch]
    decision = placed(nodes, batch)
    assert len(by_zone(nodes, decision)) == 1
    assert set(by_node(decision).values()) == {2}


def drawn(seed, zones):
    """A small cluster with room to choose, of up to two zones."""
    rng = random.Random(seed)
    nodes = [
        zoned(f"{tier}{n}", rng.choice("ab"[:zones]), tier, cpu=rng.choice((1, 2, 3)))
        for tier, most in ((Tier.EDGE, 3), (Tier.CLOUD, 2))
        for n in range(rng.randint(1, most))
    ]
    sizes = {service: resources(rng.choice((0.5, 0.5, 1)), 0.5) for service in "ab"}
    batch = [
        pod(f"{service}-{n}", service, sizes[service])
        for n, service in enumerate(rng.choices("aab", k=rng.randint(2, 5)))
    ]
    there = [
        pod(f"{service}-old-{n}", service, resources(0.1, 0.1), on=rng.choice(nodes).name)
        for n, service in enumerate(rng.choices("ab", k=rng.randint(0, 3)))
    ]
    targets = {service: QosTarget(rng.choice((0.0, 0.5, 1.0))) for service in "ab"}
    return Instance(snapshot(nodes, [*batch, *there]), tuple(batch), targets)


def together(shot, homes):
    """Pairs of one workload on one node, and in one zone."""
    everywhere = {**shot.placed, **homes}
    standing = [
        (shot.pods[uid].workload, name, zone_of(shot.nodes[name]))
        for uid, name in everywhere.items()
        if shot.pods[uid].counts_for_qos
    ]
    return sum(
        (one[1] == other[1]) + (one[2] == other[2])
        for one, other in combinations(standing, 2)
        if one[0] == other[0]
    )


def tiers(shot, homes):
    """How many of each workload are where."""
    return Counter((shot.pods[uid].workload, shot.nodes[at].tier) for uid, at in homes.items())


def standing(case, homes):
    shot = case.snapshot
    on_edge = [
        p for p in case.batch if p.uid in homes and shot.nodes[homes[p.uid]].tier is Tier.EDGE
    ]
    # Each workload's score is rounded to nano-units.
    return len(homes), round(qos_with(case, on_edge, OBJECTIVE), -1)


@pytest.mark.parametrize("zones", [1, 2])
def test_of_all_placements_that_are_as_good_none_is_more_even(zones):
    seen = Counter()
    for seed in drawing.drawn(range(200)):
        case = drawn(seed, zones)
        shot = case.snapshot
        decision = immediate_schedule(shot, case.batch, case.qos_targets, OBJECTIVE)
        homes = homes_of(decision)
        mine = tiers(shot, homes)
        results = [(standing(case, tried), tried) for tried in every_placement(case)]
        best = max(reached for reached, _ in results)
        assert standing(case, homes) == best, seed
        as_good = [tried for reached, tried in results if reached == best]
        costs = [together(shot, tried) for tried in as_good]
        alike = [together(shot, tried) for tried in as_good if tiers(shot, tried) == mine]
        found = together(shot, homes)
        if len(set(costs)) == 1:
            continue
        assert found == min(alike) or not decision.proof.spread, seed
        seen["all"] += 1
        seen["proven"] += decision.proof.spread
        seen["best of those with as many on each tier"] += found == min(alike)
        seen["best of all"] += found == min(costs)
    assert seen["all"] > 20
    assert seen["best of those with as many on each tier"] >= 0.99 * seen["all"], seen
    assert seen["best of all"] >= 0.97 * seen["all"], seen
    assert seen["proven"] >= 0.7 * seen["all"], seen
