"""Pool of open HTTP/1.1 connections to one server, each with one request at a time.

A burst begins without a handshake: a small request keeps each idle connection open, before the
server or a load balancer drops it. If all connections of the pool are slow, further ones are opened
temporarily: a Lease renewal must not wait behind sixty binds.

httptools parses responses. This module adds limits of length, responses that end with their
connection, and the refusal of unsolicited responses.
"""

import asyncio
import os
import re
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from http import HTTPStatus
from typing import NoReturn, cast

import aiohappyeyeballs
import aiohttp
import attrs
import httptools
from yarl import URL

from kubedsm.kube.client.port import ClusterError, Response, Unreachable
from kubedsm.process.clock import Clock, ends_within

#: kept open, one for each bind in flight: with half as many a burst takes a sixth longer
FEW = 64
#: seconds for a pooled connection to become available with a healthy server
SOON = 1.0
#: seconds between keep-alive rounds: some load balancers drop connections idle for 35 s
PAUSE = 15.0
#: seconds for background connects and keep-alive responses
PATIENCE = 5.0
#: seconds between connection attempts to successive addresses: RFC 8305
_NEXT_ADDRESS = 0.25
#: byte limits of a response: status line with headers, and body
HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 16 * 1024 * 1024

#: SO_LINGER enabled with zero timeout: closing discards unsent bytes
NO_LINGERING = struct.pack("ii", 1, 0)

#: error message for an incomplete response
CLOSED = "the server closed the connection"

_ERRNO = re.compile(r"\[Errno (\d+)\]")


class Connection(asyncio.Protocol):
    """Pooled HTTP/1.1 connection, with one request and response at a time.

    Protocol for `loop.create_connection`; not reusable once `abort` or the server closed it.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Response] | None = None
        self._reset_parser()
        #: set by each exchange; reset by the pool
        self.used = False
        #: resolved after the connection is lost
        self.gone: asyncio.Future[None] = self._loop.create_future()

    def _reset_parser(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._length = 0
        self._retry_after = ""
        self._in_head = True
        self._ends_with_connection = True

    @property
    def usable(self) -> bool:
        """True if the connection can carry another request."""
        return self._answer is None and not self._transport.is_closing()

    async def exchange(self, sent: bytes) -> Response:
        """Send an HTTP request, and return the whole response; HEAD is not supported.

        Raises ConnectionError for an invalid response. Any exception closes the connection and
        discards unsent bytes.
        """
        self._reset_parser()
        self._answer = self._loop.create_future()
        self.used = True
        self._transport.write(sent)
        try:
            return await self._answer
        except BaseException:
            self.abort()
            raise
        finally:
            self._answer = None

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        made: socket.socket = transport.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGERING)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # unsolicited response
            return
        if self._in_head:
            self._length += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail_exchange(f"no HTTP: {error}")
        if self._in_head and self._length > HEAD_LIMIT:
            self._fail_exchange(f"headers of over {HEAD_LIMIT} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and not self._in_head and self._ends_with_connection:
            self._resolve_response()
        self._fail_exchange(str(exc or CLOSED))
        self.gone.set_result(None)

    # callbacks of the parser

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # unsolicited response

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"content-length" | b"transfer-encoding":
                self._ends_with_connection = False
            case b"retry-after":
                self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() >= HTTPStatus.OK:
            self._in_head, self._length = False, 0

    def on_body(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > BODY_LIMIT:
            self._fail_exchange(f"a body of over {BODY_LIMIT} bytes")
        else:
            self._body.append(part)

    def on_message_complete(self) -> None:
        if self._in_head:
            return  # 1xx: the answer itself is still to come
        self._resolve_response()
        if not self._parser.should_keep_alive():
            self.abort()

    def _resolve_response(self) -> None:
        if self._answer is not None and not self._answer.done():
            status = self._parser.get_status_code()
            body = b"".join(self._body)
            self._answer.set_result(response_of(status, body, self._retry_after))

    def _fail_exchange(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(why))
        self.abort()


def response_of(status: int, body: bytes, retry_after: str) -> Response:
    """Return a response, given the header Retry-After; a date is ignored, as by client-go, since
    clocks may differ.
    """
    return Response(status, body, float(retry_after) if retry_after.isdecimal() else 0.0)


@attrs.define(eq=False)
class Connections:
    """Pool of open HTTP/1.1 connections to one server; close with `aclose`."""

    #: server URL with host and port
    url: URL
    tls: ssl.SSLContext | None
    #: expected certificate name, if different from the host
    server_name: str | None
    _idle: list[Connection] = attrs.field(factory=list, init=False)
    _all: set[Connection] = attrs.field(factory=set, init=False)
    _few: asyncio.Semaphore = attrs.field(factory=lambda: asyncio.Semaphore(FEW), init=False)

    async def exchange(
        self, sent: bytes, within: float, may_leave: Callable[[], bool]
    ) -> Response | None:
        """Send an HTTP request, and return the whole response; None if it may not leave any more,
        once there is a connection. Raise Unreachable without a connection after `within` seconds.
        """
        is_of_few, connection = False, None
        try:
            try:
                if not self._few.locked():  # without the timers of a wait
                    is_of_few = await self._few.acquire()
                    connection = self._pop_idle()
                if connection is None:
                    async with asyncio.timeout(within):
                        soon = min(SOON, within / 2)
                        is_of_few = is_of_few or await ends_within(soon, self._few.acquire())
                        connection = self._pop_idle() or await self._open_connection()
            except TimeoutError:
                raise unreachable(self.url, f"no connection within {within:g} s") from None
            except OSError as error:
                raise unreachable(self.url, error) from error
            return await connection.exchange(sent) if may_leave() else None
        finally:
            if connection is not None:
                self._take_back(connection)
            if is_of_few:
                self._few.release()

    async def keep_warm(
        self, something_small: Callable[[], Awaitable[bytes]], clock: Clock
    ) -> NoReturn:
        """Keep connections open by periodic small requests until cancelled."""
        while True:
            with suppress(OSError, ClusterError):
                await self._probe_idle(await something_small())
            with suppress(OSError):
                for _ in range(len(self._all), FEW):
                    async with self._few, asyncio.timeout(PATIENCE):
                        self._take_back(await self._open_connection())
            await clock.sleep(PAUSE)

    def drop_idle(self) -> None:
        """Have each following request open a new connection."""
        for connection in self._idle:
            connection.abort()

    async def aclose(self) -> None:
        """Close all connections."""
        await _close_all(list(self._all))

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
        """Send a probe request over each idle connection, unless used since the last call.

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


