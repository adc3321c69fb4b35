"""Reflector: list all objects of one kind, then watch changes from the list's resourceVersion.

Rules.
- Lists are paginated. Known objects absent from a list are reported as deleted. Only complete lists
  count: an interrupted list deletes nothing and is repeated.
- A watch continues from the last version seen, in an event or a bookmark, whenever it ends or
  breaks. Another list follows only after an expired version, a forbidden watch, or an error instead
  of an event: the error may come again with that version.
- A stream without a line for `SILENT_AFTER` seconds counts as dead. Real servers send a bookmark
  about once a minute; without bookmarks, reconnecting costs one request.
- Failures are retried after 0.8 s, doubling to 30 s, or after the server's Retry-After if longer,
  within 30 s. An immediately ending stream is a failure.
- Malformed objects are reported and skipped.

Source: client-go's reflector, with the same contract: versions of one object come in order, some
may be skipped, nothing is guaranteed across objects.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, NoReturn, TypeVar

import attrs

from kubedsm.kube.client.api_errors import send
from kubedsm.kube.client.port import (
    TIMEOUT,
    ApiStatusError,
    Cluster,
    ClusterError,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Request,
)
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.decoding import Identity, Watched, read_json
from kubedsm.kube.wire.errors import WireError
from kubedsm.kube.wire.schema import List
from kubedsm.model.events import is_older
from kubedsm.process.backoff import Backoff
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import LogThrottle, cause_of

T = TypeVar("T")
E = TypeVar("E")

PAGE_SIZE = 500
LIST_TIMEOUT = 60.0
#: seconds until the headers of a watch
OPEN_TIMEOUT = 30.0
SILENT_AFTER = 75.0
#: range of the requested watch duration in seconds: randomised, to desynchronise reconnects
WATCH_SECONDS = (300, 600)
#: seconds after which a stream counts as working
WORKING_AFTER = 5.0
#: silent streams before another list: servers do not refuse future versions (observed on 1.36)
SILENT_STREAMS = 4
#: lists of a lagging server before the history counts as rewound
STALE_LISTS = 5
#: remembered deleted uids, as protection against replays
_REMEMBERED = 4096
#: seconds between changes of a stream's deadline, to avoid rescheduling with every line
_REARM_EVERY = 1.0


@attrs.frozen(slots=True)
class ReflectorStatistics:
    synced: bool
    objects: int
    relists: int
    reconnects: int
    malformed: int
    #: current failure; empty without failure
    trouble: str

    @property
    def troubled(self) -> bool:
        return bool(self.trouble)


@attrs.define(eq=False)
class Reflector(Generic[T, E]):
    """Reflector (list and watch) of one kind: passes added, changed, deleted objects to `on_event`.

    `on_synced` is called once, after the first complete list. `report` gets a log line when a
    failure begins, changes or ends, and per cause of malformed objects. With `on_refused` the kind
    is optional: the callback reports a forbidden (403) or unserved (404) first list.
    """

    _cluster: Cluster
    _watched: Watched[T, E]
    _clock: Clock
    _rng: random.Random
    _on_event: Callable[[E], None]
    _on_synced: Callable[[], None]
    _report: Callable[[str], None]
    _on_refused: Callable[[], None] | None = attrs.field(default=None, kw_only=True)
    #: a stream is open: changes arrive at once
    following: bool = attrs.field(default=False, init=False)
    #: the first list was refused; retried all the same, since the right may be granted
    refused: bool = attrs.field(default=False, init=False)
    _backoff: Backoff = attrs.field(init=False)
    _throttle: LogThrottle = attrs.field(init=False)
    _known: "KnownObjects" = attrs.field(init=False)
    #: newest observed version, the start of the next watch
    _version: str = attrs.field(default="", init=False)
    #: a list must come before the next watch
    _must_list: bool = attrs.field(default=True, init=False)
    _lists: int = attrs.field(default=0, init=False)
    _streams: int = attrs.field(default=0, init=False)
    _malformed: int = attrs.field(default=0, init=False)
    _silent_streams: int = attrs.field(default=0, init=False)
    _stale_lists: int = attrs.field(default=0, init=False)
    _trouble: ClusterError | None = attrs.field(default=None, init=False)
    #: deadline of the open stream
    _silence: asyncio.Timeout | None = attrs.field(default=None, init=False)
    #: callers waiting for a subsequent list
    _awaiting: list[asyncio.Event] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._backoff, self._throttle = Backoff(self._rng), LogThrottle(self._clock)
        self._known = KnownObjects()

    @property
    def kind(self) -> str:
        """Kind of the watched objects, such as `pods`."""
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
            trouble="" if self._trouble is None else str(self._trouble),
        )

    async def list_once(self) -> None:
        """List all objects of the kind without a watch, each page within `TIMEOUT`.

        Raises ClusterError after only a part of the objects was reported.
        """
        await self._list(TIMEOUT)

    async def run(self) -> NoReturn:
        """List all objects, unless already listed, and watch changes until cancelled."""
        while True:
            try:
                while self._must_list:
                    await self._list()
                lasted = await self._watch()
            except ClusterError as error:
                # Without the right to watch, repeated lists substitute the watch.
                # A line that names no object may have been any change.
                if _spoils_version(error) or isinstance(error, Forbidden | WireError):
                    self._must_list = True
                # A single expired version is normal; repeated expiry is a failure.
                if self._backoff.failures or not isinstance(error, Expired):
                    self._in_trouble(error)
                asked = error.retry_after if isinstance(error, ApiStatusError) else 0.0
                delay = self._backoff.count_failure(asked)
                if isinstance(error, Expired) and self._backoff.failures == 1:
                    continue
            else:
                if lasted:
                    continue
                delay = self._backoff.count_failure()
            await self._clock.sleep(delay)

    async def list_anew(self) -> None:
        """List all objects of the kind again; wait for a list that began after the call.

        Every earlier change is known then, regardless of watch latency.
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
            page = await self._get_page(token, timeout)
            if not version:
                version = page.metadata.resource_version
                self._check_age(version)
                self._version = version
            for item in page.items or ():
                try:
                    read = self._watched.reader.item(item)
                except WireError as error:
                    self._skip_object(error)
                    present[error.namespace, error.name] = error.uid
                    anonymous = anonymous or not error.name
                    continue
                present[read.identity.namespace, read.identity.name] = read.identity.uid
                if self._known.is_outdated(read.identity):
                    # An older state in a newer list proves a rewound history.
                    self._accept_rewind()
                self._apply_object(read)
            token = page.metadata.continue_ or ""
            if not token:
                break
        # A nameless malformed item may be any missing object.
        if not anonymous:
            for gone in self._known.keep_only(present):
                self._on_event(self._watched.deleted(gone))
        self._complete_list(awaiting)

    def _complete_list(self, awaiting: int) -> None:
        """Mark a list as complete, and wake the first `awaiting` callers of `list_anew`."""
        for listed in self._awaiting[:awaiting]:
            listed.set()
        del self._awaiting[:awaiting]
        self._must_list = bool(self._awaiting)
        self._silent_streams = 0
        self._lists += 1
        if self._lists == 1:
            self._on_synced()

    async def _get_page(self, token: str, timeout: float) -> List:
        query = {**dict(self._watched.selectors), "limit": str(PAGE_SIZE)}
        if token:
            query["continue"] = token
        body = await send(self._cluster, "GET", self._watched.path, query=query, timeout=timeout)
        return read_json(f"{self._watched.kind}List", body, List)

    def _check_age(self, version: str) -> None:
        """Raise ClusterError for a list older than known versions: stale lists delete nothing.

        After STALE_LISTS stale lists the cluster history was rewound (a restored backup).
        """
        if is_older(version, self._version):
            self._stale_lists += 1
            if self._stale_lists < STALE_LISTS:
                raise ClusterError(f"a list at version {version} after {self._version} was seen")
            self._accept_rewind()
        self._stale_lists = 0

    def _accept_rewind(self) -> None:
        """Accept any resourceVersion as new after a restore of etcd, and notify the consumer."""
        self._report(f"{self._watched.kind} watch: the cluster's history was rewound")
        self._known.forget_versions()
        if self._watched.rewound is not None:
            self._on_event(self._watched.rewound)

    async def _watch(self) -> bool:
        """Read one watch stream to its end; return True if the stream lasted long enough to reset
        back-off.
        """
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
                self._extend_deadline(silence)
                async for line in lines:
                    if (at := now()) - armed >= _REARM_EVERY:
                        self._extend_deadline(silence)
                        armed = at
                    heard = True
                    self._read_line(line)
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
                self._backoff.reset_failures()
                if self._trouble is not None:
                    self._out_of_trouble()
        return lasted

    def _extend_deadline(self, silence: asyncio.Timeout) -> None:
        """Extend the inactivity deadline of the watch stream, unless callers await another list."""
        patience = 0.0 if self._awaiting else SILENT_AFTER
        silence.reschedule(asyncio.get_running_loop().time() + patience)

    def _read_line(self, line: bytes) -> None:
        try:
            read = self._watched.reader.line(line)
        except ApiStatusError:
            self._must_list = True
            raise
        except WireError as error:
            if not error.name:
                raise
            self._skip_object(error)
            return
        match read:
            case decoding.Applied():
                self._apply_object(read)
                version = read.identity.resource_version
            case decoding.Removed():
                gone = self._known.remove(read.identity)
                if gone is not None:
                    self._on_event(self._watched.deleted(gone))
                version = read.identity.resource_version
            case decoding.Bookmark():
                version = read.resource_version
        if version and not is_older(version, self._version):
            self._version = version
        if self._trouble is not None:
            self._out_of_trouble()

    def _apply_object(self, read: decoding.Applied[T]) -> None:
        replaced = self._known.take(read.identity)
        if replaced is None:
            return
        for gone in replaced:
            self._on_event(self._watched.deleted(gone))
        self._on_event(self._watched.applied(read.object))

    def _skip_object(self, error: WireError) -> None:
        self._malformed += 1
        more = self._throttle.count_suppressed("skipped", cause_of(f"{error.path} {error.reason}"))
        if more is not None:
            others = f" ({more} more for that cause)" if more else ""
            self._report(f"{self._watched.kind} skipped: {error}{others}")

    def _in_trouble(self, error: ClusterError) -> None:
        """Log a failure of list or watch, unless already logged."""
        refused = (
            self._on_refused is not None
            and not self.synced
            and isinstance(error, Forbidden | NotFound)
        )
        if _sort_of(error) != _sort_of(self._trouble):
            meanwhile = "treated as unknown until access is allowed" if refused else "trying again"
            self._report(f"{self._watched.kind} watch: {error}; {meanwhile}")
        self._trouble = error
        if refused and self._on_refused is not None and not self.refused:
            self.refused = True
            self._on_refused()

    def _out_of_trouble(self) -> None:
        self._report(f"{self._watched.kind} watch: works again")
        self._trouble = None


