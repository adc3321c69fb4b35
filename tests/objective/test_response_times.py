"""A latency target means the edge share that the tiers' own response times make of it."""

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.model.events import MeasuredApplied
from kubedsm.model.measured import NOTHING_MEASURED, Answers, Measured
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Tier, Workload
from kubedsm.objective.objective import QosTarget
from kubedsm.objective.qos_targets import complete_rates
from support.placement_instances import asking, node, snapshot

A, B = (Workload("shop", "Deployment", name) for name in "ab")
#: a hundred requests within the window of 5 min, and one less
ENOUGH, TOO_FEW = 100 / 300, 99 / 300
QUERIES = "latency: {queries: {seconds: s, requests: r}}"
#: by 20 and 80 ms a third of it has to be on the edge
TARGETS = (
    f"{QUERIES}\nservices: {{shop/a: {{latencyTarget: 60ms, weight: 3}}, shop/b: {{qos: .5}}}}"
)


def answers(edge=None, cloud=None, rate=ENOUGH):
    tiers = {Tier.EDGE: edge, Tier.CLOUD: cloud}
    return {tier: Answers(rate, ms / 1e3) for tier, ms in tiers.items() if ms is not None}


def targets(*samples, text=TARGETS):
    mirror = ClusterMirror()
    for at, found in enumerate(samples, 1):
        mirror.apply(MeasuredApplied(Measured(at, answers={A: found, B: found})))
    qos_targets = load(text, "test").policy.qos_targets_in(mirror.snapshot())
    assert qos_targets(B) == QosTarget(0.5)
    assert qos_targets(A).weight == 3
    return qos_targets(A).qos


@pytest.mark.parametrize(
    ("found", "qos"),
    [
        (answers(), 1 / 3),
        (answers(50, 100), 0.8),
        (answers(50), 2 / 3),  # (80 - 60) / (80 - 50)
        (answers(cloud=100), 0.5),  # (100 - 60) / (100 - 20)
        (answers(70, 90), 1),
        (answers(10, 50), 0),
        (answers(100, 50), 1 / 3),  # an edge that is slower
        (answers(90), 1 / 3),  # slower than the cloud is said to be
        (answers(50, 100, TOO_FEW), 1 / 3),
        (answers(50, rate=TOO_FEW) | answers(cloud=100), 0.5),
    ],
)
def test_the_promise_goes_by_what_was_measured_of_enough_requests(found, qos):
    assert targets(found) == pytest.approx(qos)


def test_it_stays_as_it_was_until_what_is_measured_is_another():
    calm = [answers(50 * by, 100 / by, ENOUGH * by) for by in (1, 1.05, 0.96, 1.09)]
    assert [targets(*calm[:n]) for n in (1, 2, 3, 4)] == pytest.approx([0.8] * 4)
    assert targets(*calm, answers(50, 115)) == pytest.approx(55 / 65)


def test_ten_per_cent_at_a_time_do_not_add_up_unnoticed():
    risen = [answers(50, 100 * 1.05**n) for n in range(20)]
    assert abs(targets(*risen) - targets(risen[-1])) < 0.03


def test_what_is_measured_is_kept_beside_what_promises_go_by():
    mirror = ClusterMirror()
    for at, seconds in ((1, 0.1), (2, 0.105)):
        mirror.apply(MeasuredApplied(Measured(at, answers={A: {Tier.EDGE: Answers(1, seconds)}})))
    measured = mirror.snapshot().measured
    assert measured.answers[A][Tier.EDGE].seconds == 0.105
    assert measured.steady[A][Tier.EDGE].seconds == 0.1
    mirror.apply(MeasuredApplied(NOTHING_MEASURED))
    assert mirror.snapshot().measured.steady == {}


def test_a_rate_that_the_operator_says_goes_before_a_measured_one():
    measured = Measured(1, answers={w: answers(1, 2, rate=4.0) for w in (A, B)})
    shot = attrs.evolve(snapshot([], []), measured=measured.after(NOTHING_MEASURED, {}))
    rates = complete_rates({A: 3.0}.get, shot, 0.0)
    assert (rates(A), rates(B), rates(Workload("x", "Pod", "y"))) == (3.0, 8.0, None)


def test_requests_are_weighed_as_measured_before_a_tenant_is_heard():
    pods = [asking(name, None, service=name, rate=30.0) for name in "ab"]
    there = snapshot([node("edge", Tier.EDGE, 4, 64)], pods)
    measured = Measured(1, answers={pods[0].workload: answers(1, 2, rate=45.0)})
    there = attrs.evolve(there, measured=measured.after(NOTHING_MEASURED, {}))
    qos_targets = load("objective: {weight: traffic}", "test").policy.qos_targets_in(there)
    assert [qos_targets(pod.workload).weight for pod in pods] == [1.5, 0.5]
