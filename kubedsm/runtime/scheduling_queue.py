"""Pods that wait for a node: ready to be decided on, backing off, or rejected by every node.

The three queues of kube-scheduler. Ready pods are served by priority, then age. One that no node
takes is tried again once something happens that could change that, as `core.rules.queueing_hints`
tell, and after `FLUSH` seconds in any case; one whose bind failed after a back-off that doubles.

Beyond kube-scheduler: pods of a namespace whose binds fail by one cause, such as an admission
webhook, take turns, and one bind that succeeds brings the next ones forward.
"""

import asyncio
import heapq
import random
from collections import Counter
from collections.abc import Callable
from itertools import islice

import attrs

from kubedsm.clock import Clock
from kubedsm.cluster.client.backoff import Doubling
from kubedsm.core.rules.queueing_hints import (
    Unschedulable,
    matters,
    still_unschedulable,
    still_unschedulable_itself,
)
from kubedsm.core.world.change import Change
from kubedsm.core.world.mirror import ClusterMirror
from kubedsm.core.world.model import Pod, Uid
from kubedsm.core.world.serving_order import serving_order

#: kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds
BACK_OFF = Doubling(1.0, 10.0)
#: seconds between the tries of pods whose binds failed by one cause; how long one waits at most:
#: kube-scheduler's podMaxInUnschedulablePodsDuration
TURN = 1.0
LONGEST_TURN = 300.0
#: how many pods one success brings forward: ever more of them, if they succeed in turn
BROUGHT_FORWARD = 10
#: how long an unschedulable pod waits at most, in case a helpful change went unnoticed
FLUSH = 60.0
#: seconds; less is no time to wait for
RESOLUTION = 1e-6


@attrs.frozen(slots=True)
class QueueStatistics:
    active: int
    backing_off: int
    unschedulable: int


#: a namespace, and why its pods' binds fail
Cause = tuple[str, str]


@attrs.define
class _Failing:
    """The pods whose last bind failed by one cause, in the order in which that happened."""

    pods: dict[Uid, None] = attrs.field(factory=dict)
    #: on the clock
    next_turn: float = 0.0


