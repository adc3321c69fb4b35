"""The line to an API server that can be cut, on real sockets: what arrives by it, what never."""

import asyncio
import contextlib
import socket
from contextlib import asynccontextmanager

import orjson
import pytest
from yarl import URL

from kubedsm.kube.client.connections import NO_LINGERING
from kubedsm_lab.bench.soak.line import Line

pytestmark = pytest.mark.http

ANSWER = b"0123456789"
#: seconds for what was sent to be there
SOON = 0.02


class SetClock:
    def __init__(self):
        self.over = asyncio.Event()

    async def sleep(self, _seconds):
        await self.over.wait()


class Server:
    """Answers each line; knows what came."""

    def __init__(self):
        self.came = []

    async def answer(self, reader, writer):
        try:
            while line := await reader.readline():
                self.came.append(line)
                writer.write(ANSWER)
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def line(clock=None):
    server = Server()
    async with await asyncio.start_server(server.answer, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        async with Line(f"http://127.0.0.1:{port}", clock) as led:
            yield led, server


async def connected(led):
    url = URL(led.url)
    return await asyncio.open_connection(url.host, url.port)


async def asked(led, question=b"?\n"):
    """A connection, and that it works."""
    reader, writer = await connected(led)
    writer.write(question)
    assert await reader.readexactly(len(ANSWER)) == ANSWER
    return reader, writer


def reset(writer):
    made = writer.get_extra_info("socket")
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGERING)
    writer.transport.abort()


async def test_cut_it_resets_what_is_open_carries_what_is_opened_then_and_ends_for_all():
    async with line() as (led, server):
        reader, writer = await asked(led, b"a\n")
        led.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        reader, other = await asked(led, b"b\n")
        assert server.came == [b"a\n", b"b\n"]
        await led.__aexit__()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        other.close()
        with pytest.raises(ConnectionRefusedError):
            await connected(led)


async def test_broken_off_an_answer_ends_halfway():
    async with line() as (led, server):
        reader, writer = await asked(led)
        led.break_off()
        writer.write(b"more\n")
        assert await reader.read() == ANSWER[: len(ANSWER) // 2]
        assert server.came == [b"?\n", b"more\n"]
        writer.close()
        _, other = await asked(led)
        other.close()


async def test_stalled_it_carries_later_what_is_still_wanted_and_nothing_that_is_not():
    clock = SetClock()
    async with line(clock) as (led, server):
        reader, writer = await asked(led)
        _, gone = await asked(led)
        stalling = asyncio.create_task(led.stall(5.0))
        await asyncio.sleep(0)
        writer.write(b"wanted\n")
        gone.write(b"given up\n")
        await asyncio.sleep(SOON)
        reset(gone)
        await asyncio.sleep(SOON)
        assert len(server.came) == 2
        clock.over.set()
        assert await reader.readexactly(len(ANSWER)) == ANSWER
        await stalling
        assert server.came[2:] == [b"wanted\n"]
        writer.close()


async def test_a_kubeconfig_in_yaml_is_copied_with_the_lines_address_and_whole_paths(tmp_path):
    source = tmp_path / "config"
    source.write_text("""
clusters:
- {name: far, cluster: {server: "https://far.example:6443", certificate-authority: ca.crt}}
- {name: near, cluster: {server: "https://near.example"}}
users: [{name: u, user: {client-key: /keys/u.key, client-certificate: u.crt}}]
contexts:
- {name: one, context: {cluster: far, user: u}}
- {name: two, context: {cluster: near, user: u}}
current-context: two
""")
    async with Line("https://far.example:6443", SetClock()) as line:
        path = line.write_kubeconfig(source, tmp_path / "copy", "one")
        written = orjson.loads(path.read_bytes())
        far, near = (each["cluster"] for each in written["clusters"])
        assert far == {
            "server": line.url,
            "tls-server-name": "far.example",
            "certificate-authority": str(tmp_path / "ca.crt"),
        }
    assert near == {"server": "https://near.example"}
    assert written["current-context"] == "one"
    assert written["users"][0]["user"] == {
        "client-key": "/keys/u.key",
        "client-certificate": str(tmp_path / "u.crt"),
    }
    assert path.stat().st_mode & 0o077 == 0
