"""Protocol of API clients: requests, responses, object paths, and errors.

Two servers implement `Cluster`: the Kubernetes API over HTTP (`kubernetes.KubernetesCluster`) and
the emulated cluster in this process (`emulator.front.EmulatedFront`). Lists, watches and binds are
the same code for both.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, Self

import attrs

from kubedsm.terminal.problems import Problem

CORE, APPS, POLICY, EVENTS = "/api/v1", "/apis/apps/v1", "/apis/policy/v1", "/apis/events.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1"
#: seconds for the response to a request; lists and Leases have limits of their own
TIMEOUT = 10.0
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
#: DNS subdomain by RFC 1123 with a length limit: validation of object names
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST = 253
#: the end of the name of the ConfigMap where proposals are approved
APPROVALS = "-approvals"
#: the end of the name of the Lease with the record of begun migrations
MIGRATIONS = "-migrations"


def _may_always_leave() -> bool:
    return True


@attrs.frozen(slots=True)
class Request:
    method: str
    #: without the query, such as /api/v1/namespaces/shop/pods/cart-1/binding
    path: str
    query: Mapping[str, str] = attrs.field(factory=dict)
    #: JSON value, or None for no body
    body: Any = None
    content_type: str = "application/json"
    #: called when the bytes are about to leave this process, however long that took. On False no
    #: byte is sent, and the request is Unreachable. Only called for requests with a body.
    may_leave: Callable[[], bool] = attrs.field(default=_may_always_leave, eq=False, repr=False)


@attrs.frozen(slots=True)
class Response:
    status: int
    #: raw body; JSON on every response of a healthy API server
    body: bytes
    #: seconds in the header Retry-After, as of a 429 or 503; 0 without
    retry_after: float = 0.0


class Cluster(Protocol):
    """Protocol of a client of one API server: requests and watch streams."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send one API request and return the whole response, whatever the HTTP status.

        Raises Unreachable without a connection, when nothing was applied. Raises OutcomeUnknown for
        a broken connection, or after `timeout` seconds, once the request may have been sent.
        """

    def stream(
        self, request: Request, *, timeout: float
    ) -> AbstractAsyncContextManager["AsyncIterator[bytes]"]:
        """Open a watch stream: an iterator over lines, without newlines.

        `timeout` bounds the wait for the response headers, not the stream. Raises as `request`
        does, and ApiStatusError for a status other than 200. A broken stream raises
        OutcomeUnknown from the iterator; the iterator ends with the stream.
        """


@attrs.define(eq=False)
class ClusterFront:
    """Base class of API client wrappers; passes watch streams through unchanged."""

    cluster: Cluster

    def stream(
        self, request: Request, *, timeout: float
    ) -> AbstractAsyncContextManager["AsyncIterator[bytes]"]:
        """Open a watch; see `Cluster.stream`."""
        return self.cluster.stream(request, timeout=timeout)


class ClusterError(Problem):
    """Error: the API server or the connection to the server failed."""


class CredentialsError(ClusterError):
    """Error: missing or expired API credentials; the message names source and cause."""


class Unreachable(ClusterError):
    """Error: no connection to the API server, hence the request was not applied."""


def not_sent(request: Request) -> Unreachable:
    """Return the error for a write that the write gate stopped before transmission."""
    return Unreachable(
        f"{request.method} {request.path} was not sent: this process may no longer lead"
    )


class OutcomeUnknown(ClusterError):
    """Error: the API server may or may not have applied the request; only the watch can tell."""


class ApiStatusError(ClusterError):
    """Error: the API server responded with an unsuccessful HTTP status."""

    def __init__(
        self, status: int, reason: str, message: str, causes: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        #: (reason, field or message) of each cause
        self.causes = causes
        #: seconds before which the server wants no further request
        self.retry_after = 0.0

    @property
    def namespace_terminating(self) -> bool:
        """True if the request failed because the namespace is being deleted."""
        return any(reason == "NamespaceTerminating" for reason, _ in self.causes)


class Unauthorized(ApiStatusError):
    """Error 401: the API server rejects the credentials."""


class Forbidden(ApiStatusError):
    """Error 403: RBAC, a quota or an admission plugin refused the request."""


class NotFound(ApiStatusError):
    """Error 404: the object is absent, or the server does not serve the resource."""


class Conflict(ApiStatusError):
    """Error 409: pod already bound, different uid, stale resourceVersion, or name taken."""


class Expired(ApiStatusError):
    """Error 410: the watch's resourceVersion is too old, and another list is needed."""


class Invalid(ApiStatusError):
    """Error 400, 405, 415 or 422: the API server rejects the request; retries are futile."""


class DisruptionBudgetExceeded(ApiStatusError):
    """Error 429 to an eviction: a PodDisruptionBudget currently refuses."""


class TooManyRequests(ApiStatusError):
    """Error 429: API priority and fairness rejects the request for now; retry later."""


class ServerError(ApiStatusError):
    """Error 5xx: the API server failed; a write may or may not have been applied."""


def is_name(text: str) -> bool:
    """Return True for a syntactically valid name of a Kubernetes object."""
    return len(text) <= _LONGEST and _SUBDOMAIN.fullmatch(text) is not None


@attrs.frozen(slots=True)
class ObjectName:
    """Namespace and name of an object."""

    namespace: str = "kubedsm"
    name: str = "kubedsm"

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse an object name in the form NAMESPACE/NAME. Raises ValueError."""
        namespace, _, name = text.partition("/")
        if not (is_name(namespace) and is_name(name)):
            raise ValueError(f"{text} is not NAMESPACE/NAME, such as kubedsm/kubedsm")
        return cls(namespace, name)

    @property
    def approvals(self) -> "ObjectName":
        """Name of the ConfigMap, next to the configuration's, where users approve migrations.

        Separate, since RBAC cannot distinguish patching annotations from patching data.
        """
        return ObjectName(self.namespace, f"{self.name}{APPROVALS}")

    @property
    def migrations(self) -> "ObjectName":
        """Name of the Lease with the record of begun migrations."""
        return ObjectName(self.namespace, f"{self.name}{MIGRATIONS}")

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def path_of(
    group: str, namespace: str | None, plural: str, name: str | None = None, subresource: str = ""
) -> str:
    """Return the API path of a resource in a namespace (None: of the cluster), of an object, or of
    a subresource.

    Names come from untrusted objects. Raises Invalid for other text, which could change the path.
    """
    for part in (namespace, name):
        if part is not None and not is_name(part):
            raise Invalid(400, "BadRequest", f"{part[:_LONGEST]!r} is not the name of an object")
    scope = "" if namespace is None else f"namespaces/{namespace}"
    return "/".join(filter(None, (group, scope, plural, name, subresource)))
