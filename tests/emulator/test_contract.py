"""The emulated API server answers requests of people and controllers with the recorded status.

Compared with a real Kubernetes 1.35: the status of each response, and the warnings. Differences are
named here, and in docs/reference/emulator.md if people notice them.
"""

import asyncio
import json
from urllib.parse import parse_qsl, unquote, urlsplit

from kubedsm_lab.emulator.http.routes import ApiRequest, ApiResponse
from kubedsm_lab.emulator.paper import paper_cluster
from support.recorded import CONTRACT, recorded
from support.transcripts import Correspondence
from support.worlds import emulated

JSON, MERGE = "application/json", "application/merge-patch+json"
PODS = "/api/v1/namespaces/ct/pods"
EXCHANGES = recorded(CONTRACT)
CONFIG_MAPS = "/api/v1/namespaces/ct/configmaps"
#: bodies that the recording leaves out, by note
BIG = {
    "annotations over 256 KiB": {"metadata": {"annotations": {"a": "x" * (256 << 10)}}},
    "configmap over 1 MiB": {"data": {"a": "x" * (1 << 20), "b": "x"}},
    "json patch of 10001": [{"op": "add", "path": "/metadata/labels/x", "value": "1"}] * 10_001,
}
#: sent over HTTP only, where the server limits the body (test_http.py)
HTTP_ONLY = ("body over 3 MiB", "post over 3 MiB")
#: scene and note of requests with another status here, with the reason
DIFFERENCES = {
    ("patch", "merge number as label"): "a wrong type in a patch is 400, not 422",
    ("patch", "owner without uid"): "a missing uid is 400, not 422",
    ("patch", "bad nominatedNodeName"): "names in a status are not checked",
    ("patch", "overhead without class"): "RuntimeClasses are not served",
    ("binding", "empty target"): "an invalid target is 422, as in 1.36, not 500",
    ("binding", "target kind"): "an invalid target is 422, as in 1.36, not 500",
    ("binding", "the old way"): "the collection `bindings` is not served",
    ("eviction", "v1beta1"): "policy/v1beta1 is not served",
    ("eviction", "no kind"): "the pod was not evicted by policy/v1beta1",
    ("lease", "rv no number"): "a resourceVersion that is no number is outdated",
    ("watch", "watch=maybe"): "the recorder gave up waiting",
    ("watch", "old watch path"): "paths with /watch/ are not served",
    ("selectors", "rs"): "fields of more than names can be selected by",
    ("scale", "text"): "a wrong type in a patch is 400, not 422",
    ("dry-run", "grace -1"): "a negative grace period is refused",
    ("http", "GET /"): "no list of paths is served",
    ("http", "GET /api/v1/namespaces/ct/pods/%2e%2e"): "the path is not shortened",
    ("table", "xml"): "the recording leaves out what was accepted",
}


def pod(name, **metadata):
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "pause"}]}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def on(node, name):
    return "POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"name": node}}


def budget(name):
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"e": "1"}}}
    return "POST", "/apis/policy/v1/namespaces/ct/poddisruptionbudgets", {
        "metadata": {"name": name}, "spec": spec
    }  # fmt: skip


#: writes that the recording leaves out, by the note of the request that shows their effect
UNLOGGED = {
    "create": [
        ("POST", "/api/v1/namespaces", {"metadata": {"name": "ct"}}),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "s1"}}),
    ],
    "wrong uid": [
        *(("POST", PODS, pod(name)) for name in ("bd", "ev0")),
        ("POST", PODS, pod("bd2", finalizers=["example.com/held"])),
        ("DELETE", f"{PODS}/bd2", None),
    ],
    "twice the same": [on("n2", "bd")],
    "status with ready": [
        *(("POST", PODS, pod(name, labels={"e": "1"})) for name in ("ev2", "ev3")),
        *(on("n3", name) for name in ("ev2", "ev3")),
    ],
    "two budgets: 500": [budget("b2")],
    "a Node's, in default": [
        ("POST", "/api/v1/namespaces/default/events", {
            "metadata": {"name": "e6"}, "involvedObject": {"kind": "Node", "name": "n2"}
        }),
    ],
}  # fmt: skip


def send(routes, method, path, body, content_type=JSON):
    """Send a request without a socket; return status, JSON and warning."""
    data = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    where = urlsplit(path)
    query = dict(parse_qsl(where.query, keep_blank_values=True))
    answer = routes.handle(
        ApiRequest(
            "GET" if method == "WATCH" else method,
            unquote(where.path),
            query,
            content_type or "",
            body=data.encode(),
        )
    )
    if not isinstance(answer, ApiResponse):
        return 200, None, ""
    is_json = answer.content_type == JSON
    return answer.status, json.loads(answer.body) if is_json else None, answer.warning


async def play(world):
    """Return the exchanges with another status, and those with other warnings."""
    routes, known, different, warned = world.cluster.routes, Correspondence(), {}, {}
    for exchange in EXCHANGES:
        if exchange["note"] in HTTP_ONLY:
            continue
        note, recorded_answer = exchange["note"], exchange["response"] or {}
        for write in UNLOGGED.pop(note, ()):
            status, *_ = send(routes, *write)
            assert status < 300, write
            await asyncio.sleep(5)
        body = BIG.get(note) or known.translate(exchange["body"])
        path = known.path(exchange["path"])
        status, answer, warning = send(
            routes, exchange["method"], path, body, exchange["contentType"]
        )
        if status != exchange["status"]:
            different[exchange["scene"], note] = exchange["status"], status, answer
        elif "metadata" in recorded_answer and "uid" in (answer or {}).get("metadata", ()):
            known.learn(recorded_answer, answer)
        # Of several warnings, the recording has the last one.
        said = (exchange["warnings"] or "").removeprefix('299 - "').removesuffix('"')
        if bool(warning) != bool(said) or said.replace("\\", "") not in warning:
            warned[exchange["scene"], note] = warning
        await asyncio.sleep(0.1)
    return different, warned


async def test_requests_have_the_recorded_status_but_for_named_differences():
    async with emulated(*paper_cluster().nodes) as world:
        different, warned = await play(world)
    unexpected = {key: found for key, found in different.items() if key not in DIFFERENCES}
    assert unexpected == {}
    assert DIFFERENCES.keys() - different.keys() == set()
    assert warned == {}
