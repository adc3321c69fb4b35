"""The page over HTTP: who is answered what, odd viewers, and the page of a standby."""

import asyncio
import contextlib
import json
import logging
import socket
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
import attrs
import pytest
from aiohttp import web

from kubedsm.dashboard.rows import NewsRow, list_decisions
from kubedsm.dashboard.server import app as page_server
from kubedsm.dashboard.server import stream as streams
from kubedsm.dashboard.server.access import HEADERS, Access, TokenFile
from kubedsm.dashboard.server.app import page_app
from kubedsm.dashboard.server.leader import LeaderPage
from kubedsm.dashboard.server.questions import Questions
from kubedsm.observability.reading import Leadership
from kubedsm.process.clock import SystemClock
from kubedsm.process.http_limits import PAGE, listen
from support.answering_cluster import AnsweringCluster
from support.processes import until
from support.told_scene import ToldScene, headlines, served, stream_of

pytestmark = pytest.mark.http
#: seconds after which something hangs
PATIENCE = 20
BEARER = {"Authorization": "Bearer secret"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name in ("LOOK", "GLANCE", "AT_ONCE", "RETRY"):
        monkeypatch.setattr(streams, name, 0.01)


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text("secret\n")
    return TokenFile(path)


@asynccontextmanager
async def page(scene, access=None, limits=PAGE):
    """Its URL, and who asks there."""
    clock = SystemClock()
    stream = stream_of(scene, clock)
    app = page_app(stream, clock, access or Access())
    # Whoever is not told to end keeps the server for ever.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=10 * PATIENCE)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(stream.run())
        async with aiohttp.ClientSession(await listen(runner, "127.0.0.1", 0, limits)) as session:
            try:
                yield stream, session
            finally:
                await runner.cleanup()
                looking.cancel()


@asynccontextmanager
async def silent_viewers(session, number):
    """So many connections that ask for the stream and read nothing."""
    async with session.get("/") as answer:
        url = answer.url
    asked = f"GET /page/stream HTTP/1.1\r\nHost: {url.authority}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as open_ones:
        for _ in range(number):
            connection = open_ones.enter_context(socket.socket())
            connection.setblocking(False)
            await loop.sock_connect(connection, (url.host, url.port))
            await loop.sock_sendall(connection, asked)
        yield


async def event(answer):
    line = await answer.content.readline()
    assert await answer.content.readline() == b"\n"
    assert line.startswith(b"data: ")
    return json.loads(line.removeprefix(b"data: "))


async def test_the_page_and_its_files_say_what_they_are():
    async with page(ToldScene()) as (_, session):
        for path, kind in (
            ("/", "text/html"),
            ("/page/live.js", "text/javascript"),
            ("/page/icon.svg", "image/svg+xml"),
        ):
            async with session.get(path) as answer:
                assert answer.content_type == kind
                assert HEADERS.items() <= answer.headers.items()
                assert "Access-Control-Allow-Origin" not in answer.headers
                assert answer.headers["Content-Encoding"] == "gzip"
                packed = await answer.read()
            async with session.get(path, headers={"Accept-Encoding": "identity"}) as answer:
                assert "Content-Encoding" not in answer.headers
                assert await answer.read() == packed
        async with session.head("/page/stream") as answer:
            assert answer.status == 404
        for path in ("/page/no.js", "/page/../access.py", "/page/%2e%2e/access.py"):
            async with session.get(path) as answer:
                assert answer.status == 404


async def test_who_comes_back_to_the_same_process_is_told_what_it_missed():
    scene = ToldScene()
    async with page(scene) as (_, session):
        async with session.get("/page/stream") as answer:
            assert answer.content_type == "text/event-stream"
            first = await event(answer)
        scene.say("meanwhile")
        known = {"after": first["version"], "run": first["run"]}
        async with session.get("/page/stream", params=known) as answer:
            assert (await event(answer))["type"] == "changes"
        for odd in ({"run": "another"}, {"after": "9" * 5000}, {"after": "-1"}):
            async with session.get("/page/stream", params=known | odd) as answer:
                assert (await event(answer))["type"] == "snapshot"


async def test_a_film_is_all_that_was_told():
    scene = ToldScene()
    async with page(scene) as (_, session):
        scene.say("more")
        async with session.get("/page/stream") as answer:
            while (await event(answer))["version"] < 2:
                pass
        async with session.get("/page/recording") as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            lines = (await answer.text()).splitlines()
        assert [json.loads(line)["type"] for line in lines] == ["snapshot", "changes"]
        async with session.get(
            "/page/recording", headers={"Accept-Encoding": "identity"}
        ) as answer:
            assert (await answer.text()).splitlines() == lines
        known = {"after": 1, "run": json.loads(lines[0])["run"]}
        async with session.get("/page/recording", params=known) as answer:
            assert (await answer.text()).splitlines() == lines[1:]
        async with session.get("/page/recording", params=known | {"run": "another"}) as answer:
            assert (await answer.text()).splitlines() == lines


async def test_another_site_and_whoever_has_no_token_learn_nothing(token):
    async with page(ToldScene()) as (_, session):
        for path in ("/", "/page/live.js", "/page/recording"):
            async with session.get(path, headers={"Host": "evil.example"}) as answer:
                assert answer.status == 421
                assert (await answer.text()).count("\n") == 1
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200)):
            headers = {"Sec-Fetch-Site": site}
            async with session.get("/page/recording", headers=headers) as answer:
                assert answer.status == status
        # A link to the page may be anywhere.
        async with session.get("/", headers={"Sec-Fetch-Site": "cross-site"}) as answer:
            assert answer.status == 200
    async with page(ToldScene(), Access(token=token)) as (_, session):
        for public in ("/", "/page/live.js"):
            async with session.get(public) as answer:
                assert answer.status == 200
        for guarded in ("/page/stream", "/page/recording", "/page/else"):
            for wrong in ({}, {"Authorization": "Bearer guess"}, {"Authorization": "secret"}):
                async with session.get(guarded, headers=wrong) as answer:
                    assert answer.status == 401
        async with session.get("/page/recording", headers=BEARER) as answer:
            assert answer.status == 200


