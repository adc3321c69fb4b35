"""The connections that writes go over: what comes of odd answers, and when there are handshakes."""

import asyncio
import contextlib

import pytest
from aiohttp import web
from yarl import URL

from kubedsm.kube.client import connections
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import OutcomeUnknown, Request, Response, Unreachable
from kubedsm.process.clock import SystemClock
from support.loopback import POST, config, talking
from support.processes import PATIENCE, until

pytestmark = pytest.mark.http

FEW = 4


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """A few connections, rounds that a test can wait for, and patience with a busy machine."""
    monkeypatch.setattr(connections, "FEW", FEW)
    monkeypatch.setattr(connections, "PAUSE", 0.05)
    monkeypatch.setattr(connections, "SOON", PATIENCE)
    monkeypatch.setattr(connections, "PATIENCE", 2.0)


class Scripted:
    """A server that gives these answers, in as many pieces, to one request after the other."""

    def __init__(self, *answers, closes=False):
        self.answers = iter(answers)
        self.closes = closes
        self.opened = 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def _serve(self, reader, writer):
        self.opened += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(len(b'{"a":1}'))
                for piece in next(self.answers):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.001)
                if self.closes:
                    break
        writer.close()


@contextlib.asynccontextmanager
async def scripted(tmp_path, *answers, closes=False):
    async with Scripted(*answers, closes=closes) as server:
        path = config(tmp_path, server.url)
        async with await KubernetesCluster.connect(path, environ={}) as cluster:
            yield cluster, server


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    ("pieces", "closes", "answer"),
    [
        ([OK[i : i + 1] for i in range(len(OK))], False, Response(200, b"{}")),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", OK], False, Response(200, b"{}")),
        ([b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK], False, Response(200, b"{}")),
        (
            [
                b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                b"2\r\nde\r\n0\r\n\r\n",
            ],
            False,
            Response(201, b"abcde"),
        ),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], False, Response(204, b"")),
        ([b"HTTP/1.1 200 OK\r\n\r\nuntil", b" the end"], True, Response(200, b"until the end")),
        (
            [b"HTTP/1.1 503 Later\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"],
            False,
            Response(503, b""),
        ),
        ([b"HTTP/1.0 502 Bad\r\nContent-Length: 1\r\n\r\nx"], False, Response(502, b"x")),
    ],
)
async def test_an_answer_in_each_of_its_forms(tmp_path, pieces, closes, answer):
    last = closes or pieces[0].startswith((b"HTTP/1.0", b"HTTP/1.1 503"))
    async with scripted(tmp_path, pieces, [OK], closes=closes) as (cluster, server):
        assert await cluster.request(POST, timeout=PATIENCE) == answer
        assert (await cluster.request(POST, timeout=PATIENCE)).status == 200
        assert server.opened == 1 + last


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ([b"SSH-2.0-OpenSSH_9.9\r\n"], "no HTTP: "),
        (
            [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"],
            "no H",
        ),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"], "the server closed the connection"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"], "no HTTP: "),
        ([b"HTTP/1.1 200 OK\r\nX: y\r\n"], "the server closed the connection"),
        ([], "the server closed the connection"),
        ([b"HTTP/1.1 200 OK\r\nX: ", *[b"y" * 999] * 99], "headers of over 65536 bytes"),
        ([b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n" * 99] * 199], "headers of over 65536 bytes"),
        ([b"HTTP/1.1 200 OK\r\n\r\n", *[b"y" * 999] * 9], "a body of over 5000 bytes"),
    ],
)
async def test_what_is_no_answer_is_one_clear_error(tmp_path, pieces, told, monkeypatch):
    monkeypatch.setattr(connections, "BODY_LIMIT", 5000)
    async with scripted(tmp_path, pieces, [OK], closes=True) as (cluster, server):
        with pytest.raises(OutcomeUnknown, match=f"^POST /api/v1/pods: {told}"):
            await cluster.request(POST, timeout=PATIENCE)
        assert (await cluster.request(POST, timeout=PATIENCE)).status == 200
        assert server.opened == 2


async def pass_turns():
    """Let both ends of a connection see what the other one has done, however slow the machine."""
    for _ in range(10):
        await asyncio.sleep(0.005)


async def test_an_idle_connection_that_the_server_closes_is_no_error(tmp_path):
    async with scripted(tmp_path, [OK], [OK], closes=True) as (cluster, server):
        await cluster.request(POST, timeout=PATIENCE)
        await pass_turns()
        assert (await cluster.request(POST, timeout=PATIENCE)).status == 200
        assert server.opened == 2


async def test_what_nobody_asked_for_is_nobodys_answer(tmp_path):
    forged = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    async with scripted(tmp_path, [OK, forged], [OK + forged], [OK]) as (cluster, server):
        for _ in range(3):
            assert (await cluster.request(POST, timeout=PATIENCE)).status == 200
            await pass_turns()
        assert server.opened == 3


