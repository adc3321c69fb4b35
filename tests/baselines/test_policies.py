"""Each baseline on a cluster small enough to see what it must do."""

import random
from collections import Counter

import pytest

from kubedsm.model.model import Share, Tier, Workload
from kubedsm.plugins.plugin import Rejection
from kubedsm_lab.baselines.registry import POLICIES
from support.placement_instances import snapshot
from support.policy_clusters import MI, TARGETS, node, pod

#: free cores: big 4, small 2; the cloud has two nodes
BIG = node("big", Tier.EDGE, 4, 8000 * MI)
SMALL = node("small", Tier.EDGE, 2, 8000 * MI)
FAR = (node("far1", Tier.CLOUD, 8, 16000 * MI), node("far2", Tier.CLOUD, 8, 16000 * MI))
CLUSTER = (BIG, SMALL, *FAR)


def place(policy, nodes, pods, seed=0):
    decision = POLICIES[policy](*TARGETS).place(
        snapshot(nodes, pods), [p for p in pods if p.node_name is None], random.Random(seed)
    )
    return decision, [binding.node for binding in decision.bindings]


def batch(number, **more):
    return [pod(f"a-{index}", created=float(index), **more) for index in range(number)]


def test_edge_first_takes_the_most_free_cores_or_fills_the_smallest():
    # 4/2, 3/2, 2/2: then free memory decides, and so it does at 1/1.
    _, nodes = place("biggest-edge-first", CLUSTER, batch(6))
    assert nodes == ["big", "big", "small", "big", "small", "big"]
    _, nodes = place("smallest-edge-first", CLUSTER, batch(6))
    assert nodes == ["small", "small", "big", "big", "big", "big"]


def test_cloud_first_takes_the_edge_last():
    _, nodes = place("cloud-first", CLUSTER, batch(22))
    assert set(nodes[:16]) == {"far1", "far2"}
    assert Counter(nodes[16:]) == {"big": 4, "small": 2}


def test_random_takes_every_node_that_fits_alike():
    seen = Counter(place("random", CLUSTER, batch(1), seed)[1][0] for seed in range(400))
    assert seen.keys() == {"big", "small", "far1", "far2"}
    assert min(seen.values()) > 70
    one = [pod("d-1", cores=3)]
    seen = {place("random", (BIG, SMALL), one, seed)[1][0] for seed in range(20)}
    assert seen == {"big"}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_keeps_to_the_room_and_says_why_the_rest_waits(policy):
    pods = [pod("old", on="big"), *batch(9)]
    decision, nodes = place(policy, (BIG, SMALL), pods)
    assert Counter(nodes) == {"big": 3, "small": 2}
    assert [b.pod.name for b in decision.bindings] == ["a-0", "a-1", "a-2", "a-3", "a-4"]
    assert len(decision.unplaced) == 4
    short = Rejection("NodeResourcesFit", ("Insufficient cpu",))
    for rejections in decision.unplaced.values():
        assert rejections == {"big": short, "small": short}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_is_scored_alike_repeats_itself_and_takes_no_node_without_a_tier(policy):
    decision, nodes = place(policy, CLUSTER, batch(2))
    on_edge = sum(name in ("big", "small") for name in nodes)
    workload = Workload("default", "Deployment", "a")
    assert decision.shares_before == {workload: Share(0, 2)}
    assert decision.shares_after == {workload: Share(on_edge, 2)}
    assert (decision.score_after > decision.score_before) == (on_edge > 0)
    first, again = (place(policy, CLUSTER, batch(12), seed=5)[1] for _ in range(2))
    assert first == again
    decision, nodes = place(policy, (node("plain", None, 8, 8000 * MI),), batch(1))
    assert (nodes, len(decision.unplaced)) == ([], 1)


@pytest.mark.parametrize("policy", ["biggest-edge-first", "smallest-edge-first"])
def test_what_the_edge_cannot_take_goes_to_any_cloud_node(policy):
    seen = Counter()
    for seed in range(40):
        _, nodes = place(policy, CLUSTER, batch(7), seed)
        assert set(nodes[:6]) == {"big", "small"}
        seen[nodes[6]] += 1
    assert seen.keys() == {"far1", "far2"}
    assert min(seen.values()) > 8
