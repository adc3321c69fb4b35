"""Requests and their answers, without a socket: paths, bodies, pages, watches, Tables, OpenAPI."""

import contextlib
import copy
import json
import random
import runpy
from importlib.metadata import version
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm_lab.emulator.access.access import Access
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.decoding import BODIES, FIELD_TYPES, model_of
from kubedsm_lab.emulator.api.resources import PODS, SERVED
from kubedsm_lab.emulator.http.protobuf import ProtobufError, decode
from kubedsm_lab.emulator.http.routes import ApiRequest, Routes
from kubedsm_lab.emulator.http.tables import human_duration, pod_status
from support.any_damage import JUNK, places, put
from support.api_cases import JSON, PODS_PATH, asked, budget, deployment, pod
from support.drawing import examples
from support.fixed_clock import FixedClock

TOKEN = "right"  # noqa: S105 - nobody's
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize(
    ("method", "body", "content_type", "status"),
    [
        ("POST", b'{"spec":' * 300 + b"null" + b"}" * 300, JSON, 400),
        ("POST", b"{spec: " * 300 + b"1" + b"}" * 300, "application/yaml", 400),
        ("POST", b"a: [", "application/yaml", 400),
        ("POST", b"{1: 2, [3]: 4}", "application/yaml", 400),
        ("POST", b"k8s\0\xff", "application/vnd.kubernetes.protobuf", 400),
        ("DELETE", b'{"gracePeriodSeconds":"soon"}', JSON, 400),
    ],
)
def test_bad_bodies(routes, api, method, body, content_type, status):
    api.create(PODS, pod())
    revision = api.store.revision
    path = PODS_PATH if method == "POST" else f"{PODS_PATH}/a"
    got, answer = asked(routes, method, path, body, content_type=content_type)
    assert (got, answer["kind"], answer["code"]) == (status, "Status", status)
    assert api.store.revision == revision


def test_a_path_of_another_scope_is_no_path(routes):
    for path in ("/api/v1/namespaces/default/nodes", "/api/v1/pods/a"):
        assert asked(routes, "GET", path) == (404, "404 page not found\n")


def test_pages_show_one_moment(routes, api):
    for name in "abcde":
        api.create(PODS, pod(name))
    query = {"limit": "2"}
    names = []
    versions = set()
    while True:
        status, got = asked(routes, "GET", PODS_PATH, query=query)
        assert status == 200, got
        names += [item["metadata"]["name"] for item in got["items"]]
        versions.add(got["metadata"]["resourceVersion"])
        if "continue" not in got["metadata"]:
            break
        assert got["metadata"]["remainingItemCount"] == 5 - len(names)
        query = {"limit": "2", "continue": got["metadata"]["continue"]}
        # what happens between two pages belongs to a later moment
        api.create(PODS, pod(f"bb{len(names)}"))
        if api.exists(PODS, "default", "e"):
            api.delete(PODS, "default", "e")
    assert names == list("abcde")
    assert len(versions) == 1


def test_how_many_are_left_is_not_counted_for_a_selector(routes, api):
    for name in "abc":
        api.create(PODS, pod(name))
    for selector, counts in (("", True), ("!absent", False)):
        query = {"limit": "1", "labelSelector": selector}
        metadata = asked(routes, "GET", PODS_PATH, query=query)[1]["metadata"]
        assert metadata["continue"]
        assert metadata.get("remainingItemCount") == (2 if counts else None)


def test_a_page_of_a_forgotten_moment_is_gone(routes, api):
    for name in "ab":
        api.create(PODS, pod(name))
    token = asked(routes, "GET", PODS_PATH, query={"limit": "1"})[1]["metadata"]["continue"]
    api.create(PODS, pod("c"))
    api.store.compact()
    status, got = asked(routes, "GET", PODS_PATH, query={"limit": "1", "continue": token})
    assert (status, got["reason"]) == (410, "Expired")