async def test_a_request_that_is_given_up_takes_its_connection_with_it(tmp_path):
    async def handler(request):
        if request.path == "/slow":
            await asyncio.sleep(60)
        return web.Response(text="{}")

    async with talking(tmp_path, handler) as (cluster, server):
        slow = asyncio.create_task(cluster.request(Request("PUT", "/slow", body={}), timeout=60))
        await until(lambda: server.connections)
        slow.cancel()
        await asyncio.wait_for(server.hung_up.wait(), PATIENCE)
        assert (await cluster.request(POST, timeout=PATIENCE)).body == b"{}"
        assert len(server.connections) == 2


async def test_what_was_given_up_is_not_delivered_later(tmp_path):
    """Its connection is reset: what the network still holds of it is void."""
    ends = asyncio.Queue()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        try:
            ends.put_nowait(await reader.read(1000) and await reader.read(1000))
        except ConnectionError as error:
            ends.put_nowait(type(error))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        path = config(tmp_path, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with await KubernetesCluster.connect(path, environ={}) as cluster:
            with pytest.raises(OutcomeUnknown, match="within 2 s"):
                await cluster.request(POST, timeout=2.0)
            assert await asyncio.wait_for(ends.get(), PATIENCE) is ConnectionResetError


@contextlib.asynccontextmanager
async def kept_warm(cluster):
    warming = asyncio.create_task(cluster.keep_warm(SystemClock()))
    try:
        yield
    finally:
        warming.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await warming


async def ok(_request):
    return web.Response(text="{}")


async def burst(cluster):
    """Twice as many binds as there are connections."""
    await asyncio.gather(*(cluster.request(POST, timeout=PATIENCE) for _ in range(2 * FEW)))


async def test_after_a_silence_no_handshake_precedes_a_bind(tmp_path):
    """However soon the server drops what is idle."""
    async with (
        talking(tmp_path, ok, keepalive_timeout=1.0) as (cluster, server),
        kept_warm(cluster),
    ):
        for _ in range(2):
            await asyncio.sleep(2.0)
            await burst(cluster)
        assert server.opened == FEW


async def test_what_the_server_closed_is_opened_before_the_next_burst(tmp_path):
    async with talking(tmp_path, ok) as (cluster, server), kept_warm(cluster):
        await until(lambda: server.opened == FEW)
        server.drop_all()
        await until(lambda: server.opened == 2 * FEW)
        await burst(cluster)
        assert server.opened == 2 * FEW


async def test_connections_that_went_dead_are_found_out_while_nobody_waits(tmp_path):
    dead = asyncio.Event()

    async def handler(request):
        if request.method == "GET" and not dead.is_set():
            dead.set()
            await asyncio.sleep(60)
        return web.Response(text="{}")

    async with talking(tmp_path, handler) as (cluster, server), kept_warm(cluster):
        await until(lambda: server.opened == 2 * FEW)
        await burst(cluster)
        assert server.opened == 2 * FEW


async def test_a_server_that_is_away_is_waited_for(tmp_path):
    async with Scripted(*[[OK]] * FEW) as server:
        url = server.url
        path = config(tmp_path, url)
        server.server.close()
        await server.server.wait_closed()
        async with (
            await KubernetesCluster.connect(path, environ={}) as cluster,
            kept_warm(cluster),
        ):
            with pytest.raises(Unreachable):
                await cluster.request(POST, timeout=PATIENCE)
            port = int(url.rpartition(":")[2])
            server.server = await asyncio.start_server(server._serve, "127.0.0.1", port)
            await until(lambda: server.opened == FEW)


async def test_a_lease_does_not_wait_behind_binds_that_are_slow(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "SOON", 0.1)

    async def handler(request):
        if request.path == POST.path:
            await asyncio.sleep(60)
        return web.Response(text="{}")

    async with talking(tmp_path, handler) as (cluster, server):
        binds = [asyncio.create_task(cluster.request(POST, timeout=60)) for _ in range(3 * FEW)]
        await until(lambda: len(server.connections) >= FEW)
        lease = cluster.request(Request("PUT", "/lease", body={}), timeout=PATIENCE)
        await asyncio.wait_for(lease, PATIENCE / 4)
        for bind in binds:
            bind.cancel()
        await asyncio.gather(*binds, return_exceptions=True)


async def test_who_got_no_connection_gives_its_turn_back(unused_tcp_port):
    made = connections.Connections(URL(f"http://127.0.0.1:{unused_tcp_port}"), None, None)
    for _ in range(FEW):
        with pytest.raises(Unreachable):
            await made.exchange(b"", 1.0, lambda: True)
    assert not made._few.locked()


async def test_a_server_under_a_path(tmp_path):
    seen = []

    async def handler(request):
        seen.append((request.raw_path, request.headers["Host"]))
        return web.Response(text="{}")

    async with talking(tmp_path, handler, path="/k8s/clusters/c-1") as (cluster, server):
        await cluster.request(Request("POST", "/api", {"dryRun": "All"}, {}), timeout=PATIENCE)
    assert seen == [("/k8s/clusters/c-1/api?dryRun=All", server.url.removeprefix("http://"))]
