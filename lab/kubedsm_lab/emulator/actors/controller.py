"""Base of the emulated controllers: a work queue of object keys, reconciled in order.

Reconciling is synchronous, so the cluster does not change meanwhile. A controller only reads the
present state and writes the wanted one: it may be called again at any time.
"""

import asyncio
import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

import attrs

from kubedsm.process.backoff import Doubling
from kubedsm_lab.emulator.actors.cache import Cache, Key
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import (
    controller_of,
    is_finished,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
)
from kubedsm_lab.emulator.api.resources import EVENTS, PODS, Object, Resource
from kubedsm_lab.emulator.api.selectors import label_selector_of
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.api.values import seconds

#: seconds before the first retry of a key, doubled with each failure up to the limit
_BACK_OFF = Doubling(0.02, 10.0)
#: transient refusals
_TRANSIENT = (403, 404, 409)
#: seconds between two counts of a repeated Event
_EVENT_PERIOD = 60.0
#: clock resolution of the event loop: a sleep may end early by this amount
_EARLY = 1e-5


@attrs.frozen
class Timing:
    """Delays and periods of controllers and kubelets in an emulated cluster, in seconds."""

    #: from a binding to Ready
    start_delay: float = 3.0
    #: from Ready to the success of a Job's pod
    job_duration: float = 10.0
    #: upper limit for stopping a pod; a shorter grace period counts instead
    stop_delay: float = 1.0
    #: from the selection of a node to the volume for a claim
    provision_delay: float = 2.0
    #: bytes per second of image pulls; 0: every node has every image
    pull_speed: float = 0.0
    hpa_sync: float = 15.0
    #: HPA tolerance: relative difference from the target without scaling (not a duration)
    hpa_tolerance: float = 0.1
    #: from the deletion of a node to that of its pods
    orphan_delay: float = 40.0
    #: without reports from a node until its Ready condition is Unknown
    monitor_grace: float = 40.0


def is_relevant(change: ObjectChange) -> bool:
    """Return whether workload controllers must reconcile after this change of a pod."""
    before, after = change.previous, change.object
    return change.type == "DELETED" or before is None or _relevant(before) != _relevant(after)


def is_relevant_to(owner: Object, change: ObjectChange) -> bool:
    """Return whether the controller of this owner must reconcile after a relevant change of a pod:
    not if only labels changed that neither selector nor template of the owner has.
    """
    before, after = change.previous, change.object
    if change.type == "DELETED" or before is None:
        return True
    labels, others = labels_of(before), labels_of(after)
    if labels == others or _relevant(before, labels=False) != _relevant(after, labels=False):
        return True
    selector = owner["spec"]["selector"]
    keys = {each["key"] for each in selector.get("matchExpressions") or ()}
    keys.update(selector.get("matchLabels") or (), labels_of(owner["spec"]["template"]))
    return any(labels.get(key) != others.get(key) for key in keys)


def _relevant(pod: Object, *, labels: bool = True) -> tuple[object, ...]:
    metadata = pod["metadata"]
    return (
        is_terminating(pod),
        is_finished(pod),
        is_ready(pod),
        labels and metadata.get("labels"),
        metadata.get("ownerReferences"),
    )


class Requeue(Exception):
    """Raised by `reconcile` to retry the key after an exponential back-off."""


