"""Emulated API server on a socket: aiohttp without its routing, one handler for all paths.

A unary request is answered without an await between its body and its answer, so a client that
hangs up can no more split a write here than in a real API server. A watch lasts until its stream
ends, its client hangs up, or the front closes.
"""

import asyncio
import base64
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Self
from urllib.parse import parse_qsl, unquote

import attrs
import orjson
from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage

from kubedsm.process.http_limits import EMULATED, listen
from kubedsm.terminal.problems import Problem
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.http.audit_log import AuditLog
from kubedsm_lab.emulator.http.routes import ApiRequest, ApiResponse, Routes, Stream

#: size limit of a request body in kube-apiserver, in bytes
_BODY_LIMIT = 3 * 1024 * 1024
#: graceful shutdown period for running requests, in seconds
_GRACE = 1.0


class HttpFront:
    """HTTP server of `routes`, listening while its context is entered; HTTPS with `tls`.

    Port 0 chooses a free port, see `url`. Entering raises AddressUnavailableError if the port is in
    use or the host is not an address of this machine.
    """

    def __init__(
        self,
        routes: Routes,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self._routes = routes
        self._audit = audit
        self._tls = tls
        self._host = host
        self._port = port
        self._runner: web.ServerRunner | None = None
        self._url = ""
        self._closing = False
        #: timeouts of open watches; rescheduling one to 0 ends its watch gracefully
        self._watches: set[asyncio.Timeout] = set()

    @property
    def url(self) -> str:
        """Return the server's URL, such as http://127.0.0.1:8001."""
        if self._runner is None:
            raise RuntimeError("the front is not open")
        return self._url

    async def __aenter__(self) -> Self:
        server = web.Server(
            self._answer,
            # a watch must end when its client hangs up, not at its next event
            handler_cancellation=True,
            request_factory=_request,
            access_log=None,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_GRACE)
        self._url = await listen(runner, self._host, self._port, EMULATED, self._tls)
        self._runner = runner
        self._closing = False
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            self._closing = True
            for watch in self._watches:
                watch.reschedule(0)
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        received = time.time()
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {_BODY_LIMIT}"
            error = ApiError(413, "RequestEntityTooLarge", message)
            return web.Response(
                status=413, body=orjson.dumps(error.body()), content_type="application/json"
            )
        asked = _api_request(request, body)
        answer = self._routes.handle(asked)
        if self._audit is not None:
            status, size = 200, 0
            if isinstance(answer, ApiResponse):
                status, size = answer.status, len(answer.body)
            user_agent = request.headers.get("User-Agent", "")
            self._audit.record(received, asked, user_agent, status, size)
        if isinstance(answer, ApiResponse):
            headers = {"Content-Type": answer.content_type}
            if answer.warning:
                text = answer.warning.replace('"', '\\"')
                headers["Warning"] = f'299 - "{text}"'
            return web.Response(status=answer.status, body=answer.body, headers=headers)
        return await self._stream(request, answer)

    async def _stream(self, request: web.BaseRequest, stream: Stream) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": stream.content_type})
        if request.version >= HttpVersion11:
            response.enable_chunked_encoding()
        # a request on a kept-alive connection may arrive while the front is closing
        watch = asyncio.timeout(0 if self._closing else None)
        self._watches.add(watch)
        try:
            # The client may disconnect at any moment.
            with suppress(TimeoutError, ConnectionResetError):
                async with watch:
                    await response.prepare(request)
                    async for line in stream:
                        await response.write(line)
        finally:
            self._watches.discard(watch)
            await stream.aclose()
        return response


def kubeconfig(url: str, token: str | None = None, ca: bytes | None = None) -> Object:
    """Return a kubeconfig for the server, as JSON, which is valid YAML.

    `ca` is the CA certificate of an https server in PEM. kubectl sends no token to an http://
    server; other clients do.
    """
    name = "kubedsm-emulated"
    cluster = {"server": url}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token} if token else {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    return web.BaseRequest(
        message,
        payload,
        protocol,
        writer,
        task,
        asyncio.get_running_loop(),
        client_max_size=_BODY_LIMIT,
    )


def _api_request(request: web.BaseRequest, body: bytes) -> ApiRequest:
    path, _, query = request.raw_path.partition("?")
    headers = request.headers
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return ApiRequest(
        method=request.method,
        path=unquote(path) if "%" in path else path,
        query=dict(parse_qsl(query, keep_blank_values=True)) if query else {},
        content_type=headers.get("Content-Type", ""),
        accept=headers.get("Accept", ""),
        body=body,
        token=token.strip() if scheme.lower() == "bearer" else None,
        as_user=headers.get("Impersonate-User", ""),
        as_groups=tuple(headers.getall("Impersonate-Group", ())),
    )


class CertificateError(Problem):
    """Error: the TLS certificate of the emulated API server cannot be issued."""


@attrs.frozen
class ServerTls:
    context: ssl.SSLContext
    #: PEM of the CA
    ca: bytes


def server_tls(names: Sequence[str]) -> ServerTls:
    """Issue a server certificate for the given names and addresses. Raises CertificateError."""
    import trustme  # noqa: PLC0415 - slow to import, and only for HTTPS

    ca = trustme.CA(organization_name="kubedsm emulate")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        ca.issue_cert(*dict.fromkeys(names)).configure_cert(context)
    except ValueError as error:
        raise CertificateError(f"certificate for {', '.join(names)}: {error}") from None
    return ServerTls(context, ca.cert_pem.bytes())
