"""Object store: revisions, change history and subscriptions, independent of kinds.

One counter of revisions covers all resources, as in etcd, and every commit is one revision. Objects
are immutable by convention: a commit stores a new dict that may share parts with the old one.
"""

import random
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import attrs

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.object_state import key_of
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.values import rfc3339

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Objects = list[Object]
#: no vowels and look-alikes, which avoids words (k8s.io/apimachinery/pkg/util/rand)
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5


@attrs.frozen
class ObjectChange:
    revision: int
    type: ChangeType
    resource: Resource
    #: state after the change; for DELETED the last state, with this revision
    object: Object
    previous: Object | None


ObjectChanges = list[ObjectChange]


class ExpiredError(Exception):
    """Error: the requested revision is older than the retained change history."""


@attrs.define
class _Table:
    """Objects of one resource by namespace and name, and the latest changes."""

    changes: deque[ObjectChange]
    #: latest revision that `changes` has dropped
    floor: int
    objects: dict[str, dict[str, Object]] = attrs.field(factory=dict)


class Store:
    """Object store by resource, namespace and name, which retains `history` changes per resource.

    The history limits how far back a watch may start, like kube-apiserver's watch cache.
    """

    def __init__(self, clock: Clock, rng: random.Random, *, history: int = 10_000) -> None:
        self.revision = 1
        self._clock = clock
        self._rng = rng
        self._history = history
        self._compacted = 0
        # Keyed by group and plural: a Resource hashes all of its fields.
        self._tables: dict[tuple[str, str], _Table] = {}
        self._subscribers: list[Callable[[ObjectChange], None]] = []
        self._undelivered: deque[ObjectChange] = deque()
        self._delivering = False

    def subscribe(self, callback: Callable[[ObjectChange], None]) -> Callable[[], None]:
        """Register a callback for each later commit, in commit order; return a function that
        unsubscribes.

        A callback may commit: its changes are delivered after the present one.
        """
        self._subscribers.append(callback)

        def unsubscribe() -> None:
            if callback in self._subscribers:
                self._subscribers.remove(callback)

        return unsubscribe

    def now(self) -> str:
        """Return the current time as a timestamp of the API."""
        return rfc3339(self._clock.wall())

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def suffix(self) -> str:
        """Return a random suffix for `generateName`."""
        return "".join(self._rng.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._table(resource).objects.get(namespace, {}).get(name)

    def list(self, resource: Resource, namespace: str = "") -> Objects:
        """Return the resource's objects ordered by namespace and name; "" for all namespaces."""
        objects = self._table(resource).objects
        if namespace or not resource.namespaced:
            return _by_name(objects.get(namespace, {}))
        return [obj for key in sorted(objects) for obj in _by_name(objects[key])]

    def list_at(self, resource: Resource, namespace: str, revision: int) -> Objects:
        """Return the resource's objects as of an earlier revision. Raises ExpiredError."""
        changes = self.history(resource, revision)
        objects = self.list(resource, namespace)
        if not changes:
            return objects
        then = {key_of(obj): obj for obj in objects}
        for change in reversed(changes):
            key = key_of(change.object)
            if namespace and key[0] != namespace:
                continue
            if change.previous is None:
                del then[key]
            else:
                then[key] = change.previous
        return [then[key] for key in sorted(then)]

    def put(self, resource: Resource, obj: Object) -> Object:
        """Store a new or changed object; return it with its resourceVersion."""
        metadata = obj["metadata"]
        objects = self._table(resource).objects.setdefault(metadata.get("namespace", ""), {})
        previous = objects.get(metadata["name"])
        stored = self._stamp_object(obj)
        objects[metadata["name"]] = stored
        self._commit(resource, "ADDED" if previous is None else "MODIFIED", stored, previous)
        return stored

    def remove(self, resource: Resource, namespace: str, name: str) -> Object:
        """Delete an object; return its last state with the revision. Raises KeyError if absent."""
        objects = self._table(resource).objects[namespace]
        previous = objects.pop(name)
        if not objects:
            del self._table(resource).objects[namespace]
        last = self._stamp_object(previous)
        self._commit(resource, "DELETED", last, previous)
        return last

    def history(self, resource: Resource, since: int) -> ObjectChanges:
        """Return the resource's changes after a revision, oldest first. Raises ExpiredError."""
        table = self._table(resource)
        if since < table.floor:
            raise ExpiredError(f"too old resource version: {since} ({table.floor})")
        newer: ObjectChanges = []
        for change in reversed(table.changes):
            if change.revision <= since:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def compact(self) -> None:
        """Discard the change history, as etcd's compaction does: watches from earlier revisions
        then expire.
        """
        self._compacted = self.revision
        for table in self._tables.values():
            table.changes.clear()
            table.floor = self.revision

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay all subscribers' callbacks until the end of the block, for commits that belong
        together.
        """
        if self._delivering:
            yield
            return
        self._delivering = True
        try:
            yield
        finally:
            self._delivering = False
            self._deliver()

    def _table(self, resource: Resource) -> _Table:
        stored = resource.stored
        key = stored.group, stored.plural
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = _Table(deque(maxlen=self._history), self._compacted)
        return table

    def _stamp_object(self, obj: Object) -> Object:
        version = str(self.revision + 1)
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}

    def _commit(
        self, resource: Resource, kind: ChangeType, obj: Object, previous: Object | None
    ) -> None:
        self.revision += 1
        table = self._table(resource)
        if len(table.changes) == self._history:
            table.floor = table.changes[0].revision
        change = ObjectChange(self.revision, kind, resource.stored, obj, previous)
        table.changes.append(change)
        self._undelivered.append(change)
        if not self._delivering:
            self._deliver()

    def _deliver(self) -> None:
        self._delivering = True
        try:
            while self._undelivered:
                change = self._undelivered.popleft()
                for callback in tuple(self._subscribers):
                    callback(change)
        finally:
            self._delivering = False


def _by_name(objects: dict[str, Object]) -> Objects:
    return [objects[name] for name in sorted(objects)]
