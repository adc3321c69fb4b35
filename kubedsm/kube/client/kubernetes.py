"""Kubernetes API client over HTTP, as an implementation of the `Cluster` protocol.

kubernetes_asyncio loads and renews the credentials. Requests are raw, since typed calls consume
five times the CPU. Bursts of writes have a dedicated connection pool, with less than half the CPU
consumption of aiohttp. aiohttp carries reads, watches, and writes through a proxy. Connections,
responses and a watch's headers have deadlines; the reader of a watch limits its silence.

Closing a connection discards unsent bytes: no part of an abandoned request arrives when the network
recovers.
"""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import urlencode

import aiohttp
import orjson
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

import kubedsm
from kubedsm.kube.client.api_errors import api_error
from kubedsm.kube.client.connections import (
    CLOSED,
    NO_LINGERING,
    PATIENCE,
    Connections,
    describe_error,
    response_of,
    unreachable,
)
from kubedsm.kube.client.environment import find_service_account, is_url, proxy_for
from kubedsm.kube.client.port import (
    CredentialsError,
    OutcomeUnknown,
    Request,
    Response,
    Unreachable,
    not_sent,
)
from kubedsm.process.clock import Clock

if TYPE_CHECKING:
    from kubedsm.kube.client.credentials import Credentials

#: of aiohttp's, at once: watches, and all requests by way of a proxy
CONNECTIONS = 128
#: seconds an idle connection is kept; API servers keep theirs for longer
KEEP_ALIVE = 60.0
#: fraction of a request's timeout available for renewing credentials, and for connecting
CONNECT_SHARE = 0.5
READ_BUFFER = 256 * 1024
#: lines of a watch after which other tasks run: binds are sent while a burst's lines are read
LINES_PER_TURN = 16

_HEADERS = {"Accept": "application/json", "User-Agent": f"kubedsm/{kubedsm.__version__}"}

#: Failures before a connection: nothing was sent. Other failures may have happened afterwards.
_NOT_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)


def _make_socket(info: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = info
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGERING)
    return made


class _Body(aiohttp.BytesPayload):
    """HTTP request body that refuses transmission if the write gate has shut meanwhile."""

    def __init__(self, request: Request) -> None:
        super().__init__(orjson.dumps(request.body), content_type=request.content_type)
        self._may_leave = request.may_leave
        self.kept_back = False

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        if not self._may_leave():
            self.kept_back = True
            raise aiohttp.ClientConnectionError("kept back")
        await super().write_with_length(writer, content_length)


