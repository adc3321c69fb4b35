"""The HTTP front: requests, large bodies, hang-ups, and its end."""

import asyncio
import io
from collections.abc import Callable

import aiohttp
import attrs
import pytest
from yarl import URL

from kubedsm_lab.emulator.http.routes import ApiRequest, ApiResponse
from kubedsm_lab.emulator.http.server import HttpFront
from support.processes import PATIENCE

pytestmark = pytest.mark.http


class FakeStream:
    """A watch of which nothing is seen, and that remembers being closed."""

    content_type = "application/json"

    def __init__(self):
        self.closed = asyncio.Event()

    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.Event().wait()
        raise StopAsyncIteration

    async def aclose(self):
        self.closed.set()


@attrs.define
class FakeRoutes:
    """Answers what a function says; keeps what it was asked."""

    answer: Callable[[ApiRequest], ApiResponse | FakeStream]
    asked: list[ApiRequest] = attrs.field(factory=list)

    def handle(self, request):
        self.asked.append(request)
        return self.answer(request)


def ok(_):
    return ApiResponse(200, b'{"kind":"Status"}')


async def test_a_request_arrives_whole():
    routes = FakeRoutes(ok)
    async with HttpFront(routes) as front, aiohttp.ClientSession() as session:
        # kube-apiserver decodes the path, quoted slashes too, and leaves a plus there.
        query = "labelSelector=a%3Db%2Cc&watch=&x=1+2"
        url = URL(f"{front.url}/api/v1/pods/a%3Ab+c%2Fstatus?{query}", encoded=True)
        headers = {
            "Authorization": "Bearer secret",
            "Accept": "application/json;as=Table",
            "Content-Type": "application/merge-patch+json",
            "User-Agent": "kubectl/v1.36",
        }
        async with session.patch(url, data=b"{}", headers=headers) as response:
            assert response.status == 200
            assert response.content_type == "application/json"
            assert await response.read() == b'{"kind":"Status"}'
    assert routes.asked == [
        ApiRequest(
            method="PATCH",
            path="/api/v1/pods/a:b+c/status",
            query={"labelSelector": "a=b,c", "watch": "", "x": "1 2"},
            content_type="application/merge-patch+json",
            accept="application/json;as=Table",
            body=b"{}",
            token="secret",  # noqa: S106 - the one that was sent
        )
    ]


async def test_a_body_beyond_the_limit_is_refused_with_a_status():
    routes = FakeRoutes(ok)
    async with HttpFront(routes) as front, aiohttp.ClientSession() as session:
        async with session.post(front.url, data=io.BytesIO(b"x" * (2 * 1024 * 1024))) as response:
            assert response.status == 200
        async with session.post(front.url, data=io.BytesIO(b"x" * (4 * 1024 * 1024))) as response:
            assert response.status == 413
            assert (await response.json())["reason"] == "RequestEntityTooLarge"
    assert len(routes.asked) == 1


async def test_a_client_that_hangs_up_ends_its_watch_at_once():
    stream = FakeStream()
    async with HttpFront(FakeRoutes(lambda _: stream)) as front:
        async with aiohttp.ClientSession() as session, session.get(front.url) as response:
            assert response.status == 200
        await asyncio.wait_for(stream.closed.wait(), PATIENCE)


async def test_closing_the_front_ends_watches_in_good_order():
    streams = [FakeStream(), FakeStream()]
    waiting = iter(streams)
    before = asyncio.all_tasks()
    async with aiohttp.ClientSession() as session:
        async with HttpFront(FakeRoutes(lambda _: next(waiting))) as front:
            responses = [await session.get(front.url) for _ in streams]
        for response in responses:
            # a chunk that is cut off would raise
            assert await response.content.read() == b""
        assert all(stream.closed.is_set() for stream in streams)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
