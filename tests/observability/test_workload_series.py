"""However many workloads there are, so many of them have series, of every namespace some."""

import pytest

from kubedsm.kube.client.port import OutcomeUnknown, Request, Unreachable
from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import QosTarget
from kubedsm.observability.gauges import MOST, choose_workloads, qos_gap, workload_families
from kubedsm.observability.instruments import Families, format_metrics
from kubedsm.observability.measured_cluster import Answered, MeasuredCluster
from kubedsm.process.clock import VirtualClock
from support.answering_cluster import AnsweringCluster
from support.metered import samples, total


def workloads(namespace, count):
    return {Workload(namespace, "Deployment", f"w{n:05}"): Share(0, 2) for n in range(count)}


def text_of(shares):
    return format_metrics(
        Families(tuple(workload_families(shares, lambda _: QosTarget())))
    ).decode()


def test_many_workloads_of_one_namespace_leave_room_for_others_and_count_in_sums():
    shares = workloads("greedy", 10 * MOST) | workloads("shop", 3) | workloads("zoo", 1)
    taken = choose_workloads(shares)
    assert len(taken) == MOST
    assert set(workloads("shop", 3)) | set(workloads("zoo", 1)) <= set(taken)
    assert choose_workloads(dict(reversed(shares.items()))) == taken
    shares = workloads("greedy", 2 * MOST)
    text = text_of(shares)
    assert len([s for s in samples(text) if s.name == "kubedsm_workload_qos_gap"]) == MOST
    assert total(text, "kubedsm_workloads") == 2 * MOST
    assert total(text, "kubedsm_workloads_below_promise") == 2 * MOST
    assert total(text, "kubedsm_workloads_without_series") == MOST


def test_odd_names_surpluses_and_no_workloads_make_no_odd_series():
    odd = {Workload("a", "Pod", 'x"} 1\nevil{a="\\'): Share(1, 1)}
    [series] = [s for s in samples(text_of(odd)) if s.name == "kubedsm_workload_pods"]
    assert series.labels["workload"] == 'x"} 1\nevil{a="\\'
    assert "\nevil" not in text_of(odd)
    assert qos_gap(Share(4, 4), 0.5) == 0
    assert qos_gap(Share(1, 4), 0.5) == 0.25
    assert total(text_of({}), "kubedsm_edge_share") == 0


NAMED = [
    (Request("GET", "/api/v1/pods", {"limit": "500"}), "list", "pods"),
    (Request("GET", "/api/v1/pods", {"watch": "1"}), "watch", "pods"),
    (Request("GET", "/api/v1/namespaces/shop/pods"), "list", "pods"),
    (Request("GET", "/api/v1/namespaces/shop/pods/cart-1"), "get", "pods"),
    (Request("POST", "/api/v1/namespaces/shop/pods/cart-1/binding"), "create", "pods/binding"),
    (Request("POST", "/api/v1/namespaces/shop/pods/c/eviction"), "create", "pods/eviction"),
    (Request("PATCH", "/api/v1/namespaces/shop/pods/cart-1/status"), "patch", "pods/status"),
    (Request("POST", "/apis/events.k8s.io/v1/namespaces/shop/events"), "create", "events"),
    (Request("GET", "/apis/apps/v1/namespaces/shop/deployments/cart"), "get", "deployments"),
    (Request("GET", "/api/v1/namespaces"), "list", "namespaces"),
    (Request("GET", "/apis/storage.k8s.io/v1/csinodes"), "list", "csinodes"),
    (Request("PUT", "/apis/coordination.k8s.io/v1/namespaces/k/leases/k"), "update", "leases"),
    (Request("GET", "/version"), "get", "/version"),
]


def test_a_request_is_named_as_rbac_does():
    for request, verb, resource in NAMED:
        answered = Answered(request, "200", 0.0)
        assert (answered.verb, answered.resource) == (verb, resource)


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        ({}, 200, "200"),
        ({}, 409, "409"),
        (Unreachable("no"), 0, "<error>"),
        (OutcomeUnknown("late"), 0, "<error>"),
    ],
)
@pytest.mark.looptime
async def test_a_request_is_told_with_its_code(answer, status, code):
    told = []
    cluster = MeasuredCluster(AnsweringCluster(answer, status), VirtualClock(), told.append)
    if isinstance(answer, Exception):
        with pytest.raises(type(answer)):
            await cluster.request(Request("GET", "/version"), timeout=1)
    else:
        assert (await cluster.request(Request("GET", "/version"), timeout=1)).status == status
    assert [each.code for each in told] == [code]
