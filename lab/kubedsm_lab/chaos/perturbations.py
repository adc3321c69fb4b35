"""Perturbations of a watch: lost, delayed, reordered or merged events, and outdated lists.

client-go (k8s.io/client-go/tools/cache) allows a watch to skip states, to combine deletion and
creation into a modification, and to reorder events of different objects. The other perturbations
exceed what client-go allows.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from kubedsm.kube.client.port import Request
from kubedsm_lab.chaos.faults import Event, answer, loop_time
from kubedsm_lab.emulator.front import Delivery, RequestFault

if TYPE_CHECKING:
    from kubedsm_lab.chaos.seam import ProcessSeam

#: duration of missed changes, and delay of a late event, in seconds
UNSEEN, LATE = 20.0, 5.0
#: seconds longer than any watch stays silent
_SILENT = 1e6
#: revisions by which a stale list is behind
BEHIND = 25


class Perturbation:
    """Base class of watch perturbations; after the disturbed event, all events and requests pass
    unchanged.
    """

    #: whether every process is disturbed, later ones as well
    of_all = False

    def __init__(self, process: "ProcessSeam") -> None:
        self.process = process

    @property
    def hides(self) -> bool:
        """True while the process misses changes."""
        return False

    def replace_event(self, event: Event) -> Delivery | None:
        """Return the watch lines to deliver in place of the disturbed event, or None for the event
        unchanged.
        """
        raise NotImplementedError

    def on_line(self, _request: Request, _event: Event) -> Delivery | None:
        """Return the watch lines to deliver in place of an event after the disturbed one; None for
        the event unchanged.
        """
        return None

    def on_request(self, _request: Request) -> RequestFault | None:
        """Return a fault to inject into a request after the disturbed event; None to pass the
        request unchanged.
        """
        return None


class Unseen(Perturbation):
    """Lost events: all changes of the object are missed until the watch expires and lists again."""

    def replace_event(self, event: Event) -> Delivery:
        self._plural, self._key = event.plural, event.key
        self._until = loop_time() + UNSEEN
        self._over = not event.key[-1]  # a bookmark has no name, and hides no change
        return Delivery(())

    @property
    def hides(self) -> bool:
        return not (self._over or self.process.over)

    def on_line(self, request: Request, event: Event) -> Delivery | None:
        if self._over or not self._shows_object(request):
            return None
        if loop_time() >= self._until:
            self._over = True
            return Delivery((_EXPIRED,), end="closed")
        return Delivery(()) if event.key == self._key else None

    def on_request(self, request: Request) -> RequestFault | None:
        if "watch" in request.query and not self._over and self._shows_object(request):
            self._over = True
            return RequestFault(answer(410, "Expired"))
        return None

    def _shows_object(self, request: Request) -> bool:
        """Return whether the watch's path and selector include the object."""
        name = f"metadata.name={self._key[-1]}"
        selector = dict(request.query).get("fieldSelector", name)
        return request.path.endswith(f"/{self._plural}") and selector == name


class Held(Perturbation):
    """Delayed event: delivered together with the next event of the same resource."""

    def replace_event(self, event: Event) -> Delivery:
        self._held: Event | None = event
        return Delivery(())

    @property
    def hides(self) -> bool:
        return self._held is not None and not self.process.over

    def on_line(self, _request: Request, event: Event) -> Delivery | None:
        held = self._held
        if held is None or event.plural != held.plural:
            return None
        delivery = self.combine_events(held, event)
        if delivery is not None:
            self._held = None
        return delivery

    def combine_events(self, held: Event, event: Event) -> Delivery | None:
        """Return both events for delivery: the later event first, unless both concern the same
        object.
        """
        lines = (event.line, held.line)
        return Delivery(lines[::-1] if event.key == held.key else lines)


class Coalesced(Held):
    """Merged watch events: the deletion and new creation of a name arrive as one MODIFIED event."""

    def combine_events(self, held: Event, event: Event) -> Delivery | None:
        if event.key != held.key:
            return None
        return Delivery((_line("MODIFIED", event.object),))


class TimeTravel(Perturbation):
    """Outdated list: the watch ends, and the next list response shows an earlier revision.

    With `restart` the process is restarted, too, and the successor starts from the stale list.
    """

    of_all = True

    def __init__(self, process: "ProcessSeam", *, restart: bool) -> None:
        super().__init__(process)
        self._restart = restart
        self._over = False

    def replace_event(self, event: Event) -> Delivery:
        self._plural, self._version = event.plural, event.version
        if self._restart:
            self.process.kill()
        return Delivery((_EXPIRED,), end="closed")

    def on_request(self, request: Request) -> RequestFault | None:
        lists = request.method == "GET" and "watch" not in request.query
        if self._over or not lists or not request.path.endswith(f"/{self._plural}"):
            return None
        self._over = True
        behind = max(1, self._version - BEHIND)
        return RequestFault(self.process.list_at(request, behind))


def _line(kind: str, thing: Any) -> bytes:
    return orjson.dumps({"type": kind, "object": thing})


def _error(status: int, reason: str) -> bytes:
    return _line("ERROR", {"kind": "Status", "code": status, "reason": reason})


_EXPIRED = _error(410, "Expired")
_BOOKMARK_0 = _line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "0"}})

#: perturbations of one delivered line, by identifier
DELIVERIES: dict[str, Callable[[bytes], Delivery]] = {
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
#: by name: the perturbation, which disturbs later events and requests, too
PERTURBATIONS: dict[str, Callable[["ProcessSeam"], Perturbation]] = {
    "unseen": Unseen,
    "swap": Held,
    "coalesce": Coalesced,
    "stale-list": lambda process: TimeTravel(process, restart=False),
    "stale-restart": lambda process: TimeTravel(process, restart=True),
}
