"""What a recorder makes of what it is told, beyond what replays ever tell it."""

import attrs
import pytest

from kubedsm.kube.wire.decoding import Identity
from kubedsm.model.model import Resources, Tier, Tiers
from kubedsm_lab.replay.measures import lost_pod_seconds
from kubedsm_lab.replay.recording import TimelineRecorder
from kubedsm_lab.replay.sightings import DeploymentSeen, Gone, NodeSeen, PodSeen
from support.policy_clusters import MI, node, pod


def recorder(*seen, services=("cart",)):
    made = TimelineRecorder(services, Tiers())
    for now, each in seen:
        made.take(each, now)
    return made


def there(name, *, on="e1", ready=True, evicted=False, **more):
    return PodSeen(pod(name, on=on, ready=ready, **more), evicted)


def edge(name):
    return NodeSeen(
        attrs.evolve(node(name, None, 4, 8000 * MI), labels={"nodetype": "edge"}), False
    )


def deployed(name, replicas, **labels):
    return DeploymentSeen("default", name, replicas, labels)


def gone_pod(pod):
    return Gone("Pod", Identity(pod.namespace, pod.name, pod.uid, ""))


def gone_deployment(namespace, name):
    return Gone("Deployment", Identity(namespace, name, "", ""))


@pytest.mark.parametrize(
    ("labels", "workload", "service"),
    [
        ({"app": "cart"}, "cart-v2", "cart"),
        ({"app": "web"}, "cart", "cart"),
        ({}, "cart", "cart"),
        ({"app": "web"}, "web", None),
    ],
)
def test_a_pod_is_its_service_s_by_its_label_or_else_by_its_workload(labels, workload, service):
    lives = recorder((0, there("p", labels=labels, service=workload))).timeline(0, 1).lives
    assert [life.service for life in lives] == [service] * (service is not None)


def test_what_other_pods_hold_is_no_room_for_the_services():
    other = there("db", service="db", cores=1.5, memory=500 * MI)
    finished = there("job", service="job", phase="Succeeded")
    gone = there("gone", service="db")
    known = recorder(
        (0, edge("e1")), (0, other), (0, finished), (0, gone), (1, gone_pod(gone.pod)),
        (1, there("c", service="cart")),
    )  # fmt: skip
    (left,) = known.record(0, 2).nodes
    assert left.tier is Tier.EDGE
    assert left.allocatable == Resources(2500, 7500 * MI, 109)


def test_replicas_of_a_service_are_those_of_all_its_deployments():
    known = recorder(
        (0, deployed("cart", 3)), (1, deployed("canary", 1, app="cart")), (2, deployed("cart", 3)),
        (3, deployed("cart", 2)), (4, gone_deployment("test", "cart")),
        (5, gone_deployment("default", "cart")), (6, gone_deployment("default", "other")),
    )  # fmt: skip
    assert known.timeline(0, 9).replicas == {"cart": ((0, 3), (1, 4), (3, 3), (5, 1))}


def test_an_eviction_without_a_deployment_ends_when_as_many_are_ready_as_before():
    """Of a StatefulSet, say: two Ready pods, one of which is away from 2 to 5."""
    known = recorder(
        (0, there("c-0", service="cart")), (0, there("c-1", service="cart")),
        (2, there("c-1", service="cart", terminating=True, evicted=True)),
        (3, gone_pod(pod("c-1"))),
        (5, there("c-2", service="cart")),
    )  # fmt: skip
    timeline = known.timeline(0, 9)
    assert [(move.began, move.ended, move.ready_before) for move in timeline.moves] == [(2, 5, 2)]
    assert lost_pod_seconds(timeline) == 3


@pytest.mark.parametrize(
    ("said", "tier"),
    [("c-0", Tier.EDGE), ("e1", Tier.EDGE), ("cloud", Tier.CLOUD), ("x", None), ("", None)],
)
def test_who_answers_is_in_the_tier_of_its_node(said, tier):
    known = recorder((0, edge("e1")), (0, there("c-0", service="cart")))
    assert known.tier_of(said) is tier


def test_a_pod_on_a_node_that_nobody_has_told_of_is_of_no_tier():
    record = recorder((0, there("c", service="cart", on="new"))).record(0, 2)
    assert [life.tier for life in record.timeline.lives] == [None]
    assert [(found.name, found.allocatable) for found in record.nodes] == [("new", Resources())]
