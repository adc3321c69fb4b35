"""Watches: streams of JSON lines, one per change that a watch selects.

All streams of a resource observe a change when it is committed, and a line is encoded once for all
streams of the same form.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Literal, Self, get_args

import attrs
import orjson

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.forms import to_requested_form
from kubedsm_lab.emulator.api.pacing import DELIVERY
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.selectors import Selection
from kubedsm_lab.emulator.api.store import ExpiredError, ObjectChange, Store
from kubedsm_lab.emulator.http.tables import Include, as_table

LineType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
_HEAD = {kind: f'{{"type":"{kind}","object":'.encode() for kind in get_args(LineType)}
_TAIL = b"}\n"
#: seconds between bookmarks, as in kube-apiserver
_BOOKMARK_PERIOD = 60.0
#: limit on buffered lines of a slow reader; exceeding the limit terminates the watch
_MOST_WAITING = 10_000
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
#: zero value of a kind in bookmarks
_EMPTY_OF_KIND: dict[str, Object] = {"Pod": {"spec": {"containers": None}, "status": {}}}


@attrs.frozen
class Form:
    """Representation of objects in a response: API version, and optionally a Table or metadata."""

    resource: Resource
    #: None for the objects themselves, else the content of a Table's rows
    table: Include | None = None
    #: PartialObjectMetadata, for informers of metadata
    partial: bool = False

    def single(self, obj: Object, now: float) -> Object:
        """Return one stored object in this representation; `now` is a Unix timestamp."""
        if self.partial:
            return metadata_of(obj)
        if self.table is None:
            return to_requested_form(self.resource, obj)
        version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        return self.several([obj], version, now)

    def several(self, objects: Sequence[Object], list_metadata: Object, now: float) -> Object:
        """Return stored objects as a List or Table in this representation; list items omit
        apiVersion and kind.
        """
        resource = self.resource
        if self.partial:
            items = [metadata_of(obj) for obj in objects]
            kind = f"{_PARTIAL['kind']}List"
            return {**_PARTIAL, "kind": kind, "metadata": list_metadata, "items": items}
        if self.table is not None:
            return as_table(resource, objects, list_metadata, now=now, include=self.table)
        items = [
            {k: v for k, v in to_requested_form(resource, obj).items() if k not in _TYPE_FIELDS}
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
        """Return a cache key for encoded objects, shared by equal representations of
        one resource.
        """
        return self.resource.api_version, "partial" if self.partial else self.table or ""


def metadata_of(obj: Object) -> Object:
    """Return the PartialObjectMetadata of an object."""
    return {**_PARTIAL, "metadata": obj["metadata"]}


_PARTIAL: Object = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
_TYPE_FIELDS = ("kind", "apiVersion")


@attrs.frozen
class WatchRequest:
    selection: Selection
    form: Form
    #: only modifications after this revision
    since: int = 0
    #: existing objects, delivered as synthetic ADDED events
    initial: Sequence[Object] = ()
    #: whether a bookmark marks the end of the initial objects
    initial_bookmark: bool = False
    bookmarks: bool = False
    #: seconds until the server closes the watch; 0 for never
    timeout: float = 0.0


class WatchStream:
    """Async iterator over the JSON lines of one watch, until the server closes it."""

    content_type = "application/json"

    def __init__(
        self,
        request: WatchRequest,
        clock: Clock,
        store: Store,
        on_end: Callable[["WatchStream"], None],
        pacing: random.Random | None = None,
    ) -> None:
        self._request = request
        self._clock = clock
        self._store = store
        self._on_end = on_end
        self._pacing = pacing
        #: latest revision received by the reader
        self._seen = request.since or store.revision
        self._lines: deque[bytes] = deque()
        #: lines in transit with their times of arrival, in order
        self._on_the_way: deque[tuple[float, bytes]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        now = clock.monotonic() if request.timeout or request.bookmarks else 0.0
        self._deadline = now + request.timeout if request.timeout else None
        self._bookmark_at = now + _BOOKMARK_PERIOD if request.bookmarks else None

    def offer(self, change: ObjectChange, memo: dict[tuple[str, str, str], bytes]) -> None:
        """Enqueue a change as a JSON line if the watch selects the object; `memo` shares encoded
        lines between watches.
        """
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
            # Lines of one connection never overtake each other.
            arrival = self._clock.monotonic() + self._pacing.uniform(*DELIVERY)
            last = self._on_the_way[-1][0] if self._on_the_way else 0.0
            self._on_the_way.append((max(arrival, last), line))
        self._wake()

    def show(self, kind: LineType, obj: Object) -> None:
        self.push(_line(kind, self._request.form.single(obj, self._clock.wall())))

    def fail(self, error: ApiError) -> None:
        """End the watch with an ERROR event: its response has already begun with status 200."""
        self.push(_line("ERROR", error.body()))
        self.end()

    def bookmark(self, annotations: Object | None = None) -> None:
        """Enqueue a BOOKMARK event with the current resourceVersion."""
        resource = self._request.form.resource
        metadata: Object = {"resourceVersion": str(self._store.revision)}
        if annotations:
            metadata["annotations"] = annotations
        obj: Object = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            **_EMPTY_OF_KIND.get(resource.kind, {}),
        }
        if self._request.form.partial:
            obj = metadata_of(obj)
        elif self._request.form.table is not None:
            obj = self._request.form.several([], metadata, self._clock.wall())
        self.push(_line("BOOKMARK", obj))

    def end(self) -> None:
        """Close the watch by the server; pending lines are still delivered."""
        if not self._ended:
            self._ended = True
            self._on_end(self)
            self._wake()

    async def aclose(self) -> None:
        """Close the watch when its reader disconnects."""
        self.end()
        self._lines.clear()
        self._on_the_way.clear()

    @property
    def waiting(self) -> int:
        """Return the number of the watch's JSON lines that can be read without waiting."""
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
        """Wait for a line, or until the next delayed arrival, bookmark or timeout."""
        self._waiter = asyncio.get_running_loop().create_future()
        times = () if self._ended else (self._deadline, self._bookmark_at)
        moments = [at for at in times if at is not None]
        moments += [arrival for arrival, _ in islice(self._on_the_way, 1)]
        due = min(moments, default=None)
        try:
            async with asyncio.timeout(None if due is None else due - self._clock.monotonic()):
                await self._waiter
        except TimeoutError:
            # Rounding may leave the clock just before the due time.
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
    """Registry of all watches on a store; `pacing` delays their events."""

    def __init__(self, store: Store, clock: Clock, pacing: random.Random | None = None) -> None:
        self._store = store
        self._clock = clock
        self._pacing = pacing
        #: by the key of the stored resource
        self._streams: dict[str, list[WatchStream]] = {}
        self.close = store.subscribe(self._on_change)

    def open(self, request: WatchRequest) -> WatchStream:
        """Open a watch, starting with its history or, if that has expired, an ERROR event."""
        resource = request.form.resource
        streams = self._streams.setdefault(_key(resource), [])
        stream = WatchStream(request, self._clock, self._store, streams.remove, self._pacing)
        streams.append(stream)
        for obj in request.initial:
            stream.show("ADDED", obj)
        if request.initial_bookmark:
            stream.bookmark(_INITIAL_EVENTS_END)
        if request.since:
            try:
                past = self._store.history(resource, request.since)
            except ExpiredError as error:
                stream.fail(ApiError(410, "Expired", str(error)))
                return stream
            for change in past:
                stream.offer(change, {})
        return stream

    @property
    def open_streams(self) -> int:
        """Return the number of open watches."""
        return sum(map(len, self._streams.values()))

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
    """Return the event type by which a watch with selectors observes a change (None if unobserved),
    and the object.

    An object that leaves the selection is DELETED, one that enters it ADDED.
    """
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
    return _HEAD[kind] + orjson.dumps(obj) + _TAIL
