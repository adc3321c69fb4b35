"""Pods that wait for a node: ready to be decided on, backing off, or waiting for help.

The three queues of kube-scheduler. A pod that fits nowhere is tried again at once when something
happens that could help it, and after `FLUSH` seconds in any case; one whose bind failed is tried
again after a back-off that doubles.
"""

import asyncio
import random

import attrs

from kubedsm.clock import Clock
from kubedsm.core.model import Uid

#: kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds
INITIAL_BACK_OFF = 1.0
LONGEST_BACK_OFF = 10.0
#: how long an unschedulable pod waits at most, in case a helpful change went unnoticed
FLUSH = 60.0
#: seconds; less is no time to wait for
RESOLUTION = 1e-6


@attrs.frozen(slots=True)
class QueueStatistics:
    active: int
    backing_off: int
    unschedulable: int


class SchedulingQueue:
    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        #: insertion-ordered set
        self._active: dict[Uid, None] = {}
        #: when to try again
        self._backing_off: dict[Uid, float] = {}
        self._unschedulable: dict[Uid, float] = {}
        self._failures: dict[Uid, int] = {}
        self._changed = asyncio.Event()
        #: on the clock; the batch window looks at it
        self.last_arrival = 0.0

    def __len__(self) -> int:
        """Return how many pods are ready to be decided on."""
        return len(self._active)

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._active or uid in self._backing_off or uid in self._unschedulable

    @property
    def statistics(self) -> QueueStatistics:
        return QueueStatistics(len(self._active), len(self._backing_off), len(self._unschedulable))

    def add(self, uid: Uid) -> None:
        """Make the pod ready to be decided on now."""
        self._backing_off.pop(uid, None)
        self._unschedulable.pop(uid, None)
        if uid not in self._active:
            self._active[uid] = None
            self.last_arrival = self._clock.monotonic()
            self._changed.set()

    def back_off(self, uid: Uid) -> None:
        """Try the pod again later, because binding it failed."""
        failures = self._failures.get(uid, 0)
        self._failures[uid] = failures + 1
        seconds = min(LONGEST_BACK_OFF, INITIAL_BACK_OFF * 2 ** min(failures, 10))
        seconds *= 1 - self._rng.random() / 5
        self._active.pop(uid, None)
        self._unschedulable.pop(uid, None)
        self._backing_off[uid] = self._clock.monotonic() + seconds
        self._changed.set()

    def wait_for_help(self, uid: Uid) -> None:
        """Try the pod again when something helps, because it fits nowhere."""
        self._active.pop(uid, None)
        self._unschedulable[uid] = self._clock.monotonic() + FLUSH
        self._changed.set()

    def something_helped(self) -> None:
        """Room came free or a rule was lifted: the unschedulable pods may fit now."""
        for uid in list(self._unschedulable):
            self.add(uid)

    def forget(self, uid: Uid) -> None:
        """Drop the pod: it is bound, or gone."""
        self._active.pop(uid, None)
        self._backing_off.pop(uid, None)
        self._unschedulable.pop(uid, None)
        self._failures.pop(uid, None)

    def pop(self, most: int) -> list[Uid]:
        """Take up to that many pods, in the order they became ready."""
        taken = list(self._active)[:most]
        for uid in taken:
            del self._active[uid]
        return taken

    async def wait_active(self) -> None:
        """Return when at least one pod is ready to be decided on."""
        while not self._active:
            self._changed.clear()
            due = min([*self._backing_off.values(), *self._unschedulable.values()], default=None)
            try:
                async with asyncio.timeout(due and due - self._clock.monotonic()):
                    await self._changed.wait()
            except TimeoutError:
                # By rounding, the clock may show a moment just before.
                self._promote(max(due or 0.0, self._clock.monotonic()))

    def _promote(self, now: float) -> None:
        for waiting in (self._backing_off, self._unschedulable):
            for uid in [uid for uid, due in waiting.items() if due <= now]:
                self.add(uid)


async def batch_window(
    queue: SchedulingQueue, clock: Clock, *, idle: float, longest: float, size: int
) -> None:
    """Wait until `idle` seconds brought no new pod, or the batch is `longest` old or `size` big."""
    opened = clock.monotonic()
    while len(queue) < size:
        closes = min(queue.last_arrival + idle, opened + longest)
        remaining = closes - clock.monotonic()
        if remaining < RESOLUTION:
            return
        await clock.sleep(remaining)
