"""What tenants get of what they ask for: less whenever they like, more only where allowed."""

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.model.model import Tier, Workload
from kubedsm.objective.qos_targets import apply_tenant_targets
from support.placement_instances import asking, node, snapshot

HALF = load("services: {'*': {qos: 0.5, weight: 3}}", "test")


def qos_target(*pods, most=0.0, of=0, configuration=HALF):
    there = snapshot([node("edge", Tier.EDGE, 4, 64)], list(pods))
    return apply_tenant_targets(configuration.qos_target, there, most)(pods[of].workload)


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
    there = snapshot([node("edge", Tier.EDGE, 4, 64)], [asking("a", 0.9)])
    [workload] = there.census.shares
    for most, given in (("0", 0.5), ("0.7", 0.7)):
        text = f"services: {{'*': {{qos: 0.5}}}}\ntenants: {{maxQos: {most}}}"
        for fairness in ("", "\nfairness: {perNamespace: true}"):
            policy = load(text + fairness, "test").policy
            assert policy.qos_targets_in(there)(workload).qos == given
