"""Every listener bounds its connections, the size of requests, silence and its log."""

import ast
import asyncio
import contextlib
import json
import os
import resource
import socket
import tracemalloc
from pathlib import Path

import aiohttp
import attrs
import pytest
import structlog
from aiohttp import web

import kubedsm
from kubedsm.process.http_limits import (
    DIAGNOSTICS,
    EMULATED,
    LIMITS,
    METRICS,
    PAGE,
    connections_allowed,
    listen,
)
from kubedsm.terminal.running import raise_file_limit
from support.processes import until

pytestmark = pytest.mark.http

OF_RUN = [pytest.param(row, id=row.listener) for row in LIMITS if row is not EMULATED]
#: not limits: the test's clients stay until the test ends
ENDLESS = {"header_timeout": 600.0, "idle_timeout": 600.0, "write_timeout": 600.0}
UNFINISHED = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
FINISHED = UNFINISHED + b"\r\n"
LAST = UNFINISHED + b"Connection: close\r\n\r\n"
PATIENCE = 60
MB = 2**20


@attrs.frozen
class Served:
    url: str
    port: int
    runner: web.AppRunner

    @property
    def connections(self):
        return len(self.runner.server.connections)

    async def livez(self):
        """Ask as a kubelet does: by a connection of its own."""
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{self.url}/livez") as answer,
        ):
            return await answer.text()


@contextlib.asynccontextmanager
async def served(limits):
    async def livez(_):
        return web.Response(text="ok")

    async def large(_):
        return web.Response(body=bytes(16 * MB))

    async def broken(_):
        raise ValueError("broken handler")

    app = web.Application()
    app.add_routes([web.get("/livez", livez), web.get("/large", large), web.get("/broken", broken)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    url = await listen(runner, "127.0.0.1", 0, limits)
    try:
        async with asyncio.timeout(PATIENCE):
            yield Served(url, runner.addresses[0][1], runner)
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def clients(server, number, says=b"", addresses=("127.0.0.2",)):
    """Open connections from these loopback addresses in turn, and send the same on each."""
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as sockets:
        opened = []
        for count in range(number):
            client = sockets.enter_context(socket.socket())
            client.setblocking(False)
            client.bind((addresses[count % len(addresses)], 0))
            await loop.sock_connect(client, ("127.0.0.1", server.port))
            with contextlib.suppress(ConnectionError):
                await loop.sock_sendall(client, says)
            opened.append(client)
        yield opened


async def answer_of(client):
    """All that the server sends until it closes or drops the connection."""
    loop, received = asyncio.get_running_loop(), b""
    with contextlib.suppress(ConnectionResetError):
        while piece := await loop.sock_recv(client, 65_536):
            received += piece
    return received


@pytest.fixture
def many_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_file_limit()
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def lines(capsys):
    """All that was written until then: JSON and nothing else."""
    processors = structlog.processors
    structlog.configure(
        [processors.add_log_level, processors.format_exc_info, processors.JSONRenderer()]
    )

    def read():
        out, err = capsys.readouterr()
        assert err == ""
        return [json.loads(line) for line in out.splitlines()]

    return read


def open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("limits", OF_RUN)
async def test_a_probe_is_answered_among_many_unfinished_requests(limits, many_files):
    spread = [f"127.0.1.{last}" for last in range(1, 11)]
    async with served(attrs.evolve(limits, **ENDLESS)) as server:
        before = open_files()
        for addresses in (["127.0.0.1"], spread):
            async with clients(server, 2 * limits.connections, UNFINISHED, addresses) as opened:
                most = limits.per_address if len(addresses) == 1 else limits.connections
                await until(lambda most=most: server.connections <= most)
                assert open_files() - before - len(opened) <= most
                assert await server.livez() == "ok"


@pytest.mark.parametrize("limits", OF_RUN)
async def test_headers_without_an_end_take_little_memory(limits):
    headers = b"".join(b"X-%d: %s\r\n" % (count, b"a" * 8_000) for count in range(120))
    async with served(attrs.evolve(limits, **ENDLESS)) as server:
        tracemalloc.start()
        try:
            async with clients(server, 250, UNFINISHED + headers):
                assert await server.livez() == "ok"
                _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 10 * MB


@pytest.mark.parametrize("limits", OF_RUN)
async def test_requests_as_large_as_allowed_take_little_memory(limits):
    header = b"X-A: %s\r\n" % (b"a" * 7_000)
    async with served(attrs.evolve(limits, **ENDLESS)) as server:
        tracemalloc.start()
        try:
            async with clients(server, 250, UNFINISHED + 2 * header):
                assert await server.livez() == "ok"
                _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 20 * MB


async def test_one_address_does_not_take_the_connections_of_others():
    limits = attrs.evolve(PAGE, connections=20, per_address=5, **ENDLESS)
    async with (
        served(limits) as server,
        clients(server, 3, FINISHED, ["127.0.0.9"]) as others,
        clients(server, 50, UNFINISHED, ["127.0.0.8"]),
    ):
        await until(lambda: server.connections <= 8)
        for other in others:
            await asyncio.get_running_loop().sock_sendall(other, LAST)
            assert (await answer_of(other)).count(b"200 OK") == 2


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ("header_timeout", b""),
        ("header_timeout", UNFINISHED),
        ("idle_timeout", FINISHED),
        ("write_timeout", b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ],
)
async def test_a_silent_connection_is_dropped(limit, says):
    limits = attrs.evolve(PAGE, **ENDLESS | {limit: 0.1})
    async with served(limits) as server, clients(server, 1, says) as [client]:
        if limit == "write_timeout":
            await until(lambda: server.connections)
            await until(lambda: not server.connections)
        else:
            assert (await answer_of(client)).count(b"200 OK") == says.count(FINISHED)


async def test_a_request_that_is_sent_byte_by_byte_is_dropped():
    limits = attrs.evolve(PAGE, **ENDLESS | {"header_timeout": 0.5})

    async def drip(client):
        for _ in range(300):
            await asyncio.get_running_loop().sock_sendall(client, b"X")
            await asyncio.sleep(0.01)

    async with served(limits) as server, clients(server, 1, UNFINISHED) as [client]:
        with pytest.raises(ConnectionError):
            await drip(client)


async def test_the_connection_that_waits_longest_goes_first():
    limits = attrs.evolve(PAGE, per_address=3, **ENDLESS)
    async with served(limits) as server, clients(server, 4, UNFINISHED) as [first, *others]:
        assert await answer_of(first) == b""
        for other in others:
            await asyncio.get_running_loop().sock_sendall(other, b"Connection: close\r\n\r\n")
            assert (await answer_of(other)).count(b"200 OK") == 1


async def test_requests_on_one_connection_are_counted_one_by_one():
    async with (
        served(METRICS) as server,
        aiohttp.TCPConnector(limit=1) as connector,
        aiohttp.ClientSession(server.url, connector=connector) as session,
    ):
        for _ in range(10):
            async with session.get("/livez", headers={"X-A": "a" * 7_000}) as answer:
                assert answer.status == 200
        assert server.connections == 1


@pytest.mark.parametrize(
    "says",
    [
        b"GET / HTTP/9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: \x1b[2J\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET /broken HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ],
)
async def test_many_bad_requests_write_one_line(says, lines, caplog):
    async with served(METRICS) as server, clients(server, 30, says) as opened:
        for client in opened:
            await answer_of(client)
    [line] = lines()
    assert (line["listener"], line["level"]) == (
        "metrics",
        "error" if b"broken" in says else "warning",
    )
    assert not caplog.records
    if b"broken" in says:
        assert line["event"] == "request failed"
        assert "ValueError: broken handler" in line["exception"]
    else:
        assert line["event"] == "malformed request"
        assert line["client"] == "127.0.0.2"
        assert "\n" not in str(line)


async def test_many_dropped_connections_write_one_line_per_cause(lines):
    limits = attrs.evolve(PAGE, connections=5, per_address=3)
    async with served(limits) as server, clients(server, 30, UNFINISHED):
        await until(lambda: server.connections <= 3)
    assert [(line["event"], line["reason"]) for line in lines()] == [
        ("connection dropped", "too many connections from one address")
    ]


async def test_failed_accepts_write_one_line_and_end_with_their_cause(lines, caplog):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with served(METRICS) as server:
        client = socket.socket()
        client.setblocking(False)
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 50, before[1]))
        fillers = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    fillers.append(os.dup(client.fileno()))
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", server.port))
            for _ in range(20):
                await asyncio.sleep(0.01)
        finally:
            for filler in fillers:
                os.close(filler)
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        await asyncio.get_running_loop().sock_sendall(client, FINISHED)
        assert b"200 OK" in await asyncio.get_running_loop().sock_recv(client, 1000)
        client.close()
    assert [line["event"] for line in lines()] == ["cannot accept connections"]
    assert not caplog.records


