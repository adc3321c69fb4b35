"""Page of a standby: it shows the leader's, and has the history when it takes over."""

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web

from kubedsm.dashboard.rows import NewsRow, list_decisions
from kubedsm.dashboard.server import stream as streams
from kubedsm.dashboard.server.access import Access, TokenFile
from kubedsm.dashboard.server.app import page_app
from kubedsm.dashboard.server.leader import LeaderPage
from kubedsm.dashboard.server.questions import Questions
from kubedsm.observability.reading import Leadership
from kubedsm.process.clock import SystemClock
from support.answering_cluster import AnsweringCluster
from support.processes import until
from support.told_scene import ToldScene, headlines, served, stream_of

pytestmark = pytest.mark.http


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name in ("LOOK", "GLANCE", "AT_ONCE", "RETRY"):
        monkeypatch.setattr(streams, name, 0.01)


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text("secret\n")
    return TokenFile(path)


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
    headers = {"Authorization": "Bearer secret"}
    async with served(app) as url, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(stream.run())
        async with aiohttp.ClientSession(url, headers=headers) as session:
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
