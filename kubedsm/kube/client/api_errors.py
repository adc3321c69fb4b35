"""From what an API server answers to the error that says what it means."""

import http
import re

import msgspec

from kubedsm.kube.client import port

_BY_STATUS: dict[int, type[port.ApiStatusError]] = {
    400: port.Invalid,
    401: port.Unauthorized,
    403: port.Forbidden,
    404: port.NotFound,
    405: port.Invalid,
    409: port.Conflict,
    410: port.Expired,
    413: port.Invalid,
    415: port.Invalid,
    422: port.Invalid,
    429: port.TooManyRequests,
}
_SERVER_ERRORS = 500
#: of a body that is no Status object, as much as fits on a line
_EXCERPT = 200
_MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


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


def status_error(status: Status, code: int) -> port.ApiStatusError:
    """The error of a Status object; `code` is what HTTP said, for a Status that does not say."""
    code = status.code or code
    causes = tuple(
        (cause.reason or "", cause.field or cause.message or "")
        for cause in (status.details and status.details.causes) or ()
    )
    kind = _BY_STATUS.get(code)
    if kind is None:
        kind = port.ServerError if code >= _SERVER_ERRORS else port.ApiStatusError
    if kind is port.TooManyRequests and any(reason == "DisruptionBudget" for reason, _ in causes):
        kind = port.DisruptionBudgetExceeded
    reason = status.reason or _phrase(code)
    return kind(code, reason, " ".join((status.message or "no message").split()), causes)


def body_of(answer: port.Response) -> bytes:
    """The body of an answer.

    Raises ApiStatusError for one that is no success, OutcomeUnknown for one that no API server
    gives, such as a proxy's page: whether the request came to one, it does not say.
    """
    if answer.status // 100 != 2:  # noqa: PLR2004  the class of successes
        raise api_error(answer.status, answer.body)
    if not answer.body.lstrip().startswith(b"{"):
        raise port.OutcomeUnknown(
            f"answered {answer.status} with no JSON object: is it an API server?"
        )
    return answer.body


def api_error(status: int, body: bytes) -> port.ApiStatusError:
    """The error of an answer that is not a success.

    The body may be a Status object, or what proxies and overloaded servers send instead: HTML,
    plain text, nothing.
    """
    try:
        parsed = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = " ".join(_MARKUP.sub(" ", body.decode(errors="replace")).split())
        parsed = Status(message=text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…")
    # A body's own idea of the code must not turn a refusal into something else.
    return status_error(msgspec.structs.replace(parsed, code=status), status)


def _phrase(code: int) -> str:
    try:
        return http.HTTPStatus(code).phrase.replace(" ", "")
    except ValueError:
        return "Unknown"
