"""The requests we send, held against those a real API server answered."""

import json
from http import HTTPStatus

import pytest

from kubedsm.kube.calls import reads, writes
from kubedsm.kube.calls.reads import PodEvent, events_about
from kubedsm.kube.client.api_errors import api_error
from kubedsm.kube.client.port import (
    TIMEOUT,
    ApiStatusError,
    Conflict,
    DisruptionBudgetExceeded,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ObjectName,
    OutcomeUnknown,
    Response,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.selecting import Budget
from kubedsm.model.selectors import Requirement
from kubedsm.model.surroundings import Claim, Volume
from support.answering_cluster import POD, AnsweringCluster
from support.recorded import API_SERVER, recorded

#: Python 3.13 renames it
ENTITY = HTTPStatus(422).phrase.replace(" ", "")
EXCHANGES = recorded(API_SERVER)


def exchange_of(scene, method, path_end, status=None):
    return next(
        exchange
        for exchange in EXCHANGES
        if exchange["scene"] == scene
        and exchange["method"] == method
        and exchange["path"].endswith(path_end)
        and status in (None, exchange["status"])
    )


def shape(value):
    """The keys of an object and of what is in it."""
    return {key: shape(inner) for key, inner in value.items()} if isinstance(value, dict) else None


async def test_binds_as_recorded():
    exchange = exchange_of("binding-annotations-and-deletion-cost", "POST", "/binding")
    metadata = exchange["body"]["metadata"]
    pod = decoding.pod({"metadata": metadata, "spec": {}})
    cluster = AnsweringCluster(exchange["response"], exchange["status"])
    await writes.bind(
        cluster,
        pod,
        exchange["body"]["target"]["name"],
        annotations=metadata["annotations"],
        labels=metadata["labels"],
    )
    (request,) = cluster.asked
    assert (request.method, request.path) == ("POST", exchange["path"])
    assert request.body == exchange["body"]
    assert cluster.timeouts == [TIMEOUT]


async def test_a_binding_names_the_pods_uid_and_nothing_it_does_not_need():
    cluster = AnsweringCluster({}, 201)
    await writes.bind(cluster, POD, "n2", annotations={}, labels={})
    assert cluster.asked[0].body["metadata"] == {
        "name": "cart-1",
        "namespace": "shop",
        "uid": "u1",
    }


@pytest.mark.parametrize(
    ("reserved", "annotations"),
    [
        (None, {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}),
        # reserved by a user, for this claim
        (("shop", "data", ""), {}),
    ],
)
async def test_a_reserved_volume_tells_the_controller_whether_a_user_reserved_it(
    reserved, annotations
):
    """As kube-scheduler does: otherwise the volume stays reserved, if its claim gets another."""
    cluster = AnsweringCluster({"metadata": {"name": "disk"}})
    volume = Volume("disk", claim=reserved, resource_version="7")
    claim = Claim("shop", "data", uid="c1")
    await writes.reserve_volume(cluster, volume, claim)
    (request,) = cluster.asked
    assert request.body["metadata"] == {"resourceVersion": "7", **annotations}
    assert request.body["spec"]["claimRef"]["uid"] == "c1"


async def test_sets_the_condition_as_recorded():
    exchange = exchange_of("pod-status", "PATCH", "/status")
    cluster = AnsweringCluster(exchange["response"])
    message = exchange["body"]["status"]["conditions"][0]["message"]
    await writes.set_pod_condition(cluster, POD, "Unschedulable", message, since=1_767_225_600.9)
    (request,) = cluster.asked
    assert request.method == "PATCH"
    assert request.path == "/api/v1/namespaces/shop/pods/cart-1/status"
    assert request.content_type == exchange["contentType"]
    (condition,) = request.body["status"]["conditions"]
    assert condition.pop("lastTransitionTime") == "2026-01-01T00:00:00Z"
    assert condition == exchange["body"]["status"]["conditions"][0]
    assert request.body["metadata"] == {"uid": "u1"}


async def test_creates_an_event_as_recorded():
    exchange = exchange_of("events", "POST", "/events")
    assert exchange["path"].startswith("/apis/events.k8s.io/v1")
    cluster = AnsweringCluster(exchange["response"], 201)
    await writes.create_event(
        cluster,
        writes.Regarding.of(POD),
        reason="Scheduled",
        action="Binding",
        note="assigned to n2",
        instance="kubedsm-1",
        at=1_767_225_600.25,
    )
    (request,) = cluster.asked
    assert request.path == "/apis/events.k8s.io/v1/namespaces/shop/events"
    assert (
        shape(exchange["body"]).items()
        <= {
            **shape(request.body),
            "metadata": {"generateName": None},
            "regarding": shape(exchange["body"]["regarding"]),
        }.items()
    )
    assert request.body["metadata"] == {"generateName": "cart-1-", "namespace": "shop"}
    assert request.body["regarding"]["uid"] == "u1"
    assert request.body["eventTime"] == "2026-01-01T00:00:00.250000Z"
    assert request.body["type"] == "Normal"


@pytest.mark.parametrize("letter", ["x", "é", "🦊"])
async def test_long_notes_are_cut_to_what_the_api_takes(letter):
    cluster = AnsweringCluster({"metadata": {"name": "cart-1-x"}}, 201)
    await writes.create_event(
        cluster, writes.Regarding.of(POD), reason="FailedScheduling", action="Scheduling",
        note="x" + letter * 1024, instance="i", at=0.0, warning=True,
    )  # fmt: skip
    event = cluster.asked[0].body
    assert 1018 <= len(event["note"].encode()) <= 1024
    assert event["note"].endswith(f"{letter}…")
    assert event["type"] == "Warning"


async def test_a_name_never_leaves_its_place_in_the_path():
    cluster = AnsweringCluster(exchange_of("pod-lifecycle", "GET", "/a")["response"])
    for name in ("../../nodes?x=1", "..", "", "a/b", "a%2Fb", "A", "-a", "a..b", "a" * 254, "a\n"):
        for namespace, pod in (("shop", name), (name, "a")):
            with pytest.raises(Invalid, match="is not the name of an object"):
                await reads.get_pod(cluster, namespace, pod)
    assert not cluster.asked
    await reads.get_pod(cluster, "shop", "web.v2-0")
    assert cluster.asked[0].path == "/api/v1/namespaces/shop/pods/web.v2-0"


async def test_a_missing_config_map_is_not_found_and_another_is_read():
    missing = AnsweringCluster({"reason": "NotFound", "message": "no", "code": 404}, 404)
    assert await reads.get_config_map(missing, ObjectName("kube-system", "kubedsm")) is None
    there = AnsweringCluster(exchange_of("configmap", "POST", "/configmaps")["response"])
    read = await reads.get_config_map(there, ObjectName("kube-system", "kubedsm"))
    assert read.data
    assert there.asked[0].path == "/api/v1/namespaces/kube-system/configmaps/kubedsm"


async def test_the_version_shows_whether_an_api_server_answers():
    cluster = AnsweringCluster(exchange_of("discovery", "GET", "/version")["response"])
    assert await reads.version(cluster) == "v1.36.2"
    with pytest.raises(OutcomeUnknown, match="200 with no JSON object: is it an API server"):
        await reads.version(AnsweringCluster(b"<html>Welcome</html>"))
    with pytest.raises(WireError):
        await reads.version(AnsweringCluster(b"{}"))


@pytest.mark.parametrize(
    ("status", "body", "kind", "told"),
    [
        (404, b"404 page not found\n", NotFound, "404 NotFound: 404 page not found"),
        (410, b'{"reason":"Expired","message":"m","code":410}', Expired, "410 Expired: m"),
        (422, b'{"message":"a\\nb"}', Invalid, f"422 {ENTITY}: a b"),
        (429, b"Too many requests, please try again later.\n", TooManyRequests,
         "429 TooManyRequests: Too many requests, please try again later."),
        (500, b"", ServerError, "500 InternalServerError: no message"),
        (502, b"<html><head><title>502 Bad Gateway</title><style>a{}</style></head></html>",
         ServerError, "502 BadGateway: 502 Bad Gateway"),
        (503, b"\xff\xfe", ServerError, "503 ServiceUnavailable: \ufffd\ufffd"),
        (503, b'["a"]', ServerError, '503 ServiceUnavailable: ["a"]'),
        (301, b"", ApiStatusError, "301 MovedPermanently: no message"),
        (599, b"x" * 9999, ServerError, f"599 Unknown: {'x' * 199}…"),
        # HTTP's status counts, whatever the body claims
        (403, b'{"reason":"Forbidden","message":"m","code":200}', Forbidden, "403 Forbidden: m"),
    ],
)  # fmt: skip
def test_errors_say_what_they_mean(status, body, kind, told):
    error = api_error(Response(status, body))
    assert type(error) is kind
    assert str(error) == told
    assert error.status == status


def test_a_budget_is_told_from_overload():
    exchange = exchange_of("eviction-and-pdb", "POST", "/eviction", 429)
    error = api_error(Response(429, json.dumps(exchange["response"]).encode()))
    assert type(error) is DisruptionBudgetExceeded
    assert error.causes[0][0] == "DisruptionBudget"
    assert "needs 1 healthy pods" in error.causes[0][1]


def test_every_refusal_of_a_real_api_server_has_its_class():
    kinds = {400: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict,
             422: Invalid, 500: ServerError}  # fmt: skip
    refusals = [e for e in EXCHANGES if e["status"] >= 400 and e.get("response")]
    assert len(refusals) > 15
    for exchange in refusals:
        answer = exchange["response"]
        text = answer if isinstance(answer, str) else json.dumps(answer)
        error = api_error(Response(exchange["status"], text.encode()))
        if exchange["status"] != 429:
            assert type(error) is kinds[exchange["status"]]
        if isinstance(answer, dict):
            assert error.reason == answer["reason"]
            assert len(error.causes) == len(answer.get("details", {}).get("causes", []))


def pod(annotations=None, **spec):
    metadata = {"name": "a", "namespace": "shop", "uid": "u", "annotations": annotations}
    return decoding.pod({"metadata": metadata, "spec": {"containers": [], **spec}})


async def test_whether_a_pod_preempts():
    assert pod().pod_class.preempts
    assert pod(preemptionPolicy="PreemptLowerPriority").pod_class.preempts
    assert not pod(preemptionPolicy="Never").pod_class.preempts
    assert pod().pod_class == pod(preemptionPolicy="PreemptLowerPriority").pod_class


@pytest.mark.parametrize(
    ("annotations", "pinned", "untouchable"),
    [
        (None, "", False),
        ({"kubedsm.io/do-not-disrupt": "false"}, "", False),
        ({"kubedsm.io/do-not-disrupt": "true"}, "it is annotated kubedsm.io/do-not-disrupt", True),
        ({"kubernetes.io/config.mirror": "x"}, "it is a static pod of its node", True),
    ],
)
async def test_whom_nobody_may_take(annotations, pinned, untouchable):
    given = pod(annotations)
    assert (given.pinned, given.untouchable) == (pinned, untouchable)


async def test_a_pod_with_files_on_its_node_is_not_moved_but_may_be_preempted():
    given = pod({"other": "x"}, volumes=[{"name": "v", "emptyDir": {}}])
    assert given.pinned
    assert not given.untouchable


def budget(name, selector, allowed=None):
    status = {} if allowed is None else {"status": {"disruptionsAllowed": allowed}}
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {} if selector is None else {"selector": selector},
        **status,
    }


