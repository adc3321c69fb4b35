"""Faults, and the injection points at which they strike: calls, watch events, and their names."""

from typing import Any, Self

import attrs
import orjson

from kubedsm.kube.client.port import OutcomeUnknown, Request, Response, Unreachable
from kubedsm.model.model import MIGRATING_LABEL
from kubedsm_lab.emulator.front import RequestFault
from kubedsm_lab.emulator.http.paths import attributes_of

#: the family of what becomes of nodes, pods and their owners, whoever does it
WORLD = "world"
#: seconds that a lasting fault lasts
LASTING = 60.0
#: seconds longer than any time-out, after which nobody waits any more; and than that of a write
_NEVER, _LATE = 1e6, 12.0
_SEPARATOR, _ONE_MINUTE = ":", "/minute"


class UnknownFaultError(ValueError):
    """No fault is called so."""


@attrs.frozen(slots=True, order=True)
class Fault:
    """One thing that goes wrong, written `FAMILY:SITE:AT:WHAT`, with `/minute` if it lasts.

    `family` says what is disturbed: a call, a watch, the world, who leads. `site` is the kind of
    call or event at which it happens, `at` which of them, counted from 0.
    """

    family: str
    site: str
    at: int
    what: str
    lasting: bool = False

    def __str__(self) -> str:
        parts = (self.family, self.site, str(self.at), self.what)
        return _SEPARATOR.join(parts) + _ONE_MINUTE * self.lasting

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises UnknownFaultError."""
        parts = text.removesuffix(_ONE_MINUTE).split(_SEPARATOR)
        if len(parts) != len(attrs.fields(cls)) - 1 or not parts[2].isdecimal():
            raise UnknownFaultError(f"{text!r} is not FAMILY:SITE:AT:WHAT")
        family, site, at, what = parts
        return cls(family, site, int(at), what, text.endswith(_ONE_MINUTE))

    @property
    def cell(self) -> tuple[str, str, str]:
        """What it has in common with the same fault at another of these calls or events."""
        return self.family, self.site, self.what + _ONE_MINUTE * self.lasting


def answer(
    status: int, reason: str, body: bytes | None = None, cause: str = "", retry_after: int = 0
) -> Response:
    """What an API server that refuses says; `body` in place of a Status. Seconds."""
    causes = [{"reason": cause, "message": "a budget"}] if cause else []
    content = {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "code": status,
        "details": {"causes": causes, "retryAfterSeconds": retry_after},
    }
    return Response(status, orjson.dumps(content) if body is None else body)


APPLIED_LATE = "timeout-applied-late"
#: what becomes of a call
OUTCOMES = {
    "refused": RequestFault(Unreachable("connection refused")),
    "400": RequestFault(answer(400, "BadRequest")),
    "401": RequestFault(answer(401, "Unauthorized")),
    "403": RequestFault(answer(403, "Forbidden")),
    "404": RequestFault(answer(404, "NotFound")),
    "409": RequestFault(answer(409, "Conflict")),
    "410": RequestFault(answer(410, "Expired")),
    "422": RequestFault(answer(422, "Invalid")),
    # flow control answers in plain words, others with a Status that says when to come again
    "429-flow": RequestFault(answer(429, "", b"Too many requests, please try again later.\n")),
    "429-later": RequestFault(answer(429, "TooManyRequests", retry_after=10)),
    "429-budget": RequestFault(answer(429, "TooManyRequests", cause="DisruptionBudget")),
    "500": RequestFault(answer(500, "InternalError")),
    "500-applied": RequestFault(answer(500, "InternalError"), applied=True),
    "503": RequestFault(answer(503, "ServiceUnavailable")),
    "timeout": RequestFault(OutcomeUnknown("nobody answers"), delay=_NEVER),
    "timeout-applied": RequestFault(OutcomeUnknown("nobody answers"), applied=True, delay=_NEVER),
    APPLIED_LATE: RequestFault(
        OutcomeUnknown("nobody answers"), applied=True, late=_LATE, delay=_NEVER
    ),
    "reset": RequestFault(OutcomeUnknown("reset inside the body")),
    "reset-applied": RequestFault(OutcomeUnknown("reset inside the body"), applied=True),
    "html": RequestFault(answer(502, "", b"<html>Bad Gateway</html>")),
    "html-200": RequestFault(Response(200, b"<html>Log in</html>")),
}
#: a crash, and whether the API server got the call that it happened at
CRASHES = {
    "crash-before": RequestFault(Unreachable("killed")),
    "crash-applied": RequestFault(OutcomeUnknown("killed"), applied=True),
    "crash-after": None,
}


@attrs.frozen(slots=True)
class Event:
    """A line of a watch. Keys are namespace and name."""

    #: such as pods.MODIFIED
    site: str
    plural: str
    type: str
    key: tuple[str, str]
    object: dict[str, Any]
    line: bytes

    @property
    def about(self) -> str:
        return "/".join(part for part in self.key if part)

    @property
    def node(self) -> str:
        """Of a pod that has one."""
        return str(self.object.get("spec", {}).get("nodeName", ""))

    @property
    def version(self) -> int:
        return int(self.object["metadata"]["resourceVersion"])


def injection_point_of(request: Request) -> tuple[str, str]:
    """Its kind, such as create-pods/binding or patch-pods.detach, and what it is about."""
    asked = attributes_of(request.method, request.path, request.query)
    if asked.path:
        return f"get-{asked.path.strip('/')}", ""
    site = f"{asked.verb}-{asked.described}{_purpose(request)}"
    if asked.verb == "list" and asked.namespace:
        site += ".of-namespace"
    return site, "/".join(part for part in (asked.namespace, asked.name) if part)


def target_of(request: Request) -> str:
    """The node that a binding names."""
    body = request.body if isinstance(request.body, dict) else {}
    return str(body.get("target", {}).get("name", ""))


def _purpose(request: Request) -> str:
    """Of a call whose path does not tell what it is for."""
    if request.query.get("limit") == "1":
        return ".greeting"
    body = request.body if isinstance(request.body, dict) else {}
    if body.get("deleteOptions", {}).get("dryRun"):
        return ".dry-run"
    metadata = body.get("metadata", {}) if request.method == "PATCH" else {}
    labels = metadata.get("labels") or {}
    if MIGRATING_LABEL in labels:
        return ".reattach" if labels[MIGRATING_LABEL] is None else ".detach"
    return ""


def event_of(request: Request, line: bytes) -> Event:
    """What a line of the watch says; a bookmark is about nothing."""
    read = orjson.loads(line)
    plural = request.path.rpartition("/")[2]
    thing = read["object"]
    metadata = thing.get("metadata", {})
    key = (metadata.get("namespace", ""), metadata.get("name", ""))
    return Event(f"{plural}.{read['type']}", plural, read["type"], key, thing, line)