async def test_tables_of_lists_objects_and_changes(routes, api):
    stream = routes.handle(ApiRequest("GET", PODS_PATH, {"watch": "1"}, accept=TABLE))
    api.create(PODS, pod())
    event = orjson.loads(await anext(stream))
    for table in (
        asked(routes, "GET", PODS_PATH, accept=TABLE)[1],
        asked(routes, "GET", f"{PODS_PATH}/a", accept=TABLE)[1],
        event["object"],
    ):
        assert table["kind"] == "Table"
        assert [row["cells"][0] for row in table["rows"]] == ["a"]
    query = {"includeObject": "Object"}
    table = asked(routes, "GET", PODS_PATH, accept=TABLE, query=query)[1]
    assert table["rows"][0]["object"]["kind"] == "Pod"
    odd = {"includeObject": "Half"}
    assert asked(routes, "GET", PODS_PATH, accept=TABLE, query=odd)[0] == 400


# who may do what


@pytest.mark.parametrize("enforced", [False, True])
def test_who_asks_what_he_may_is_told_if_nothing_is_enforced(api, *, enforced):
    routes = Routes(api, Access.enforced(api, TOKEN) if enforced else Access.open(api))
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked_for = {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}
    body = orjson.dumps({"spec": asked_for})
    answer = routes.handle(ApiRequest("POST", path, {}, JSON, JSON, body, token=TOKEN))
    assert orjson.loads(answer.body)["status"]["allowed"] is True
    assert ("everybody may do everything" in answer.warning) is not enforced


def test_unknown_and_doubled_fields_are_named_and_dropped(routes):
    """kubectl asks for Strict; another client is warned."""
    given = pod("typo")
    given["spec"]["containers"][0]["imagePullPolice"] = "Never"
    given["spec"]["nodeSelectr"] = {}
    body = orjson.dumps(given).replace(b'{"name":"typo"', b'{"name":"x","name":"typo"')
    strict = {"fieldValidation": "Strict"}
    status, answer = asked(routes, "POST", PODS_PATH, body, query=strict)
    assert status == 400
    assert answer["message"].endswith(
        'strict decoding error: unknown field "spec.containers[0].imagePullPolice",'
        ' unknown field "spec.nodeSelectr", duplicate field "metadata.name"'
    )
    answer = routes.handle(ApiRequest("POST", PODS_PATH, {}, JSON, JSON, body))
    assert answer.warning == (
        'unknown field "spec.containers[0].imagePullPolice", unknown field "spec.nodeSelectr"'
    )
    assert "nodeSelectr" not in orjson.loads(answer.body)["spec"]


async def test_informers_of_metadata_get_nothing_else(routes):
    asked(routes, "POST", PODS_PATH, pod())
    accept = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
    _, one = asked(routes, "GET", f"{PODS_PATH}/a", accept=accept.format(""))
    _, several = asked(routes, "GET", PODS_PATH, accept=accept.format("List"))
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert several["kind"] == "PartialObjectMetadataList"
    assert several["items"] == [one]
    assert one.keys() == {"kind", "apiVersion", "metadata"}
    query = {"watch": "1", "allowWatchBookmarks": "true", "sendInitialEvents": "true",
             "resourceVersionMatch": "NotOlderThan"}  # fmt: skip
    stream = routes.handle(ApiRequest("GET", PODS_PATH, query, accept=accept.format("")))
    added, bookmark = [orjson.loads(await anext(stream))["object"] for _ in range(2)]
    assert (added, bookmark["kind"]) == (one, "PartialObjectMetadata")


ROOT = Path(__file__).parents[2]
#: whose models the fields were taken from
TAKEN_FROM = "36.1.0"


@pytest.fixture
def documents(routes):
    index = asked(routes, "GET", "/openapi/v3")[1]["paths"]
    return {
        prefix: asked(routes, "GET", entry["serverRelativeURL"])[1]
        for prefix, entry in index.items()
    }


