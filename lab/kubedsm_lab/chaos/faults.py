"""Faults by name, and the injection points (requests and watch events) where they strike."""

import asyncio
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Self

import attrs
import orjson

from kubedsm.kube.client.port import OutcomeUnknown, Request, Response, Unreachable
from kubedsm.model.model import MIGRATING_LABEL
from kubedsm_lab.emulator.front import RequestFault
from kubedsm_lab.emulator.http.paths import attributes_of

#: families: requests, watch events, incidents (changes of nodes, pods and their owners), and
#: interruptions of a scheduler process
CALL, WATCH, WORLD, PROCESS = "call", "watch", "world", "process"
#: duration of a persistent fault, in seconds
LASTING = 60.0
#: seconds: longer than every timeout, and longer than the timeout of a write
_NEVER, _LATE = 1e6, 12.0
_SEPARATOR, _ONE_MINUTE = ":", "/minute"


class UnknownFaultError(ValueError):
    """Error: the text does not name a fault that chaos runs can inject."""


@attrs.frozen(slots=True, order=True)
class Fault:
    """Fault to inject into a chaos run, written `FAMILY:POINT:AT:WHAT`, with `/minute` if the fault
    lasts a minute.

    `family` names the disturbed component: a call, a watch, the world, a process. `point` is the
    injection point, a kind of request or event, and `at` the number of the request, from 0.
    """

    family: str
    point: str
    at: int
    what: str
    lasting: bool = False

    def __str__(self) -> str:
        parts = (self.family, self.point, str(self.at), self.what)
        return _SEPARATOR.join(parts) + _ONE_MINUTE * self.lasting

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a fault's text form `FAMILY:POINT:AT:WHAT`. Raises UnknownFaultError."""
        parts = text.removesuffix(_ONE_MINUTE).split(_SEPARATOR)
        if len(parts) != len(attrs.fields(cls)) - 1 or not parts[2].isdecimal():
            raise UnknownFaultError(f"{text!r} is not FAMILY:POINT:AT:WHAT")
        family, point, at, what = parts
        return cls(family, point, int(at), what, text.endswith(_ONE_MINUTE))

    @property
    def cell(self) -> tuple[str, str, str]:
        """Return family, injection point and kind of the fault: the unit of coverage."""
        return self.family, self.point, self.what + _ONE_MINUTE * self.lasting

    @property
    def title(self) -> str:
        """Return family and name of the fault."""
        return f"{self.family} {self.cell[2]}"

    @property
    def kind(self) -> str:
        """Return the kind of the fault: faults that a scheduler recovers from in one way."""
        if self.family == CALL and self.lasting and self.what not in CRASHES:
            return "outage"
        return KINDS[self.family][self.what]

    @property
    def fault_class(self) -> tuple[str, str]:
        """Return kind and class of injection points: the unit of coverage of two faults at once."""
        return self.kind, _classify_point(self.point)


def answer(
    status: int, reason: str, body: bytes | None = None, cause: str = "", retry_after: int = 0
) -> Response:
    """Return an API server's error response with a Status object, or with `body` instead.

    `retry_after` is the value of the Retry-After header in seconds.
    """
    causes = [{"reason": cause, "message": "a budget"}] if cause else []
    content = {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "code": status,
        "details": {"causes": causes, "retryAfterSeconds": retry_after},
    }
    return Response(status, orjson.dumps(content) if body is None else body, retry_after)


APPLIED_LATE = "timeout-applied-late"
#: injectable outcomes of a request, by identifier
OUTCOMES = {
    "refused": RequestFault(Unreachable("connection refused")),
    "400": RequestFault(answer(400, "BadRequest")),
    "401": RequestFault(answer(401, "Unauthorized")),
    "403": RequestFault(answer(403, "Forbidden")),
    "404": RequestFault(answer(404, "NotFound")),
    "409": RequestFault(answer(409, "Conflict")),
    "410": RequestFault(answer(410, "Expired")),
    "422": RequestFault(answer(422, "Invalid")),
    # Flow control responds in plain text, admission with a Status including a retry delay.
    "429-flow": RequestFault(answer(429, "", b"Too many requests, please try again later.\n")),
    "429-later": RequestFault(answer(429, "TooManyRequests", retry_after=10)),
    "429-budget": RequestFault(answer(429, "TooManyRequests", cause="DisruptionBudget")),
    "500": RequestFault(answer(500, "InternalError")),
    "500-applied": RequestFault(answer(500, "InternalError"), applied=True),
    "503": RequestFault(answer(503, "ServiceUnavailable")),
    "timeout": RequestFault(OutcomeUnknown("no response"), delay=_NEVER),
    "timeout-applied": RequestFault(OutcomeUnknown("no response"), applied=True, delay=_NEVER),
    APPLIED_LATE: RequestFault(
        OutcomeUnknown("no response"), applied=True, late=_LATE, delay=_NEVER
    ),
    "reset": RequestFault(OutcomeUnknown("reset inside the body")),
    "reset-applied": RequestFault(OutcomeUnknown("reset inside the body"), applied=True),
    "html": RequestFault(answer(502, "", b"<html>Bad Gateway</html>")),
    "html-200": RequestFault(Response(200, b"<html>Log in</html>")),
}
#: crashes of the process before, during or after a request
CRASHES = {
    "crash-before": RequestFault(Unreachable("killed")),
    "crash-applied": RequestFault(OutcomeUnknown("killed"), applied=True),
    "crash-after": None,
}