def _sort_of(error: ClusterError | None) -> tuple[type, int]:
    return type(error), error.status if isinstance(error, ApiStatusError) else 0


def _spoils_version(error: ClusterError) -> bool:
    """Return True if the error requires another list before the watch can continue."""
    return isinstance(error, Expired | Invalid) or (
        isinstance(error, ApiStatusError)
        and any(reason == "ResourceVersionTooLarge" for reason, _ in error.causes)
    )


Key = tuple[str, str]


class KnownObjects:
    """Store of the known objects of one kind (an informer's cache), with latest resourceVersion.

    Rules. A uid lives once: a deleted uid never comes back. A name with another uid is another
    object, whose predecessor is gone. An object's resourceVersion never goes back.
    """

    def __init__(self) -> None:
        self._known: dict[Key, Identity] = {}
        #: deleted uids, as an ordered set
        self._gone: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._known)

    def take(self, seen: Identity) -> tuple[Identity, ...] | None:
        """Store an observed object version; return the replaced objects of the same name.

        Return None for an old version.
        """
        key = (seen.namespace, seen.name)
        known = self._known.get(key)
        if seen.uid in self._gone:
            return None
        if known is not None and known.resource_version:
            newest, same = known.resource_version, known.uid == seen.uid
            if is_older(seen.resource_version, newest) or (
                same and seen.resource_version == newest
            ):
                return None
        self._known[key] = seen
        if known is None or known.uid == seen.uid:
            return ()
        self._remember_deletion(known.uid)
        return (known,)

    def is_outdated(self, seen: Identity) -> bool:
        """Return True if a later resourceVersion of the same object, or its deletion, is known."""
        known = self._known.get((seen.namespace, seen.name))
        return seen.uid in self._gone or (
            known is not None
            and known.uid == seen.uid
            and is_older(seen.resource_version, known.resource_version)
        )

    def remove(self, seen: Identity) -> Identity | None:
        """Delete the object from the store; return the stored object of the same name, unless
        newer.
        """
        key = (seen.namespace, seen.name)
        known = self._known.get(key)
        buried = seen.uid in self._gone
        self._remember_deletion(seen.uid)
        if known is None:
            return None
        if known.uid != seen.uid and (
            # Another uid was deleted under this name. A later deletion includes the known object.
            buried or not is_older(known.resource_version, seen.resource_version)
        ):
            return None
        del self._known[key]
        self._remember_deletion(known.uid)
        return known

    def keep_only(self, present: Mapping[Key, str]) -> Iterator[Identity]:
        """Delete and yield stored objects not in `present` (uid by key; empty uid: any uid)."""
        absent = [
            known
            for key, known in self._known.items()
            if present.get(key) is None or present[key] not in ("", known.uid)
        ]
        for known in absent:
            del self._known[known.namespace, known.name]
            self._remember_deletion(known.uid)
            yield known

    def forget_versions(self) -> None:
        """Accept any resourceVersion as new, after a restore of the server's database."""
        self._known = {
            key: Identity(known.namespace, known.name, known.uid, "")
            for key, known in self._known.items()
        }
        self._gone.clear()

    def _remember_deletion(self, uid: str) -> None:
        if not uid:
            return
        self._gone.pop(uid, None)
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
