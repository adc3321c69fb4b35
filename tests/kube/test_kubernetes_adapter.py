"""The HTTP adapter against servers that behave as badly as real ones, on loopback."""

import asyncio
import contextlib
import json
import socket

import attrs
import pytest
from aiohttp import web

from kubedsm.kube.client import connections
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import (
    ApiStatusError,
    OutcomeUnknown,
    Request,
    Unreachable,
)
from support.loopback import POST, Server, config, says, talking
from support.processes import PATIENCE, free_port

pytestmark = pytest.mark.http

PATH = "/api/v1/pods"
WATCH = Request("GET", PATH, {"watch": "1"})
#: by aiohttp the one, by connections of our own the other
GET = Request("GET", PATH)
#: the latter without a name server
NO_NAME = "(name or service not known|temporary failure in name resolution); check the host name"
BOTH_WAYS = pytest.mark.parametrize("asked", [GET, POST], ids=["read", "write"])


async def lines_of(cluster):
    async with cluster.stream(WATCH, timeout=PATIENCE) as lines:
        return [line async for line in lines]


def chunked(*chunks, then=None):
    """A handler that sends these chunks, and in the end does something worse than ending."""

    async def handler(request):
        answer = web.StreamResponse()
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        for chunk in chunks:
            await answer.write(chunk)
            await asyncio.sleep(0.005)
        if then:
            await then(request)
        return answer

    return handler


async def reset(request):
    request.transport.abort()


async def stall(_request):
    await asyncio.sleep(60)


async def test_sends_what_it_is_told_with_its_credentials(tmp_path):
    got = []

    async def handler(request):
        got.append((request.method, request.raw_path, request.headers, await request.read()))
        return web.Response(status=201, text='{"kind":"Status"}')

    async with talking(tmp_path, handler) as (cluster, _):
        request = Request(
            "PATCH",
            f"{PATH}/a%2Fb",
            {"labelSelector": "app in (a,b)"},
            {"é": 1},
            "application/x+json",
        )
        response = await cluster.request(request, timeout=PATIENCE)
    assert (response.status, response.body) == (201, b'{"kind":"Status"}')
    ((method, path, headers, body),) = got
    assert (method, path) == ("PATCH", "/api/v1/pods/a%2Fb?labelSelector=app+in+%28a%2Cb%29")
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/x+json"
    assert headers["Accept"] == "application/json"
    assert headers["User-Agent"].startswith("kubedsm/")
    assert json.loads(body) == {"é": 1}


@pytest.mark.parametrize(("asked", "at_once"), [(GET, 100), (POST, connections.FEW)])
async def test_connections_are_kept_and_many_requests_are_in_flight(tmp_path, asked, at_once):
    together = asyncio.Barrier(at_once)

    async def handler(_request):
        await together.wait()
        return web.Response(text="{}")

    async with talking(tmp_path, handler) as (cluster, server):
        for _ in range(2):
            await asyncio.gather(
                *(cluster.request(asked, timeout=PATIENCE) for _ in range(at_once))
            )
        assert len(server.connections) == at_once


@BOTH_WAYS
async def test_a_server_that_is_not_there_is_unreachable(tmp_path, asked):
    for url, why in (
        (f"http://127.0.0.1:{free_port()}", "connection refused; check that the API server runs"),
        (f"http://localhost:{free_port()}", "connection refused; check that the API server runs"),
        ("http://no-such-host.invalid", NO_NAME),
    ):
        path = config(tmp_path, url)
        async with await KubernetesCluster.connect(path, environ={}) as cluster:
            with pytest.raises(Unreachable, match=f"^{url}: {why}"):
                await cluster.request(asked, timeout=PATIENCE)
            with pytest.raises(Unreachable):
                await lines_of(cluster)


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [
        (429, "7", 7.0),
        (503, "Fri, 31 Dec 1999 23:59:59 GMT", 0.0),
        (503, "-1", 0.0),
    ],
)
async def test_the_time_to_wait_of_a_refused_request_is_known(tmp_path, status, header, seconds):
    async def handler(_request):
        return web.Response(status=status, headers={"Retry-After": header})

    async with talking(tmp_path, handler) as (cluster, _):
        for request in (GET, POST):
            assert (await cluster.request(request, timeout=PATIENCE)).retry_after == seconds
        with pytest.raises(ApiStatusError) as refused:
            await lines_of(cluster)
        assert refused.value.retry_after == seconds


async def half_an_answer(request):
    answer = web.StreamResponse(headers={"Content-Length": "100"})
    await answer.prepare(request)
    await answer.write(b'{"kind":')
    request.transport.close()
    return answer


async def no_http(request):
    request.transport.write(b"SSH-2.0-OpenSSH_9.9\r\n")
    request.transport.close()


@BOTH_WAYS
@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (stall, r"no answer from http://127\.0\.0\.1:\d+ within 2 s$"),
        (reset, ""),
        (half_an_answer, r"the server closed the connection$"),
        (no_http, ""),
    ],
)
async def test_what_is_no_answer_leaves_the_outcome_unknown(tmp_path, asked, handler, told):
    async with talking(tmp_path, handler) as (cluster, server):
        with pytest.raises(OutcomeUnknown, match=rf"^{asked.method} {PATH}: {told}"):
            await cluster.request(asked, timeout=2.0)
        if handler is stall:
            await asyncio.wait_for(server.hung_up.wait(), PATIENCE)


