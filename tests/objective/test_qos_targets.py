"""QoS targets as tenants, traffic, response times and fairness between namespaces adjust them."""

import random
from collections import Counter

import attrs
import numpy as np
import pytest

from kubedsm.config.settings import load
from kubedsm.model.events import MeasuredApplied
from kubedsm.model.measured import NOTHING_MEASURED, Answers, Measured
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Share, Tier, Workload
from kubedsm.objective.gains import Gains, Worths
from kubedsm.objective.lasting import assume_prior
from kubedsm.objective.objective import GREATEST, NANO, Objective, QosTarget
from kubedsm.objective.qos_targets import (
    apply_tenant_targets,
    cap_slower_edge,
    complete_rates,
    share_namespace_weights,
    weigh_by_traffic,
    without_caps,
)
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from support.drawn_problems import OBJECTIVES
from support.placement_instances import asking, node, pod, resources, snapshot

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


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: f"{o.kind}-{o.beta}-{o.gamma}")
def test_beyond_what_is_wanted_each_pod_is_a_loss_and_up_to_it_nothing_changes(objective):
    rng = random.Random(1)
    for _ in range(100):
        total, qos_target = (
            rng.randint(1, 9),
            QosTarget(rng.choice((0.0, 0.3, 0.5, 1.0)), rng.uniform(0.1, 9)),
        )
        limited = attrs.evolve(qos_target, most=rng.randint(0, total))
        edge = np.arange(total + 1)
        values = [objective.worth_of(Share(n, total), limited) for n in edge.tolist()]
        free = [objective.worth_of(Share(n, total), qos_target) for n in edge.tolist()]
        assert values[: limited.most + 1] == free[: limited.most + 1]
        assert all(np.diff(values[limited.most :]) < 0)
        assert objective.scores(edge, total, limited).tolist() == values
        steps = np.diff(values[limited.most :])
        assert all(abs(steps + NANO * qos_target.weight * objective.most / total) <= 1)
        gained = objective.gain(Share(limited.most, total), limited, total - limited.most)
        assert gained == values[-1] - values[limited.most]


def serving(edge, pending, cloud=0):
    """A snapshot in which the edge is slower for `web`, and not for `api`."""
    nodes = [node("e1", Tier.EDGE, 9, 64), node("c1", Tier.CLOUD, 9, 64)]
    where = ["e1"] * edge + ["c1"] * cloud + [None] * pending
    pods = [pod(f"web-{at}", "web", resources(1), on=on) for at, on in enumerate(where)]
    pods.append(pod("api-0", "api", resources(1)))
    slower = frozenset({pods[0].workload, pod("gone", "gone", resources(1)).workload})
    shot = snapshot(nodes, pods)
    return (
        attrs.evolve(shot, measured=Measured(1.0, slower=slower)),
        pods[0].workload,
        pods[-1].workload,
    )


def test_no_more_is_wanted_of_a_slower_workload_than_the_edge_has():
    shot, web, api = serving(2, 3)
    qos_targets = cap_slower_edge(lambda _: QosTarget(0.8, 2.0), shot)
    assert qos_targets(web) == QosTarget(0.8, 2.0, most=2)
    assert qos_targets(api) == QosTarget(0.8, 2.0)
    assert without_caps(qos_targets)(web) == QosTarget(0.8, 2.0)
    assert qos_targets(web).count_wanted(5) == 2
    assert qos_targets(api).count_wanted(5) == 4
    resolved = KubeDSM(lambda _: QosTarget(0.8, 2.0), Objective()).qos_targets_in(shot)
    assert resolved(web) == QosTarget(0.8, 2.0, most=2)


def test_values_by_label_are_set_for_the_workload_that_they_match():
    shot, web, api = serving(2, 3)
    labelled = lambda workload, _: {"qos": 0.2} if workload == web else {}  # noqa: E731
    policy = KubeDSM(lambda _: QosTarget(0.8), Objective(), labelled=labelled)
    found = policy.qos_targets_in(attrs.evolve(shot, measured=Measured(1.0)))
    assert (found(web).qos, found(api).qos) == (0.2, 0.8)


def test_points_are_counted_by_pods_that_are_wanted():
    """Two of four pods make half a point, and one of one makes one: 3 pods for 1.5 points."""
    shot, _, api = serving(2, 0, cloud=2)
    qos_targets = cap_slower_edge(lambda _: QosTarget(), shot)
    worths = Worths(Gains.of(shot, qos_targets, Objective()), assume_prior)
    assert worths.of_workload(api, 1) == pytest.approx(2 * NANO * assume_prior(api), rel=1e-3)


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


ONE, OTHER = (Workload("shop", "Deployment", name) for name in "ab")
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
        mirror.apply(MeasuredApplied(Measured(at, answers={ONE: found, OTHER: found})))
    qos_targets = load(text, "test").policy.qos_targets_in(mirror.snapshot())
    assert qos_targets(OTHER) == QosTarget(0.5)
    assert qos_targets(ONE).weight == 3
    return qos_targets(ONE).qos


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
        mirror.apply(MeasuredApplied(Measured(at, answers={ONE: {Tier.EDGE: Answers(1, seconds)}})))
    measured = mirror.snapshot().measured
    assert measured.answers[ONE][Tier.EDGE].seconds == 0.105
    assert measured.steady[ONE][Tier.EDGE].seconds == 0.1
    mirror.apply(MeasuredApplied(NOTHING_MEASURED))
    assert mirror.snapshot().measured.steady == {}


def test_a_rate_that_the_operator_says_goes_before_a_measured_one():
    measured = Measured(1, answers={w: answers(1, 2, rate=4.0) for w in (ONE, OTHER)})
    shot = attrs.evolve(snapshot([], []), measured=measured.after(NOTHING_MEASURED, {}))
    rates = complete_rates({ONE: 3.0}.get, shot, 0.0)
    assert (rates(ONE), rates(OTHER), rates(Workload("x", "Pod", "y"))) == (3.0, 8.0, None)


def test_requests_are_weighed_as_measured_before_a_tenant_is_heard():
    pods = [asking(name, None, service=name, rate=30.0) for name in "ab"]
    there = snapshot([node("edge", Tier.EDGE, 4, 64)], pods)
    measured = Measured(1, answers={pods[0].workload: answers(1, 2, rate=45.0)})
    there = attrs.evolve(there, measured=measured.after(NOTHING_MEASURED, {}))
    qos_targets = load("objective: {weight: traffic}", "test").policy.qos_targets_in(there)
    assert [qos_targets(pod.workload).weight for pod in pods] == [1.5, 0.5]
