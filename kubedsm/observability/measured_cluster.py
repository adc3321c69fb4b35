"""API client wrapper that measures the duration of each request."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import attrs

from kubedsm.kube.client.port import ApiStatusError, Cluster, ClusterError, Request, Response
from kubedsm.process.clock import Clock

#: client-go's code of a request without a response
NO_ANSWER = "<error>"


@attrs.frozen
class MeasuredCluster:
    """API client wrapper that reports each completed request to `on_answered`: the request, its
    status or NO_ANSWER, and its seconds. A watch is complete after the response headers.
    """

    cluster: Cluster
    clock: Clock
    on_answered: Callable[[Request, str, float], None]

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send an API request and report its duration; see `Cluster.request`."""
        began, code = self.clock.monotonic(), NO_ANSWER
        try:
            response = await self.cluster.request(request, timeout=timeout)
            code = str(response.status)
        except ClusterError:
            self._report_request(request, code, began)
            raise
        self._report_request(request, code, began)
        return response

    @asynccontextmanager
    async def stream(
        self, request: Request, *, timeout: float
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Open a watch stream, and report the time until headers arrive; see `Cluster.stream`."""
        began, opened = self.clock.monotonic(), False
        try:
            async with self.cluster.stream(request, timeout=timeout) as lines:
                opened = True
                self._report_request(request, str(HTTPStatus.OK.value), began)
                yield lines
        except ClusterError as error:
            if not opened:
                status = error.status if isinstance(error, ApiStatusError) else NO_ANSWER
                self._report_request(request, str(status), began)
            raise

    def _report_request(self, request: Request, code: str, began: float) -> None:
        self.on_answered(request, code, self.clock.monotonic() - began)
