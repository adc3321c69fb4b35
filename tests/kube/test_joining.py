"""Coming to an API server that is sick, away, or not for us, and what a command is told of it."""

import random

import attrs
import pytest

from kubedsm.kube.calls.explained_cluster import ExplainedCluster, MissingRightError
from kubedsm.kube.client.port import NotFound, OutcomeUnknown, Request, Response, Unreachable
from kubedsm.kube.joining import PATIENCE, NotJoinedError, join
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.answering_cluster import AnsweringCluster, refusal

VERSION = Response(200, b'{"gitVersion": "v1.36.2"}')
LIST = Response(200, b'{"items": []}')


SICK = {
    "429": refusal(429),
    "500": refusal(500),
    "503": refusal(503),
    "404": refusal(404),
    "gateway": Response(502, b"<html><body>Bad Gateway</body></html>"),
    "portal": Response(200, b"<html><body>Log in</body></html>"),
    "refused": Unreachable("http://10.0.0.1: connection refused"),
    "time-out": OutcomeUnknown("GET /version: no answer within 10 s"),
}
NO_NODES = refusal(403, 'nodes is forbidden: User "u" cannot list resource "nodes"')
NO_PODS = refusal(403, 'pods is forbidden: User "u" cannot list resource "pods"')


@attrs.define
class Joined:
    version: str
    error: str
    seconds: float
    said: list
    tries: int


async def joined(wrong, heals_at=float("inf"), *, in_pod, then=()):
    """Join a server that answers some paths wrongly until a moment, others until the next."""
    clock, said = VirtualClock(), []

    def answer(request):
        phases = ((heals_at, wrong), *then)
        phase = next((wrong for until, wrong in phases if clock.monotonic() < until), {})
        well = VERSION if request.path == "/version" else LIST
        return phase.get(request.path, phase.get("all", well))

    server = AnsweringCluster(answer)
    version = error = ""
    try:
        version = await join(server, clock, random.Random(1), said.append, in_pod=in_pod)
    except NotJoinedError as gave_up:
        error = str(gave_up)
    return Joined(version, error, clock.monotonic(), said, len(server.asked))


@pytest.mark.parametrize("in_pod", [True, False])
async def test_a_server_that_is_well_is_joined_at_once(in_pod):
    there = await joined({}, in_pod=in_pod)
    assert (there.version, there.seconds, there.said) == ("v1.36.2", 0.0, [])


@pytest.mark.parametrize("sick", SICK)
async def test_in_a_pod_a_sick_server_is_waited_for_as_long_as_it_takes(sick):
    there = await joined({"all": SICK[sick]}, heals_at=3600, in_pod=True)
    assert there.version == "v1.36.2"
    assert there.seconds < 3600 + 15
    assert there.tries < 3600 / 5
    [line] = there.said
    assert line.startswith("API server: ")
    assert line.endswith("; trying again")


@pytest.mark.parametrize("sick", SICK)
async def test_from_a_terminal_a_sick_server_is_given_up_after_half_a_minute(sick):
    there = await joined({"all": SICK[sick]}, in_pod=False)
    assert PATIENCE <= there.seconds < PATIENCE + 15
    assert "; gave up after 3" in there.error
    assert "\n" not in there.error
    assert len(there.said) == 1


async def test_a_change_of_cause_is_said():
    away = (100, {"all": SICK["refused"]})
    there = await joined({"all": SICK["503"]}, heals_at=50, then=[away], in_pod=True)
    assert [line.split(": ")[1] for line in there.said] == [
        "503 ServiceUnavailable",
        "http://10.0.0.1",
    ]


@pytest.mark.parametrize(
    ("path", "refused"), [("/api/v1/nodes", NO_NODES), ("/api/v1/pods", NO_PODS)]
)
async def test_a_missing_right_is_named_at_once_and_waited_for_a_moment_in_a_pod(path, refused):
    what = path.rpartition("/")[2]
    outside = await joined({path: refused}, in_pod=False)
    assert outside.error.startswith(
        f"no right to list {what} in the whole cluster: {what} is forbidden"
    )
    assert (outside.seconds, outside.said) == (0.0, [])
    inside = await joined({path: refused}, in_pod=True)
    assert inside.error.startswith(
        f"no right to list {what} in the whole cluster: {what} is forbidden"
    )
    assert PATIENCE <= inside.seconds < PATIENCE + 15
    assert len(inside.said) == 1
    granted = await joined({path: refused}, heals_at=20, in_pod=True)
    assert granted.version == "v1.36.2"


async def test_a_missing_right_has_its_time_however_long_the_server_was_sick_before():
    no_right = (float("inf"), {"/api/v1/pods": NO_PODS})
    there = await joined({"all": SICK["503"]}, heals_at=300, then=[no_right], in_pod=True)
    assert there.error.startswith("no right to list pods")
    assert there.seconds >= 300 + PATIENCE


async def test_credentials_are_read_anew_once_and_in_a_pod_ever_again():
    outside = await joined({"all": refusal(401)}, in_pod=False)
    assert outside.error == "401 Unauthorized: no"
    assert (outside.tries, outside.said) == (2, [])
    renewed = await joined({"all": refusal(401)}, heals_at=0.5, in_pod=False)
    assert renewed.version == "v1.36.2"
    inside = await joined({"all": refusal(401)}, heals_at=600, in_pod=True)
    assert inside.version == "v1.36.2"


async def test_a_server_that_keeps_its_version_to_itself_is_joined_all_the_same():
    there = await joined({"/version": refusal(403)}, in_pod=False)
    assert (there.version, there.said) == ("unknown", [])


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
