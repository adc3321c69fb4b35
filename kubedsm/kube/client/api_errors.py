"""Classification of the API server's error responses by HTTP status and Status object.

Separate from `port`: command-line help must not import msgspec.
"""

import asyncio
import http
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from kubedsm.kube.client.port import (
    TIMEOUT,
    ApiStatusError,
    Cluster,
    Conflict,
    DisruptionBudgetExceeded,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Request,
    Response,
    ServerError,
    TooManyRequests,
    Unauthorized,
)

_SERVER_ERRORS = 500
#: characters of an unstructured error body
_EXCERPT = 200
#: seconds that a repeated request has at least
_LEAST = 1.0
_MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)

_BY_STATUS: dict[int, type[ApiStatusError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Invalid,
    409: Conflict,
    410: Expired,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooManyRequests,
}


class Cause(msgspec.Struct, frozen=True):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class Details(msgspec.Struct, frozen=True):
    causes: tuple[Cause, ...] | None = None


class Status(msgspec.Struct, frozen=True):
    """`meta/v1` Status, the body of every error and of a watch's ERROR event."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: Details | None = None


_STATUS = msgspec.json.Decoder(Status)


def status_error(status: Status, code: int) -> ApiStatusError:
    """Convert an API Status object to an error; `code`: HTTP status if the object has none."""
    code = status.code or code
    causes = tuple(
        (cause.reason or "", cause.field or cause.message or "")
        for cause in (status.details and status.details.causes) or ()
    )
    kind = _BY_STATUS.get(code)
    if kind is None:
        kind = ServerError if code >= _SERVER_ERRORS else ApiStatusError
    if kind is TooManyRequests and any(reason == "DisruptionBudget" for reason, _ in causes):
        kind = DisruptionBudgetExceeded
    reason = status.reason or _reason_phrase(code)
    return kind(code, reason, " ".join((status.message or "no message").split()), causes)


def api_error(response: Response) -> ApiStatusError:
    """Convert an unsuccessful API response to an error.

    The body may be a Status object. Proxies and overloaded servers send HTML, plain text or
    nothing instead.
    """
    try:
        parsed = _STATUS.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = " ".join(_MARKUP.sub(" ", response.body.decode(errors="replace")).split())
        parsed = Status(message=text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…")
    # A code in the body must not turn a refusal into something else.
    status = response.status
    error = status_error(msgspec.structs.replace(parsed, code=status), status)
    error.retry_after = response.retry_after
    return error


async def send(
    cluster: Cluster,
    method: str,
    path: str,
    body: Any = None,
    *,
    query: Mapping[str, str] | None = None,
    content_type: str = "application/json",
    timeout: float = TIMEOUT,
) -> bytes:
    """Send an API request and return the response body.

    A refused request is repeated after the server's Retry-After, within the timeout (as client-go).

    Raises ApiStatusError for an unsuccessful status. Raises OutcomeUnknown for a body without JSON,
    such as a proxy's page: the request may not have reached an API server.
    """
    request = Request(method, path, query or {}, body, content_type)
    now = asyncio.get_running_loop().time
    until = now() + timeout
    while True:
        response = await cluster.request(request, timeout=timeout)
        if response.status // 100 == 2:  # noqa: PLR2004  the class of successes
            break
        error = api_error(response)
        if not await _await_retry(error, until - now(), is_read=method == "GET"):
            raise error
        timeout = until - now()
    if not response.body.lstrip().startswith(b"{"):
        raise OutcomeUnknown(
            f"answered {response.status} with no JSON object: is it an API server?"
        )
    return response.body


async def _await_retry(error: ApiStatusError, left: float, *, is_read: bool) -> bool:
    """Wait until the server wants another request; return True if the request may be repeated.

    `left`: seconds until the request's timeout. If the server wants no request before, a write
    waits for the timeout, against early retries by the caller; a reflector paces its reads itself.
    A 429 proves that the request was not applied; a 503 to a write does not. A budget's 429 to an
    eviction is no overload: the caller decides at once.
    """
    pause = error.retry_after
    fits = pause + _LEAST <= left
    if not pause or isinstance(error, DisruptionBudgetExceeded) or (is_read and not fits):
        return False
    await asyncio.sleep(min(pause, left))
    return fits and (is_read or isinstance(error, TooManyRequests))


def _reason_phrase(code: int) -> str:
    try:
        return http.HTTPStatus(code).phrase.replace(" ", "")
    except ValueError:
        return "Unknown"
