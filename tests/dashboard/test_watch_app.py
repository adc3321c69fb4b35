"""`kubedsm watch` in a terminal of a size, and how it follows a scheduler over HTTP."""

import asyncio
import time
from contextlib import aclosing, asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from kubedsm.dashboard.rows import Snapshot, WorkloadRow
from kubedsm.dashboard.server import stream as streams
from kubedsm.dashboard.server.access import Access, TokenFile
from kubedsm.dashboard.server.app import page_app
from kubedsm.dashboard.terminal.following import (
    Away,
    NotExplainedError,
    NotShownError,
    Page,
    fetch_edge_pods,
    fetch_explanation,
    follow,
)
from kubedsm.dashboard.terminal.watch_app import WatchApp
from kubedsm.explain.explanation import Explanation, link
from kubedsm.process.clock import SystemClock
from support.dashboard_rows import NOW, WHERE, crowded, small
from support.told_scene import ToldScene, served, stream_of

pytestmark = pytest.mark.http
#: nothing listens there
NOWHERE = "http://127.0.0.1:9"


class Watched:
    """Application in a terminal, with the updates that a test sends."""

    def __init__(self, snapshot, server=NOWHERE):
        self._updates = asyncio.Queue()
        self.app = WatchApp(Page(server), snapshot, self._follow(), SystemClock())

    async def _follow(self):
        while True:
            update = await self._updates.get()
            if isinstance(update, Exception):
                raise update
            yield update

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return self.screen

    def send(self, update):
        self._updates.put_nowait(update)

    async def until(self, text):
        """Wait for the text on the screen; return all of it."""
        async with asyncio.timeout(10):
            while text not in self.screen:
                await self.pilot.pause(0.05)
        return self.screen

    @property
    def screen(self):
        """Text of all widgets, line by line."""
        shown = [each for each in self.app.screen.walk_children() if each.display]
        lines = [each.render_line(y).text for each in shown for y in range(each.size.height)]
        return "\n".join(line.rstrip() for line in lines)


@asynccontextmanager
async def watching(snapshot, size=(80, 24), server=NOWHERE):
    watched = Watched(snapshot, server)
    async with watched.app.run_test(size=size) as watched.pilot:
        await watched.pilot.pause()
        yield watched


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_keys_show_every_view_of_50_nodes_and_30_services(size):
    async with watching(crowded(50, 30, "EKS"), size) as watched:
        assert "team-2/svc-29" in watched.screen
        assert "services: 30" in watched.screen
        assert "edge site-0" in await watched.press("2")
        assert "sites > nodes, edge site-0: 5" in await watched.press("enter")
        screen = await watched.press("enter")
        assert "sites > nodes > pods, edge" not in screen
        assert "pods, ip-10-23-7-0.eu-central-1" in screen
        assert "team-0/svc-00-6f9c-0" in screen
        assert "sites > nodes" in await watched.press("escape")
        assert "nodes: 50" in await watched.press("3")
        assert "namespaces: 4" in await watched.press("n")
        assert "namespace team-0: 330" in await watched.press("down", "enter", "4")
        assert "news: 20" in await watched.press("escape", "6")
        assert "choose a namespace" in await watched.press("question_mark")
        assert "news: 20" in await watched.press("escape")


async def test_a_filter_is_typed_and_removed():
    async with watching(crowded(50, 30)) as watched:
        assert "10 of 30" in await watched.press("slash", *"svc-2")
        screen = await watched.press("enter", "j", "s", "r")
        assert 'filter "svc-2": 10 of 30' in screen
        assert "service\N{BLACK UP-POINTING SMALL TRIANGLE}" in screen
        assert "services: 30" in await watched.press("escape")
        assert "0 of 30" in await watched.press("slash", *"nqr")
        assert "services: 30" in await watched.press("escape")
        assert watched.app.is_running


async def test_a_lost_scheduler_is_said_until_it_is_back():
    async with watching(small()) as watched:
        watched.send(Away(f"no response from {WHERE}"))
        await watched.until(f"no response from {WHERE}; this is the last state; retrying")
        watched.send(small(workloads={"shop/new": WorkloadRow("Deployment", 1, 1)}))
        assert "no response" not in await watched.until("shop/new")


async def test_trends_and_explanations_come_from_the_page():
    scene = ToldScene(dict(small().rows))
    lines = tuple((f"line {number}",) for number in range(30))
    explained = Explanation("Pod bulk/big-1", (("it waits for e1",), *lines))

    async def why(request):
        if request.query.get("pod") == "bulk/big-1":
            return web.json_response(msgspec.to_builtins(explained))
        raise web.HTTPNotFound(text="nothing is known about it\n")

    app = page_app(
        stream_of(scene, SystemClock()), SystemClock(), Access(), [web.get("/page/why", why)]
    )
    recorded = msgspec.structs.replace(small(), at=NOW - 400)
    async with served(app) as url, watching(recorded, server=url) as watched:
        # The scene's recording has the time 0, the snapshot a later one.
        await watched.until("▆" * 11)
        await watched.press("4", "w")
        await watched.until("it waits for e1")
        await watched.press("end")
        await watched.pilot.pause(0.5)
        [text] = watched.app.screen.query("VerticalScroll")
        assert text.scroll_offset.y == text.max_scroll_y > 10
        await watched.press("escape", "1", "w")
        await watched.until("workload shop/cart: nothing is known about it")


async def test_quitting_keys_end_it_and_a_page_that_is_gone_for_good_too():
    for keys in (["q"], ["ctrl+c"], ["question_mark", "ctrl+c"]):
        async with watching(small()) as watched:
            await watched.press(*keys)
            assert watched.app.return_value is None
            assert not watched.app.is_running
    async with watching(small()) as watched:
        watched.send(NotShownError("requires a token"))
        async with asyncio.timeout(10):
            while watched.app.is_running:
                await watched.pilot.pause(0.02)
    assert watched.app.return_value == "requires a token"


async def test_500_nodes_and_10_000_pods_take_little_time():
    snapshot = crowded(500, 100, "EKS", pods=100)
    begun = time.process_time()
    async with watching(snapshot, (120, 40)) as watched:
        assert "pods: 10000" in await watched.press("4")
        assert "100 of 10000" in await watched.press("slash", *"svc-42", "enter")
        await watched.press("escape", "s", "end", "pageup", "2", "enter", "enter", "1", "enter")
        for _ in range(3):
            watched.send(crowded(500, 100, "EKS", pods=100))
            await watched.pilot.pause(0.3)
    assert time.process_time() - begun < 5.0


#: seconds after which something hangs
PATIENCE = 5


class Impatient(SystemClock):
    def sleep(self, seconds):
        return super().sleep(0.01)


def port_of(url):
    return int(url.rpartition(":")[2])


def stream():
    return stream_of(ToldScene(), SystemClock())


def page(shown, access=None):
    return page_app(shown, SystemClock(), access or Access())


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


async def test_a_message_that_a_closed_connection_cut_off_is_awaited_again():
    async def stream(_):
        snapshot = {"type": "snapshot", "version": 1, "at": 1, "rows": {}}
        body = b"data: " + msgspec.json.encode(snapshot) + b'\n\ndata: {"type": "chan'
        return web.Response(body=body, content_type="text/event-stream")

    app = web.Application()
    app.add_routes([web.get("/page/stream", stream)])
    async with served(app) as url, aclosing(follow(Page(url), Impatient())) as followed:
        assert [(await anext(followed)).version for _ in range(3)] == [1, 1, 1]


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
