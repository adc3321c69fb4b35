"""Preemption and packing with demand by site: as few users as possible lose pods near them."""

import attrs
import pytest

from kubedsm.model.model import Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.site_demand import SiteGoal
from kubedsm.optimizer.placing.preemption import PreemptionSearch
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from support.placement_instances import node, pod, resources, snapshot
from support.site_instances import LABELS, at_sites, plain_target, site_node
from support.suggest_instances import running


def prior(name, service, cpu=2):
    made = pod(name, service, resources(cpu))
    return attrs.evolve(made, pod_class=attrs.evolve(made.pod_class, priority=10))


def preempt(cpus, pods, targets, **how):
    case = at_sites(cpus, pods, targets, cloud=0.1)
    waiting = next(each for each in pods if each.pod_class.priority)
    how.setdefault("site_labels", LABELS)
    found = PreemptionSearch(case.snapshot, waiting, case.qos_targets, Objective(), **how).best()
    return found.node, [victim.name for victim in found.victims]


def test_of_equal_victims_those_far_from_their_users_are_evicted():
    targets = {"near": plain_target(a=1), "far": plain_target(b=1), "web": QosTarget()}
    pods = [
        running("far-1", "far", resources(2), "edge-a", created=1.0),
        running("near-1", "near", resources(2), "edge-a", created=2.0),
    ]
    assert preempt({"a": 4}, [*pods, prior("web-1", "web")], targets) == ("edge-a", ["far-1"])
    # Without demand the younger pod is the victim.
    plain = dict.fromkeys(targets, QosTarget())
    found = preempt({"a": 4}, [*pods, prior("web-1", "web")], plain, site_labels=())
    assert found == ("edge-a", ["near-1"])


def test_of_equal_nodes_the_one_whose_victims_are_far_from_their_users_is_chosen():
    targets = {"near": plain_target(a=1), "far": plain_target(a=1), "web": QosTarget()}
    pods = [
        running("far-1", "far", resources(2), "edge-b", created=1.0),
        running("near-1", "near", resources(2), "edge-a", created=2.0),
    ]
    found = preempt({"a": 2, "b": 2}, [*pods, prior("web-1", "web")], targets)
    assert found == ("edge-b", ["far-1"])


def test_the_site_of_its_users_is_where_a_pod_preempts():
    targets = {"web": plain_target(b=1), "log": QosTarget()}
    pods = [running(f"log-{site}", "log", resources(2), f"edge-{site}") for site in "ab"]
    found = preempt({"a": 2, "b": 2}, [*pods, prior("web-1", "web")], targets)
    assert found == ("edge-b", ["log-b"])


DEMAND = {"cart": {"a": 1.0}}
GOAL = SiteGoal(LABELS, lambda w: DEMAND.get(w.name), None, lambda _: None, 0.01, 0.04, 0.08)
POLICY = KubeDSM(lambda w: QosTarget(float(w.name == "cart")), Objective(), sites=GOAL)


@pytest.mark.parametrize(
    ("cores", "moved"),
    [
        # One migration of cart is enough, and so are two of log, which leave cart to its users.
        (4, {"log-0", "log-1"}),
        # Only if cart leaves its users a node takes the pod that waits.
        (3, {"cart-0"}),
    ],
)
def test_packing_takes_pods_from_their_users_only_if_others_would_wait(cores, moved):
    nodes = [site_node("edge-a0", "a", 4), site_node("edge-b0", "b", cores)]
    nodes += [site_node("edge-b1", "b", 2), node("cloud", Tier.CLOUD, 0.1, 64)]
    pods = [running("cart-0", "cart", resources(2), "edge-a0")]
    pods += [running(f"log-{n}", "log", resources(1), "edge-b0") for n in range(2)]
    waiting = pod("web-0", "web", resources(4))
    found = POLICY.pack_pods(snapshot(nodes, [*pods, waiting]), lambda _: None)
    assert {move.pod.name for move in found.moves} == moved
    assert [move.pod.name for move in found.awaited] == ["web-0"]
    if cores > 3:
        blind = attrs.evolve(POLICY, sites=None)
        found = blind.pack_pods(snapshot(nodes, [*pods, waiting]), lambda _: None)
        assert {move.pod.name for move in found.moves} == {"cart-0"}
