"""Real sockets: what virtual time cannot show."""

import asyncio
import http.server
import itertools
import json
import signal
import socket
import subprocess
import sys
import threading
from asyncio.trsock import TransportSocket
from datetime import UTC, datetime

import pytest
from aiohttp import web

from loadgen.driver import Limits
from loadgen.playing import Play, perform, unreachable
from loadgen.scenario import Api, Interval, Scenario, dumps
from loadgen.transport import HttpTransport, TransportError
from support.loopback import Server
from support.processes import free_port

pytestmark = pytest.mark.http
PATIENCE = 20


def play(url, rate=20, seconds=0.5, **limits):
    scenario = Scenario((Api("a", url, (Interval.of(rate, seconds),)),))
    return Play(scenario, {"a": url}, limits=Limits(**limits))


async def test_connections_are_kept_and_no_more_of_them_than_may_be():
    async def handler(_):
        await asyncio.sleep(0.05)
        return web.Response(text="ok")

    async with Server(handler) as server, HttpTransport() as transport:
        given = play(server.url, rate=100, seconds=0.5, max_connections=3)
        results = await perform(given, transport, asyncio.Event())
    assert results.total.answered == 50
    assert len(server.connections) == 3
    assert results.total.latency.max > 200


async def test_every_kind_of_failure_is_counted_under_its_name():
    async def handler(request):
        match next(numbers):
            case 0 | 1:  # the first request, which is sent twice
                request.transport.abort()
            case 2:
                return web.Response(status=503)
            case 3:
                cut = web.StreamResponse(headers={"Content-Length": "1000"})
                await cut.prepare(request)
                await cut.write(b"x")
                request.transport.close()
                return cut
            case 4:
                await asyncio.sleep(60)
            case 5:
                return web.Response(status=302, headers={"Location": "http://192.0.2.1/"})
        return web.Response(body=b"x" * 1_000_000)

    numbers = itertools.count()
    async with Server(handler) as server, HttpTransport() as transport:
        # One at a time, so that each has its number.
        given = play(server.url, rate=5, seconds=1.2, timeout=2.0, max_connections=1)
        results = await perform(given, transport, asyncio.Event())
    errors = dict(results.total.errors)
    # Which of the two it is depends on what the socket was doing.
    assert errors.pop("disconnected", 0) + errors.pop("connection reset by peer", 0) == 1
    assert errors == {"HTTP 503": 1, "answer cut short": 1, "timeout": 1}
    assert results.total.answered == 2


class InPieces(http.server.BaseHTTPRequestHandler):
    """Writes the body when the head is acknowledged, on a connection that is kept."""

    protocol_version = "HTTP/1.1"
    acknowledged = threading.Event()

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.acknowledged.wait(5)
        self.acknowledged.clear()
        self.wfile.write(b"ok")

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.mark.skipif(sys.platform != "linux", reason="acknowledges at once on Linux only")
async def test_a_server_that_answers_in_pieces_does_not_wait_for_our_acknowledgement(monkeypatch):
    said = []
    real = TransportSocket.setsockopt

    def told(connected, *option):
        said.append(option)
        real(connected, *option)
        if option == (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1):
            InPieces.acknowledged.set()

    monkeypatch.setattr(TransportSocket, "setsockopt", told)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), InPieces) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        async with HttpTransport() as transport:
            url = f"http://127.0.0.1:{server.server_port}/"
            for number in range(1, 4):
                assert (await transport.get(url)).status == 200
                # Each answer anew: the kernel goes back to delays by itself.
                assert said.count((socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)) >= number
        server.shutdown()
        serving.join()


async def test_where_no_server_listens_for_one_or_for_all():
    refused = f"http://127.0.0.1:{free_port()}/"
    async with HttpTransport() as transport:
        with pytest.raises(TransportError, match=r"^connection refused$"):
            await transport.get(refused)
        with pytest.raises(TransportError, match=r"^name not resolved$"):
            await transport.contact("http://no.such.name.invalid/")

    async def handler(_):
        return web.Response(text="ok")

    async with Server(handler) as server, HttpTransport() as transport:
        urls = {"a": refused, "b": server.url}
        interval = (Interval.of(10, 0.2),)
        both = Play(Scenario(tuple(Api(name, "http://x/", interval) for name in urls)), urls)
        assert await unreachable(both, transport) == {"a": f"{refused}: connection refused"}
        results = await perform(both, transport, asyncio.Event())
    assert results.services["a"].errors == {"connection refused": 2}
    assert results.services["a"].latency is None
    assert results.services["b"].answered == 2


LOADGEN = (sys.executable, "-c", "from loadgen.cli import main; main()")


async def test_a_signal_ends_the_run_with_the_results_so_far(tmp_path):
    async def handler(_):
        if seen.is_set():
            await asyncio.sleep(60)
        seen.set()
        return web.Response(text="ok", headers={"X-Served-By": "pod-1"})

    seen = asyncio.Event()
    async with Server(handler) as server:
        scenario, rows = tmp_path / "load.json", tmp_path / "rows.csv"
        api = Api("a", server.url, (Interval.of(20, 3600),))
        scenario.write_text(dumps(Scenario((api,))), encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            *(*LOADGEN, "run", str(scenario), "-o", "json", "--csv", str(rows)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        await asyncio.wait_for(seen.wait(), PATIENCE)
        await asyncio.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, err) == (0, b"")
    results = json.loads(out)
    assert results["interrupted"]
    assert abs(datetime.now(UTC) - datetime.fromisoformat(results["began"])).total_seconds() < 60
    assert results["services"]["a"]["servedBy"]["pod-1"]["answered"] == 1
    assert results["total"]["answered"] == 1
    assert results["total"]["unfinished"] == results["total"]["requests"] - 1 > 0
    header, row = rows.read_text(encoding="utf-8").splitlines()
    assert header == "service,due_s,latency_ms,status,error,served_by"
    assert row.startswith("a,0.050000,")
    assert row.endswith(",200,,pod-1")
