"""Requests to migrate pods, and the answers of the scheduler: annotations in JSON.

A request is on a ConfigMap of the scheduler (`runtime.move_requests`), its answer on an Event about
that ConfigMap.
"""

from typing import Literal

import msgspec

REQUEST_ANNOTATION = "kubedsm.io/requested-moves"
ANSWER_ANNOTATION = "kubedsm.io/requested-moves-answer"
#: characters of a request: all annotations of an object together may have 256 KiB
LONGEST = 100_000

#: nothing is done; it is being done; it is done, as far as it could be; and nobody knows
State = Literal["refused", "taken", "ended", "lost"]
#: why a request is refused
Cause = Literal["paused", "stale", "busy", "unreadable"]


class RequestedMove(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """As in `core.moving.suggestion.Move`."""

    #: namespace/name
    pod: str
    uid: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    stopover: str = ""
    #: by name: the legs that must be over before it reaches its target
    needs: tuple[str, ...] = ()
    group: int = 0
    gain: float = 0.0
    rebalances: bool = False
    load_scores: tuple[float, float] | None = None


class MoveRequest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    #: tells requests apart
    id: str
    #: seconds since the epoch
    at: float
    #: the id of the moves, which the scheduler itself may have proposed: then they are not said
    proposal: str
    moves: tuple[RequestedMove, ...] = ()

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


class MoveAnswer(msgspec.Struct, frozen=True):
    """What became of a move."""

    pod: str
    target: str
    #: as in `why.entries.Outcome`
    outcome: str
    reason: str = ""

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.pod} to {self.target} {self.outcome}{reason}"


class RequestAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    #: the request's id
    request: str
    state: State
    #: for people
    text: str
    cause: Cause | None = None
    moves: tuple[MoveAnswer, ...] = ()

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


class UnreadableRequestError(ValueError):
    """The annotation is no request."""


_REQUEST = msgspec.json.Decoder(MoveRequest)
_ANSWER = msgspec.json.Decoder(RequestAnswer)
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def request_in(annotation: str) -> MoveRequest:
    """Raise UnreadableRequestError with what is wrong, in a line."""
    if len(annotation) > LONGEST:
        raise UnreadableRequestError(f"it has more than {LONGEST} characters")
    try:
        return _REQUEST.decode(annotation)
    except _UNREADABLE as error:
        raise UnreadableRequestError(" ".join(str(error).split())) from None


def answer_in(annotation: str) -> RequestAnswer | None:
    """None if it is none."""
    try:
        return _ANSWER.decode(annotation)
    except _UNREADABLE:
        return None
