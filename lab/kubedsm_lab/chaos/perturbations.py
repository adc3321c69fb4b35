"""Perturbations of watch events: one object for each disturbed event.

client-go (k8s.io/client-go/tools/cache) allows a watch to skip states, to deliver a deletion and a
creation as one change, and to deliver events of different objects in any order. Others go beyond.
"""

from collections.abc import Callable
from typing import Any, Protocol

import orjson

from kubedsm.kube.client.port import Request, Response
from kubedsm_lab.chaos.faults import Event, answer
from kubedsm_lab.emulator.front import Delivery, RequestFault

#: seconds for which changes are missed, and delay of a late event
UNSEEN, LATE = 20.0, 5.0
#: seconds longer than any watch stays silent
_SILENT = 1e6
#: revisions by which a stale list is behind
BEHIND = 25

ListedAt = Callable[[Request, int], Response]


class Surroundings(Protocol):
    """Environment of a perturbation."""

    def now(self) -> float: ...

    def list_at(self, request: Request, revision: int) -> Response:
        """Return the response of an API server that is behind, at that revision."""

    def kill(self) -> None: ...


class Perturbation:
    """Base class: events and requests after the disturbed one pass."""

    #: whether every process is disturbed, later ones as well
    of_all = False

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings

    def strike(self, event: Event) -> Delivery | None:
        """Return the delivery in place of the event."""
        raise NotImplementedError

    def on_line(self, _request: Request, _event: Event) -> Delivery | None:
        """Return the delivery in place of a later event, if disturbed."""
        return None

    def on_request(self, _request: Request) -> RequestFault | None:
        """Return the fault of a later request, if any."""
        return None


class Once(Perturbation):
    """Another delivery in place of the one event."""

    def __init__(self, surroundings: Surroundings, delivery: Callable[[bytes], Delivery]) -> None:
        super().__init__(surroundings)
        self._delivery = delivery

    def strike(self, event: Event) -> Delivery:
        return self._delivery(event.line)


class Unseen(Perturbation):
    """Changes of the object are missed until the watch expires and all objects are listed."""

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


class Held(Perturbation):
    """The event is held until another one of its resource, and both are delivered together."""

    def strike(self, event: Event) -> Delivery:
        self._held: Event | None = event
        return Delivery(())

    def on_line(self, _request: Request, event: Event) -> Delivery | None:
        held = self._held
        if held is None or event.plural != held.plural:
            return None
        delivery = self.join(held, event)
        if delivery is not None:
            self._held = None
        return delivery

    def join(self, held: Event, event: Event) -> Delivery | None:
        """Deliver both in reverse order, unless both are about the same object."""
        lines = (event.line, held.line)
        return Delivery(lines[::-1] if event.key == held.key else lines)


class Coalesced(Held):
    """A deletion and the creation of an object of the same name come as one change."""

    def join(self, held: Event, event: Event) -> Delivery | None:
        if event.key != held.key:
            return None
        return Delivery((_line("MODIFIED", event.object),))


class TimeTravel(Perturbation):
    """The watch ends, and the API server that answers next is far behind (time travel).

    With `restart` the process ends, too, and the next one starts from the old state.
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
        return RequestFault(self.surroundings.list_at(request, behind))


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
    "swap": Held,
    "coalesce": Coalesced,
    "stale-list": lambda surroundings: TimeTravel(surroundings, restart=False),
    "stale-restart": lambda surroundings: TimeTravel(surroundings, restart=True),
}
PERTURBATIONS = (*_DELIVERIES, *_OTHERS)


def perturbation(what: str, surroundings: Surroundings) -> Perturbation:
    """Create one of `PERTURBATIONS`."""
    if what in _DELIVERIES:
        return Once(surroundings, _DELIVERIES[what])
    return _OTHERS[what](surroundings)
