"""Server-side apply and managedFields, as requests and answers."""

import copy
import itertools
from typing import Any
from urllib.parse import parse_qsl

import orjson
import pytest

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import NAMESPACES, Object
from kubedsm_lab.emulator.http.routes import ApiRequest, ApiResponse, Routes, WatchStream
from support.fixed_clock import FixedClock
from support.recorded import MORE_OF_API_SERVER
from support.transcripts import Exchange, load

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
#: they differ from run to run
SERVER_SET = ("uid", "resourceVersion", "creationTimestamp")


def asked(
    routes: Routes, method: str, path: str, body: Any = None, content_type: str = "", **query: str
) -> tuple[int, Object]:
    sent = b"" if body is None else orjson.dumps(body)
    answer = routes.handle(
        ApiRequest(method, path, query, content_type, body=sent, user_agent="kubectl/v1.36 (linux)")
    )
    assert isinstance(answer, ApiResponse)
    return answer.status, orjson.loads(answer.body)


def applied(routes: Routes, path: str, body: Object, manager: str, **query: str) -> Object:
    status, got = asked(routes, "PATCH", path, body, APPLY, fieldManager=manager, **query)
    assert status in (200, 201), got
    return got


def refused(
    routes: Routes, path: str, body: Object, manager: str, status: int = 409, **query: str
) -> str:
    got_status, got = asked(routes, "PATCH", path, body, APPLY, fieldManager=manager, **query)
    assert got_status == status, got
    message: str = got["message"]
    return message


def managers(obj: Object) -> dict[str, Any]:
    return {
        f"{entry['manager']}{entry.get('subresource', '')}": entry["fieldsV1"]
        for entry in obj["metadata"]["managedFields"]
    }


def deployment(**container: Any) -> Object:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "web:1", **container}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def in_containers(*containers: Object) -> Object:
    made = deployment()
    made["spec"]["template"]["spec"]["containers"] = list(containers)
    return made


def comparable(answer: Object) -> str:
    """Without what no two servers have in common; in order, to the last byte."""
    kept = copy.deepcopy(answer)
    for key in SERVER_SET:
        kept["metadata"].pop(key, None)
    for entry in kept["metadata"].get("managedFields", ()):
        if "time" in entry:
            entry["time"] = "then"
    return orjson.dumps(kept).decode()


RECORDED = [e for e in load(MORE_OF_API_SERVER) if e.scene == "server-side-apply"]


def test_as_a_real_server_answered_to_the_last_byte(routes: Routes, api: ApiServer) -> None:
    namespace = RECORDED[0].path.split("/")[4]
    api.create(NAMESPACES, {"metadata": {"name": namespace}})
    versions: list[tuple[str, str]] = []
    for exchange in RECORDED:
        status, got = played(routes, exchange)
        assert (status, comparable(got)) == (exchange.status, comparable(exchange.response)), str(
            exchange
        )
        if "resourceVersion" in got["metadata"]:
            theirs = exchange.response["metadata"]["resourceVersion"]
            versions.append((theirs, got["metadata"]["resourceVersion"]))
    # A write that changes nothing is none.
    pairs = list(itertools.pairwise(versions))
    assert [a[0] == b[0] for a, b in pairs] == [a[1] == b[1] for a, b in pairs]


def played(routes: Routes, exchange: Exchange) -> tuple[int, Object]:
    path, _, query = exchange.path.partition("?")
    return asked(
        routes,
        exchange.method,
        path,
        exchange.body,
        exchange.content_type or "",
        **dict(parse_qsl(query)),
    )


def test_a_new_object_shows_who_set_what(routes: Routes) -> None:
    _, made = asked(routes, "POST", DEPLOYMENTS, deployment(), fieldManager="kubectl-create")
    (entry,) = made["metadata"]["managedFields"]
    assert {key: entry[key] for key in ("manager", "operation", "apiVersion", "fieldsType")} == {
        "manager": "kubectl-create",
        "operation": "Update",
        "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1",
    }
    # As `kubectl create deployment` shows it on a real server.
    assert entry["fieldsV1"] == {
        "f:spec": {
            "f:progressDeadlineSeconds": {},
            "f:replicas": {},
            "f:revisionHistoryLimit": {},
            "f:selector": {},
            "f:strategy": {
                "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}},
                "f:type": {},
            },
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"web"}': {
                            ".": {},
                            "f:image": {},
                            "f:imagePullPolicy": {},
                            "f:name": {},
                            "f:resources": {},
                            "f:terminationMessagePath": {},
                            "f:terminationMessagePolicy": {},
                        }
                    },
                    "f:dnsPolicy": {},
                    "f:restartPolicy": {},
                    "f:schedulerName": {},
                    "f:securityContext": {},
                    "f:terminationGracePeriodSeconds": {},
                },
            },
        }
    }


