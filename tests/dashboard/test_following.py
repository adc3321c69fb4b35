"""Following what a scheduler shows, over HTTP: away and back, refused, or never there."""

import asyncio
from contextlib import aclosing

import msgspec
import pytest
from aiohttp import web

from kubedsm.dashboard.rows import Snapshot, WorkloadRow
from kubedsm.dashboard.server import stream as streams
from kubedsm.dashboard.server.access import Access, TokenFile
from kubedsm.dashboard.terminal.following import (
    Away,
    NotExplainedError,
    NotShownError,
    Page,
    fetch_edge_pods,
    fetch_explanation,
    follow,
)
from kubedsm.explain.explanation import link
from kubedsm.process.clock import SystemClock
from support.serving_pages import page_showing, served
from support.told_scene import ToldScene, stream_of

pytestmark = pytest.mark.http
#: seconds after which something hangs
PATIENCE = 5
#: nobody listens there
NOWHERE = "http://127.0.0.1:9"


class Impatient(SystemClock):
    def sleep(self, seconds):
        return super().sleep(0.01)


def port_of(url):
    return int(url.rpartition(":")[2])


def stream():
    return stream_of(ToldScene(), SystemClock())


def page(shown, access=None):
    return page_showing(shown, SystemClock(), access)


async def refused(app, token=None):
    async with served(app) as url, aclosing(follow(Page(url, token), Impatient())) as followed:
        with pytest.raises(NotShownError) as error:
            await anext(followed)
        return str(error.value).replace(url, "URL")


async def test_one_that_goes_and_comes_back_is_followed_on():
    first = stream()
    async with served(page(first)) as url:
        followed = follow(Page(url), Impatient())
        seen = await anext(followed)
        assert (seen.run, seen.rows["status"]["now"].headline) == (first.run_id, "begun")
    assert isinstance(await anext(followed), Away)
    async with asyncio.timeout(PATIENCE), served(page(first), port_of(url)):
        back = await anext(followed)
        while isinstance(back, Away):
            back = await anext(followed)
        assert back == seen
        await followed.aclose()


async def test_a_stream_that_ends_in_good_order_is_no_absence(monkeypatch):
    monkeypatch.setattr(streams, "LASTS", 0.05)
    monkeypatch.setattr(streams, "SILENCE", 0.01)
    shown = stream()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(shown.run())
        async with served(page(shown)) as url, aclosing(follow(Page(url), Impatient())) as followed:
            for _ in range(4):
                assert (await anext(followed)).run == shown.run_id
        looking.cancel()


async def test_one_without_a_page_or_of_another_version_is_told_apart():
    assert await refused(web.Application()) == (
        "URL serves no page: start the scheduler with `kubedsm run --page`"
    )

    async def told(_):
        return web.Response(body=b"data: {}\n\n", content_type="text/event-stream")

    app = web.Application()
    app.add_routes([web.get("/page/stream", told)])
    assert "is not understood: it may be another version" in await refused(app)
    with pytest.raises(NotShownError, match=f"no response from {NOWHERE}: start a scheduler"):
        await anext(follow(Page(NOWHERE), Impatient()))


async def test_a_token_is_asked_for_and_taken(tmp_path):
    path = tmp_path / "token"
    path.write_text("secret")
    app = page(stream(), Access(token=TokenFile(path)))
    assert await refused(app) == "URL requires a token: pass --token-file"
    assert await refused(page(stream(), Access(token=TokenFile(path))), "x") == (
        "URL does not accept this token"
    )
    async with served(page(stream(), Access(token=TokenFile(path)))) as url:
        followed = follow(Page(url, "secret"), Impatient())
        assert isinstance(await anext(followed), Snapshot)
        await followed.aclose()


async def test_what_a_hostile_server_sends_is_escaped():
    said = "a\u202e\u009b2J"

    async def stream(_):
        snapshot = {"type": "snapshot", "version": 1, "at": 1, "rows": {"pods": {said: POD}}}
        body = b"data: " + msgspec.json.encode(snapshot) + b"\n\n"
        return web.Response(body=body, content_type="text/event-stream")

    async def why(_):
        return web.Response(body=msgspec.json.encode({"title": said, "lines": [[said]]}))

    app = web.Application()
    app.add_routes([web.get("/page/stream", stream), web.get("/page/why", why)])
    async with served(app) as url, aclosing(follow(Page(url), Impatient())) as followed:
        seen = await anext(followed)
        explained = await fetch_explanation(Page(url), link("pod", "shop/a"))
    [(name, row)] = seen.rows["pods"].items()
    texts = (name, row.message, explained.title, *explained.lines[0])
    assert set(texts) == {r"a\u202e\x9b2J"}


POD = {"workload": "shop/w", "state": "waiting", "created": 1, "message": "a\u202e\u009b2J"}


async def test_recorded_edge_shares_are_those_of_the_page():
    row = WorkloadRow("Deployment", 1, 2)
    scene = ToldScene({"workloads": {"shop/a": row}})
    shown = stream_of(scene, SystemClock())
    scene.rows = {"workloads": {"shop/a": None}}
    scene.say("gone")
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(shown.run())
        async with served(page(shown)) as url, aclosing(follow(Page(url), Impatient())) as updates:
            while (await anext(updates)).version < 2:
                pass
        looking.cancel()
    async with served(page(shown)) as url:
        assert await fetch_edge_pods(Page(url)) == [
            (1.0, [("shop/a", 1, 2)]),
            (2.0, [("shop/a", 0, 0)]),
        ]
    assert await fetch_edge_pods(Page(NOWHERE)) == []
    with pytest.raises(NotExplainedError, match=f"no response from {NOWHERE}"):
        await fetch_explanation(Page(NOWHERE), link("pod", "shop/a"))
