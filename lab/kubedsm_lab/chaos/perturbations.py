"""What may become of an event that a watch delivers. One object for each that goes wrong.

What client-go allows a watch to do (k8s.io/client-go/tools/cache): states are skipped, a deletion
and a creation may come as one change, there is no order between objects. And what it does not.
"""

from collections.abc import Callable
from typing import Any, Protocol

import orjson

from kubedsm.kube.client.port import Request, Response
from kubedsm_lab.chaos.faults import Event, answer
from kubedsm_lab.emulator.front import Delivery, RequestFault

#: seconds for which a change stays unseen, and by which one comes late
UNSEEN, LATE = 20.0, 5.0
#: seconds longer than any watch stays silent
_SILENT = 1e6
#: revisions by which a stale list is behind
BEHIND = 25

ListedAt = Callable[[Request, int], Response]


class Surroundings(Protocol):
    """What a perturbation may use besides the event."""

    def now(self) -> float: ...

    def listed_at(self, request: Request, revision: int) -> Response:
        """The answer of an API server that lags so far behind."""

    def kill(self) -> None: ...


class Perturbation:
    """Does nothing but let the event pass; others do in its place what they say."""

    #: whether it concerns every process, also one that is begun later
    of_all = False

    def __init__(self, surroundings: Surroundings) -> None:
        #: of the process whose event it struck
        self.surroundings = surroundings

    def strike(self, event: Event) -> Delivery | None:
        """What is delivered in place of the event."""
        raise NotImplementedError

    def on_line(self, _request: Request, _event: Event) -> Delivery | None:
        """What is delivered in place of an event after it."""
        return None

    def on_request(self, _request: Request) -> RequestFault | None:
        """What becomes of a request after it."""
        return None


class Once(Perturbation):
    """Something else in place of the one event."""

    def __init__(self, surroundings: Surroundings, delivery: Callable[[bytes], Delivery]) -> None:
        super().__init__(surroundings)
        self._delivery = delivery

    def strike(self, event: Event) -> Delivery:
        return self._delivery(event.line)


class Unseen(Perturbation):
    """What happens to an object is missed, until the watch is too old and all is listed anew."""

    def strike(self, event: Event) -> Delivery:
        self._plural, self._key = event.plural, event.key
        self._until = self.surroundings.now() + UNSEEN
        self._over = False
        return Delivery(())

    def on_line(self, _request: Request, event: Event) -> Delivery | None:
        if event.plural != self._plural or self._over:
            return None
        if self.surroundings.now() >= self._until:
            self._over = True
            return Delivery((_EXPIRED,), end="closed")
        return Delivery(()) if event.key == self._key else None

    def on_request(self, request: Request) -> RequestFault | None:
        ends = "watch" in request.query and request.path.endswith(f"/{self._plural}")
        if ends and not self._over:
            self._over = True
            return RequestFault(answer(410, "Expired"))
        return None


class Swapped(Perturbation):
    """It comes after the next event, if that is about something else."""

    def strike(self, event: Event) -> Delivery:
        self._held: Event | None = event
        return Delivery(())

    def on_line(self, _request: Request, event: Event) -> Delivery | None:
        held = self._held
        if held is None or event.plural != held.plural:
            return None
        self._held = None
        same = event.key == held.key
        return Delivery((held.line, event.line) if same else (event.line, held.line))


class Coalesced(Perturbation):
    """A deletion, and the creation of one with the same name, come as one change."""

    def strike(self, event: Event) -> Delivery:
        self._held: Event | None = event
        return Delivery(())

    def on_line(self, _request: Request, event: Event) -> Delivery | None:
        held = self._held
        if held is None or event.plural != held.plural or event.key != held.key:
            return None
        self._held = None
        return Delivery((_line("MODIFIED", event.object),))


class TimeTravel(Perturbation):
    """The watch ends, and the API server that answers next is far behind.

    With `restart` the process ends, too, and the one after it begins with what was.
    """

    of_all = True

    def __init__(self, surroundings: Surroundings, *, restart: bool) -> None:
        super().__init__(surroundings)
        self._restart = restart
        self._over = False

    def strike(self, event: Event) -> Delivery:
        self._path = ""
        self._plural, self._version = event.plural, event.version
        if self._restart:
            self.surroundings.kill()
        return Delivery((_EXPIRED,), end="closed")

    def on_request(self, request: Request) -> RequestFault | None:
        lists = request.method == "GET" and "watch" not in request.query
        if self._over or not lists or not request.path.endswith(f"/{self._plural}"):
            return None
        self._over = True
        behind = max(1, self._version - BEHIND)
        return RequestFault(self.surroundings.listed_at(request, behind))


def _line(kind: str, thing: Any) -> bytes:
    return orjson.dumps({"type": kind, "object": thing})


def _error(status: int, reason: str) -> bytes:
    return _line("ERROR", {"kind": "Status", "code": status, "reason": reason})


_EXPIRED = _error(410, "Expired")
_BOOKMARK_0 = _line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "0"}})

_DELIVERIES: dict[str, Callable[[bytes], Delivery]] = {
    "duplicate": lambda line: Delivery((line, line)),
    "delay": lambda line: Delivery((line,), delay=LATE),
    "truncate": lambda line: Delivery((line[: len(line) // 2],), end="broken"),
    "410": lambda _: Delivery((_EXPIRED,), end="closed"),
    "error": lambda _: Delivery((_error(500, "InternalError"),), end="closed"),
    "closed": lambda _: Delivery((), end="closed"),
    "broken": lambda line: Delivery((line,), end="broken"),
    "silence": lambda _: Delivery((), delay=_SILENT),
    "bookmark-0": lambda line: Delivery((_BOOKMARK_0, line)),
    "garbage": lambda line: Delivery((b"\x00no JSON", line)),
}
_OTHERS: dict[str, Callable[[Surroundings], Perturbation]] = {
    "unseen": Unseen,
    "swap": Swapped,
    "coalesce": Coalesced,
    "stale-list": lambda surroundings: TimeTravel(surroundings, restart=False),
    "stale-restart": lambda surroundings: TimeTravel(surroundings, restart=True),
}
PERTURBATIONS = (*_DELIVERIES, *_OTHERS)


def perturbation(what: str, surroundings: Surroundings) -> Perturbation:
    """One of `PERTURBATIONS`."""
    if what in _DELIVERIES:
        return Once(surroundings, _DELIVERIES[what])
    return _OTHERS[what](surroundings)