def _split_names(kinds: Mapping[str, str]) -> dict[str, str]:
    return {name: kind for kind, names in kinds.items() for name in names.split()}


#: kind of each fault by family and name; a request that fails for a minute is an outage
KINDS = {
    CALL: _split_names({
        "refusal": "refused 400 401 403 404 409 410 422 429-flow 429-later 429-budget",
        "loss": "500 503 timeout reset html html-200",
        "lost response": f"500-applied timeout-applied {APPLIED_LATE} reset-applied",
        "crash": " ".join(CRASHES),
    }),
    WATCH: _split_names({
        "watch ends": "truncate 410 error closed broken silence",
        "disorder": "duplicate delay bookmark-0 garbage swap coalesce",
        "lost event": "unseen",
        "old list": "stale-list stale-restart",
    }),
    WORLD: _split_names({
        "node": "node-lost node-deleted node-cordoned node-shrunk node-filled",
        "pod": "pod-deleted pod-destroyed pod-evicted pod-bound pod-held",
        "owner": "scaled-to-0 one-more rolled-out undeployed",
        "limit": "controllers-stopped quota budget budget-forbids two-budgets",
    }),
    PROCESS: _split_names({
        "pause": "stopped-before stopped-left stopped-after stopped-late"
        " suspended-before suspended-after",
        "partition": "cut-before cut-left leases-lost",
        "termination": "terminated-before terminated-after",
        "clock": "hour-forth hour-back second-back",
    }),
}  # fmt: skip
#: classes of injection points, by regular expressions, in order
POINTS = (
    (r"create-pods/binding", "bind"),
    (r"create-pods/eviction", "evict"),
    (r"patch-pods\.", "mark"),
    (r".*-leases", "lease"),
    (r"list-|watch-|get-version", "list"),
    (r"get-", "read"),
    (r"(create|patch|update|delete)-", "write"),
    (r"pods\.", "pod event"),
    (r"", "event"),
)


@cache
def _classify_point(point: str) -> str:
    return next(name for pattern, name in POINTS if re.match(pattern, point))


@attrs.frozen(slots=True)
class Event:
    """Decoded watch event: injection point, event type and object; `key` is the object's namespace
    and name.
    """

    #: injection point, such as pods.MODIFIED
    point: str
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
        """Return the node that the event's pod is bound to, or ""."""
        return str(self.object.get("spec", {}).get("nodeName", ""))

    @property
    def version(self) -> int:
        return int(self.object["metadata"]["resourceVersion"])


def injection_point_of(request: Request) -> tuple[str, str]:
    """Return a request's injection point, such as create-pods/binding, and its object's name."""
    attributes = attributes_of(request.method, request.path, request.query)
    if attributes.path:
        return f"get-{attributes.path.strip('/')}", ""
    point = f"{attributes.verb}-{attributes.described}{_purpose_suffix(request)}"
    if attributes.verb == "list" and attributes.namespace:
        point += ".of-namespace"
    return point, "/".join(part for part in (attributes.namespace, attributes.name) if part)


def target_of(request: Request) -> str:
    """Return the target node of a Binding request, or ""."""
    body = request.body if isinstance(request.body, dict) else {}
    return str(body.get("target", {}).get("name", ""))


def _purpose_suffix(request: Request) -> str:
    """Return a suffix that distinguishes requests of equal method and path by purpose, such as
    `.detach` or `.dry-run`.
    """
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
    """Decode a line of a watch response into an Event; a bookmark has no key."""
    read = orjson.loads(line)
    plural = request.path.rpartition("/")[2]
    thing = read["object"]
    metadata = thing.get("metadata", {})
    key = (metadata.get("namespace", ""), metadata.get("name", ""))
    return Event(f"{plural}.{read['type']}", plural, read["type"], key, thing, line)


def loop_time() -> float:
    """Return the virtual time in seconds, from the running event loop."""
    return asyncio.get_running_loop().time()
