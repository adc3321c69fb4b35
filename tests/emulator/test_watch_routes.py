"""What a watch of the emulated API server shows, where it begins and ends, and what it does when
nothing happens.
"""

import asyncio
import random

import orjson
import pytest

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, PODS
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.api_cases import pod
from support.api_requests import watching


@pytest.fixture
async def api():
    return ApiServer(VirtualClock(), random.Random(0))


async def test_leaving_a_selection_is_a_deletion(routes, api):
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


async def test_a_reader_that_does_not_keep_up_loses_its_watch(routes, api):
    stream = watching(routes, "/api/v1/namespaces/default/configmaps")
    api.create(CONFIGMAPS, {"metadata": {"name": "c"}})
    for turn in range(10_100):
        api.update(
            CONFIGMAPS,
            {"metadata": {"name": "c", "namespace": "default"}, "data": {"turn": str(turn)}},
        )
    assert len([line async for line in stream]) == 10_001


async def test_bookmarks_tell_how_far_the_rest_of_the_world_has_come(routes, api):
    stream = watching(routes, allowWatchBookmarks="true", timeoutSeconds="150")
    asyncio.get_running_loop().call_later(70, api.create, PODS, pod())
    events = [orjson.loads(line) async for line in stream]
    assert [event["type"] for event in events] == ["BOOKMARK", "ADDED", "BOOKMARK"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == [api.store.revision - 1, api.store.revision, api.store.revision]


async def test_a_reader_that_gives_up_misses_nothing(routes, api):
    """asyncio.wait_for cancels a read; the next one goes on where it was."""
    stream = watching(routes)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(stream), 1)
    api.create(PODS, pod())
    assert orjson.loads(await anext(stream))["type"] == "ADDED"
