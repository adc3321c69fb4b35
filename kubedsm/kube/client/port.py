"""The one seam between us and an API server: requests and streams, and what their errors mean.

Two things stand behind it, the Kubernetes API over HTTP (`kubernetes.KubernetesCluster`) and the
emulated cluster in this process (`emulator.front.EmulatedFront`). Everything above it, lists,
watches, binds, is the same code for both.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import attrs

from kubedsm.terminal.problems import Problem


def _always() -> bool:
    return True


@attrs.frozen(slots=True)
class Request:
    method: str
    #: without the query, such as /api/v1/namespaces/shop/pods/cart-1/binding
    path: str
    query: Mapping[str, str] = attrs.field(factory=dict)
    #: a JSON value, or None for no body
    body: Any = None
    content_type: str = "application/json"
    #: asked when its bytes are about to leave this process, however long that took: if they may not
    #: any more, none does, and it is Unreachable. Only asked of requests that have a body.
    may_leave: Callable[[], bool] = attrs.field(default=_always, eq=False, repr=False)


@attrs.frozen(slots=True)
class Response:
    status: int
    #: the body as it came; JSON on every answer of a healthy API server
    body: bytes


class Cluster(Protocol):
    """An API server."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send one request and read its whole answer, whatever its status.

        Raises Unreachable if no connection came about, so that nothing was applied, and
        OutcomeUnknown if the connection broke or `timeout` seconds passed after the request may
        have been sent.
        """

    def stream(
        self, request: Request, *, timeout: float
    ) -> AbstractAsyncContextManager["AsyncIterator[bytes]"]:
        """Open a watch: an iterator over its lines, without their newlines.

        `timeout` bounds the wait for the answer's headers, not the stream. Raises as `request`
        does, and ApiStatusError if the answer is not 200. A stream that breaks raises
        OutcomeUnknown from the iterator; one that the server closes just ends.
        """


class ClusterError(Problem):
    """Something the API server, or the way to it, did to us. Never a bug of ours."""


class CredentialsError(ClusterError):
    """No usable credentials, or none any more; one line says where and why."""


class Unreachable(ClusterError):
    """No connection came about: nothing was applied."""


def not_sent(request: Request) -> Unreachable:
    """What a request is that may not leave."""
    return Unreachable(f"{request.method} {request.path} was not sent: not leading for sure now")


class OutcomeUnknown(ClusterError):
    """The request may or may not have been applied; only the watch can tell."""


class ApiStatusError(ClusterError):
    """The API server answered with a status that is not a success."""

    def __init__(
        self, status: int, reason: str, message: str, causes: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        #: (reason, field or message) of each cause
        self.causes = causes

    @property
    def namespace_terminating(self) -> bool:
        """The namespace is being deleted, and takes nothing new."""
        return any(reason == "NamespaceTerminating" for reason, _ in self.causes)


class Unauthorized(ApiStatusError):
    """401: the credentials are not accepted."""


class Forbidden(ApiStatusError):
    """403: RBAC, a quota or an admission plugin refused."""


class NotFound(ApiStatusError):
    """404: the object is gone (or the server does not serve that resource)."""


class Conflict(ApiStatusError):
    """409: already bound, another uid, a stale resourceVersion, a name taken."""


class Expired(ApiStatusError):
    """410: the resourceVersion is too old; list again."""


class Invalid(ApiStatusError):
    """400, 405, 415, 422: a request that no retry will make right."""


class DisruptionBudgetExceeded(ApiStatusError):
    """429 to an eviction: a budget refuses it for now."""


class TooManyRequests(ApiStatusError):
    """429 of priority and fairness: come back later."""


class ServerError(ApiStatusError):
    """5xx: the server could not. It may or may not have applied a write."""