def test_the_manager_is_what_the_request_says_or_else_the_program(routes: Routes) -> None:
    _, made = asked(routes, "POST", CONFIGMAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    assert managers(made) == {"kubectl": {"f:data": {".": {}, "f:a": {}}}}
    path = f"{CONFIGMAPS}/c"
    _, got = asked(routes, "PATCH", path, {"data": {"b": "2"}}, MERGE, fieldManager="edit")
    assert managers(got)["edit"] == {"f:data": {"f:b": {}}}
    assert asked(routes, "PATCH", path, {}, MERGE, fieldManager="x" * 129)[0] == 422
    assert asked(routes, "PATCH", path, {}, MERGE, fieldManager="a\nb")[0] == 422
    assert asked(routes, "PATCH", path, {}, MERGE, force="true")[0] == 422


def test_subresources_have_entries_of_their_own(routes: Routes) -> None:
    asked(routes, "POST", DEPLOYMENTS, deployment(), fieldManager="me")
    path = f"{DEPLOYMENTS}/web"
    scale = {"spec": {"replicas": 3}}
    asked(routes, "PATCH", f"{path}/scale", scale, MERGE, fieldManager="hpa")
    status = {"spec": {"replicas": 9}, "status": {"replicas": 3, "conditions": [
        {"type": "Available", "status": "True"},
    ]}}  # fmt: skip
    _, got = asked(routes, "PATCH", f"{path}/status", status, MERGE, fieldManager="me")
    by = managers(got)
    assert by["hpascale"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in by["me"]["f:spec"]
    conditions = by["mestatus"]["f:status"]["f:conditions"]
    assert {"f:status", "f:type", "."} <= set(conditions['k:{"type":"Available"}'])
    assert by["mestatus"].keys() == {"f:status"}
    message = refused(routes, path, {**deployment(), "spec": {"replicas": 1}}, "you")
    assert message == (
        'Apply failed with 1 conflict: conflict with "hpa" with subresource "scale" using '
        "apps/v1: .spec.replicas"
    )
    got = applied(
        routes,
        f"{path}/scale",
        {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 5}},
        "you",
        force="true",
    )
    assert (got["kind"], got["spec"]) == ("Scale", {"replicas": 5})
    assert "hpascale" not in managers(asked(routes, "GET", path)[1])


def test_lists_are_maps_by_their_keys_or_sets_or_one_value(routes: Routes) -> None:
    path = f"{DEPLOYMENTS}/web"
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    env = [{"name": "A", "value": "1"}]
    applied(routes, path, deployment(ports=ports, env=env, args=["x"]), "one")
    sidecar = in_containers(
        {"name": "side", "image": "side:1"},
        {"name": "web", "env": [{"name": "B", "value": "2"}], "ports": [{"containerPort": 81}]},
    )
    sidecar["metadata"]["finalizers"] = ["example.com/two"]
    del sidecar["spec"]["selector"], sidecar["spec"]["template"]["metadata"]
    got = applied(routes, path, sidecar, "two")
    containers = got["spec"]["template"]["spec"]["containers"]
    web = next(c for c in containers if c["name"] == "web")
    assert {c["name"] for c in containers} == {"web", "side"}
    assert [e["name"] for e in web["env"]] == ["A", "B"]
    assert [(p["containerPort"], p["protocol"]) for p in web["ports"]] == [
        (80, "TCP"), (80, "UDP"), (81, "TCP"),
    ]  # fmt: skip
    two = managers(got)["two"]
    assert two["f:metadata"] == {"f:finalizers": {'v:"example.com/two"': {}}}
    items = two["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert 'k:{"containerPort":81,"protocol":"TCP"}' in items['k:{"name":"web"}']["f:ports"]
    # A list that is one value cannot be shared.
    other = in_containers({"name": "web", "args": ["y"]})
    field = '.spec.template.spec.containers[name="web"].args'
    assert refused(routes, path, other, "three") == (
        f'Apply failed with 1 conflict: conflict with "one": {field}'
    )
    both = in_containers({"name": "web", "args": ["y"], "image": "web:2"})
    assert refused(routes, path, both, "three") == (
        'Apply failed with 2 conflicts: conflicts with "one":\n'
        f"- {field}\n"
        '- .spec.template.spec.containers[name="web"].image'
    )
    # What the second gives up goes, item by item; what the first has stays.
    del sidecar["metadata"]["finalizers"]
    sidecar["spec"]["template"]["spec"]["containers"].pop(0)
    got = applied(routes, path, sidecar, "two")
    assert [c["name"] for c in got["spec"]["template"]["spec"]["containers"]] == ["web"]
    assert "finalizers" not in got["metadata"]


def test_a_field_that_is_given_up_is_defaulted_again(routes: Routes) -> None:
    path = f"{DEPLOYMENTS}/web"
    config = deployment()
    config["spec"] |= {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": 1}}}
    assert applied(routes, path, config, "one")["spec"]["replicas"] == 3
    spec = applied(routes, path, deployment(), "one")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": "25%", "maxSurge": "25%"}


def test_what_only_defaults_make_different_is_no_change(routes: Routes, api: ApiServer) -> None:
    path = f"{DEPLOYMENTS}/web"
    reference = {"fieldRef": {"fieldPath": "metadata.name"}}
    config = deployment(env=[{"name": "NAME", "valueFrom": reference}])
    first = applied(routes, path, config, "one")
    assert isinstance(api.clock, FixedClock)
    api.clock.seconds += 60
    assert applied(routes, path, config, "one") == first


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"kind": "ReplicaSet"}, 400, "ReplicaSet"),
        ({"kind": None}, 400, "invalid object type: apps/v1, Kind="),
        ({"metadata": {"name": "other"}}, 400, "does not match the name on the URL"),
        (
            {"metadata": {"name": "web", "managedFields": []}},
            400,
            "metadata.managedFields must be nil",
        ),
        ({"metadata": {"name": "web", "resourceVersion": "1"}}, 409, "has been modified"),
    ],
)
def test_what_cannot_be_applied(routes: Routes, change: Object, status: int, message: str) -> None:
    path = f"{DEPLOYMENTS}/web"
    applied(routes, path, deployment(), "one")
    assert message in refused(routes, path, {**deployment(), **change}, "two", status)


