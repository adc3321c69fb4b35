"""Pool of warm connections to one server.

A burst begins without a handshake: a small request keeps each idle connection open, before the
server or a load balancer drops it. If all connections of the pool are slow, further ones are opened
temporarily: a Lease renewal must not wait behind sixty binds.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import NoReturn

import aiohappyeyeballs
import attrs
from yarl import URL

from kubedsm.kube.client.connection import Connection
from kubedsm.kube.client.port import ClusterError, Unreachable
from kubedsm.process.clock import Clock

#: kept open: with half as many a burst takes a tenth longer, with twice as many no less
FEW = 32
#: seconds for a pooled connection to become available with a healthy server
SOON = 1.0
#: seconds between keep-alive rounds: some load balancers drop connections idle for 35 s
PAUSE = 15.0
#: seconds for background connects and keep-alive responses
PATIENCE = 5.0
#: seconds between connection attempts to successive addresses: RFC 8305
_NEXT_ADDRESS = 0.25


@attrs.define(eq=False)
class Connections:
    """Pool, to be closed with `aclose`."""

    #: server URL with host and port
    url: URL
    tls: ssl.SSLContext | None
    #: expected certificate name, if different from the host
    server_name: str | None
    _idle: list[Connection] = attrs.field(factory=list, init=False)
    _all: set[Connection] = attrs.field(factory=set, init=False)
    _few: asyncio.Semaphore = attrs.field(factory=lambda: asyncio.Semaphore(FEW), init=False)

    @asynccontextmanager
    async def one(self, within: float) -> AsyncIterator[Connection]:
        """Acquire a connection for exclusive use; raise Unreachable after `within` seconds."""
        is_of_few, connection = False, None
        try:
            try:
                async with asyncio.timeout(within):
                    is_of_few = await self._acquire_place(min(SOON, within / 2))
                    connection = self._pop_idle() or await self._open_connection()
            except TimeoutError:
                raise Unreachable(f"{self.url}: no connection within {within:g} s") from None
            except OSError as error:
                raise Unreachable(f"{self.url}: {describe_error(error)}") from error
            yield connection
        finally:
            if connection is not None:
                self._take_back(connection)
            if is_of_few:
                self._few.release()

    async def keep_warm(
        self, something_small: Callable[[], Awaitable[bytes]], clock: Clock
    ) -> NoReturn:
        """Keep the connections open and in use until cancelled; failures are retried later."""
        while True:
            with suppress(OSError, ClusterError):
                await self._probe_idle(await something_small())
            with suppress(OSError):
                for _ in range(len(self._all), FEW):
                    async with self._few, asyncio.timeout(PATIENCE):
                        self._take_back(await self._open_connection())
            await clock.sleep(PAUSE)

    async def aclose(self) -> None:
        """Close all connections."""
        await _close_all(list(self._all))

    async def _acquire_place(self, within: float) -> bool:
        """Wait for a free place in the pool; return False after `within` seconds."""
        try:
            async with asyncio.timeout(within):
                return await self._few.acquire()
        except TimeoutError:
            return False

    def _pop_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def _open_connection(self) -> Connection:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            self.url.host or "", self.url.port or 0, type=socket.SOCK_STREAM
        )
        # asyncio's own happy eyeballs leaks a socket on cancellation.
        made = await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=_NEXT_ADDRESS)
        _, connection = await loop.create_connection(
            Connection,
            sock=made,
            ssl=self.tls,
            server_hostname=(self.server_name or self.url.host) if self.tls else None,
        )
        self._all.add(connection)
        connection.gone.add_done_callback(lambda _: self._forget_connection(connection))
        return connection

    def _take_back(self, connection: Connection) -> None:
        if connection.usable and len(self._idle) < FEW:
            self._idle.append(connection)
        else:
            connection.abort()

    def _forget_connection(self, connection: Connection) -> None:
        self._all.discard(connection)
        with suppress(ValueError):  # in use
            self._idle.remove(connection)

    async def _probe_idle(self, request: bytes) -> None:
        """Send the request over each connection unused since the last call.

        After a failure, all idle connections are closed, and OSError is raised.
        """
        unused = [each for each in self._idle if not each.used]
        for each in self._all:
            each.used = False
        for connection in unused:
            if connection not in self._idle:
                continue  # in use meanwhile
            self._idle.remove(connection)
            try:
                async with self._few, asyncio.timeout(PATIENCE):
                    await connection.exchange(request)
            except OSError:
                await _close_all([connection, *self._idle])
                raise
            self._take_back(connection)


async def _close_all(connections: Collection[Connection]) -> None:
    for connection in connections:
        connection.abort()
    await asyncio.gather(*(connection.gone for connection in connections))


def describe_error(error: Exception) -> str:
    """Return the error's text on one line."""
    return " ".join(str(error).split()) or type(error).__name__
