"""What a watch does when nothing happens."""

import asyncio
import random

import orjson
import pytest

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.http.routes import ApiRequest, Routes, WatchStream
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.api_cases import pod


def opened(routes: Routes, **query: str) -> WatchStream:
    answer = routes.handle(ApiRequest("GET", "/api/v1/pods", {"watch": "1", **query}))
    assert isinstance(answer, WatchStream)
    return answer


async def test_the_server_ends_it_after_its_timeout() -> None:
    api = ApiServer(VirtualClock(), random.Random(0))
    stream = opened(Routes(api), timeoutSeconds="30")
    loop = asyncio.get_running_loop()
    loop.call_later(10, api.create, PODS, pod())
    moments = [loop.time() async for _ in stream]
    assert [*moments, loop.time()] == [10, 30]


async def test_bookmarks_tell_how_far_the_rest_of_the_world_has_come() -> None:
    api = ApiServer(VirtualClock(), random.Random(0))
    stream = opened(Routes(api), allowWatchBookmarks="true", timeoutSeconds="150")
    asyncio.get_running_loop().call_later(70, api.create, PODS, pod())
    events = [orjson.loads(line) async for line in stream]
    assert [event["type"] for event in events] == ["BOOKMARK", "ADDED", "BOOKMARK"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == [api.store.revision - 1, api.store.revision, api.store.revision]


async def test_a_reader_that_gives_up_misses_nothing() -> None:
    """asyncio.wait_for cancels a read; the next one goes on where it was."""
    api = ApiServer(VirtualClock(), random.Random(0))
    stream = opened(Routes(api))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(stream), 1)
    api.create(PODS, pod())
    assert orjson.loads(await anext(stream))["type"] == "ADDED"
