"""HTTP client through which the load drivers send requests."""

import asyncio
import os
import socket
from typing import NamedTuple, Protocol, Self

import aiohttp
from yarl import URL

from kubedsm.terminal.problems import Problem

#: seconds for the connection that tests for a listener
CONTACT_TIMEOUT = 5.0
#: response header that identifies the responding server
SERVED_BY = "X-Served-By"


class EndpointError(Problem, ValueError):
    """An endpoint is invalid, or has no listener; the message is one line."""


class TransportError(Exception):
    """A request had no complete response; the text is the class of the error."""


class Answer(NamedTuple):
    #: HTTP status code
    status: int
    #: identifier from `SERVED_BY`, or empty
    served_by: str = ""


class Transport(Protocol):
    async def contact(self, url: str) -> None:
        """Check that a server listens at the URL. Raises TransportError."""

    async def get(self, url: str) -> Answer:
        """Send a GET request and read the whole response. Raises TransportError."""


class HttpTransport:
    """HTTP/1.1 client with kept-alive connections, one per concurrent request.

    Redirects count as responses, and bodies are discarded. A GET whose connection is closed before
    any response is sent again, as kept connections require (RFC 9112, section 9.3.1); its latency
    goes on. The caller limits duration and concurrency. `by_proxy` uses the proxy of http_proxy.
    """

    def __init__(self, *, by_proxy: bool = False) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers={"User-Agent": "loadgen"},
            trust_env=by_proxy,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def contact(self, url: str) -> None:
        try:
            async with asyncio.timeout(CONTACT_TIMEOUT):
                await _try_connect(URL(url))
        except TimeoutError:
            raise TransportError("connection timed out") from None
        except OSError as error:
            raise TransportError(_classify_error(error)) from error

    async def get(self, url: str) -> Answer:
        try:
            async with self._session.get(url, allow_redirects=False) as response:
                while not response.content.at_eof():
                    _acknowledge_data(response)
                    await response.content.readany()
                return Answer(response.status, response.headers.get(SERVED_BY, ""))
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(_classify_error(error)) from error


def _acknowledge_data(response: aiohttp.ClientResponse) -> None:
    """Send the pending TCP acknowledgement at once, as a server with Nagle's algorithm delays
    further data until then.

    The kernel would delay the acknowledgement by 40 ms, unrelated to the server. Linux only;
    elsewhere the delay stays.
    """
    connection = response.connection
    if connection is None or connection.transport is None or not hasattr(socket, "TCP_QUICKACK"):
        return
    connected = connection.transport.get_extra_info("socket")
    if connected is not None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


async def _try_connect(url: URL) -> None:
    """Connect to the first address that accepts; raise the last OSError if none does."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    refused: OSError | None = None
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as connection:
                connection.setblocking(False)
                await loop.sock_connect(connection, address)
        except OSError as error:
            refused = error
        else:
            return
    if refused is not None:
        raise refused


def _classify_error(error: aiohttp.ClientError | OSError) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError() | socket.gaierror():
            return "name not resolved"
        case aiohttp.ClientSSLError():
            return "TLS failed"
        case aiohttp.ServerDisconnectedError():
            return "disconnected"
        case aiohttp.ClientPayloadError():
            return "answer cut short"
        case aiohttp.ClientResponseError():
            return "not HTTP"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number).lower()
        case _:
            return type(error).__name__