def test_items_need_keys_that_differ(routes: Routes) -> None:
    path = f"{DEPLOYMENTS}/web"
    twice = deployment(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])
    start = "failed to create typed patch object (/web; apps/v1, Kind=Deployment): "
    field = '.spec.template.spec.containers[name="web"].env'
    assert refused(routes, path, twice, "one", 500) == (
        f'{start}{field}: duplicate entries for key [name="A"]'
    )
    assert "omits all key fields" in refused(
        routes, path, deployment(env=[{"value": "1"}]), "one", 500
    )
    assert asked(routes, "GET", path)[0] == 404


def test_a_dry_run_tells_and_keeps_nothing(routes: Routes, api: ApiServer) -> None:
    path = f"{DEPLOYMENTS}/web"
    assert managers(applied(routes, path, deployment(), "one", dryRun="All")).keys() == {"one"}
    assert asked(routes, "GET", path)[0] == 404
    applied(routes, path, deployment(), "one")
    revision = api.store.revision
    applied(routes, path, deployment(env=[]), "two", dryRun="All")
    assert api.store.revision == revision


def test_what_kubectl_applied_before_it_may_apply_on_the_server(routes: Routes) -> None:
    """`kubectl apply --server-side` after `kubectl apply`: its own annotation is no conflict."""
    path = f"{CONFIGMAPS}/c"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    config["data"] = {"a": "1"}
    key = "kubectl.kubernetes.io/last-applied-configuration"
    annotated = copy.deepcopy(config)
    annotated["metadata"]["annotations"] = {key: orjson.dumps(config).decode()}
    asked(routes, "POST", CONFIGMAPS, annotated, fieldManager="kubectl-client-side-apply")
    changed = {**config, "data": {"a": "2"}}
    assert "kubectl-client-side-apply" in refused(routes, path, changed, "flux")
    got = applied(routes, path, changed, "kubectl")
    assert got["data"] == {"a": "2"}
    assert orjson.loads(got["metadata"]["annotations"][key])["data"] == {"a": "2"}
    # Then it puts what client-side apply had under its new name, in one JSON patch.
    entries = [
        entry
        for entry in got["metadata"]["managedFields"]
        if entry["manager"] != "kubectl-client-side-apply"
    ]
    version = got["metadata"]["resourceVersion"]
    patch = [
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
    ]
    status, got = asked(routes, "PATCH", path, patch, JSON_PATCH)
    assert (status, managers(got).keys()) == (200, {"kubectl"})
    assert asked(routes, "PATCH", path, patch, JSON_PATCH)[0] == 409


def test_one_who_reads_and_writes_back_changes_nobody(routes: Routes, api: ApiServer) -> None:
    path = f"{DEPLOYMENTS}/web"
    made = applied(routes, path, deployment(), "one")
    revision = api.store.revision
    assert asked(routes, "PUT", path, made, fieldManager="two") == (200, made)
    assert api.store.revision == revision
    odd = {**made["metadata"], "managedFields": [{"manager": "x", "operation": "Apply"}]}
    status, got = asked(routes, "PUT", path, {**made, "metadata": odd}, fieldManager="two")
    assert (status, managers(got).keys()) == (200, {"one"})


def test_lists_and_watches_show_them_too(routes: Routes) -> None:
    watch = routes.handle(ApiRequest("GET", CONFIGMAPS, {"watch": "1"}))
    assert isinstance(watch, WatchStream)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    applied(routes, f"{CONFIGMAPS}/c", {**config, "data": {"a": "1"}}, "one")
    assert watch.waiting == 1
    (item,) = asked(routes, "GET", CONFIGMAPS)[1]["items"]
    assert managers(item) == {"one": {"f:data": {"f:a": {}}}}
