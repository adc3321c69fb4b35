"""Every request is told once, with what RBAC calls it, and what came of it."""

import pytest

from kubedsm.kube.client.port import OutcomeUnknown, Request, Unreachable
from kubedsm.observability.measured_cluster import Answered, MeasuredCluster
from kubedsm.process.clock import VirtualClock
from support.answering_cluster import AnsweringCluster

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

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


async def test_a_request_is_named_as_rbac_does():
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
async def test_a_request_is_told_with_its_code(answer, status, code):
    told = []
    cluster = MeasuredCluster(AnsweringCluster(answer, status), VirtualClock(), told.append)
    if isinstance(answer, Exception):
        with pytest.raises(type(answer)):
            await cluster.request(Request("GET", "/version"), timeout=1)
    else:
        assert (await cluster.request(Request("GET", "/version"), timeout=1)).status == status
    assert [each.code for each in told] == [code]
