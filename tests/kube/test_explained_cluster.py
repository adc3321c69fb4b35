"""Who asks once is told which right is missing, or that no API server answers."""

import pytest

from kubedsm.kube.calls.explained_cluster import ExplainedCluster, MissingRightError
from kubedsm.kube.client.port import NotFound, OutcomeUnknown, Request, Response
from support.answering_cluster import AnsweringCluster, refusal

SERVER = "https://10.0.0.1:6443"
PODS, DEPLOYMENTS = "/api/v1/pods", "/apis/apps/v1/namespaces/shop/deployments"


async def asked(answer, path, method="GET"):
    cluster = ExplainedCluster(AnsweringCluster(answer), SERVER)
    return await cluster.request(Request(method, path), timeout=1.0)


DENIED = 'User "u" cannot do that'
OURS = "; `kubedsm rbac` lists what each right is for, and with -o yaml prints roles that grant it"
OTHERS = "; a cluster administrator can grant it"


@pytest.mark.parametrize(
    ("method", "path", "right"),
    [
        ("GET", PODS, f"list pods in the whole cluster: you cannot{OURS}"),
        ("GET", "/api/v1/namespaces", f"list namespaces in the whole cluster: you cannot{OURS}"),
        ("GET", DEPLOYMENTS, f"list deployments.apps in namespace shop: you cannot{OTHERS}"),
        ("GET", f"{DEPLOYMENTS}/web", f"get deployments.apps in namespace shop: you cannot{OURS}"),
        (
            "GET",
            "/api/v1/namespaces/shop/configmaps/kubedsm",
            f"get configmaps in namespace shop: you cannot{OURS}",
        ),
        (
            "POST",
            "/api/v1/namespaces/shop/pods/cart/eviction",
            f"create pods/eviction in namespace shop: you cannot{OURS}",
        ),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kubedsm/leases/kubedsm",
            f"update leases.coordination.k8s.io in namespace kubedsm: you cannot{OURS}",
        ),
    ],
)
async def test_the_right_that_is_missing_is_named_with_who_gives_it(method, path, right):
    with pytest.raises(MissingRightError) as refused:
        await asked(refusal(403, DENIED), path, method)
    assert str(refused.value) == f"no right to {right.replace('you cannot', DENIED)}"


@pytest.mark.parametrize(
    "message",
    ["exceeded quota: pods", 'admission webhook "w" denied the request: "a" cannot be a tag'],
)
async def test_who_refuses_for_another_reason_is_left_to_say_so(message):
    answer = refusal(403, message)
    assert await asked(answer, "/api/v1/namespaces/shop/pods", "POST") is answer


async def test_a_kind_that_is_not_served_is_told_from_an_object_that_is_not_there():
    with pytest.raises(NotFound, match=f"{SERVER} serves no pods at {PODS}: is it a Kubernetes"):
        await asked(refusal(404, "no such path"), PODS)
    gone = refusal(404, 'deployments "web" not found')
    assert await asked(gone, f"{DEPLOYMENTS}/web") is gone


@pytest.mark.parametrize("code", [200, 302, 403, 404])
async def test_a_page_is_not_taken_for_an_api_server(code):
    page = Response(code, b"<html><title>Sign in</title></html>")
    with pytest.raises(OutcomeUnknown, match=r"not respond like an API .*Sign in") as told:
        await asked(page, "/version")
    assert SERVER in str(told.value)


@pytest.mark.parametrize("code", [401, 429, 500, 503])
async def test_what_is_too_busy_may_say_so_in_its_own_words(code):
    busy = Response(code, b"<html>try later</html>")
    assert await asked(busy, "/version") is busy
