"""What a watch of the emulated API server shows, and where it begins and ends."""

import orjson
import pytest

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, NODES, PODS
from kubedsm_lab.emulator.http.routes import Routes
from support.api_cases import pod
from support.api_requests import seen, watching


async def test_a_watch_shows_what_follows_its_version(routes: Routes, api: ApiServer) -> None:
    api.create(PODS, pod("before"))
    version = str(api.store.revision)
    api.create(PODS, pod("missed"))
    stream = watching(routes, resourceVersion=version)
    api.create(PODS, pod("after"))
    api.create(NODES, {"metadata": {"name": "n2"}})
    api.delete(PODS, "default", "before")
    assert await seen(stream) == [
        ("ADDED", "missed"),
        ("ADDED", "after"),
        ("MODIFIED", "before"),
        ("DELETED", "before"),
    ]


@pytest.mark.parametrize("version", [{}, {"resourceVersion": "0"}])
async def test_a_watch_without_a_version_begins_with_what_is_there(
    routes: Routes, api: ApiServer, version: dict[str, str]
) -> None:
    for name in "ba":
        api.create(PODS, pod(name))
    stream = watching(routes, **version)
    api.create(PODS, pod("c"))
    assert await seen(stream) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


async def test_a_streaming_list_tells_where_it_ends(routes: Routes, api: ApiServer) -> None:
    api.create(PODS, pod("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    stream = watching(routes, allowWatchBookmarks="true", **query)
    assert orjson.loads(await anext(stream))["type"] == "ADDED"
    bookmark = orjson.loads(await anext(stream))
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"] == {
        "resourceVersion": str(api.store.revision),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }


async def test_too_old_is_an_error_in_the_stream(routes: Routes, api: ApiServer) -> None:
    api.store.compact()
    stream = watching(routes, resourceVersion="1")
    lines = [orjson.loads(line) async for line in stream]
    assert [line["type"] for line in lines] == ["ERROR"]
    assert lines[0]["object"]["code"] == 410
    assert lines[0]["object"]["message"] == f"too old resource version: 1 ({api.store.revision})"


async def test_leaving_a_selection_is_a_deletion(routes: Routes, api: ApiServer) -> None:
    stream = watching(routes, labelSelector="app=web")
    merge = "application/merge-patch+json"
    api.create(PODS, pod("a"))
    api.create(PODS, pod("other", metadata={"labels": {"app": "api"}}))
    for app in ("api", "db", "web"):
        patch = {"metadata": {"labels": {"app": app}}}
        api.patch(PODS, "default", "a", patch, merge)
    lines = [orjson.loads(await anext(stream)) for _ in range(stream.waiting)]
    assert [line["type"] for line in lines] == ["ADDED", "DELETED", "ADDED"]
    # as it last was in the selection, at the revision at which it left
    left = lines[1]["object"]["metadata"]
    assert left["labels"]["app"] == "web"
    assert int(left["resourceVersion"]) > int(lines[0]["object"]["metadata"]["resourceVersion"])


async def test_a_reader_that_does_not_keep_up_loses_its_watch(
    routes: Routes, api: ApiServer
) -> None:
    stream = watching(routes, "/api/v1/namespaces/default/configmaps")
    api.create(CONFIGMAPS, {"metadata": {"name": "c"}})
    for turn in range(10_100):
        api.update(
            CONFIGMAPS,
            {"metadata": {"name": "c", "namespace": "default"}, "data": {"turn": str(turn)}},
        )
    lines = [line async for line in stream]
    assert len(lines) == 10_001
