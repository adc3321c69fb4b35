"""What a tenant gets by splitting a workload: nothing, where namespaces are weighed."""

from collections import Counter

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.model.model import Tier, Workload
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.qos_targets import share_namespace_weights
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from support.placement_instances import node, pod, resources, snapshot

# Moves are free here: what they cost is another matter.
OFF = load("{fairness: {perNamespace: false}, migration: {price: 0s}}", "test").policy
FAIR = load("migration: {price: 0s}", "test").policy


def one_core(namespace, service, number, on=None):
    made = pod(f"{service}-{number}", service, resources(1), on=on)
    workload = Workload(namespace, "Deployment", service)
    return attrs.evolve(
        made, uid=f"{namespace}-{made.name}", namespace=namespace, workload=workload,
        phase="Running" if on else "Pending", ready=on is not None,
    )  # fmt: skip


def four_split(on=None):
    """One tenant's four pods, of four Deployments."""
    return [one_core("split", f"part{number}", 0, on) for number in range(4)]


def whole(count, on=None):
    """The other tenant's pods, all of one Deployment."""
    return [one_core("whole", "web", number, on) for number in range(count)]


def room_for_four(pods):
    return snapshot([node("edge", Tier.EDGE, 4, 64), node("cloud", Tier.CLOUD, 64, 64)], pods)


def moved(policy, pods):
    """Return how many pods of each namespace migrate to each node."""
    shot = room_for_four(pods)
    found = policy.suggest(shot, default_movable(shot))
    return Counter((move.pod.namespace, move.target) for move in found.moves)


def on_the_edge(policy, pods):
    shot = room_for_four(pods)
    bound = policy.decide_batch(shot, shot.schedulable(shot.pods.values())).bindings
    at_edge = [b.pod.namespace for b in bound if b.tier is Tier.EDGE]
    return {name: at_edge.count(name) for name in ("split", "whole")}


def test_four_deployments_of_one_pod_take_no_more_than_their_half_from_one_of_four():
    pods = [*four_split("cloud"), *whole(4, "edge")]
    assert moved(OFF, pods) == {("split", "edge"): 3, ("whole", "cloud"): 3}
    assert moved(FAIR, pods) == {("split", "edge"): 2, ("whole", "cloud"): 2}


def test_in_a_batch_each_pod_of_a_split_tenant_weighs_as_little():
    # A pod of the two is worth a half, one of the four 1 if they count alone, a fourth together.
    pods = [*four_split(), *whole(2)]
    assert on_the_edge(OFF, pods) == {"split": 4, "whole": 0}
    assert on_the_edge(FAIR, pods) == {"split": 2, "whole": 2}


@pytest.mark.parametrize(
    ("own", "namespaces", "expected"),
    [
        ({"a": 1, "b": 1}, {}, {"a": 0.5, "b": 0.5, "c": 1}),
        ({"a": 3, "b": 1}, {}, {"a": 0.75, "b": 0.25, "c": 1}),
        ({"a": 3, "b": 0}, {"n": 8}, {"a": 8, "b": 0, "c": 1}),
        ({"a": 0, "b": 0}, {"m": 0}, {"a": 0, "b": 0, "c": 0}),
    ],
)
def test_the_weights_of_a_namespace_add_up_to_its_own(own, namespaces, expected):
    present = [Workload("n", "Deployment", "a"), Workload("n", "Deployment", "b")]
    present.append(Workload("m", "Deployment", "c"))
    fair = share_namespace_weights(
        lambda w: QosTarget(0.5, own.get(w.name, 1.0)), present, namespaces
    )
    assert {w.name: fair(w).weight for w in present} == expected
    assert {fair(w).qos for w in present} == {0.5}


def test_workloads_without_a_target_take_no_weight_from_services():
    """Many Jobs of a namespace would otherwise push its services off the edge."""
    present = [Workload("n", kind, kind) for kind in ("Deployment", "Job", "CronJob")]
    targets = load("{}", "test").qos_target
    fair = share_namespace_weights(targets, present, {"n": 3})
    assert [fair(workload).weight for workload in present] == [3, 1.5, 1.5]


def test_a_workload_that_has_no_pods_has_its_own_promise():
    absent = Workload("n", "Deployment", "late")
    assert share_namespace_weights(lambda _: QosTarget(0.5, 3.0), [], {})(absent) == QosTarget(
        0.5, 3.0
    )


def test_within_a_single_namespace_weights_stay_as_configured():
    shot = room_for_four(four_split())
    targets = lambda _: QosTarget(0.5, 3.0)  # noqa: E731
    fair = KubeDSM(targets, Objective(), namespace_weights={"split": 2}).qos_targets_in(shot)
    assert {fair(workload) for workload in shot.census.shares} == {QosTarget(0.5, 3.0)}