async def test_budgets_are_read_with_whom_they_cover():
    expression = {"key": "tier", "operator": "NotIn", "values": ["x"]}
    items = [
        budget("a", {"matchLabels": {"app": "a"}, "matchExpressions": [expression]}, 2),
        budget("new", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        budget("empty", {}, 1),
        budget("none", None, 1),
    ]
    cluster = AnsweringCluster({"items": items})
    both = (Requirement("app", "In", ("a",)), Requirement("tier", "NotIn", ("x",)))
    assert await reads.list_budgets(cluster) == (
        Budget("shop", "a", both, allowed=2),
        Budget("shop", "new", (Requirement("app", "Exists"),)),
        Budget("shop", "empty", (), allowed=1),
        Budget("shop", "none", None, allowed=1),
    )
    assert cluster.asked[0].path == "/apis/policy/v1/poddisruptionbudgets"
    with pytest.raises(WireError):
        await reads.list_budgets(AnsweringCluster({"items": [{"metadata": 1}]}))


async def test_events_are_ours_and_in_their_order():
    items = [
        {"reason": "Migrated", "message": "Moved to e1", "eventTime": "2026-01-02T00:00:00Z",
         "reportingComponent": "kubedsm"},
        {"reason": "Pulled", "message": "no", "lastTimestamp": "2026-01-01T00:00:01Z"},
        {"reason": "Scheduled", "message": "to c1", "eventTime": "2026-01-01T00:00:00Z",
         "reportingComponent": "kubedsm"},
    ]  # fmt: skip
    cluster = AnsweringCluster({"items": items})
    assert await events_about(cluster, POD) == [
        PodEvent("2026-01-01T00:00:00Z", "Scheduled", "to c1"),
        PodEvent("2026-01-02T00:00:00Z", "Migrated", "Moved to e1"),
    ]
    assert cluster.asked[0].query == {"fieldSelector": "involvedObject.uid=u1"}
    with pytest.raises(WireError):
        await events_about(AnsweringCluster({"items": [1]}), POD)
