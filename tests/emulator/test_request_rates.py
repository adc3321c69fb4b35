"""What autoscalers hear from a Prometheus."""

import asyncio
import json

import pytest
from aiohttp import web

from kubedsm_lab.emulator.processes.request_rates import rates, request_rates
from support.fixed_clock import FixedClock
from support.loopback import Server


def answer(*series):
    result = [
        {"metric": {"namespace": namespace, "app": app}, "value": [1.5, value]}
        for namespace, app, value in series
    ]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})


def test_rates_are_by_namespace_and_app():
    read = rates(answer(("shop", "cart", "2.5"), ("default", "a", "NaN")).encode())
    assert read.keys() == {("shop", "cart"), ("default", "a")}
    assert read["shop", "cart"] == 2.5


@pytest.mark.parametrize("text", ["", "{}", answer(("shop", "cart", "much")), "[1]"])
def test_what_is_no_answer_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        rates(text.encode())


class Clock(FixedClock):
    """Stops whoever sleeps until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.asleep, self.awake = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds):
        self.asleep.set()
        await self.awake.wait()
        self.awake.clear()

    async def pass_time(self, seconds):
        self.seconds += seconds
        self.asleep.clear()
        self.awake.set()
        await self.asleep.wait()


@pytest.mark.http
async def test_rates_are_known_until_they_are_old():
    asked = []
    answers = [answer(("shop", "cart", "2.5")), None, answer(("shop", "cart", "4"))]

    async def prometheus(request):
        asked.append((request.path, request.query["query"]))
        text = answers[len(asked) - 1]
        return web.Response(text=text or "", status=200 if text else 503)

    clock = Clock()
    async with Server(prometheus) as server, request_rates(f"{server.url}/", clock) as known:
        await clock.asleep.wait()
        assert known("shop", "cart", "http_requests_per_second") == 2.5
        assert known("shop", "cart", "requests_per_second") == 2.5
        assert known("shop", "cart", "cpu") is None
        assert known("shop", "video", "requests_per_second") is None
        await clock.pass_time(5)
        assert known("shop", "cart", "requests_per_second") == 2.5
        clock.seconds += 6
        assert known("shop", "cart", "requests_per_second") is None
        await clock.pass_time(0)
        assert known("shop", "cart", "requests_per_second") == 4
    query = "sum by (namespace, app) (rate(http_requests_total[30s]))"
    assert asked == [("/api/v1/query", query)] * 3
