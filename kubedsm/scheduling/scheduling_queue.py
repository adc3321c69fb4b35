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
from itertools import islice

import attrs

from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Pod, Uid
from kubedsm.process.backoff import Doubling
from kubedsm.process.clock import Clock
from kubedsm.scheduling.priority_order import ServingLine
from kubedsm.scheduling.unschedulable_pods import UnschedulablePods

#: kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds
BACK_OFF = Doubling(1.0, 10.0)
#: seconds between the tries of pods whose binds failed by one cause; how long one waits at most:
#: kube-scheduler's podMaxInUnschedulablePodsDuration
TURN = 1.0
LONGEST_TURN = 300.0
#: how many pods one success brings forward: ever more of them, if they succeed in turn
BROUGHT_FORWARD = 10
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
        self._active = ServingLine()
        #: when to try again; and in the order of that, with some that are out of date
        self._backing_off: dict[Uid, float] = {}
        self._dues: list[tuple[float, Uid]] = []
        self._unschedulable = UnschedulablePods()
        #: those backing off that only wait for room about to come free; until when each pod may
        self._held: set[Uid] = set()
        self._hold_until: dict[Uid, float] = {}
        #: thought about for longer, or waiting for the end of that
        self._apart: dict[Uid, None] = {}
        self._failures: dict[Uid, int] = {}
        self._cause: dict[Uid, Cause] = {}
        self._failing: dict[Cause, _Failing] = {}
        self._changed = asyncio.Event()
        #: on the clock; the batch window looks at it
        self.last_arrival = 0.0

    def __len__(self) -> int:
        """Return how many pods are ready to be decided on."""
        return len(self._active) + self._unschedulable.ready

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._pods

    @property
    def busy(self) -> bool:
        """Whether any pod is ready to be decided on, or thought about."""
        return bool(self._apart) or len(self) > 0

    @property
    def statistics(self) -> QueueStatistics:
        unschedulable = len(self._unschedulable) - self._unschedulable.ready
        active = len(self) + len(self._apart)
        return QueueStatistics(active, len(self._backing_off), unschedulable)

    def refused(self) -> frozenset[Uid]:
        """The pods that every node rejects."""
        return frozenset(self._unschedulable)

    def rejected_by(self) -> Counter[str]:
        """How many unschedulable pods each rule keeps waiting; a pod counts for each of its."""
        return self._unschedulable.rejected_by()

    def add(self, pod: Pod) -> None:
        """Make the pod ready to be decided on now."""
        if pod.uid not in self._active:
            self._take_out(pod.uid)
            self._arrived()
        self._active.add(pod)
        self._pods[pod.uid] = pod

    def back_off(self, pod: Pod, cause: str = "") -> None:
        """Try the pod again later, because binding it failed; by its turn, if the cause is known.

        What fails by the same cause in another namespace is another affair.
        """
        failures = self._failures.get(pod.uid, 0)
        self._failures[pod.uid] = failures + 1
        seconds = BACK_OFF.after(failures) * (1 - self._rng.random() / 5)
        self._take_out(pod.uid)
        due = self._clock.monotonic() + seconds
        self._wait_until(self._turn(pod, cause, due) if cause else due, pod)

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
        self._wait_until(self._hold_until[pod.uid], pod)
        self._held.add(pod.uid)

    def set_apart(self, pod: Pod) -> None:
        """Keep the pod, which is thought about, until it is placed, put elsewhere or brought back.

        Whatever makes it another one to decide on takes it from there, as from any other queue.
        """
        self._take_out(pod.uid)
        self._pods[pod.uid] = pod
        self._apart[pod.uid] = None

    def apart(self, uid: Uid) -> Pod | None:
        """The pod as it is now, if it still is apart."""
        return self._pods[uid] if uid in self._apart else None

    def place(self, uid: Uid) -> None:
        """Let a pod go that was apart: its bind is asked for."""
        self._take_out(uid)

    def bring_back(self) -> None:
        """Make all that are apart ready to be decided on."""
        for uid in list(self._apart):
            self.add(self._pods[uid])

    def wait_for_help(self, pod: Pod, rules: frozenset[str]) -> None:
        """Try the pod again when a node may take it that rejects it now, by one of these rules."""
        self._take_out(pod.uid)
        self._pods[pod.uid] = pod
        self._unschedulable.add(pod, rules, self._clock.monotonic())
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
        if self._unschedulable.help(change, mirror):
            self._arrived()

    def reconsider(self) -> None:
        """Have all tried again that no node took."""
        if self._unschedulable.wake_all():
            self._arrived()

    def update(self, pod: Pod) -> None:
        """Take in that a pod changed which may be waiting."""
        if pod.uid not in self._pods:
            return
        self._pods[pod.uid] = pod
        if pod.uid in self._unschedulable and self._unschedulable.differs(pod):
            self.add(pod)

    def forget(self, uid: Uid) -> None:
        """Drop the pod: it is bound, or gone."""
        self._take_out(uid)
        self._hold_until.pop(uid, None)
        self._failures.pop(uid, None)
        self._leave(uid)

    def ready(self, most: int) -> list[Pod]:
        """Up to that many pods: the highest priorities first, then the oldest."""
        self._promote(self._clock.monotonic())
        lines = self._active.first(most), *self._unschedulable.first(most)
        return [self._pods[uid] for _, uid in islice(heapq.merge(*lines), most)]

    def pop(self, most: int) -> list[Uid]:
        """Take these."""
        taken = [pod.uid for pod in self.ready(most)]
        self._unschedulable.tried(taken)
        for uid in taken:
            self._take_out(uid)
        return taken

    async def wait_active(self) -> None:
        """Return when at least one pod is ready to be decided on."""
        while not len(self):
            self._changed.clear()
            due = self._due()
            try:
                async with asyncio.timeout(due and due - self._clock.monotonic()):
                    await self._changed.wait()
            except TimeoutError:
                # By rounding, the clock may show a moment just before.
                self._promote(max(due or 0.0, self._clock.monotonic()))

    def _arrived(self) -> None:
        self.last_arrival = self._clock.monotonic()
        self._changed.set()

    def _wait_until(self, due: float, pod: Pod) -> None:
        self._pods[pod.uid] = pod
        self._backing_off[pod.uid] = due
        heapq.heappush(self._dues, (due, pod.uid))
        self._changed.set()

    def _due(self) -> float | None:
        """When the next pod is to be tried again, whatever happens."""
        while self._dues and self._backing_off.get(self._dues[0][1]) != self._dues[0][0]:
            heapq.heappop(self._dues)
        dues = (self._dues[0][0] if self._dues else None, self._unschedulable.due)
        return min((due for due in dues if due is not None), default=None)

    def _promote(self, now: float) -> None:
        if self._unschedulable.wake_due(now):
            self._arrived()
        while self._dues and self._dues[0][0] <= now:
            due, uid = heapq.heappop(self._dues)
            if self._backing_off.get(uid) == due:
                self.add(self._pods[uid])

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

    def _take_out(self, uid: Uid) -> None:
        self._pods.pop(uid, None)
        self._held.discard(uid)
        self._apart.pop(uid, None)
        self._backing_off.pop(uid, None)
        self._active.discard(uid)
        self._unschedulable.discard(uid)
