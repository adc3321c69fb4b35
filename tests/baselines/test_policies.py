"""Each baseline, and arrivals that preempt each other, on clusters small enough to follow."""

import random
from collections import Counter

import attrs
import pytest

from kubedsm.model.model import Share, Tier, Workload
from kubedsm.plugins.plugin import Rejection
from kubedsm_lab.baselines.arrivals import simulate_arrivals
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
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


def of_priority(name, priority, cores=1, **more):
    made = pod(name, cores=cores, memory=MI, service=name, **more)
    return attrs.evolve(made, pod_class=attrs.evolve(made.pod_class, priority=priority))


def nodes(*cores):
    return [node(f"n{n}", Tier.EDGE, size, 64 * MI) for n, size in enumerate(cores, start=1)]


def run(cores, *arrivals, preempting=True):
    """Where each pod is in the end, and how many were evicted."""
    start = snapshot(nodes(*cores), [])
    after = simulate_arrivals(
        start, arrivals, kube_scheduler, random.Random(1), preempting=preempting
    )
    targets = {after.snapshot.pods[uid].name: on for uid, on in after.snapshot.placed.items()}
    for free in after.snapshot.free.values():
        assert free.cpu >= 0
        assert free.memory >= 0
    return targets, after.evictions


def test_evicted_pods_and_those_that_wait_are_tried_again():
    # `low` and `middle` fill both nodes; `high` fits on the one of `middle` alone.
    low, middle = of_priority("low", 1, 2), of_priority("middle", 2, 3)
    high = of_priority("high", 3, 3)
    assert run([2, 3], [low], [middle], [high])[0] == {"low": "n1", "high": "n2"}
    low, middle, high = of_priority("low", 1), of_priority("middle", 2), of_priority("high", 3)
    least = [low, of_priority("least", 0)]
    targets, evictions = run([1, 1], least, [middle], [high])
    assert targets.keys() == {"middle", "high"}
    assert evictions == 2  # each takes the place of the least important pod, whoever has it
    # For `high` all of `wide` has to go, which leaves room for `small`, that came before.
    wide, small = of_priority("wide", 1, 3), of_priority("small", 1, 1)
    assert run([3], [wide], [small], [of_priority("high", 2, 2)]) == (
        {"high": "n1", "small": "n1"},
        1,
    )


def test_a_pod_that_ran_before_may_be_evicted_too_and_waits():
    there, high = of_priority("there", 1, on="n1"), of_priority("high", 2)
    after = simulate_arrivals(
        snapshot(nodes(1), [there]), [[high]], kube_scheduler, random.Random(1), preempting=True
    )
    assert after.snapshot.placed == {high.uid: "n1"}
    assert after.evictions == 1
    waiting = after.snapshot.schedulable(after.snapshot.pods.values())
    assert [pod.name for pod in waiting] == ["there"]
    assert after.snapshot.pods[high.uid].ready
    assert after.snapshot.pods[high.uid].phase == "Running"


def test_a_more_important_pod_preempts_if_it_may():
    low, high = of_priority("low", 1), of_priority("high", 2)
    assert run([1], [low], [high], preempting=False) == ({"low": "n1"}, 0)
    assert run([1], [low], [high]) == ({"high": "n1"}, 1)
    assert run([1], [low, high]) == ({"high": "n1"}, 0)
    assert run([1], [of_priority("one", 1)], [of_priority("other", 1)]) == ({"one": "n1"}, 0)
