"""What it costs that replicas stand together."""

import random
from collections import Counter
from itertools import combinations

import attrs
import pytest

from kubedsm.model.model import Preferences, SchedulingRules, SpreadConstraint, Tier, Workload
from kubedsm.model.node_index import zone_of
from kubedsm.objective.replica_spread import ReplicaSpread, has_default_spread
from support.placement_instances import node, pod, resources, snapshot

ZONE = "topology.kubernetes.io/zone"


def cluster(rng):
    nodes = [
        node(f"n{n}", rng.choice((Tier.EDGE, Tier.CLOUD)), labels={ZONE: z} if z else {})
        for n, z in enumerate(rng.choices(["", "a", "b"], k=4))
    ]
    pods = [
        pod(f"p{n}", rng.choice("ab"), resources(0.1), on=rng.choice(nodes).name)
        for n in range(rng.randint(0, 9))
    ]
    return snapshot(nodes, pods)


def test_it_is_the_number_of_pairs_on_a_node_and_of_pairs_in_a_zone():
    rng = random.Random(1)
    for _ in range(100):
        shot = cluster(rng)
        alike = [
            (shot.nodes[one.node_name], shot.nodes[other.node_name])
            for one, other in combinations(shot.pods.values(), 2)
            if one.workload == other.workload
        ]
        together = sum((a.name == b.name) + (zone_of(a) == zone_of(b)) for a, b in alike)
        assert ReplicaSpread.of(shot).cost == together


def test_company_is_what_one_more_adds():
    rng = random.Random(2)
    for _ in range(100):
        shot = cluster(rng)
        found = ReplicaSpread.of(shot)
        workload = Workload("shop", "Deployment", rng.choice("abc"))
        at = rng.choice(list(shot.nodes))
        more = found.copy()
        more.put(workload, at)
        assert more.cost - found.cost == found.company(workload, at)
        more.put(workload, at, -1)
        assert more.cost == found.cost == ReplicaSpread.of(shot).cost


@pytest.mark.parametrize(
    "state", [{"terminating": True}, {"phase": "Succeeded"}, {"detached": True}]
)
def test_only_replicas_that_count_count(state):
    nodes = [node("n1", Tier.EDGE)]
    there = pod("p1", "web", resources(1), on="n1")
    gone = attrs.evolve(pod("p2", "web", resources(1), on="n1"), **state)
    assert ReplicaSpread.of(snapshot(nodes, [there, gone])).on_node == {
        there.workload: Counter(n1=1)
    }


def test_pods_with_constraints_of_their_own_are_left_to_these():
    constraint = (SpreadConstraint(ZONE, 1, None, "shop"),)
    assert has_default_spread(pod("p", "web", resources(1)))
    hard = SchedulingRules(spread=constraint)
    soft = SchedulingRules(preferences=Preferences(spread=constraint))
    assert not has_default_spread(pod("p", "web", resources(1), rules=hard))
    assert not has_default_spread(pod("p", "web", resources(1), rules=soft))
