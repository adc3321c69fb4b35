"""The Kubernetes API over HTTP, as a `Cluster`.

kubernetes_asyncio finds and renews the credentials; requests go out raw, since its typed calls cost
five times the CPU. Every wait has an end: for a connection, for an answer, for a watch's headers;
how long a watch may be silent is its reader's affair.

A connection that is closed takes what was not sent yet with it, rather than leave that to the
kernel: nothing of a request that was given up arrives when the network works again.
"""

import asyncio
import os
import socket
import struct
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
from kubedsm.cluster.client.api_errors import api_error
from kubedsm.cluster.client.port import (
    CredentialsError,
    OutcomeUnknown,
    Request,
    Response,
    Unreachable,
    not_sent,
)
from kubedsm.cluster.client.proxies import proxy_for
from kubedsm.cluster.client.service_account import (
    SERVICE_ACCOUNT,
    is_in_cluster,
    service_account_in,
)

if TYPE_CHECKING:
    from kubedsm.cluster.client.credentials import Credentials

#: connections at once: watches, and the binds of a burst
CONNECTIONS = 128
#: seconds an idle connection is kept; API servers keep theirs for longer
KEEP_ALIVE = 60.0
#: of the time a request may take, how much its connection may; what is over after it was sent
CONNECT_SHARE = 0.5
READ_BUFFER = 256 * 1024

#: SO_LINGER: on, for no time
_NO_LINGERING = struct.pack("ii", 1, 0)

#: No connection came about, so nothing was sent. Everything else may have happened later.
_NOT_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)


def _socket(info: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = info
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
    return made


class _Body(aiohttp.BytesPayload):
    """A request's body, which keeps all of it back if it may not leave when its turn comes.

    The headers leave together with it.
    """

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
    """One API server; to be entered with `async with`, which holds its connections."""

    def __init__(
        self, server: "Credentials", proxy: str | None = None, *, in_pod: bool = False
    ) -> None:
        #: whether it is the cluster that we run in
        self.in_pod = in_pod
        self._credentials = server
        self._base = server.server
        self._proxy = server.proxy or proxy
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def from_kubeconfig(
        cls,
        path: Path | None = None,
        context: str | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> Self:
        """The server of a kubeconfig's context; the usual file and the current one by default.

        Raises CredentialsError.
        """
        from kubedsm.cluster.client import credentials  # noqa: PLC0415  it takes long to load

        server = await credentials.from_kubeconfig(path, context, environ)
        return cls(server, proxy_for(server.server, environ))

    @classmethod
    async def in_cluster(
        cls,
        *,
        environ: Mapping[str, str] = os.environ,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> Self:
        """The server of the cluster whose pod we run in.

        Raises CredentialsError.
        """
        from kubedsm.cluster.client import credentials  # noqa: PLC0415  it takes long to load

        server = await credentials.in_cluster(environ, service_account)
        return cls(server, proxy_for(server.server, environ), in_pod=True)

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        context: str | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> Self:
        """In a pod its own cluster, unless a kubeconfig or context is given; else a kubeconfig's.

        No request is sent yet. Raises CredentialsError.
        """
        service_account = service_account_in(environ)
        given = kubeconfig or context or environ.get("KUBECONFIG")
        if not given and is_in_cluster(environ, service_account):
            return await cls.in_cluster(environ=environ, service_account=service_account)
        return await cls.from_kubeconfig(kubeconfig, context, environ=environ)

    @property
    def server(self) -> str:
        """Its URL, for messages."""
        return self._base

    @property
    def host(self) -> str:
        """Its name and port."""
        return URL(self._base).authority

    async def __aenter__(self) -> Self:
        tls = self._credentials.tls() if self._base.startswith("https:") else True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=CONNECTIONS,
                keepalive_timeout=KEEP_ALIVE,
                ssl=tls,
                socket_factory=_socket,
            ),
            headers={
                "Accept": "application/json",
                "User-Agent": f"kubedsm/{kubedsm.__version__}",
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
            trust_env=False,  # see proxies
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send one request and read its whole answer; see `Cluster.request`."""
        limits = aiohttp.ClientTimeout(total=timeout, connect=timeout * CONNECT_SHARE)
        sent = None if request.body is None else _Body(request)
        try:
            response = await self._send(request, limits, sent)
            async with response:
                body = await response.read()
        except _NOT_SENT as error:
            raise Unreachable(f"{self._base}: {_told(error)}") from error
        except (aiohttp.ClientError, OSError) as error:
            if sent is not None and sent.kept_back:
                raise not_sent(request) from error
            raise self._unknown(request, error, timeout) from error
        return Response(response.status, body)

    @asynccontextmanager
    async def stream(
        self, request: Request, *, timeout: float
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Open a watch; see `Cluster.stream`. Its lines may be of any length."""
        limits = aiohttp.ClientTimeout(total=None, connect=timeout * CONNECT_SHARE)
        refusal = b""
        try:
            async with asyncio.timeout(timeout):
                response = await self._send(request, limits)
                if response.status != HTTPStatus.OK:
                    async with response:
                        refusal = await response.read()
        except _NOT_SENT as error:
            raise Unreachable(f"{self._base}: {_told(error)}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._unknown(request, error, timeout) from error
        if response.status != HTTPStatus.OK:
            raise api_error(response.status, refusal)
        try:
            async with aclosing(self._lines(request, response)) as lines:
                yield lines
        finally:
            # Not released: what is left of it would have to be read first.
            response.close()

    async def _lines(
        self, request: Request, response: aiohttp.ClientResponse
    ) -> AsyncGenerator[bytes, None]:
        """Split as the chunks come, since aiohttp's own lines have a greatest length.

        A last line without its newline was cut off, and is dropped.
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
                for line in (whole, *others):
                    if line:
                        yield line
        except (aiohttp.ClientError, OSError) as error:
            raise self._unknown(request, error, None) from error

    async def _send(
        self, request: Request, limits: aiohttp.ClientTimeout, body: _Body | None = None
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("a KubernetesCluster must be entered with `async with`")
        try:
            authorization = await self._credentials.authorization()
        except CredentialsError as error:
            raise Unreachable(str(error)) from error
        headers = {"Authorization": authorization} if authorization else {}
        query = f"?{urlencode(request.query)}" if request.query else ""
        response = await self._session.request(
            request.method,
            URL(f"{self._base}{request.path}{query}", encoded=True),
            data=body,
            headers=headers,
            timeout=limits,
            allow_redirects=False,
            proxy=self._proxy,
            server_hostname=self._credentials.server_name,
        )
        if response.status == HTTPStatus.UNAUTHORIZED:
            self._credentials.rejected(authorization)
        return response

    def _unknown(self, request: Request, error: Exception, timeout: float | None) -> OutcomeUnknown:
        late = timeout and isinstance(error, TimeoutError)
        what = f"no answer within {timeout:g} s" if late else _told(error)
        return OutcomeUnknown(f"{request.method} {request.path}: {what}")


def _told(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