class KubernetesCluster:
    """HTTP client of one Kubernetes API server; `async with` opens and closes the connections."""

    def __init__(
        self, server: "Credentials", proxy: str | None = None, *, in_pod: bool = False
    ) -> None:
        """Send no request. Raises CredentialsError for an unusable proxy."""
        #: connected to the cluster of this pod
        self.in_pod = in_pod
        #: name of the kubeconfig's context; empty in a pod
        self.context = server.context
        self._credentials = server
        self._base = server.server
        self._url = URL(self._base)
        self._path = self._url.raw_path.rstrip("/")
        #: headers of every write
        headers = {"Host": self._url.host_port_subcomponent, **_HEADERS}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._proxy = server.proxy or proxy
        if self._proxy is not None and not is_url(self._proxy):
            raise CredentialsError(  # without the proxy's URL, which may have a password
                f"the proxy of {self._base} is no http or https URL;"
                " check proxy-url in the kubeconfig, and HTTPS_PROXY"
            )
        self._session: aiohttp.ClientSession | None = None
        #: the last response was 401: open connections may have a former client certificate
        self._is_rejected = False
        #: pool for writes; None behind a proxy
        self._connections: Connections | None = None

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        context: str | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> Self:
        """Return the pod's own cluster, or the kubeconfig's if given or outside a pod.

        Sends no request. Raises CredentialsError.
        """
        from kubedsm.kube.client import credentials  # noqa: PLC0415  slow import

        given = kubeconfig or context or environ.get("KUBECONFIG")
        service_account = None if given else find_service_account(environ)
        if service_account is None:
            server = await credentials.from_kubeconfig(kubeconfig, context, environ)
        else:
            server = await credentials.in_cluster(environ, service_account)
        in_pod = service_account is not None
        return cls(server, proxy_for(server.server, environ), in_pod=in_pod)

    @property
    def server(self) -> str:
        """Return the API server's URL, for messages."""
        return self._base

    @property
    def host(self) -> str:
        """Return host and port of the API server."""
        return self._url.authority

    async def __aenter__(self) -> Self:
        tls = self._credentials.tls() if self._base.startswith("https:") else None
        if self._proxy is None:
            self._connections = Connections(self._url, tls, self._credentials.server_name)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=CONNECTIONS,
                keepalive_timeout=KEEP_ALIVE,
                ssl=tls or True,
                socket_factory=_make_socket,
            ),
            headers=_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
            trust_env=False,  # see proxies
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._credentials.aclose()
        if self._connections is not None:
            await self._connections.aclose()
        if self._session is not None:
            await self._session.close()

    async def keep_warm(self, clock: Clock) -> None:
        """Keep connections open for the next burst of writes, until cancelled."""

        async def version() -> bytes:
            authorization = await self._authorization(PATIENCE)
            return self._encode_request(Request("GET", "/version"), authorization)

        if self._connections is not None:
            await self._connections.keep_warm(version, clock)

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send one API request and read the whole response; see `Cluster.request`."""
        if request.body is not None and self._connections is not None:
            return await self._send_write(request, self._connections, timeout)
        sent = None if request.body is None else _Body(request)
        try:
            async with (
                asyncio.timeout(timeout),
                await self._send_request(request, timeout, sent) as response,
            ):
                return await _read_response(response)
        except _NOT_SENT as error:
            raise unreachable(self._url, error) from error
        except (aiohttp.ClientError, OSError) as error:
            if sent is not None and sent.kept_back:
                raise not_sent(request) from error
            raise self._outcome_unknown(request, error, timeout) from error

    async def _send_write(
        self, request: Request, connections: Connections, timeout: float
    ) -> Response:
        try:
            async with asyncio.timeout(timeout):
                authorization = await self._authorization(timeout * CONNECT_SHARE)
                sent = self._encode_request(request, authorization)
                response = await connections.exchange(
                    sent, timeout * CONNECT_SHARE, request.may_leave
                )
        except OSError as error:
            raise self._outcome_unknown(request, error, timeout) from error
        if response is None:
            raise not_sent(request)
        if response.status == HTTPStatus.UNAUTHORIZED:
            self._credentials.note_rejection(authorization)
            connections.drop_idle()  # they may have a former client certificate
        return response

    @asynccontextmanager
    async def stream(
        self, request: Request, *, timeout: float
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Open a watch stream, with lines of any length; see `Cluster.stream`."""
        refusal: Response | None = None
        try:
            async with asyncio.timeout(timeout):
                response = await self._send_request(request, timeout)
                if response.status != HTTPStatus.OK:
                    async with response:
                        refusal = await _read_response(response)
        except _NOT_SENT as error:
            raise unreachable(self._url, error) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._outcome_unknown(request, error, timeout) from error
        if refusal is not None:
            raise api_error(refusal)
        try:
            async with aclosing(self._split_lines(request, response)) as lines:
                yield lines
        finally:
            # Closed, not released: releasing would read the remaining body first.
            response.close()

    async def _split_lines(
        self, request: Request, response: aiohttp.ClientResponse
    ) -> AsyncGenerator[bytes, None]:
        """Split a watch stream's chunks into lines, since aiohttp limits the length of a line.

        A last line without its newline is incomplete, and is dropped.
        """
        unfinished: list[bytes] = []
        try:
            async for chunk in response.content.iter_any():
                first, *others = chunk.split(b"\n")
                unfinished.append(first)
                if not others:
                    continue
                whole = b"".join(unfinished)
                unfinished = [others.pop()]
                for number, line in enumerate((whole, *others), 1):
                    if line:
                        yield line
                    if number % LINES_PER_TURN == 0:
                        await asyncio.sleep(0)
        except (aiohttp.ClientError, OSError) as error:
            raise self._outcome_unknown(request, error, None) from error

    async def _send_request(
        self, request: Request, timeout: float, body: _Body | None = None
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("a KubernetesCluster must be entered with `async with`")
        authorization = await self._authorization(timeout * CONNECT_SHARE)
        headers = {"Authorization": authorization} if authorization else {}
        if self._is_rejected:
            headers["Connection"] = "close"
        response = await self._session.request(
            request.method,
            URL(f"{self._base}{_request_target(request)}", encoded=True),
            data=body,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, connect=timeout * CONNECT_SHARE),
            allow_redirects=False,
            proxy=self._proxy,
            server_hostname=self._credentials.server_name,
        )
        self._is_rejected = response.status == HTTPStatus.UNAUTHORIZED
        if self._is_rejected:
            self._credentials.note_rejection(authorization)
        return response

    async def _authorization(self, within: float) -> str | None:
        try:
            return await self._credentials.authorization(within)
        except CredentialsError as error:
            raise Unreachable(str(error)) from error

    def _encode_request(self, request: Request, authorization: str | None) -> bytes:
        """Encode an API request as HTTP/1.1 bytes."""
        body = b"" if request.body is None else orjson.dumps(request.body)
        head = f"{request.method} {self._path}{_request_target(request)} HTTP/1.1\r\n{self._head}"
        if authorization:
            head += f"Authorization: {authorization}\r\n"
        if body:
            head += f"Content-Type: {request.content_type}\r\nContent-Length: {len(body)}\r\n"
        return f"{head}\r\n".encode() + body

    def _outcome_unknown(
        self, request: Request, error: Exception, timeout: float | None
    ) -> OutcomeUnknown:
        if timeout and isinstance(error, TimeoutError):
            what = f"no answer from {self._base} within {timeout:g} s"
        elif isinstance(error, aiohttp.ClientPayloadError):
            what = CLOSED  # aiohttp's message is verbose
        else:
            what = describe_error(error)
        return OutcomeUnknown(f"{request.method} {request.path}: {what}")


async def _read_response(response: aiohttp.ClientResponse) -> Response:
    retry_after = response.headers.get("Retry-After", "")
    return response_of(response.status, await response.read(), retry_after)


def _request_target(request: Request) -> str:
    return f"{request.path}?{urlencode(request.query)}" if request.query else request.path
