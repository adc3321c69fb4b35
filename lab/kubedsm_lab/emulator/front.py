"""In-process connection to an emulated cluster: a `Cluster` without sockets, with fault injection.

Without faults the connection adds only latency and an await at each request and each line, so that
tasks interleave as on a network. `Faults` decide on anything else, request by request and line by
line, so runs with the same faults and seed are the same.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import attrs
import orjson

from kubedsm.kube.client.api_errors import api_error
from kubedsm.kube.client.port import (
    ClusterError,
    OutcomeUnknown,
    Request,
    Response,
)
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.http.routes import ApiRequest, Routes, Stream

_OK = 200


@attrs.frozen
class RequestFault:
    """Fault injected into one request: the error or response that the client receives, and whether
    and when the API server applies the request.
    """

    #: an error to raise, or a response in place of the API server's
    outcome: ClusterError | Response
    #: whether the API server applies the request before the outcome
    applied: bool = False
    #: seconds until the API server applies the request, independent of client timeouts
    late: float = 0.0
    #: seconds until the outcome; beyond the request's timeout the client gives up
    delay: float = 0.0


@attrs.frozen
class Delivery:
    """Watch lines delivered in place of an injected fault's event, and whether the connection then
    closes or breaks.
    """

    lines: tuple[bytes, ...]
    #: delay in seconds before the delivered lines
    delay: float = 0.0
    #: connection state after the lines: closed by the server, or broken
    end: Literal["", "closed", "broken"] = ""


class Faults:
    """Source of injected faults, consulted for each request and watch event in order; this base
    class injects none.
    """

    def on_request(self, request: Request) -> RequestFault | None:  # noqa: ARG002 - for subclasses
        """Return the fault to inject into an outgoing request or watch; None without fault."""
        return None

    def on_line(self, request: Request, line: bytes) -> Delivery | None:  # noqa: ARG002 - as above
        """Return the lines to deliver in place of a watch line; None to pass the line unchanged."""
        return None


class EmulatedFront:
    """`Cluster` implementation that calls the routes of an emulated API server directly.

    `latency` is in seconds, half of it before a request is applied and half before its response.
    `token` is the bearer token of every request.
    """

    def __init__(
        self,
        routes: Routes,
        clock: Clock,
        *,
        faults: Faults | None = None,
        latency: float = 0.0,
        token: str | None = None,
    ) -> None:
        self._routes = routes
        self._clock = clock
        self._faults = faults or Faults()
        self._latency = latency
        self._token = token

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Apply a request after half the latency; return the response (`Cluster.request`)."""
        try:
            async with asyncio.timeout(timeout):
                answer = await self._send(request)
                if isinstance(answer, Response):
                    return answer
                # consumed completely, like any unary response
                try:
                    return Response(_OK, b"".join([line async for line in answer]))
                finally:
                    await answer.aclose()
        except TimeoutError:
            raise _time_out(request, timeout) from None

    @asynccontextmanager
    async def stream(
        self,
        request: Request,
        *,
        timeout: float,
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Open a watch and yield its lines (`Cluster.stream`)."""
        try:
            async with asyncio.timeout(timeout):
                watch = await self._send(request)
        except TimeoutError:
            raise _time_out(request, timeout) from None
        if isinstance(watch, Response):
            raise api_error(watch)
        lines = self._lines(request, watch)
        try:
            yield lines
        finally:
            await lines.aclose()
            await watch.aclose()

    async def _send(self, request: Request) -> Response | Stream:
        fault = self._faults.on_request(request)
        await self._clock.sleep(self._latency / 2)
        if fault is not None:
            return await self._fail(request, fault)
        answer = self._routes.handle(self._api_request(request))
        if isinstance(answer, Stream):
            return answer
        await self._clock.sleep(self._latency / 2)
        return Response(answer.status, answer.body)

    async def _fail(self, request: Request, fault: RequestFault) -> Response:
        if fault.applied and fault.late:
            asyncio.get_running_loop().call_later(fault.late, self._apply, request)
        elif fault.applied:
            self._apply(request)
        await self._clock.sleep(self._latency / 2 + fault.delay)
        if isinstance(fault.outcome, ClusterError):
            # The error is shared by all requests: drop the traceback of the last one.
            raise fault.outcome.with_traceback(None)
        return fault.outcome

    def _apply(self, request: Request) -> None:
        """Apply a request whose client no longer waits, and discard the response."""
        answer = self._routes.handle(self._api_request(request))
        if isinstance(answer, Stream):
            answer.end()

    async def _lines(self, request: Request, watch: Stream) -> AsyncGenerator[bytes, None]:
        in_transit = 0
        async for full in watch:
            if not in_transit:
                # Lines that arrive during the delay are delivered together.
                await self._clock.sleep(self._latency / 2)
                in_transit = watch.waiting + 1
            in_transit -= 1
            line = full.rstrip(b"\n")
            delivery = self._faults.on_line(request, line) or Delivery((line,))
            if delivery.delay:
                await self._clock.sleep(delivery.delay)
            for other in delivery.lines:
                yield other
            if delivery.end == "broken":
                raise OutcomeUnknown(f"the watch on {request.path} broke")
            if delivery.end == "closed":
                return

    def _api_request(self, request: Request) -> ApiRequest:
        return ApiRequest(
            method=request.method,
            path=request.path,
            query=request.query,
            content_type=request.content_type,
            accept="application/json",
            body=b"" if request.body is None else orjson.dumps(request.body),
            token=self._token,
        )


def _time_out(request: Request, seconds: float) -> OutcomeUnknown:
    return OutcomeUnknown(f"{request.method} {request.path} had no answer within {seconds:g} s")
