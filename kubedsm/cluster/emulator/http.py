"""The emulated API server on a socket: aiohttp without its routing, one handler for all paths.

A unary request is answered without an await between its body and its answer, so a client that
hangs up can no more split a write here than in a real API server. A watch lasts until its stream
ends, its client hangs up, or the front closes.
"""

import asyncio
import errno
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import parse_qsl, unquote

import orjson
from aiohttp import web

from kubedsm.cluster.emulator.resources import Object
from kubedsm.cluster.emulator.routes import ApiRequest, ApiResponse, WatchStream

_JSON = "application/json"
#: bytes; what kube-apiserver accepts as the body of one request
_BODY_LIMIT = 3 * 1024 * 1024
#: seconds that a closing front waits for requests in progress
_GRACE = 1.0


class Handler(Protocol):
    """Whatever answers requests: `Routes`."""

    def handle(self, request: ApiRequest) -> ApiResponse | WatchStream: ...


class AddressUnavailableError(Exception):
    """The front cannot listen where it was told to."""


class HttpFront:
    """Serves `routes` over HTTP from entering until leaving its context.

    Port 0 takes any free one; `url` says which. Entering raises AddressUnavailableError if the
    port is taken or the host is not one of this machine's.
    """

    def __init__(self, routes: Handler, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._routes = routes
        self._host = host
        self._port = port
        self._runner: web.ServerRunner | None = None
        #: one a watch in progress; rescheduling it to now ends the watch in good order
        self._watches: set[asyncio.Timeout] = set()

    @property
    def url(self) -> str:
        if self._runner is None:
            raise RuntimeError("the front is not open")
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        server = web.Server(
            self._answer,
            # a watch must end when its client hangs up, not at its next event
            handler_cancellation=True,
            request_factory=_request,
            access_log=None,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_GRACE)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            raise AddressUnavailableError(
                f"cannot listen on {self._host}:{self._port}: {_reason(error)}"
            ) from error
        self._runner = runner
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._runner is None:
            return
        runner, self._runner = self._runner, None
        for site in list(runner.sites):
            await site.stop()
        for watch in self._watches:
            watch.reschedule(0)
        await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _too_large()
        path, _, query = request.raw_path.partition("?") if False else (request.raw_path, "", "")
        answer = self._routes.handle(_api_request(request, body))
        if isinstance(answer, ApiResponse):
            return web.Response(
                status=answer.status,
                body=answer.body,
                headers={"Content-Type": answer.content_type},
            )
        return await self._stream(request, answer)

    async def _stream(self, request: web.BaseRequest, stream: WatchStream) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": _JSON})
        response.enable_chunked_encoding()
        if self._runner is None:
            # opened on a kept-alive connection while the front was closing
            watch = asyncio.timeout(0)
        watch = asyncio.timeout(None)
        self._watches.add(watch)
        try:
            async with watch:
                await response.prepare(request)
                async for line in stream:
                    await response.write(line)
        except TimeoutError:
            # the front is closing; the client sees the end of the stream
            pass
        except ConnectionResetError:
            # the client has gone
            return response
        finally:
            self._watches.discard(watch)
            await stream.aclose()
        await response.write_eof()
        return response