class SchedulingQueue:
    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        #: all that are in one of the queues
        self._pods: dict[Uid, Pod] = {}
        #: insertion-ordered set
        self._active: dict[Uid, None] = {}
        #: when to try again
        self._backing_off: dict[Uid, float] = {}
        self._unschedulable: dict[Uid, float] = {}
        #: why the unschedulable ones are; far fewer than they, and so asked in their place
        self._why: dict[Uid, Unschedulable] = {}
        self._by_why: dict[Unschedulable, dict[Uid, None]] = {}
        #: those backing off that only wait for room about to come free; until when each pod may
        self._held: set[Uid] = set()
        self._hold_until: dict[Uid, float] = {}
        self._failures: dict[Uid, int] = {}
        self._cause: dict[Uid, Cause] = {}
        self._failing: dict[Cause, _Failing] = {}
        self._changed = asyncio.Event()
        #: on the clock; the batch window looks at it
        self.last_arrival = 0.0

    def __len__(self) -> int:
        """Return how many pods are ready to be decided on."""
        return len(self._active)

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._pods

    @property
    def statistics(self) -> QueueStatistics:
        return QueueStatistics(len(self._active), len(self._backing_off), len(self._unschedulable))

    def rejected_by(self) -> Counter[str]:
        """How many unschedulable pods each rule keeps waiting; a pod counts for each of its."""
        counts: Counter[str] = Counter()
        for why, uids in self._by_why.items():
            for rule in why.rules:
                counts[rule] += len(uids)
        return counts

    def add(self, pod: Pod) -> None:
        """Make the pod ready to be decided on now."""
        if pod.uid not in self._active:
            self._take_out(pod.uid)
            self._active[pod.uid] = None
            self.last_arrival = self._clock.monotonic()
            self._changed.set()
        self._pods[pod.uid] = pod

    def back_off(self, pod: Pod, cause: str = "") -> None:
        """Try the pod again later, because binding it failed; by its turn, if the cause is known.

        What fails by the same cause in another namespace is another affair.
        """
        failures = self._failures.get(pod.uid, 0)
        self._failures[pod.uid] = failures + 1
        seconds = BACK_OFF.after(failures) * (1 - self._rng.random() / 5)
        self._take_out(pod.uid)
        self._pods[pod.uid] = pod
        due = self._clock.monotonic() + seconds
        self._backing_off[pod.uid] = self._turn(pod, cause, due) if cause else due
        self._changed.set()

    def bound(self, uid: Uid) -> None:
        """Bring others forward whose binds failed by the same cause as this pod's, at last."""
        failing = self._failing.get(self._cause.get(uid, ("", "")))
        self._leave(uid)
        if failing is not None:
            waiting = (other for other in failing.pods if other in self._backing_off)
            for other in list(islice(waiting, BROUGHT_FORWARD)):
                self.add(self._pods[other])

    def may_hold(self, uid: Uid, longest: float) -> bool:
        """Whether the pod, if it was held at all, may be held on."""
        now = self._clock.monotonic()
        return self._hold_until.setdefault(uid, now + longest) - now >= RESOLUTION

    def hold(self, pod: Pod) -> None:
        """Try the pod again when room comes free, or when it may be held no longer."""
        self._take_out(pod.uid)
        self._pods[pod.uid] = pod
        self._backing_off[pod.uid] = self._hold_until[pod.uid]
        self._held.add(pod.uid)
        self._changed.set()

    def wait_for_help(self, pod: Pod, rules: frozenset[str]) -> None:
        """Try the pod again when a node may take it that rejects it now, by one of these rules."""
        self._take_out(pod.uid)
        self._pods[pod.uid] = pod
        self._unschedulable[pod.uid] = self._clock.monotonic() + FLUSH
        self._file(pod.uid, Unschedulable.of(pod, rules))
        self._changed.set()

    def observe(self, change: Change, mirror: ClusterMirror) -> None:
        """Take in what happened to a pod that may wait for us, or to what others wait for."""
        before, after = change.pod_before, change.pod_after
        if after is None:
            if before is not None:
                self.forget(before.uid)
        elif not (after.waits_for_node and mirror.leaves_to_place(after)):
            self.forget(after.uid)
        elif before is None or not before.waits_for_node or before.pod_class != after.pod_class:
            self.add(after)
        else:
            self.update(after)
        self.help(change, mirror)

    def help(self, change: Change, mirror: ClusterMirror) -> None:
        """Have those pods tried again that the change may help."""
        if change.freed is not None:
            for uid in list(self._held):
                self.add(self._pods[uid])
        if self._by_why and matters(change):
            self.reconsider(lambda pods: still_unschedulable(pods, change, mirror))

    def reconsider(self, judged: Callable[[Unschedulable], Unschedulable | None]) -> None:
        """Try those again of which nothing stands any more: None."""
        for unschedulable, uids in list(self._by_why.items()):
            standing = judged(unschedulable)
            if standing == unschedulable:
                continue
            for uid in list(uids):
                self._stands(uid, standing)

    def update(self, pod: Pod) -> None:
        """Take in that a pod changed which may be waiting."""
        if pod.uid not in self._pods:
            return
        self._pods[pod.uid] = pod
        unschedulable = self._why.get(pod.uid)
        if unschedulable is not None:
            self._stands(pod.uid, still_unschedulable_itself(unschedulable, pod))

    def forget(self, uid: Uid) -> None:
        """Drop the pod: it is bound, or gone."""
        self._take_out(uid)
        self._hold_until.pop(uid, None)
        self._failures.pop(uid, None)
        self._leave(uid)

    def pop(self, most: int) -> list[Uid]:
        """Take up to that many pods: the highest priorities first, then the oldest."""
        ready = [self._pods[uid] for uid in self._active]
        taken = [pod.uid for pod in heapq.nsmallest(most, ready, key=serving_order)]
        for uid in taken:
            self._take_out(uid)
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
                self.add(self._pods[uid])

    def _stands(self, uid: Uid, unschedulable: Unschedulable | None) -> None:
        if unschedulable is None:
            self.add(self._pods[uid])
        else:
            self._unfile(uid)
            self._file(uid, unschedulable)

    def _turn(self, pod: Pod, cause: str, earliest: float) -> float:
        """When it may be tried again; not before others that fail by the same cause."""
        self._leave(pod.uid)
        self._cause[pod.uid] = (pod.namespace, cause)
        failing = self._failing.setdefault((pod.namespace, cause), _Failing())
        failing.pods[pod.uid] = None
        latest = self._clock.monotonic() + LONGEST_TURN
        turn = min(max(earliest, failing.next_turn), latest)
        failing.next_turn = turn + TURN
        return turn

    def _leave(self, uid: Uid) -> None:
        cause = self._cause.pop(uid, None)
        if cause is None:
            return
        failing = self._failing[cause]
        del failing.pods[uid]
        if not failing.pods:
            del self._failing[cause]

    def _file(self, uid: Uid, unschedulable: Unschedulable) -> None:
        self._why[uid] = unschedulable
        self._by_why.setdefault(unschedulable, {})[uid] = None

    def _unfile(self, uid: Uid) -> None:
        unschedulable = self._why.pop(uid, None)
        if unschedulable is not None:
            uids = self._by_why[unschedulable]
            del uids[uid]
            if not uids:
                del self._by_why[unschedulable]

    def _take_out(self, uid: Uid) -> None:
        self._pods.pop(uid, None)
        self._held.discard(uid)
        self._active.pop(uid, None)
        self._backing_off.pop(uid, None)
        self._unschedulable.pop(uid, None)
        self._unfile(uid)


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