@pytest.mark.parametrize("open_files", [64, 256, 512, 1024, 524_288, resource.RLIM_INFINITY])
def test_listeners_leave_files_to_the_api_server(open_files):
    taken = sum(connections_allowed(row, open_files) for row in (METRICS, PAGE, DIAGNOSTICS))
    assert all(connections_allowed(row, open_files) > 0 for row in LIMITS)
    if open_files != resource.RLIM_INFINITY:
        assert open_files - taken >= min(256, open_files // 2)
    if open_files in (1024, 524_288, resource.RLIM_INFINITY):
        assert taken == METRICS.connections + PAGE.connections + DIAGNOSTICS.connections


def test_the_soft_limit_on_files_becomes_the_hard_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_every_server_of_the_package_listens_within_limits():
    """A line of `kubedsm bench soak` passes bytes on and serves nothing."""
    opens = {"create_server", "start_server", "TCPSite", "SockSite", "run_app"}
    root = Path(kubedsm.__file__).parents[1]
    found = {
        str(path.relative_to(root))
        for package in ("kubedsm", "lab/kubedsm_lab")
        for path in (root / package).rglob("*.py")
        if any(name in (text := path.read_text(encoding="utf-8")) for name in opens)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in opens
    }
    assert found == {"kubedsm/process/http_limits.py", "lab/kubedsm_lab/bench/soak/line.py"}
