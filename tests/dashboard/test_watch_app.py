"""Application of `kubedsm watch` in a terminal of a size: keys, updates, and a large cluster."""

import asyncio
import time
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from kubedsm.dashboard.rows import WorkloadRow
from kubedsm.dashboard.server.access import Access
from kubedsm.dashboard.server.app import page_app
from kubedsm.dashboard.terminal.following import Away, NotShownError, Page
from kubedsm.dashboard.terminal.watch_app import WatchApp
from kubedsm.explain.explanation import Explanation
from kubedsm.process.clock import SystemClock
from support.serving_pages import served
from support.terminal_scenes import NOW, WHERE, crowded, small
from support.told_scene import ToldScene, stream_of

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
