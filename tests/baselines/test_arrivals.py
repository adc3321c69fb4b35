"""Pods that come in turn and preempt each other, on clusters small enough to follow by hand."""

import random

import attrs

from kubedsm.model.model import Tier
from kubedsm_lab.baselines.arrivals import simulate_arrivals
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from support.placement_instances import snapshot
from support.policy_clusters import MI, node, pod


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