async def test_whoever_has_a_token_that_holds_no_more_is_told_no_more(token, tmp_path):
    scene = ToldScene()
    async with (
        page(scene, Access(token=token)) as (_, session),
        session.get("/page/stream", headers=BEARER) as answer,
    ):
        await event(answer)
        (tmp_path / "token").write_text("changed")
        scene.say("not for everybody")
        assert await answer.content.read() == b""


async def test_viewers_that_leave_messages_unread_are_dropped_and_keep_nobody_away():
    impatient = attrs.evolve(PAGE, write_timeout=0.05)
    scene = ToldScene()
    scene.say("x" * 20_000_000)
    async with page(scene, limits=impatient) as (stream, session), session.get("/page/stream"):
        await until(lambda: not stream.viewers)
    async with page(ToldScene()) as (stream, session), silent_viewers(session, 230):
        await until(lambda: stream.viewers == page_server.MOST)
        async with session.get("/") as answer:
            assert answer.status == 200
        async with session.get("/page/stream") as answer:
            assert answer.status == 200
            await event(answer)
        assert stream.viewers <= page_server.MOST


async def test_a_viewer_that_never_reads_is_gone_when_its_stream_ends(monkeypatch):
    """On a calm cluster the kernel's buffers take all that it is sent."""
    monkeypatch.setattr(streams, "LASTS", 0.1)
    monkeypatch.setattr(streams, "SILENCE", 0.01)
    async with page(ToldScene()) as (stream, session), silent_viewers(session, 1):
        await until(lambda: stream.viewers)
        await until(lambda: not stream.viewers)


async def test_a_viewer_that_goes_is_no_error_and_an_end_waits_for_none(caplog):
    caplog.set_level(logging.INFO)
    scene = ToldScene()
    async with page(scene) as (stream, session):
        async with session.get("/page/stream") as answer:
            await event(answer)
        scene.say("more")
        scene.say("and more")
        await until(lambda: not stream.viewers)
    assert not caplog.records
    async with page(ToldScene()) as (stream, session):
        answer = await session.get("/page/stream")
        await event(answer)
        assert stream.viewers == 1
    answer.close()


async def test_a_viewer_replaces_the_one_that_asked_longest_ago_when_the_page_is_full(monkeypatch):
    monkeypatch.setattr(page_server, "MOST", 2)
    async with (
        page(ToldScene()) as (stream, session),
        session.get("/page/stream") as first,
        session.get("/page/stream") as second,
    ):
        await event(first)
        await event(second)
        async with session.get("/page/stream") as third:
            assert third.status == 200
            await event(third)
            with pytest.raises(aiohttp.ClientError):
                await first.content.read()
            assert stream.viewers == 2


async def answer_as_leader(_):
    return web.Response(status=418, text="by the leader", headers={"Retry-After": "7"})


@asynccontextmanager
async def leading(token, scene, port=0):
    """Serve a leader's page; yield its stream and its port."""
    stream = stream_of(scene, SystemClock())
    routes = [web.get("/page/why", answer_as_leader)]
    app = page_app(stream, SystemClock(), Access(token=token), routes)
    async with served(app, port) as url, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(stream.run())
        yield stream, int(url.rstrip("/").rpartition(":")[2])
        running.cancel()