def test_every_served_kind_is_found(documents):
    kinds = {
        (kind["group"], kind["version"], kind["kind"])
        for document in documents.values()
        for operations in document["paths"].values()
        for operation in operations.values()
        for kind in [operation["x-kubernetes-group-version-kind"]]
    }
    assert kinds == {(r.group, r.version, r.kind) for r in SERVED}


@pytest.mark.skipif(version("kubernetes_asyncio") != TAKEN_FROM, reason="of another Kubernetes")
def test_the_fields_are_those_of_the_library():
    fields_of = runpy.run_path(str(ROOT / "docs" / "generate.py"))["list_fields"]
    known = orjson.loads(FIELD_TYPES.read_bytes())
    assert known == fields_of([model_of(r) for r in (*SERVED, *BODIES)]), (
        "run `python docs/generate.py`"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (270, "4m30s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 120, "5h2m"),
        (48 * 3600, "2d"),
        (800 * 86400, "2y70d"),
        (3000 * 86400, "8y"),
    ],
)
def test_durations_are_as_short_as_kubectl_has_them(seconds, text):
    assert human_duration(seconds) == text


def pod_in(phase="Running", *, deleting=False, state=None, **status):
    containers = [{"name": "c", "state": state}] if state else []
    return {
        "metadata": {"deletionTimestamp": "soon"} if deleting else {},
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }


@pytest.mark.parametrize(
    ("word", "obj"),
    [
        ("Pending", pod_in("Pending")),
        ("Running", pod_in(state={"running": {}})),
        ("Terminating", pod_in(state={"running": {}}, deleting=True)),
        ("Succeeded", pod_in("Succeeded", deleting=True)),
        ("Unknown", pod_in(deleting=True, reason="NodeLost")),
        ("OutOfcpu", pod_in("Failed", reason="OutOfcpu")),
        (
            "SchedulingGated",
            pod_in("Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]),
        ),
        ("ContainerCreating", pod_in(state={"waiting": {"reason": "ContainerCreating"}})),
        ("Error", pod_in(state={"terminated": {"reason": "Error"}})),
        ("ExitCode:3", pod_in(state={"terminated": {"exitCode": 3}})),
    ],
)
def test_a_pod_status_is_worked_out(word, obj):
    assert pod_status(obj) == word


_NAMESPACED = "namespaces/default"
CASES = {
    f"/api/v1/{_NAMESPACED}/pods": pod(
        "x",
        tolerations=[{"key": "a", "operator": "Exists"}],
        volumes=[{"name": "v", "emptyDir": {}}],
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        nodeSelector={"tier": "edge"},
    ),
    f"/apis/apps/v1/{_NAMESPACED}/deployments": {
        **deployment(replicas=2, strategy={"rollingUpdate": {"maxSurge": 1}}),
        "metadata": {"name": "x"},
    },
    f"/apis/apps/v1/{_NAMESPACED}/statefulsets": {
        **deployment(updateStrategy={"rollingUpdate": {"partition": 0}}, serviceName="x"),
        "metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    },
    f"/apis/policy/v1/{_NAMESPACED}/poddisruptionbudgets": budget("x", currentHealthy=1),
    f"/api/v1/{_NAMESPACED}/services": {
        "metadata": {"name": "x"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_001}]},
    },
    f"/apis/autoscaling/v2/{_NAMESPACED}/horizontalpodautoscalers": {
        "metadata": {"name": "x"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}},
        },
    },
    f"/api/v1/{_NAMESPACED}/events": {
        "metadata": {"name": "x"},
        "involvedObject": {"namespace": "default", "name": "a"},
        "source": {"component": "c"},
    },
    f"/api/v1/{_NAMESPACED}/resourcequotas": {
        "metadata": {"name": "x"},
        "spec": {"hard": {"pods": "9", "requests.cpu": "9"}},
    },
    f"/apis/coordination.k8s.io/v1/{_NAMESPACED}/leases": {
        "metadata": {"name": "x"},
        "spec": {"leaseDurationSeconds": 15},
    },
    "/api/v1/nodes": {
        "metadata": {"name": "x"},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "nodeInfo": {"osImage": "o"}},
    },
    "/api/v1/namespaces": {"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}},
}


