"""Index of nodes: few of the tenants' keys, zones interleaved, and no node first for ever."""

import random
import weakref
from collections import Counter

import numpy as np
import pytest

from kubedsm.model.model import NodeName, Resources, SchedulingRules, Tier
from kubedsm.model.node_index import (
    MOST_CLASSES,
    MOST_COLUMNS,
    FreeCapacity,
    NodeIndex,
    nodes_to_find,
    window,
    zone_interleaved,
    zone_of,
)
from support.installations import made_node
from support.placement_instances import node, pod, resources, snapshot

NODES = NodeIndex.of([made_node("e1"), made_node("e2")])


def restricted_to(value):
    return SchedulingRules(node_selector=(("disk", value),))


ASKED = {
    "label": (NODES.label, MOST_COLUMNS),
    "allocatable": (NODES.size, MOST_COLUMNS),
    "node selector": (lambda value: NODES.match_affinity(restricted_to(value)), MOST_CLASSES),
}


@pytest.mark.parametrize("what", ASKED)
def test_few_keys_that_tenants_choose_are_kept(what):
    ask, most = ASKED[what]
    answers = [weakref.ref(ask(f"example.com/x{number}")) for number in range(2 * most + 1)]
    assert 0 < sum(answer() is not None for answer in answers) <= most


def test_rules_that_do_not_concern_nodes_share_an_answer():
    first, other = (SchedulingRules(resource_claims=(name,)) for name in "ab")
    assert NODES.match_affinity(first) is NODES.match_affinity(other)


def test_free_capacity_that_changes_keeps_few_columns():
    free, names = {NodeName("e1"): Resources(cpu=1)}, [f"example.com/x{n}" for n in range(100)]
    capacity = FreeCapacity(NodeIndex.of([made_node("e1")]), free)
    columns = [weakref.ref(capacity.now(free, ()).column(name)) for name in names]
    assert not any(column() is not None for column in columns)
    kept = [weakref.ref(capacity.column(name)) for name in names]
    capacity = capacity.now(free, ())
    assert not any(column() is not None for column in kept)


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def zoned(name, zone, region="r"):
    return node(name, Tier.EDGE, labels={ZONE: zone, REGION: region} if zone else {})


def names(nodes):
    return [of.name for of in nodes]


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


def test_how_many_are_enough_is_kube_schedulers_formula():
    """Line by line as numFeasibleNodesToFind has it."""

    def literal(nodes, percentage):
        if nodes < 100:
            return nodes
        if percentage == 0:
            percentage = 50 - nodes // 125
            percentage = max(percentage, 5)
        found = nodes * percentage // 100
        return max(found, 100)

    rng = random.Random(0)
    for _ in range(10_000):
        nodes, percentage = rng.randint(0, rng.choice((200, 15_000))), rng.randint(0, 100)
        assert nodes_to_find(nodes, percentage) == literal(nodes, percentage)
    assert nodes_to_find(5000, 150) == 5000


def test_a_window_is_never_short_of_nodes_that_are_there():
    """Node by node, beside the form that looks at all at once."""
    rng = random.Random(1)
    for _ in range(500):
        size = rng.randint(1, 30)
        order = np.array(rng.sample(range(size), size))
        takes = np.array([rng.random() < 0.6 for _ in range(size)])
        start, wanted = rng.randrange(size), rng.randint(1, size)
        expected, at = [], start
        for _ in range(size):
            at = (at + 1) % size
            if takes[order[at - 1]]:
                expected.append(int(order[at - 1]))
            if len(expected) == wanted:
                break
        found, after = window(order, start, takes, wanted)
        assert (found.tolist(), after) == (expected, at)
        assert len(found) == min(wanted, takes.sum())
    none, start = window(order[:0], 0, takes, 1)
    assert (none.tolist(), start) == ([], 0)


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
