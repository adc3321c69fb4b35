"""The emulated cluster as a `Cluster` in this process: no socket, virtual time, faults on demand.

Without faults it only adds what every network has: an await at each request and each line, so
that tasks interleave, and latency if told to. A `Faults` decides what else goes wrong, request by
request and line by line, so that a run with the same faults and seed is the same run.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, Protocol

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
from kubedsm_lab.emulator.http.routes import Answer, ApiRequest, Stream

_OK = 200


@attrs.frozen
class RequestFault:
    """What becomes of one request."""

    #: an error to raise, or an answer that is not the API server's
    outcome: ClusterError | Response
    #: whether the API server got the request and did what it says, before the outcome
    applied: bool = False
    #: seconds before the API server does it, whether anybody still waits for the outcome or not
    late: float = 0.0
    #: seconds before the outcome, which nobody waits for if it is beyond the request's timeout
    delay: float = 0.0


@attrs.frozen
class Delivery:
    """What a watch delivers in place of one line: nothing, parts of it, other lines, an end."""

    lines: tuple[bytes, ...]
    #: seconds before the lines
    delay: float = 0.0
    #: after the lines: closed by the server, or broken
    end: Literal["", "closed", "broken"] = ""


class Faults(Protocol):
    """Decides what goes wrong. Called in the order in which things happen."""

    def on_request(self, request: Request) -> RequestFault | None:
        """Before a request, or the opening of a watch, is sent; None if it goes well."""

    def on_line(self, request: Request, line: bytes) -> Delivery | None:
        """Before a line of a watch is delivered; None if it goes well."""


class Answering(Protocol):
    """What answers: the routes of an API server, or what stands in front of them."""

    def handle(self, request: ApiRequest) -> Answer:
        """Answer at once; a watch's events come later, from the stream."""


class NoFaults:
    def on_request(self, request: Request) -> RequestFault | None:  # noqa: ARG002 - the protocol's
        return None

    def on_line(self, request: Request, line: bytes) -> Delivery | None:  # noqa: ARG002 - as above
        return None


class EmulatedFront:
    """A `Cluster` on the routes of an emulated API server.

    `latency`: seconds, half of them before a request is applied and half before its answer is
    there. `token`: what every request carries.
    """

    def __init__(
        self,
        routes: Answering,
        clock: Clock,
        *,
        faults: Faults | None = None,
        latency: float = 0.0,
        token: str | None = None,
    ) -> None:
        self._routes = routes
        self._clock = clock
        self._faults = faults or NoFaults()
        self._latency = latency
        self._token = token

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As `Cluster.request`."""
        try:
            async with asyncio.timeout(timeout):
                return await self._exchange(request)
        except TimeoutError:
            raise _timed_out(request, timeout) from None

    @asynccontextmanager
    async def stream(
        self,
        request: Request,
        *,
        timeout: float,
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """As `Cluster.stream`."""
        try:
            async with asyncio.timeout(timeout):
                watch = await self._open(request)
        except TimeoutError:
            raise _timed_out(request, timeout) from None
        lines = self._lines(request, watch)
        try:
            yield lines
        finally:
            await lines.aclose()
            await watch.aclose()

    async def _exchange(self, request: Request) -> Response:
        answer = await self._sent(request)
        if isinstance(answer, Stream):
            # read to its end, as any other body
            try:
                body = b"".join([line async for line in answer])
            finally:
                await answer.aclose()
            return Response(_OK, body)
        return answer

    async def _open(self, request: Request) -> Stream:
        answer = await self._sent(request)
        if isinstance(answer, Stream):
            return answer
        raise api_error(answer.status, answer.body)

    async def _sent(self, request: Request) -> Response | Stream:
        fault = self._faults.on_request(request)
        await self._clock.sleep(self._latency / 2)
        if fault is not None:
            return await self._faulty(request, fault)
        answer = self._routes.handle(self._api_request(request))
        if isinstance(answer, Stream):
            return answer
        await self._clock.sleep(self._latency / 2)
        return Response(answer.status, answer.body)

    async def _faulty(self, request: Request, fault: RequestFault) -> Response:
        if fault.applied and fault.late:
            asyncio.get_running_loop().call_later(fault.late, self._apply, request)
        elif fault.applied:
            self._apply(request)
        await self._clock.sleep(self._latency / 2 + fault.delay)
        if isinstance(fault.outcome, ClusterError):
            # The same one each time: without what it went through the last time.
            raise fault.outcome.with_traceback(None)
        return fault.outcome

    def _apply(self, request: Request) -> None:
        """Have it done; nobody hears of the answer."""
        answer = self._routes.handle(self._api_request(request))
        if isinstance(answer, Stream):
            answer.end()

    async def _lines(self, request: Request, watch: Stream) -> AsyncGenerator[bytes, None]:
        on_the_way = 0
        async for full in watch:
            if not on_the_way:
                # What comes meanwhile arrives together with this line.
                await self._clock.sleep(self._latency / 2)
                on_the_way = watch.waiting + 1
            on_the_way -= 1
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
            user_agent="kubedsm",
        )


def _timed_out(request: Request, seconds: float) -> OutcomeUnknown:
    return OutcomeUnknown(f"{request.method} {request.path} had no answer within {seconds:g} s")
