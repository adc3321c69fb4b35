"""Keep up with all objects of one kind: list them, then watch from where the list was taken.

Rules.
- A list is taken in pages; what is known and not in it is gone, and is told as deleted. It is
  only believed as a whole: one that breaks off deletes nothing and is taken again.
- A watch goes on from the last version seen, in an event or a bookmark, as often as it ends or
  breaks. Only what makes that version useless leads to another list, and a watch that is forbidden.
- A stream that says nothing for `silent_after` seconds is taken for dead. Real servers send a
  bookmark about once a minute; where none come, reconnecting costs one request.
- Whatever fails is tried again, after 0.8 s doubling to 30 s. A stream that ends as soon as it
  began is a failure too.
- An object that cannot be read is reported and skipped.

Source: client-go's reflector, whose contract this keeps: the states of one object come in order,
some may be skipped, nothing is promised across objects.
"""

import asyncio
import random
from collections.abc import Callable
from http import HTTPStatus
from typing import Generic, NoReturn, TypeVar

import attrs

from kubedsm.kube.client.api_errors import api_error
from kubedsm.kube.client.port import (
    ApiStatusError,
    Cluster,
    ClusterError,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Request,
)
from kubedsm.kube.watching.known_objects import KnownObjects
from kubedsm.kube.watching.watched import Watched
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.decoding import WireError
from kubedsm.model.resource_versions import is_older
from kubedsm.process.backoff import Backoff
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause, cause_of

T = TypeVar("T")
E = TypeVar("E")

PAGE_SIZE = 500
LIST_TIMEOUT = 60.0
#: until a watch's headers come
OPEN_TIMEOUT = 30.0
SILENT_AFTER = 75.0
#: seconds we ask a watch to last at least, and at most: spread, so that they end at different times
WATCH_SECONDS = (300, 600)
#: a stream that lasted this long has worked
WORKING_AFTER = 5.0
#: A version the server has never reached is not refused, but watched in silence (seen on 1.36).
SILENT_STREAMS = 4
#: a list from a lagging server is taken again so often; then the history has really been rewound
STALE_LISTS = 5
#: a deadline this much too early is not worth moving for every line
_REARM_EVERY = 1.0


@attrs.frozen(slots=True)
class ReflectorStatistics:
    synced: bool
    objects: int
    relists: int
    reconnects: int
    malformed: int
    #: by the clock's monotonic time; None before the first line of a watch
    last_line_at: float | None
    #: what is wrong now; empty while it works
    trouble: str

    @property
    def troubled(self) -> bool:
        return bool(self.trouble)


class StaleListError(ClusterError):
    """A list older than what was seen before: its server lags behind."""


