"""The line from a scheduler to its API server: a TCP proxy that is cut, or stalls, or breaks off.

What was on its way when one side resets its connection is lost, as on a network: nothing that was
given up arrives later.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

import attrs
import orjson
from yarl import URL

from kubedsm.kube.client.connection import NO_LINGERING
from kubedsm.process.clock import Clock
from kubedsm.terminal.whole_files import write_whole

_CHUNK = 2**16


@attrs.define(eq=False)
class _Connection:
    """Of a client, and the server's that belongs to it."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    #: its next answer ends halfway
    breaks_off: bool = False


class Line:
    """Leads to a server's `url` while it is entered."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._server_url = URL(url)
        self._clock = clock
        self._connections: set[_Connection] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        #: where it begins
        self.url = ""

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        port = self._listening.sockets[0].getsockname()[1]
        self.url = str(self._server_url.with_host("127.0.0.1").with_port(port)).rstrip("/")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()
        self._flows.set()
        self.cut()
        await asyncio.gather(*self._carrying)
        await self._listening.wait_closed()

    def kubeconfig(self, of: Path, to: Path) -> Path:
        """Write that of the server once more, by way of this line."""
        document = orjson.loads(of.read_bytes())
        for named in document["clusters"]:
            named["cluster"]["server"] = self.url
        write_whole(to, orjson.dumps(document), 0o600)
        return to

    def cut(self) -> None:
        """Reset every connection."""
        for connection in self._connections:
            _reset(connection.client)
            _reset(connection.server)

    def break_off(self) -> None:
        """Have the next answer on each connection, or part of a watch, end halfway."""
        for connection in self._connections:
            connection.breaks_off = True

    async def stall(self, seconds: float) -> None:
        """Carry nothing for that long, and then what is still wanted."""
        self._flows.clear()
        try:
            await self._clock.sleep(seconds)
        finally:
            self._flows.set()

    async def _carry(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("to be run as a task")
        self._carrying.add(task)
        try:
            await self._flows.wait()
            host, port = self._server_url.host, self._server_url.port
            with suppress(OSError):
                answers, server = await asyncio.open_connection(host, port)
                connection = _Connection(client, server)
                self._connections.add(connection)
                try:
                    if self._listening.is_serving():
                        await self._both_ways(connection, reader, answers)
                finally:
                    self._connections.discard(connection)
                    _reset(server)
        finally:
            self._carrying.discard(task)
            client.close()

    async def _both_ways(
        self,
        connection: _Connection,
        requests: asyncio.StreamReader,
        answers: asyncio.StreamReader,
    ) -> None:
        """Until one side ends."""
        async with asyncio.TaskGroup() as tasks:
            to_server = self._pass_on(requests, connection.server, lambda: False)
            to_client = self._pass_on(answers, connection.client, lambda: connection.breaks_off)
            ways = [tasks.create_task(way) for way in (to_server, to_client)]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()

    async def _pass_on(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, half: Callable[[], bool]
    ) -> None:
        with suppress(OSError):
            while data := await self._read(source):
                if half():
                    to.write(data[: len(data) // 2])
                    return
                to.write(data)
                await to.drain()

    async def _read(self, source: asyncio.StreamReader) -> bytes:
        """What comes next; nothing if that is over, or was given up while the line stalled."""
        data = await source.read(_CHUNK)
        await self._flows.wait()
        return b"" if source.exception() is not None else data


def _reset(writer: asyncio.StreamWriter) -> None:
    made: socket.socket | None = writer.get_extra_info("socket")
    with suppress(OSError):  # it is closed already
        if made is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGERING)
    writer.transport.abort()
