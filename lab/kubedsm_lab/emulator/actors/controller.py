"""The loop that every controller is: keys are noticed, queued once, and reconciled in that order.

Reconciling is synchronous, so that the cluster does not change under it. A controller only ever
reads what is there now and writes what should be: it may be asked again at any time.
"""

import asyncio
import heapq
from abc import ABC, abstractmethod

from kubedsm.process.backoff import Doubling
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.actors.cache import Cache, Key
from kubedsm_lab.emulator.api.api_server import CONTROLLERS, ApiServer
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import Object, Resource

#: seconds before the first retry of a key, doubled with each failure, up to the second figure
_BACK_OFF = Doubling(0.02, 10.0)
#: refusals that later attempts may not meet again
_PASSING = (403, 404, 409)
#: a sleep may end this much early, by the resolution of the loop's clock
_EARLY = 1e-5


class Requeue(Exception):
    """Reconcile this key again, after a back-off that grows while it goes on failing."""


class Controller(ABC):
    """One task. `reconcile` brings the object of a key nearer to what its spec says.

    ApiErrors 403 (a quota, a namespace that is going), 404 and 409 are the normal fate of a write
    and tried again; any other exception is a bug, and ends the task and the cluster with it.
    """

    #: whose the fields are that it sets in a status
    manager = CONTROLLERS

    def __init__(self, api: ApiServer, cache: Cache, clock: Clock) -> None:
        self.api = api
        self.cache = cache
        self.clock = clock
        self._queue: dict[Key, None] = {}
        self._failures: dict[Key, int] = {}
        #: the earliest moment each key waits for, and the same as a heap with outdated entries
        self._due: dict[Key, float] = {}
        self._timeline: list[tuple[float, Key]] = []
        self._woken = asyncio.Event()
        self._stopped = False
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_at = 0.0

    @abstractmethod
    def reconcile(self, key: Key) -> None:
        """Compare and write. Raises Requeue to be asked again soon."""

    def now(self) -> str:
        """The wall clock, as timestamps of the API have it."""
        return self.api.store.now()

    def write_status(self, resource: Resource, obj: Object, status: Object) -> Object:
        """The object as stored with that status; nothing is written that was there already."""
        if status == obj.get("status"):
            return obj
        return self.api.update(
            resource, {**obj, "status": status}, subresource="status", manager=self.manager
        )

    def enqueue(self, key: Key) -> None:
        self._queue[key] = None
        self._woken.set()

    def enqueue_after(self, key: Key, seconds: float) -> None:
        """Have the key reconciled by then; the earliest of several such moments counts."""
        when = self.clock.monotonic() + max(0.0, seconds)
        if when < self._due.get(key, float("inf")):
            self._due[key] = when
            heapq.heappush(self._timeline, (when, key))
            self._woken.set()

    def has_come(self, moment: float, key: Key) -> bool:
        """Whether that moment (monotonic) is here; if not, the key is reconciled again then."""
        left = moment - self.clock.monotonic()
        if left <= _EARLY:
            return True
        self.enqueue_after(key, left)
        return False

    def stop(self) -> None:
        """Reconcile nothing until it goes on; keys are noticed all the same."""
        self._stopped = True

    def go_on(self) -> None:
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
                    # The other controllers see what was written before this one goes on.
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
            if error.status not in _PASSING:
                raise
            self._retry(key)
        else:
            self._failures.pop(key, None)

    def _retry(self, key: Key) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.enqueue_after(key, _BACK_OFF.after(failures - 1))

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
