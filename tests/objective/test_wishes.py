"""What tenants get of what they ask for, and what workloads weigh by the requests they answer."""

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.model.model import Share, Tier, Workload
from kubedsm.objective.objective import GREATEST, QosTarget
from kubedsm.objective.qos_targets import apply_tenant_targets, weigh_by_traffic
from support.placement_instances import asking, node, snapshot

HALF = load("services: {'*': {qos: 0.5, weight: 3}}", "test")


def with_edge(*pods):
    return snapshot([node("edge", Tier.EDGE, 4, 64)], list(pods))


def qos_target(*pods, most=0.0, configuration=HALF):
    return apply_tenant_targets(configuration.qos_target, with_edge(*pods), most)(pods[0].workload)


@pytest.mark.parametrize(
    ("asked", "most", "given"),
    [
        (0.2, 0.0, 0.2),
        (0.0, 0.0, 0.0),
        (0.8, 0.0, 0.5),
        (0.8, 0.7, 0.7),
        (0.6, 0.7, 0.6),
        (0.8, 0.3, 0.5),
        (1.0, 1.0, 1.0),
        (0.2, 1.0, 0.2),
    ],
)
def test_a_wish_lowers_and_raises_no_more_than_the_operator_allows(asked, most, given):
    made = qos_target(asking("a", asked), most=most)
    assert made.qos == given
    assert made.weight == 3


def test_a_wish_of_a_job_opens_the_edge_to_it():
    job = attrs.evolve(asking("a", 0.3), workload=Workload("n", "Job", "a"))
    closed, open_to = (
        qos_target(job, most=most, configuration=load("", "t")) for most in (0.0, 0.5)
    )
    assert (closed.qos, closed.most) == (0, 0)
    assert (open_to.qos, open_to.most) == (0.3, None)


def test_the_newest_pod_decides():
    old, new = asking("old", 0.1, created=1.0), asking("new", 0.3, created=2.0)
    assert qos_target(old, new).qos == qos_target(new, old).qos == 0.3
    assert qos_target(old, asking("new", None, created=2.0)).qos == 0.5


def test_the_policy_promises_as_wished_and_as_allowed():
    there = with_edge(asking("a", 0.9))
    [workload] = there.census.shares
    for most, given in (("0", 0.5), ("0.7", 0.7)):
        text = f"services: {{'*': {{qos: 0.5}}}}\ntenants: {{maxQos: {most}}}"
        for fairness in ("", "\nfairness: {perNamespace: true}"):
            policy = load(text + fairness, "test").policy
            assert policy.qos_targets_in(there)(workload).qos == given


A, B, C = (Workload("shop", "Deployment", name) for name in "abc")


def weights(rates, totals=(4, 4, 4), qos_targets=lambda _: QosTarget()):
    shares = {w: Share(0, n) for w, n in zip((A, B, C), totals, strict=True)}
    made = weigh_by_traffic(qos_targets, shares, rates.get)
    return [made(workload).weight for workload in (A, B, C)]


def test_one_without_a_rate_has_as_many_requests_a_pod_as_the_others():
    assert weights({A: 40.0, B: 20.0}, (4, 2, 3)) == pytest.approx([4 / 3, 2 / 3, 1])


def test_a_workloads_own_weight_still_counts():
    own = {A: QosTarget(0.5, 3.0), B: QosTarget(1.0, 1.0), C: QosTarget(1.0, 0.0)}
    assert weights({A: 1.0, B: 1.0, C: 1.0}, qos_targets=own.__getitem__) == [3, 1, 0]
    assert (
        weights({A: 1.0, B: 1.0, C: 1.0}, qos_targets=lambda _: QosTarget(0.5, GREATEST))
        == [GREATEST] * 3
    )
    assert weights({A: 9.0, B: 0.0, C: 0.0}, qos_targets=lambda _: QosTarget(0.5, GREATEST)) == [
        GREATEST,
        0,
        0,
    ]


def weight_of(text, *pods):
    qos_targets = load(text, "test").policy.qos_targets_in(with_edge(*pods))
    return [
        round(qos_targets(workload).weight, 3) for workload in sorted({p.workload for p in pods})
    ]


TRAFFIC = "objective: {weight: traffic}\n"
PODS = (asking("a", None, service="a", rate=30.0), asking("b", None, service="b", rate=10.0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [1, 1]),
        (TRAFFIC, [1.5, 0.5]),
        (TRAFFIC + "services: {shop/b: {rate: 30}}", [1, 1]),
        (TRAFFIC + "services: {'*': {rate: 30, weight: 2}}", [2, 2]),
        (TRAFFIC + "services: {shop/a: {rate: 0}, shop/b: {rate: 1}}", [0, 2]),
        (TRAFFIC + "tenants: {maxRate: 10}", [1, 1]),
        (TRAFFIC + "tenants: {maxRate: 0}", [1, 1]),
        (TRAFFIC + "tenants: {maxRate: 0}\nservices: {shop/b: {rate: 30}}", [1, 1]),
        (TRAFFIC + "fairness: {perNamespace: true}", [1.5, 0.5]),
    ],
)
def test_the_operator_is_heard_before_the_tenants(text, expected):
    assert weight_of(text, *PODS) == expected


def test_of_the_pods_of_a_workload_the_newest_declares():
    old = asking("old", None, created=1.0, service="a", rate=90.0)
    new = asking("new", None, created=2.0, service="a", rate=30.0)
    assert weight_of(TRAFFIC, old, new, PODS[1]) == weight_of(TRAFFIC, PODS[0], PODS[1])