def unreachable(url: URL, failure: Exception | str) -> Unreachable:
    """Return the error for a failed connection: URL, cause, and what to check."""
    where, check = str(url), "that the API server runs, and that this is its address"
    if isinstance(failure, aiohttp.ClientConnectorError):
        if (failure.host, failure.port) != (url.host, url.port):
            where, check = f"{url}: proxy {failure.host}:{failure.port}", "the proxy"
        failure = (
            failure.certificate_error
            if isinstance(failure, aiohttp.ClientConnectorCertificateError)
            else failure.os_error
        )
    match failure:
        case aiohttp.ClientHttpProxyError():  # its text has the proxy's password
            failure, check = f"the proxy answered {failure.status} {failure.message}", "the proxy"
        case ssl.SSLError():
            check = "the URL, and the certificate authority"
        case socket.gaierror():
            check = "the host name, and DNS"
    cause = failure if isinstance(failure, str) else describe_error(failure)
    return Unreachable(f"{where}: {cause}; check {check}")


def describe_error(error: Exception) -> str:
    """Return the cause of a failed connection or exchange on one line, as the system names it."""
    text = " ".join(str(error).split())
    match error:
        case ssl.SSLCertVerificationError():
            return f"certificate not accepted: {error.verify_message.rstrip('.')}"
        case ssl.SSLError(reason=str(reason)):
            return f"no TLS: {reason.replace('_', ' ').lower()}"
        case socket.gaierror():
            return str(error.strerror).lower()
    # One for each address of the host, in the text that asyncio makes.
    numbers = dict.fromkeys(map(int, _ERRNO.findall(text)))
    return ", ".join(map(os.strerror, numbers)).lower() or text or type(error).__name__
