"""TCP proxy between a scheduler and its API server that can reset, stall or truncate connections.

Bytes in flight are lost when either side resets the connection, as on a network: an abandoned
request does not arrive later.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

import attrs
import msgspec
import orjson
from yarl import URL

from kubedsm.kube.client.connections import NO_LINGERING
from kubedsm.kube.client.environment import choose_context
from kubedsm.process.clock import Clock
from kubedsm.terminal.whole_files import write_whole

_CHUNK = 2**16
#: keys of a kubeconfig whose values are paths, relative to the file
_PATHS = frozenset({"certificate-authority", "client-certificate", "client-key", "tokenFile"})


@attrs.define(eq=False)
class _Connection:
    """Pair of proxied connections: from the client, and to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    #: truncate the next response
    breaks_off: bool = False


class Line:
    """TCP proxy in front of an API server's URL, listening while its context is entered, that can
    disturb the connections.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self._server_url = URL(url)
        self._clock = clock
        self._connections: set[_Connection] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        #: URL for clients
        self.url = ""

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._serve_client, "127.0.0.1", 0)
        port = self._listening.sockets[0].getsockname()[1]
        self.url = str(self._server_url.with_host("127.0.0.1").with_port(port)).rstrip("/")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()
        self._flows.set()
        self.cut()
        await asyncio.gather(*self._serving)
        await self._listening.wait_closed()

    def write_kubeconfig(self, source: Path, target: Path, context: str | None = None) -> Path:
        """Write a copy of a kubeconfig in which the context's server is this proxy.

        Certificates are checked against the server's own name. Raises CredentialsError.
        """
        document = msgspec.yaml.decode(source.read_bytes())
        name = document["current-context"] = choose_context((source,), context)
        contexts = {each["name"]: each["context"] for each in document["contexts"]}
        for named in document["clusters"]:
            if named["name"] == contexts[name]["cluster"]:
                own = {"tls-server-name": self._server_url.host}
                named["cluster"] = own | named["cluster"] | {"server": self.url}
        for entry in (*document["clusters"], *(document.get("users") or ())):
            values = entry.get("cluster") or entry.get("user") or {}
            for key in _PATHS & values.keys():
                values[key] = str(source.resolve().parent / values[key])
        write_whole(target, orjson.dumps(document), 0o600)
        return target

    def cut(self) -> None:
        """Reset (RST) all proxied TCP connections, towards the client and towards the server."""
        for connection in self._connections:
            _reset_connection(connection.client)
            _reset_connection(connection.server)

    def break_off(self) -> None:
        """Truncate the next response, or the next chunk of a watch, on each proxied connection."""
        for connection in self._connections:
            connection.breaks_off = True

    async def stall(self, seconds: float) -> None:
        """Forward no bytes for `seconds`, then resume on all connections that are still open."""
        self._flows.clear()
        try:
            await self._clock.sleep(seconds)
        finally:
            self._flows.set()

    async def _serve_client(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("to be run as a task")
        self._serving.add(task)
        try:
            await self._flows.wait()
            host, port = self._server_url.host, self._server_url.port
            with suppress(OSError):
                responses, server = await asyncio.open_connection(host, port)
                connection = _Connection(client, server)
                self._connections.add(connection)
                try:
                    if self._listening.is_serving():
                        await self._forward_both(connection, reader, responses)
                finally:
                    self._connections.discard(connection)
                    _reset_connection(server)
        finally:
            self._serving.discard(task)
            client.close()

    async def _forward_both(
        self,
        connection: _Connection,
        requests: asyncio.StreamReader,
        responses: asyncio.StreamReader,
    ) -> None:
        """Forward bytes between client and server in both directions until either side closes."""
        async with asyncio.TaskGroup() as tasks:
            to_server = self._forward_bytes(requests, connection.server, lambda: False)
            to_client = self._forward_bytes(
                responses, connection.client, lambda: connection.breaks_off
            )
            directions = [tasks.create_task(each) for each in (to_server, to_client)]
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            for direction in directions:
                direction.cancel()

    async def _forward_bytes(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, truncates: Callable[[], bool]
    ) -> None:
        with suppress(OSError):
            while data := await self._read_chunk(source):
                if truncates():
                    to.write(data[: len(data) // 2])
                    return
                to.write(data)
                await to.drain()

    async def _read_chunk(self, source: asyncio.StreamReader) -> bytes:
        """Return the next bytes of a proxied connection; empty at the end, or if the connection is
        reset during a stall.
        """
        data = await source.read(_CHUNK)
        await self._flows.wait()
        return b"" if source.exception() is not None else data


def _reset_connection(writer: asyncio.StreamWriter) -> None:
    opened: socket.socket | None = writer.get_extra_info("socket")
    with suppress(OSError):  # the socket is closed already
        if opened is not None:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGERING)
    writer.transport.abort()