@asynccontextmanager
async def standing_by(token, port, scene, elected, cluster=None):
    """Serve the page of a standby of `leader-0`, which leads once `elected` is not empty."""
    cluster = cluster or AnsweringCluster({"status": {"podIP": "127.0.0.1"}})

    def leadership():
        return Leadership(bool(elected), "leader-0_uuid")

    page = LeaderPage(cluster, leadership, "standby-0", port, token)
    decisions = []
    stream = stream_of(
        scene,
        SystemClock(),
        leader=page,
        learn=lambda message: decisions.extend(list_decisions(message)),
    )
    questions = Questions(SimpleNamespace(explanations=None), leadership, page)
    app = page_app(stream, SystemClock(), Access(token=token), questions.routes())
    async with served(app) as url, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(stream.run())
        async with aiohttp.ClientSession(url, headers=BEARER) as session:
            yield stream, session, decisions
        running.cancel()


async def test_a_standby_shows_the_leaders_page_and_keeps_its_history_when_it_leads(token):
    news = {"news": {"1": NewsRow(1.0, "batch", "decided", decision=41)}}
    leader_scene, elected = ToldScene(news), []
    leader_scene.say("before it stood by")
    scene = ToldScene(begins=1000.0)
    async with leading(token, leader_scene) as (leader, port):
        leader_scene.say("decided")
        await until(lambda: headlines(leader)[-1] == "decided")
        async with standing_by(token, port, scene, elected) as (stream, session, decisions):
            # The leader's history is there, from before this process began.
            await until(lambda: headlines(stream)[-1] == "decided")
            assert headlines(stream) == headlines(leader)
            assert max(decisions) == 41
            async with session.get("/page/stream") as answer:
                first = await answer.content.readline()
                assert b'"decided"' in first
                assert leader.run_id.encode() in first
                await answer.content.readline()
                leader_scene.say("and on")
                assert b'"and on"' in await answer.content.readline()
                await answer.content.readline()
                for view in ("own", "unseen", "also unseen", "own view"):
                    scene.say(view)
                    await until(lambda: scene.said == scene.news)
                assert headlines(stream)[-1] == "and on"
                elected.append("it")
                leader_scene.say("last words")
                await until(lambda: stream.recording.run == stream.run_id)
                told = json.loads((await answer.content.readline()).removeprefix(b"data: "))
                assert (told["type"], told["run"]) == ("snapshot", stream.run_id)
            assert headlines(stream)[-2:] == ["and on", "own view"]
            scene.say("leads")
            await until(lambda: headlines(stream)[-1] == "leads")
            async with session.get("/page/recording") as answer:
                assert len((await answer.text()).splitlines()) == len(headlines(stream))


async def test_a_standby_shows_its_own_view_as_soon_as_the_leader_does_not_respond(token):
    scene, leader_scene = ToldScene(begins=1000.0), ToldScene(begins=1500.0)
    leader = leading(token, leader_scene)
    _, port = await leader.__aenter__()
    async with standing_by(token, port, scene, []) as (stream, _, _):
        await until(lambda: stream.recording.run != stream.run_id)
        scene.say("alone")
        await leader.__aexit__(None, None, None)
        await until(lambda: headlines(stream)[-1] == "alone")
        assert stream.recording.run == stream.run_id
        # Its own rows are older than the leader's last message, which stays.
        assert len(headlines(stream)) > 2
        # Another leader has the address, and has started anew.
        async with leading(token, ToldScene(begins=2000.0), port) as (other, _):
            await until(lambda: stream.recording.run == other.run_id)


@pytest.mark.parametrize(
    ("answer", "status"), [({"status": {}}, 200), ({"kind": "Status"}, 403), ({"status": 7}, 200)]
)
async def test_a_leader_without_an_address_is_not_followed(token, answer, status):
    cluster = AnsweringCluster(answer, status)
    async with standing_by(token, 1, ToldScene(), [], cluster) as (stream, _, _):
        await until(lambda: len(cluster.asked) > 1)
        assert headlines(stream) == ["begun"]


async def test_the_leader_answers_in_place_of_the_standby_and_no_request_goes_in_circles(token):
    async with leading(token, ToldScene()) as (_, port):  # noqa: SIM117 - the order matters
        async with standing_by(token, port, ToldScene(), []) as (_, session, _):
            async with session.get("/page/why?pod=a/b&odd=%2F") as answer:
                assert (answer.status, await answer.text()) == (418, "by the leader")
                assert answer.headers["Retry-After"] == "7"
            circling = {"X-KubeDSM-Forwarded": "standby"}
            async with session.get("/page/why", headers=circling) as answer:
                assert (await answer.text()).startswith("name one of")
            async with session.get("/page/why", headers={"Authorization": "no"}) as answer:
                assert answer.status == 401