class Controller(ABC):
    """Base class of controllers: one task that takes keys from a queue and reconciles them.

    ApiErrors 403 (a quota, a terminating namespace), 404 and 409 are expected and retried. Any
    other exception is a bug: it ends the task, and the cluster with it.
    """

    #: source of its Events
    component: ClassVar[str] = "controllermanager"

    def __init__(self, cache: Cache) -> None:
        self.api = cache.api
        self.cache = cache
        self.clock = cache.api.clock
        self._queue: dict[Key, None] = {}
        self._failures: dict[Key, int] = {}
        #: earliest due time of each key, and the same as a heap with outdated entries
        self._due: dict[Key, float] = {}
        self._timeline: list[tuple[float, Key]] = []
        self._woken = asyncio.Event()
        self._stopped = False
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_at = 0.0
        self.subscribe()

    @abstractmethod
    def subscribe(self) -> None:
        """Register the controller's event handlers with the cache; called by the constructor."""

    @abstractmethod
    def reconcile(self, key: Key) -> None:
        """Move the object of the key towards its spec. Raise Requeue to retry later."""

    def follow(self, resource: Resource) -> None:
        """Enqueue the key of each object of the resource when the object changes."""
        self.cache.on(resource, lambda change: self.enqueue(key_of(change.object)))

    def follow_with_pods(self, owners: Resource) -> None:
        """Enqueue the key of each changed owner, and of each owner of a changed pod."""
        self.follow(owners)
        self.follow_owned(PODS, owners, is_relevant, is_relevant_to)

    def follow_owned(
        self,
        resource: Resource,
        owners: Resource,
        condition: Callable[[ObjectChange], bool] = lambda _: True,
        concerns: Callable[[Object, ObjectChange], bool] = lambda *_: True,
    ) -> None:
        """Enqueue the keys of all owners affected by a change of an owned object.

        Affected are the present and the previous controller which the change `concerns`, and
        potential adopters of an orphan.
        """

        def enqueue_owners(change: ObjectChange) -> None:
            if not condition(change):
                return
            for state in (change.previous, change.object):
                found = state and self.cache.find_controller(state)
                if found and found[0] is owners and concerns(found[1], change):
                    self.enqueue(key_of(found[1]))
            if change.type != "DELETED" and controller_of(change.object) is None:
                labels = labels_of(change.object)
                namespace = change.object["metadata"]["namespace"]
                for owner in self.cache.in_namespace(owners, namespace):
                    if label_selector_of(owner["spec"]["selector"]).matches(labels):
                        self.enqueue(key_of(owner))

        self.cache.on(resource, enqueue_owners)

    def now(self) -> str:
        """Return the current time as a timestamp of the API."""
        return self.api.store.now()

    def write_status(self, resource: Resource, obj: Object, status: Object) -> Object:
        """Store the new status of the object in the API server, unless unchanged."""
        if status == obj.get("status"):
            return obj
        return self.api.update(resource, {**obj, "status": status}, subresource="status")

    def warn(self, resource: Resource, obj: Object, reason: str, message: str) -> None:
        """Write a Warning Event about an object; a repeated one is counted once a minute, by its
        reason.
        """
        metadata, now = obj["metadata"], self.now()
        namespace, name = metadata["namespace"], f"{metadata['name']}.{reason.lower()}"
        said = {"message": message, "lastTimestamp": now}
        # A terminating namespace takes no Events.
        with suppress(ApiError):
            known = self.api.store.get(EVENTS, namespace, name)
            if known is not None:
                if seconds(known["lastTimestamp"]) + _EVENT_PERIOD <= seconds(now):
                    self.api.update(EVENTS, {**known, **said, "count": known["count"] + 1})
                return
            self._create_event(resource, obj, name, "Warning", reason, message)

    def note(
        self, resource: Resource, obj: Object, reason: str, message: str, kind: str = "Normal"
    ) -> None:
        """Write an Event about one change of an object, if the cluster has readers of Events."""
        if self.cache.normal_events:
            # The revision makes the name unique, as the time does in client-go.
            name = f"{obj['metadata']['name']}.{self.api.store.revision:016x}"
            with suppress(ApiError):
                self._create_event(resource, obj, name, kind, reason, message)

    def _create_event(
        self, resource: Resource, obj: Object, name: str, kind: str, reason: str, message: str
    ) -> None:
        metadata, now = obj["metadata"], self.now()
        about = {field: metadata[field] for field in ("namespace", "name", "uid")}
        event = {
            "metadata": {"name": name},
            "involvedObject": {"apiVersion": resource.api_version, "kind": resource.kind, **about},
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": self.component},
            "reportingComponent": self.component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self.api.create(EVENTS, event, namespace=metadata["namespace"])

    def enqueue(self, key: Key) -> None:
        self._queue[key] = None
        self._woken.set()

    def enqueue_after(self, key: Key, seconds: float) -> None:
        """Enqueue the key after a delay; an earlier deadline of the key has precedence."""
        when = self.clock.monotonic() + max(0.0, seconds)
        if when < self._due.get(key, float("inf")):
            self._due[key] = when
            heapq.heappush(self._timeline, (when, key))
            self._woken.set()

    def has_come(self, moment: float, key: Key) -> bool:
        """Return whether a time on the monotonic clock has passed; if not, enqueue the key for
        reconciliation at that time.
        """
        left = moment - self.clock.monotonic()
        if left <= _EARLY:
            return True
        self.enqueue_after(key, left)
        return False

    def has_passed(self, moment: float, key: Key) -> bool:
        """Return whether a Unix time has passed; if not, enqueue the key for reconciliation at that
        time.
        """
        return self.has_come(self.clock.monotonic() + moment - self.clock.wall(), key)

    def stop(self) -> None:
        """Pause reconciling until restarted; keys are still added to the queue."""
        self._stopped = True

    def resume(self) -> None:
        self._stopped = False
        self._woken.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                self._collect_due()
                while self._queue and not self._stopped:
                    batch, self._queue = self._queue, {}
                    for key in batch:
                        self._attempt(key)
                    # Other controllers observe the writes before this controller continues.
                    await self.clock.sleep(0)
                    self._collect_due()
                self._woken.clear()
                self._set_alarm(group)
                await self._woken.wait()

    def _attempt(self, key: Key) -> None:
        try:
            self.reconcile(key)
        except Requeue:
            self._retry(key)
        except ApiError as error:
            if error.status not in _TRANSIENT:
                raise
            self._retry(key)
        else:
            self._failures.pop(key, None)

    def _retry(self, key: Key) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.enqueue_after(key, _BACK_OFF.delay_after(failures - 1))

    def _collect_due(self) -> None:
        now = self.clock.monotonic() + _EARLY
        while self._timeline and self._timeline[0][0] <= now:
            when, key = heapq.heappop(self._timeline)
            if self._due.get(key) == when:
                del self._due[key]
                self._queue[key] = None

    def _set_alarm(self, group: asyncio.TaskGroup) -> None:
        while self._timeline and self._due.get(self._timeline[0][1]) != self._timeline[0][0]:
            heapq.heappop(self._timeline)
        if not self._timeline:
            return
        when = self._timeline[0][0]
        if self._alarm is not None and not self._alarm.done():
            if self._alarm_at <= when:
                return
            self._alarm.cancel()
        self._alarm_at = when
        self._alarm = group.create_task(self._wake_at(when))

    async def _wake_at(self, when: float) -> None:
        await self.clock.sleep(max(0.0, when - self.clock.monotonic()))
        self._woken.set()