class Reflector(Generic[T, E]):
    """Tells one consumer, by `on_event`, how objects of one kind come, change and go.

    `on_synced` is called once, after the first complete list. `report` gets a line for the log
    when something goes wrong, when that changes, and when it is over; and one for objects that
    cannot be read, by cause. With `on_refused` the kind may be one that we have no right to see
    (403), or that is not served (404): it is called if that is what the first list is answered.
    """

    def __init__(
        self,
        cluster: Cluster,
        watched: Watched[T, E],
        clock: Clock,
        rng: random.Random,
        on_event: Callable[[E], None],
        on_synced: Callable[[], None],
        report: Callable[[str], None],
        *,
        on_refused: Callable[[], None] | None = None,
        silent_after: float = SILENT_AFTER,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self._cluster = cluster
        self._watched = watched
        self._clock = clock
        self._rng = rng
        self._on_event = on_event
        self._on_synced = on_synced
        self._report = report
        self._on_refused = on_refused
        self._silent_after = silent_after
        self._page_size = page_size
        self._backoff = Backoff(rng)
        self._said = SaidByCause(clock)
        self._known = KnownObjects()
        #: the newest seen, where the next watch begins
        self._version = ""
        #: nothing can be watched from there: a list must come first
        self._must_list = True
        self._lists = 0
        self._streams = 0
        self._malformed = 0
        self._silent_streams = 0
        self._stale_lists = 0
        self._last_line_at: float | None = None
        self._trouble: ClusterError | WireError | None = None
        #: when the stream that is open is taken for dead
        self._silence: asyncio.Timeout | None = None
        #: those who wait for a list that is begun after they asked
        self._awaiting: list[asyncio.Event] = []
        #: a stream is open: what happens now is told at once
        self.following = False
        #: by the first list; it is tried again all the same, for a right may be granted
        self.refused = False

    @property
    def kind(self) -> str:
        """Of the objects."""
        return self._watched.kind

    @property
    def synced(self) -> bool:
        return self._lists > 0

    @property
    def statistics(self) -> ReflectorStatistics:
        return ReflectorStatistics(
            synced=self.synced,
            objects=len(self._known),
            relists=max(0, self._lists - 1),
            reconnects=max(0, self._streams - 1),
            malformed=self._malformed,
            last_line_at=self._last_line_at,
            trouble="" if self._trouble is None else str(self._trouble),
        )

    async def list_once(self, *, timeout: float) -> None:
        """List, and leave it at that; a page is waited for as long as that.

        Raises ClusterError or WireError, and then only a part of the objects has been told.
        """
        await self._list(timeout)

    async def run(self) -> NoReturn:
        """List, unless that was done, and watch for ever."""
        while True:
            try:
                while self._must_list:
                    await self._list()
                lasted = await self._watch()
            except (ClusterError, WireError) as error:
                # Who may not watch can still list; with the right to watch that ends.
                if _spoils_version(error) or isinstance(error, Forbidden):
                    self._must_list = True
                # That a version expires is part of normal life; that it happens again is not.
                if self._backoff.failures or not isinstance(error, Expired):
                    self._in_trouble(error)
                delay = self._backoff.failed()
                if isinstance(error, Expired) and self._backoff.failures == 1:
                    continue
            else:
                if lasted:
                    continue
                delay = self._backoff.failed()
            await self._clock.sleep(delay)

    async def list_anew(self) -> None:
        """Return when a list has been taken that was begun after this call.

        All that had happened when this was called is known then, however late the watch is.
        """
        listed = asyncio.Event()
        self._awaiting.append(listed)
        self._must_list = True
        if self._silence is not None and not self._silence.expired():
            self._silence.reschedule(asyncio.get_running_loop().time())
        await listed.wait()

    async def _list(self, timeout: float = LIST_TIMEOUT) -> None:
        awaiting = len(self._awaiting)
        present: dict[tuple[str, str], str] = {}
        anonymous = False
        version, token = "", ""
        while True:
            page = await self._page(token, timeout)
            if not version:
                version = page.resource_version
                self._check_age(version)
                self._version = version
            for item in page.items:
                try:
                    read = self._watched.read_item(item)
                except WireError as error:
                    self._skip(error)
                    present[error.namespace, error.name] = error.uid
                    anonymous = anonymous or not error.name
                    continue
                present[read.identity.namespace, read.identity.name] = read.identity.uid
                if self._known.overtook(read.identity):
                    # No list this new can hold a state this old, unless that history was undone.
                    self._rewound()
                self._apply(read)
            token = page.continue_token
            if not token:
                break
        # An item without a name may be any of those we miss.
        if not anonymous:
            for gone in self._known.keep_only(present):
                self._on_event(self._watched.deleted(gone))
        self._listed(awaiting)

    def _listed(self, awaiting: int) -> None:
        """Take note of a whole list, for which so many were waiting when it was begun."""
        for listed in self._awaiting[:awaiting]:
            listed.set()
        del self._awaiting[:awaiting]
        self._must_list = bool(self._awaiting)
        self._silent_streams = 0
        self._lists += 1
        if self._lists == 1:
            self._on_synced()

    async def _page(self, token: str, timeout: float) -> decoding.Page:
        query = {**dict(self._watched.selectors), "limit": str(self._page_size)}
        if token:
            query["continue"] = token
        request = Request("GET", self._watched.path, query)
        response = await self._cluster.request(request, timeout=timeout)
        if response.status != HTTPStatus.OK:
            raise api_error(response.status, response.body)
        return decoding.page(f"{self._watched.kind}List", response.body)

    def _check_age(self, version: str) -> None:
        """Refuse a list from the past, so that nothing is deleted because a server lags.

        After STALE_LISTS of them it is the cluster that has gone back (a restored backup).
        """
        if is_older(version, self._version):
            self._stale_lists += 1
            if self._stale_lists < STALE_LISTS:
                raise StaleListError(f"a list at version {version} after {self._version} was seen")
            self._rewound()
        self._stale_lists = 0

    def _rewound(self) -> None:
        """Take any state from now on for a new one, and have the consumer do so."""
        self._report(f"{self._watched.kind} watch: the cluster's history was rewound")
        self._known.forget_versions()
        if self._watched.rewound is not None:
            self._on_event(self._watched.rewound)

    async def _watch(self) -> bool:
        """Follow one stream to its end; whether it lasted long enough to have worked."""
        query = {
            **dict(self._watched.selectors),
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._rng.randint(*WATCH_SECONDS)),
        }
        request = Request("GET", self._watched.path, query)
        now = self._clock.monotonic
        opened: float | None = None
        heard = False
        silence = self._silence = asyncio.timeout(None)
        try:
            async with silence, self._cluster.stream(request, timeout=OPEN_TIMEOUT) as lines:
                self._streams += 1
                self.following = True
                opened = armed = now()
                self._arm(silence)
                async for line in lines:
                    self._last_line_at = now()
                    if self._last_line_at - armed >= _REARM_EVERY:
                        self._arm(silence)
                        armed = self._last_line_at
                    heard = True
                    self._read(line)
        except TimeoutError:
            if not silence.expired():
                raise
            if self._awaiting:
                return True
            self._silent_streams += 1
            if self._silent_streams >= SILENT_STREAMS and not heard:
                self._must_list = True
        finally:
            self._silence = None
            self.following = False
            if heard:
                self._silent_streams = 0
            lasted = opened is not None and now() - opened >= WORKING_AFTER
            if lasted:
                self._backoff.succeeded()
                self._out_of_trouble()
        return lasted

    def _arm(self, silence: asyncio.Timeout) -> None:
        """Put off the end of the stream, unless a list has to come first."""
        patience = 0.0 if self._awaiting else self._silent_after
        silence.reschedule(asyncio.get_running_loop().time() + patience)

    def _read(self, line: bytes) -> None:
        try:
            read = self._watched.read_line(line)
        except WireError as error:
            self._skip(error)
            return
        match read:
            case decoding.Applied():
                self._apply(read)
                self._reached(read.identity.resource_version)
            case decoding.Removed():
                gone = self._known.remove(read.identity)
                if gone is not None:
                    self._on_event(self._watched.deleted(gone))
                self._reached(read.identity.resource_version)
            case decoding.Bookmark():
                self._reached(read.resource_version)
            case decoding.Failed():
                raise read.error
        self._out_of_trouble()

    def _apply(self, read: decoding.Applied[T]) -> None:
        replaced = self._known.take(read.identity)
        if replaced is None:
            return
        for gone in replaced:
            self._on_event(self._watched.deleted(gone))
        self._on_event(self._watched.applied(read.object))

    def _reached(self, version: str) -> None:
        if version and not is_older(version, self._version):
            self._version = version

    def _skip(self, error: WireError) -> None:
        self._malformed += 1
        more = self._said.more("skipped", cause_of(f"{error.path} {error.reason}"))
        if more is not None:
            others = f" ({more} more for that cause)" if more else ""
            self._report(f"{self._watched.kind} skipped: {error}{others}")

    def _in_trouble(self, error: ClusterError | WireError) -> None:
        """Report it, unless it is the same trouble as before."""
        refused = (
            self._on_refused is not None
            and not self.synced
            and isinstance(error, Forbidden | NotFound)
        )
        if _sort_of(error) != _sort_of(self._trouble):
            meanwhile = "taken as unknown until it is allowed" if refused else "trying again"
            self._report(f"{self._watched.kind} watch: {error}; {meanwhile}")
        self._trouble = error
        if refused and self._on_refused is not None and not self.refused:
            self.refused = True
            self._on_refused()

    def _out_of_trouble(self) -> None:
        if self._trouble is not None:
            self._report(f"{self._watched.kind} watch: works again")
            self._trouble = None


def _sort_of(error: ClusterError | WireError | None) -> tuple[type, int]:
    return type(error), error.status if isinstance(error, ApiStatusError) else 0


def _spoils_version(error: ClusterError | WireError) -> bool:
    """Whether the watch can only go on after another list."""
    return isinstance(error, Expired | Invalid) or (
        isinstance(error, ApiStatusError)
        and any(reason == "ResourceVersionTooLarge" for reason, _ in error.causes)
    )