def damaged(document, damages):
    document_copy = copy.deepcopy(document)
    for number, junk in damages:
        found = list(places(document_copy))
        put(document_copy, found[number % len(found)], junk)
    return json.dumps(document_copy).encode()


DAMAGES = st.lists(st.tuples(st.integers(0, 1000), st.sampled_from(JUNK)), min_size=1, max_size=2)
REFUSALS = (400, 403, 409, 422)


def still_readable(routes, path):
    return {asked(routes, "GET", path, accept=accept)[0] for accept in ("", TABLE)} == {200}


@pytest.mark.parametrize("path", CASES)
@examples(30)
@given(DAMAGES)
def test_any_field_of_a_new_object_may_hold_anything(path, damages):
    routes = Routes(ApiServer(FixedClock(), random.Random(0)))
    body = damaged(CASES[path], damages)
    assert asked(routes, "POST", path, body)[0] in (201, *REFUSALS)
    assert still_readable(routes, path)


#: kubectl create namespace shop
NAMESPACE = (
    b"k8s\x00\n\x0f\n\x02v1\x12\tNamespace\x12\x1c\n\x14\n\x04shop\x12\x00\x1a\x00"
    b'"\x00*\x002\x008\x00B\x00\x12\x00\x1a\x02\n\x00\x1a\x00"\x00'
)
#: kubectl create deployment d --image=x --replicas=2 --port=80
DEPLOYMENT = (
    b"k8s\x00\n\x15\n\x07apps/v1\x12\nDeployment\x12\xa7\x01\n\x1b\n\x01d\x12\x00\x1a\x00"
    b'"\x00*\x002\x008\x00B\x00Z\x08\n\x03app\x12\x01d\x12z\x08\x02\x12\n\n\x08\n\x03app\x12\x01d'
    b'\x1ab\n\x1a\n\x00\x12\x00\x1a\x00"\x00*\x002\x008\x00B\x00Z\x08\n\x03app\x12\x01d\x12D\x12&'
    b'\n\x01x\x12\x01x*\x002\n\n\x00\x10\x00\x18P"\x00*\x00B\x00j\x00r\x00\x80\x01\x00\x88\x01\x00'
    b"\x90\x01\x00\xa2\x01\x00\x1a\x002\x00B\x00J\x00R\x00X\x00`\x00h\x00\x82\x01\x00\x8a\x01\x00"
    b'\x9a\x01\x00\xc2\x01\x00"\x02\n\x00(\x008\x00\x1a\x0c\x08\x00\x10\x00\x18\x00 \x00(\x008\x00'
    b'\x1a\x00"\x00'
)


def test_a_deployment():
    read = decode(DEPLOYMENT)
    assert (read["kind"], read["apiVersion"]) == ("Deployment", "apps/v1")
    assert read["spec"] == {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "d"}},
        "template": {
            "metadata": {"labels": {"app": "d"}},
            "spec": {
                "containers": [
                    {
                        "name": "x",
                        "image": "x",
                        "ports": [{"hostPort": 0, "containerPort": 80}],
                        "resources": {},
                    }
                ]
            },
        },
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"k8s\x00",
        NAMESPACE.replace(b"Namespace", b"Nonsense!"),
        NAMESPACE[:-1],
        b"k8s\x00\x0b",
        b"k8s\x00\x08\x01",
        b"k8s\x00" + b"\xff" * 20,
    ],
)
def test_what_cannot_be_read(body):
    with pytest.raises(ProtobufError):
        decode(body)


@given(st.integers(4, len(DEPLOYMENT) - 1), st.binary(min_size=1, max_size=3))
def test_damage_is_noticed_or_harmless(at, damage):
    with contextlib.suppress(ProtobufError):
        decode(DEPLOYMENT[:at] + damage + DEPLOYMENT[at + len(damage) :])
