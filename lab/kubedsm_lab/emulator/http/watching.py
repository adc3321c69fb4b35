"""Watches: changes as JSON lines, to those who asked for them.

All streams of one resource hear of a change in the moment it is committed, and a line is encoded
once for all streams that show it in the same form.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Literal, Self, get_args

import attrs
import orjson

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.errors import ApiError, expired
from kubedsm_lab.emulator.api.forms import requested_form
from kubedsm_lab.emulator.api.managed_fields.tracking import to_json
from kubedsm_lab.emulator.api.pacing import Pacing
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.selectors import Selection
from kubedsm_lab.emulator.api.store import ExpiredError, ObjectChange, Store
from kubedsm_lab.emulator.http.tables import Include, as_table

LineType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
_HEAD = {kind: f'{{"type":"{kind}","object":'.encode() for kind in get_args(LineType)}
_TAIL = b"}\n"
#: seconds between bookmarks, as in kube-apiserver
_BOOKMARK_PERIOD = 60.0
#: lines that may wait for a slow reader before its watch is ended
_MOST_WAITING = 10_000
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
#: the zero value of a kind, as bookmarks show it
_EMPTY_OF_KIND: dict[str, Object] = {"Pod": {"spec": {"containers": None}, "status": {}}}


@attrs.frozen
class Form:
    """How the objects of a list or a watch are shown."""

    resource: Resource
    #: None for the objects themselves, else what the rows of a Table come with
    table: Include | None = None

    def single(self, obj: Object, now: float) -> Object:
        """One object; `now` in seconds since the epoch."""
        if self.table is None:
            return requested_form(self.resource, obj)
        version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        return self.several([obj], version, now)

    def several(self, objects: Sequence[Object], list_metadata: Object, now: float) -> Object:
        """A list, whose items do not repeat its kind."""
        resource = self.resource
        if self.table is not None:
            shown = [requested_form(resource, obj) for obj in objects]
            return as_table(resource, shown, list_metadata, now=now, include=self.table)
        items = [
            {k: v for k, v in requested_form(resource, obj).items() if k not in _TYPE_FIELDS}
            for obj in objects
        ]
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": list_metadata,
            "items": items,
        }

    @property
    def key(self) -> tuple[str, str]:
        """Equal for equal forms of one stored resource."""
        return self.resource.api_version, self.table or ""


_TYPE_FIELDS = ("kind", "apiVersion")


@attrs.frozen
class WatchRequest:
    selection: Selection
    form: Form
    #: only changes after this revision
    since: int = 0
    #: objects that are there already, to be shown as ADDED first
    initial: Sequence[Object] = ()
    #: whether a bookmark tells where the initial objects end
    initial_bookmark: bool = False
    bookmarks: bool = False
    #: seconds until the server ends the watch; 0 for never
    timeout: float = 0.0


class WatchStream:
    """An async iterator of JSON lines that ends when the server closes the watch."""

    content_type = "application/json"

    def __init__(
        self,
        request: WatchRequest,
        clock: Clock,
        revision: Callable[[], int],
        on_end: Callable[["WatchStream"], None],
        pacing: Pacing | None = None,
    ) -> None:
        self._request = request
        self._clock = clock
        self._revision = revision
        self._on_end = on_end
        self._pacing = pacing
        #: the revision up to which the reader knows everything
        self._seen = request.since or revision()
        self._lines: deque[bytes] = deque()
        #: lines on their way with the times of their arrival, in order
        self._on_the_way: deque[tuple[float, bytes]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        now = clock.monotonic() if request.timeout or request.bookmarks else 0.0
        self._deadline = now + request.timeout if request.timeout else None
        self._bookmark_at = now + _BOOKMARK_PERIOD if request.bookmarks else None

    def offer(self, change: ObjectChange, memo: dict[tuple[str, str, str], bytes]) -> None:
        """Take a change if it is one of this watch; `memo` holds the lines encoded of it so far."""
        request = self._request
        if self._ended or change.revision <= self._seen:
            return
        self._seen = change.revision
        kind, obj = _as_seen(change, request.selection)
        if kind is None:
            return
        synthetic = "" if obj is change.object else "synthetic "
        key = (synthetic + kind, *request.form.key)
        line = memo.get(key)
        if line is None:
            line = memo[key] = _line(kind, request.form.single(obj, self._clock.wall()))
        self.push(line)
        if len(self._lines) + len(self._on_the_way) > _MOST_WAITING:
            self.end()

    def push(self, line: bytes) -> None:
        if self._pacing is None:
            self._lines.append(line)
        else:
            # Lines never overtake each other: they come over one connection.
            arrival = self._clock.monotonic() + self._pacing.draw_delivery()
            last = self._on_the_way[-1][0] if self._on_the_way else 0.0
            self._on_the_way.append((max(arrival, last), line))
        self._wake()

    def show(self, kind: LineType, obj: Object) -> None:
        self.push(_line(kind, self._request.form.single(obj, self._clock.wall())))

    def fail(self, error: ApiError) -> None:
        """End with an ERROR event: the status has been sent long ago, as 200."""
        self.push(_line("ERROR", error.body()))
        self.end()

    def bookmark(self, annotations: Object | None = None) -> None:
        """Tell how far the watch has come."""
        resource = self._request.form.resource
        metadata: Object = {"resourceVersion": str(self._revision())}
        if annotations:
            metadata["annotations"] = annotations
        obj: Object = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            **_EMPTY_OF_KIND.get(resource.kind, {}),
        }
        if self._request.form.table is not None:
            obj = self._request.form.several([], metadata, self._clock.wall())
        self.push(_line("BOOKMARK", obj))

    def end(self) -> None:
        """Close it from the server's side; what waits is still delivered."""
        if not self._ended:
            self._ended = True
            self._on_end(self)
            self._wake()

    async def aclose(self) -> None:
        """Close it from the reader's side."""
        self.end()
        self._lines.clear()
        self._on_the_way.clear()

    @property
    def waiting(self) -> int:
        """How many lines can be read at once."""
        return len(self._lines)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._lines:
            if self._ended and not self._on_the_way:
                raise StopAsyncIteration
            await self._wait()
        return self._lines.popleft()

    async def _wait(self) -> None:
        """Until there is a line, or the time for an arrival, a bookmark or the end has come."""
        self._waiter = asyncio.get_running_loop().create_future()
        times = () if self._ended else (self._deadline, self._bookmark_at)
        moments = [at for at in times if at is not None]
        moments += [arrival for arrival, _ in islice(self._on_the_way, 1)]
        due = min(moments, default=None)
        try:
            async with asyncio.timeout(None if due is None else due - self._clock.monotonic()):
                await self._waiter
        except TimeoutError:
            # By rounding, the clock may show a moment just before.
            self._on_time(max(due or 0.0, self._clock.monotonic()))
        finally:
            self._waiter = None

    def _on_time(self, now: float) -> None:
        while self._on_the_way and self._on_the_way[0][0] <= now:
            self._lines.append(self._on_the_way.popleft()[1])
        if self._ended:
            return
        if self._deadline is not None and now >= self._deadline:
            self.end()
        elif self._bookmark_at is not None and now >= self._bookmark_at:
            self._bookmark_at = now + _BOOKMARK_PERIOD
            self.bookmark()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class WatchHub:
    """All watches on a store; `pacing` delays their events."""

    def __init__(self, store: Store, clock: Clock, pacing: Pacing | None = None) -> None:
        self._store = store
        self._clock = clock
        self._pacing = pacing
        #: by the stored resource, as the store keys it
        self._streams: dict[str, list[WatchStream]] = {}
        self.close = store.subscribe(self._on_change)

    def open(self, request: WatchRequest) -> WatchStream:
        """Begin a watch, with its history if it asks for one; an ERROR event if that is gone."""
        resource = request.form.resource
        streams = self._streams.setdefault(_key(resource), [])
        stream = WatchStream(request, self._clock, self._revision, streams.remove, self._pacing)
        streams.append(stream)
        for obj in request.initial:
            stream.show("ADDED", obj)
        if request.initial_bookmark:
            stream.bookmark(_INITIAL_EVENTS_END)
        if request.since:
            try:
                past = self._store.history(resource, request.since)
            except ExpiredError as error:
                stream.fail(expired(str(error)))
                return stream
            for change in past:
                stream.offer(change, {})
        return stream

    @property
    def open_streams(self) -> int:
        """How many are."""
        return sum(map(len, self._streams.values()))

    def _revision(self) -> int:
        return self._store.revision

    def _on_change(self, change: ObjectChange) -> None:
        streams = self._streams.get(_key(change.resource))
        if streams:
            memo: dict[tuple[str, str, str], bytes] = {}
            for stream in tuple(streams):
                stream.offer(change, memo)


def _key(resource: Resource) -> str:
    # plural names are unique among stored resources
    return resource.stored.plural


def _as_seen(change: ObjectChange, selection: Selection) -> tuple[LineType | None, Object]:
    """The change as a watch of that selection sees it: leaving the selection is a deletion."""
    previous = change.previous
    if not selection.selective:
        mine = not selection.namespace or selection.matches(change.object)
        return (change.type if mine else None), change.object
    before = previous is not None and selection.matches(previous)
    after = change.type != "DELETED" and selection.matches(change.object)
    if after:
        return ("MODIFIED" if before else "ADDED"), change.object
    if not before or previous is None:
        return None, change.object
    if change.type == "DELETED":
        return "DELETED", change.object
    version = {"resourceVersion": str(change.revision)}
    return "DELETED", {**previous, "metadata": {**previous["metadata"], **version}}


def _line(kind: LineType, obj: Object) -> bytes:
    return _HEAD[kind] + orjson.dumps(obj, to_json) + _TAIL
