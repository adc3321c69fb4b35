"""Nodes in turn: zones interleaved, and no node first for ever."""

import random
from collections import Counter

from kubedsm.core.world.model import Tier
from kubedsm.core.world.node_order import zone_interleaved, zone_of
from support.placement_instances import node, pod, resources, snapshot

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def zoned(name, zone, region="r"):
    return node(name, Tier.EDGE, labels={ZONE: zone, REGION: region} if zone else {})


def names(nodes):
    return [of.name for of in nodes]


def test_the_first_of_each_zone_then_the_second_of_each():
    nodes = [zoned(str(n), "one") for n in (1, 2, 3, 4)] + [zoned(str(n), "two") for n in (5, 6)]
    assert names(zone_interleaved(nodes)) == ["1", "5", "2", "6", "3", "4"]


def test_zones_of_one_name_in_two_regions_are_two_and_nodes_without_labels_one():
    nodes = [zoned("1", "a"), zoned("2", "a"), zoned("3", "a", "s"), zoned("4", ""), zoned("5", "")]
    assert names(zone_interleaved(nodes)) == ["1", "3", "4", "2", "5"]


def test_it_is_a_permutation_and_every_beginning_has_as_many_of_each_zone():
    rng = random.Random(0)
    for _ in range(200):
        nodes = [zoned(f"{n:02}", rng.choice("abcd")) for n in range(rng.randint(0, 20))]
        ordered = zone_interleaved(nodes)
        assert sorted(names(ordered)) == names(nodes)
        sizes = Counter(map(zone_of, nodes))
        for end in range(len(ordered) + 1):
            counts = Counter(map(zone_of, ordered[:end]))
            left = [counts[zone] for zone, size in sizes.items() if counts[zone] < size]
            if left:
                assert max(counts.values(), default=0) - min(left) <= 1


def test_each_pod_that_is_placed_turns_it_by_one_node_of_the_tier():
    nodes = [zoned("1", "a"), zoned("2", "a"), zoned("3", "b"), node("far", Tier.CLOUD)]
    orders = []
    for number in range(4):
        there = [pod(f"p-{n}", "web", resources(0.1), on="far") for n in range(number)]
        orders.append("".join(names(snapshot(nodes, there).in_turn(Tier.EDGE).nodes)))
    assert orders == ["132", "321", "213", "132"]
    assert snapshot([], []).in_turn(Tier.EDGE).nodes == ()


def test_in_the_cloud_those_with_the_fewest_pods_come_first():
    """Pods that request nothing, replaced one after the other, would all go to the first."""
    nodes = [node(name, Tier.CLOUD) for name in "123"]
    there = [pod(f"p-{n}", "web", resources(), on="2") for n in range(3)]
    assert names(snapshot(nodes, there).in_turn(Tier.CLOUD).nodes) == ["1", "3", "2"]
    one_more = [*there, pod("p-3", "web", resources(), on="1")]
    assert names(snapshot(nodes, one_more).in_turn(Tier.CLOUD).nodes) == ["3", "1", "2"]
