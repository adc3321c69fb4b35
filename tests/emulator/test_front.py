"""The cluster in this process: a `Cluster` like any other, and what can be made to go wrong."""

import asyncio
import random

import attrs
import orjson
import pytest

from kubedsm.kube.client.port import (
    ApiStatusError,
    Conflict,
    OutcomeUnknown,
    Request,
    Response,
    ServerError,
    Unreachable,
)
from kubedsm_lab.emulator.access.access import Access
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.front import Delivery, EmulatedFront, RequestFault
from kubedsm_lab.emulator.http.routes import Routes
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.api_cases import pod

TOKEN = "right"  # noqa: S105 - nobody's
PATH = "/api/v1/namespaces/default/pods"
CREATE = Request("POST", PATH, body=pod())
WATCH = Request("GET", PATH, query={"watch": "1"})


@attrs.define
class Script:
    """Faults by number of request and of line, both counted from 0."""

    requests: dict[int, RequestFault] = attrs.field(factory=dict)
    lines: dict[int, Delivery] = attrs.field(factory=dict)
    sent: list[Request] = attrs.field(factory=list)
    seen: int = 0

    def on_request(self, request):
        self.sent.append(request)
        return self.requests.get(len(self.sent) - 1)

    def on_line(self, request, line):
        assert request == WATCH
        assert not line.endswith(b"\n")
        self.seen += 1
        return self.lines.get(self.seen - 1)


@pytest.fixture
async def api():
    return ApiServer(VirtualClock(), random.Random(0))


def front(api, **options):
    return EmulatedFront(Routes(api), VirtualClock(), **options)


async def test_a_watch_that_is_refused_raises(api):
    with pytest.raises(ApiStatusError) as refused:
        async with front(api).stream(
            Request("GET", PATH, query={"watch": "1", "fieldSelector": "x=1"}), timeout=1
        ):
            pass
    assert refused.value.message == "field label not supported: x"
    routes = Routes(api, Access.enforced(api, TOKEN))
    with pytest.raises(ApiStatusError, match="401"):
        async with EmulatedFront(routes, VirtualClock(), token=TOKEN * 2).stream(WATCH, timeout=1):
            pass
    async with EmulatedFront(routes, VirtualClock(), token=TOKEN).stream(WATCH, timeout=1):
        pass


@pytest.mark.parametrize(("applied", "left"), [(False, 0), (True, 1)])
async def test_a_request_lost_on_its_way_there_or_back(api, applied, left):
    faults = Script({0: RequestFault(OutcomeUnknown("reset"), applied=applied)})
    with pytest.raises(OutcomeUnknown, match="reset"):
        await front(api, faults=faults).request(CREATE, timeout=1)
    assert len(api.list(PODS)) == left


async def test_an_answer_that_is_not_the_api_servers(api):
    html = Response(503, b"<html>overloaded</html>")
    faults = Script({0: RequestFault(html), 1: RequestFault(html), 2: RequestFault(html, True)})
    cluster = front(api, faults=faults)
    assert await cluster.request(CREATE, timeout=1) == html
    with pytest.raises(ServerError, match="overloaded"):
        async with cluster.stream(WATCH, timeout=1):
            pass
    assert await cluster.request(CREATE, timeout=1) == html
    assert len(api.list(PODS)) == 1


async def test_a_watch_that_cannot_be_opened(api):
    conflict = Conflict(409, "Conflict", "no")
    faults = Script({0: RequestFault(Unreachable("no")), 1: RequestFault(conflict, applied=True)})
    cluster = front(api, faults=faults)
    for error in (Unreachable, Conflict):
        with pytest.raises(error):
            async with cluster.stream(WATCH, timeout=1):
                pass


async def names(cluster):
    """Of the pods a watch shows within ten seconds."""
    found = []
    async with cluster.stream(WATCH, timeout=1) as lines:
        try:
            async with asyncio.timeout(10):
                async for line in lines:
                    try:
                        found.append(orjson.loads(line)["object"]["metadata"]["name"])
                    except orjson.JSONDecodeError:
                        found.append("?")
        except TimeoutError:
            pass
    return found


@pytest.mark.parametrize(
    ("delivery", "expected"),
    [
        (Delivery(()), ["a", "c"]),
        (Delivery((b'{"object":{"metadata":{"name":"x"}}}',) * 2), ["a", "x", "x", "c"]),
        (Delivery((b'{"object":',)), ["a", "?", "c"]),
        (Delivery((), end="closed"), ["a"]),
        (Delivery((), delay=20), ["a"]),
    ],
)
async def test_what_may_happen_to_a_line(api, delivery, expected):
    for name in "abc":
        api.create(PODS, pod(name))
    assert await names(front(api, faults=Script(lines={1: delivery}))) == expected


async def test_a_broken_watch_raises_after_its_lines(api):
    api.create(PODS, pod())
    faults = Script(lines={0: Delivery((b"{",), end="broken")})
    async with front(api, faults=faults).stream(WATCH, timeout=1) as lines:
        assert await anext(lines) == b"{"
        with pytest.raises(OutcomeUnknown, match="broke"):
            await anext(lines)


async def test_latency_is_there_and_back(api):
    cluster = front(api, latency=0.2)
    loop = asyncio.get_running_loop()
    applied = []
    api.store.subscribe(lambda _: applied.append(loop.time()))
    await cluster.request(CREATE, timeout=1)
    assert (applied, loop.time()) == ([0.1], 0.2)


async def test_an_answer_that_comes_too_late(api):
    with pytest.raises(OutcomeUnknown, match="no answer within 1 s"):
        await front(api, latency=1.5).request(CREATE, timeout=1)
    assert len(api.list(PODS)) == 1
    with pytest.raises(OutcomeUnknown):
        async with front(api, latency=3).stream(WATCH, timeout=1):
            pass
