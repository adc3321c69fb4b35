"""API client wrapper that measures the duration of each request."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus

import attrs

from kubedsm.kube.client.port import ApiStatusError, Cluster, ClusterError, Request, Response
from kubedsm.process.clock import Clock

#: client-go's code of a request without a response
NO_ANSWER = "<error>"

_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


@attrs.frozen(slots=True)
class Answered:
    """Completed API request with its duration; a watch is complete after the response headers."""

    request: Request
    #: status, or NO_ANSWER
    code: str
    seconds: float

    @property
    def resource(self) -> str:
        """Resource of the request in RBAC terminology: `pods`, `pods/binding`."""
        return _name_resource(self.request.path)

    @property
    def verb(self) -> str:
        """Verb of the request in RBAC terminology: `get`, `list`, `watch`, `create`."""
        if self.request.method != "GET":
            return _VERBS.get(self.request.method, self.request.method.lower())
        if "watch" in self.request.query:
            return "watch"
        return "get" if _names_one(self.request.path) else "list"


def _below_group(path: str) -> list[str]:
    """Return the API path's components from the resource on; empty for paths such as /version."""
    parts = path.strip("/").split("/")
    groups = {"api": 2, "apis": 3}.get(parts[0], len(parts))
    below = parts[groups:]
    return below[2:] if below[:1] == ["namespaces"] and len(below) > 2 else below  # noqa: PLR2004


def _name_resource(path: str) -> str:
    below = _below_group(path)
    return "/".join(below[::2][:2]) or path


def _names_one(path: str) -> bool:
    return len(_below_group(path)) != 1


@attrs.frozen
class MeasuredCluster:
    """API client wrapper that reports each completed request to `on_answered`."""

    cluster: Cluster
    clock: Clock
    on_answered: Callable[[Answered], None]

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

    def stream(
        self, request: Request, *, timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch stream, and report the time until headers arrive; see `Cluster.stream`."""
        return self._open_stream(request, timeout)

    @asynccontextmanager
    async def _open_stream(
        self, request: Request, timeout: float
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
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
        self.on_answered(Answered(request, code, self.clock.monotonic() - began))
