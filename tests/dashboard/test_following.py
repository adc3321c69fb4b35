"""Following what a scheduler shows, over HTTP: away and back, refused, or never there."""

import asyncio
from contextlib import aclosing

import pytest
from aiohttp import web

from kubedsm.dashboard.rows import Snapshot
from kubedsm.dashboard.server import stream as streams
from kubedsm.dashboard.server.access import Access, TokenFile
from kubedsm.dashboard.terminal.following import Away, NotShownError, follow
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
    async with served(app) as url, aclosing(follow(url, token, Impatient())) as followed:
        with pytest.raises(NotShownError) as error:
            await anext(followed)
        return str(error.value).replace(url, "URL")


async def test_one_that_goes_and_comes_back_is_followed_on():
    first = stream()
    async with served(page(first)) as url:
        followed = follow(url, None, Impatient())
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
        async with served(page(shown)) as url, aclosing(follow(url, None, Impatient())) as followed:
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
        await anext(follow(NOWHERE, None, Impatient()))


async def test_a_token_is_asked_for_and_taken(tmp_path):
    path = tmp_path / "token"
    path.write_text("secret")
    app = page(stream(), Access(token=TokenFile(path)))
    assert await refused(app) == "URL requires a token: pass --token-file"
    assert await refused(page(stream(), Access(token=TokenFile(path))), "x") == (
        "URL does not accept this token"
    )
    async with served(page(stream(), Access(token=TokenFile(path)))) as url:
        followed = follow(url, "secret", Impatient())
        assert isinstance(await anext(followed), Snapshot)
        await followed.aclose()
