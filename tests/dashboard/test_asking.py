"""Questions of the page, over HTTP: each thing that can be asked about, and what is refused."""

import asyncio

import aiohttp
import attrs
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from kubedsm.dashboard.server import questions
from kubedsm.dashboard.state.status import describe_standby
from kubedsm.kube.client.port import Forbidden
from kubedsm.observability.reading import Leadership
from kubedsm.planner.requests import InProcessPlanner
from kubedsm.planner.what_if import WhatIfRequest
from support.watched import watched

pytestmark = pytest.mark.http


@attrs.frozen
class Asker:
    session: aiohttp.ClientSession
    url: str

    async def get(self, path):
        """The status, and the answer or the line that refuses it."""
        async with self.session.get(f"{self.url.rstrip('/')}/page/{path}") as answer:
            if answer.content_type == "application/json":
                return answer.status, await answer.json()
            return answer.status, await answer.text()


async def test_what_is_on_the_page_can_be_asked_about():
    async with watched() as (there, url), aiohttp.ClientSession() as session:
        world = there.world
        asker = Asker(session, url)
        await world.bring_up("half", 2, within=10)
        pod = world.pods("half")[0]["metadata"]["name"]
        for question, begins in {
            f"pod=default/{pod}": f"default/{pod} is on",
            "node=e1": "e1 is an edge node; it holds",
            "workload=default/half": "default/half has 2 of its 2 pods at the edge",
            "decision=1": "Decision 1 at ",
        }.items():
            status, answer = await asker.get(f"why?{question}")
            assert (status, answer["lines"][0][0][: len(begins)]) == (200, begins)
        status, answer = await asker.get("what-if?qos=default/half:1&replicas=default/half:+2")
        assert (status, answer["title"]) == (200, "What would be done")
        assert [part["title"] for part in answer["sections"]] == [
            "Edge shares and response times",
            "Pods that would be scheduled",
            "Lines for the ConfigMap",
        ]
        assert len(world.pods("half")) == 2
        for path, status, told in (
            ("why?pod=default/x", 404, "nothing is known about pod default/x\n"),
            ("why?move=plan-9/x", 404, "nothing is known about migration plan-9/x\n"),
            ("why?decision=one", 404, "nothing is known about decision one\n"),
            ("why?pod=a&node=b", 400, "name one of pod, node, workload, move, decision\n"),
            ("why?pot=a", 400, "pot: unknown"),
            ("what-if?qos=default/half:2", 400, "qos: default/half: 2 is not between 0 and 1\n"),
            ("what-if?cpu=3", 400, "cpu: unknown; changes are drain, "),
        ):
            found, said = await asker.get(path)
            assert (found, said[: len(told)]) == (status, told)


async def test_of_many_that_ask_what_if_the_latest_goes_next(monkeypatch):
    async with watched() as (there, url), aiohttp.ClientSession() as session:
        world = there.world
        asker, begun, go_on = Asker(session, url), asyncio.Event(), asyncio.Event()
        await world.bring_up("half", 1, within=10)
        think = InProcessPlanner.solve

        async def slowly(self, question, **how):
            begun.set()
            await go_on.wait()
            return await think(self, question, **how)

        monkeypatch.setattr(InProcessPlanner, "solve", slowly)
        first = asyncio.create_task(asker.get("what-if?qos=default/half:1"))
        await begun.wait()
        others = [asyncio.create_task(asker.get(f"what-if?qos=default/half:0.{n}")) for n in (1, 2)]
        await asyncio.sleep(0.1)
        go_on.set()
        statuses = [status for status, _ in await asyncio.gather(first, *others)]
        assert statuses == [200, 409, 200]


async def test_a_busy_scheduler_never_gives_half_an_answer(monkeypatch):
    async with watched() as (there, url), aiohttp.ClientSession() as session:
        world = there.world
        asker, interruptions = Asker(session, url), []
        await world.bring_up("half", 1, within=10)
        think = InProcessPlanner.solve
        monkeypatch.setattr(questions, "PAUSE", 0.01)

        async def interrupted(self, question, **how):
            found = await think(self, question, **how)
            cut = interruptions.pop() if isinstance(question, WhatIfRequest) else False
            return attrs.evolve(found, cut_short=True) if cut else found

        monkeypatch.setattr(InProcessPlanner, "solve", interrupted)
        interruptions[:] = [False, True, True]
        assert (await asker.get("what-if?"))[0] == 200
        assert interruptions == []
        interruptions[:] = [True] * questions.ATTEMPTS
        async with session.get(f"{url.rstrip('/')}/page/what-if") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
            assert await answer.text() == "busy: new pods are being placed; retry in 2 s\n"


async def test_a_standby_and_one_that_is_not_synced_do_not_say_what_if(monkeypatch):
    async with watched() as (there, url), aiohttp.ClientSession() as session:
        world = there.world
        asker = Asker(session, url)
        world.runtime.synced.clear()
        assert await asker.get("what-if?") == (503, "the cluster is not known yet\n")
    standby = Leadership(False, "kubedsm-2_b9c4-uuid", "edge")
    assert describe_standby(standby) == (
        "this scheduler is a standby and plans nothing; kubedsm-2 leads: ask there"
        " (if that is a pod: kubectl -n edge port-forward pod/kubedsm-2 10270)"
    )
    assert "the leader is not known" in describe_standby(Leadership(False, ""))
    hindered = questions.Questions(world.runtime, lambda: standby)
    with pytest.raises(web.HTTPServiceUnavailable) as refusal:
        await hindered.what_if(make_mocked_request("GET", "/page/what-if"))
    assert refusal.value.text == f"{describe_standby(standby)}\n"


async def test_the_page_reads_the_budgets_of_a_drain(monkeypatch):
    async with watched() as (there, url), aiohttp.ClientSession() as session:
        asker = Asker(session, url)
        await there.world.bring_up("half", 2, within=10)
        there.world.budget("half", "never", minAvailable=5)
        _, told = await asker.get("what-if?drain=e1")
        assert told["sections"][0]["title"] == "PodDisruptionBudgets"
        assert "default/never blocks the drain" in str(told["lines"])
        _, told = await asker.get("what-if?lose=e1")
        assert "PodDisruptionBudgets" not in [part["title"] for part in told["sections"]]

        async def refuse(_):
            raise Forbidden(403, "Forbidden", "no right")

        monkeypatch.setattr(questions, "list_budgets", refuse)
        _, told = await asker.get("what-if?drain=e1")
        assert "are not considered: " in str(told["lines"])