@BOTH_WAYS
async def test_a_connection_that_does_not_come_about_in_time_is_unreachable(tmp_path, asked):
    # A full backlog: the kernel leaves further connections unanswered.
    with socket.socket() as deaf, contextlib.ExitStack() as others:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(4):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(deaf.getsockname())
        path = config(tmp_path, f"http://127.0.0.1:{deaf.getsockname()[1]}")
        async with await KubernetesCluster.connect(path, environ={}) as cluster:
            with pytest.raises(Unreachable, match="check that the API server runs"):
                await cluster.request(asked, timeout=0.4)


async def test_lines_come_as_they_are_however_they_are_cut(tmp_path):
    handler = chunked(b"one\ntw", b"o\n\nth", b"r", b"ee\nfour\nfive\n")
    async with talking(tmp_path, handler) as (cluster, _):
        assert await lines_of(cluster) == [b"one", b"two", b"three", b"four", b"five"]


async def test_other_tasks_run_while_the_lines_of_a_burst_are_read(tmp_path):
    lines, told, turns = [b"line"] * 100, [], set()

    async def bind():
        while True:
            turns.add(len(told))
            await asyncio.sleep(0)

    async with (
        talking(tmp_path, chunked(b"\n".join([*lines, b""]))) as (cluster, _),
        cluster.stream(WATCH, timeout=PATIENCE) as read,
    ):
        binding = asyncio.create_task(bind())
        async for line in read:
            told.append(line)  # noqa: PERF401  others see how many there are
        binding.cancel()
    assert told == lines
    assert {16, 32, 48, 64, 80, 96} <= turns


async def test_a_line_of_six_megabytes(tmp_path):
    long = b"x" * 6_000_000
    async with talking(tmp_path, chunked(b"a\n" + long, long + b"\nb\n")) as (cluster, _):
        assert [len(line) for line in await lines_of(cluster)] == [1, 12_000_000, 1]


async def test_a_last_line_that_was_cut_off_is_dropped(tmp_path):
    async with talking(tmp_path, chunked(b'one\n{"type":"ADD')) as (cluster, _):
        assert await lines_of(cluster) == [b"one"]


async def test_a_stream_that_breaks_says_so_after_its_lines(tmp_path):
    got = []

    async def read(lines):
        async for line in lines:
            got.append(line)  # noqa: PERF401  what came before the break counts

    async with (
        talking(tmp_path, chunked(b"one\ntwo\nthr", then=reset)) as (cluster, _),
        cluster.stream(WATCH, timeout=PATIENCE) as lines,
    ):
        with pytest.raises(
            OutcomeUnknown, match=r"^GET /api/v1/pods: the server closed the connection$"
        ):
            await read(lines)
    assert got == [b"one", b"two"]


async def test_a_stream_may_be_quiet_for_longer_than_its_headers_may_take(tmp_path):
    async def pause(_request):
        await asyncio.sleep(5.0)

    async with (
        talking(tmp_path, chunked(b"one\n", then=pause)) as (cluster, _),
        cluster.stream(WATCH, timeout=3.0) as lines,
    ):
        assert [line async for line in lines] == [b"one"]


async def test_leaving_a_stream_hangs_up(tmp_path):
    async with talking(tmp_path, chunked(b"one\n", then=stall)) as (cluster, server):
        async with cluster.stream(WATCH, timeout=PATIENCE) as lines:
            assert await anext(lines) == b"one"
        await asyncio.wait_for(server.hung_up.wait(), PATIENCE)


async def test_a_refusal_that_does_not_end_is_cut_short(tmp_path):
    async def handler(request):
        answer = web.StreamResponse(status=503, headers={"Content-Length": "100"})
        await answer.prepare(request)
        await asyncio.sleep(60)

    async with talking(tmp_path, handler) as (cluster, _):
        with pytest.raises(OutcomeUnknown):
            async with cluster.stream(WATCH, timeout=2.0):
                pass


@pytest.mark.parametrize("by_proxy", [False, True])
async def test_what_may_not_leave_any_more_when_its_connection_is_there_does_not(
    tmp_path, by_proxy
):
    """However long the connection took, or the process stood still before its bytes went out."""
    arrived, asked = [], []

    async def handler(request):
        arrived.append((request.method, await request.json()))
        return web.json_response({})

    def may_leave():
        asked.append(len(server.connections))
        return False

    async with talking(tmp_path, handler, by_proxy=by_proxy) as (cluster, server):
        late = attrs.evolve(POST, may_leave=may_leave)
        with pytest.raises(Unreachable, match="POST /api/v1/pods was not sent"):
            await cluster.request(late, timeout=PATIENCE)
        assert len(asked) == 1
        await cluster.request(POST, timeout=PATIENCE)
        assert arrived == [("POST", POST.body)]


@BOTH_WAYS
async def test_of_a_proxy_that_refuses_no_password_is_told(tmp_path, asked):
    async with Server(says(407, "")) as server:
        at = server.url.replace("//", "//user:secret@")
        path = config(tmp_path, "https://api.invalid", cluster={"proxy-url": at})
        async with await KubernetesCluster.connect(path, environ={}) as cluster:
            with pytest.raises(Unreachable) as refused:
                await cluster.request(asked, timeout=PATIENCE)
    why = "the proxy answered 407 Proxy Authentication Required; check the proxy"
    assert str(refused.value) == f"https://api.invalid: {why}"


async def test_a_proxy_that_is_not_there_is_named(tmp_path):
    proxy = f"127.0.0.1:{free_port()}"
    path = config(tmp_path, "https://api.invalid", cluster={"proxy-url": f"http://{proxy}"})
    async with await KubernetesCluster.connect(path, environ={}) as cluster:
        with pytest.raises(Unreachable, match=f"invalid: proxy {proxy}: connection refused; check"):
            await cluster.request(POST, timeout=PATIENCE)
