"""Scheduling queue: activeQ, backoffQ and unschedulable pods, as in kube-scheduler.

The activeQ is ordered by priority, then age. After a failed bind, a pod waits in the backoffQ with
doubling delays. Cluster changes requeue an unschedulable pod through the queueing hints of the
rejecting plugins; `FLUSH_INTERVAL` requeues unconditionally.

Extensions of kube-scheduler: if an admission webhook or another common cause fails the binds of a
namespace, pods are retried sequentially. One successful bind requeues the next pods immediately.
After a kubelet has rejected a pod, new pods of its workload wait in the backoffQ, as their
controller replaces rejected pods without any delay.
"""

import asyncio
import heapq
import math
import random
import sys
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Container, Mapping
from itertools import islice
from typing import Self

import attrs

from kubedsm.model.events import Change, Matter
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Node, Pod, Resources, Uid, Workload, serving_order
from kubedsm.plugins.fit import shortages
from kubedsm.plugins.plugin import EquivalenceClass, Hint
from kubedsm.plugins.plugins import BY_NAME, PLUGINS, accepts, rejection
from kubedsm.process.backoff import Doubling
from kubedsm.process.clock import RESOLUTION, Clock

#: kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds
BACK_OFF = Doubling(1.0, 10.0)
#: seconds between sequential retries of pods with a common failure cause
RETRY_INTERVAL = 1.0
#: seconds: kube-scheduler's podMaxInUnschedulablePodsDuration
MAX_RETRY_DELAY = 300.0
#: pods with a common failure cause requeued after one successful bind
REQUEUED_BY_SUCCESS = 10
#: seconds until unconditional retry of unschedulable pods, in case of an unnoticed change
FLUSH_INTERVAL = 60.0
#: maximum retried pods of an equivalence class at a flush
FLUSH_LIMIT = 16
#: seconds for which a planner that is always occupied counts as busy, and the shortest pause
#: between two batches that ends the occupation
PLANNER_WAIT, PLANNER_PAUSE = 10.0, 1.0
#: practically unlimited number of pods
EVERY = sys.maxsize

#: relevant kinds of changes by queueing hint; plugins may share a queueing hint
_HEARS: Mapping[Hint, tuple[Matter, ...]] = {plugin.hint: plugin.hears for plugin in PLUGINS}

#: sort key of a pod; the pod with the smallest place is served first
Place = tuple[tuple[int, float, str, str], Uid]
#: namespace, and common error of the failed binds
Cause = tuple[str, str]


@attrs.frozen(slots=True)
class QueueStatistics:
    active: int
    backing_off: int
    unschedulable: int


class SortedPods:
    """Priority queue of pods, sorted by descending priority, then by creation time."""

    def __init__(self) -> None:
        self.places: dict[Uid, Place] = {}
        self.in_order: list[Place] = []

    def add(self, pod: Pod) -> None:
        """Insert the pod in queue order, or move the pod after a change of priority."""
        self.discard(pod.uid)
        place = self.places[pod.uid] = serving_order(pod), pod.uid
        insort(self.in_order, place)

    def discard(self, uid: Uid) -> None:
        place = self.places.pop(uid, None)
        if place is not None:
            del self.in_order[bisect_left(self.in_order, place)]


class SchedulingQueue:
    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        #: pods of all queues
        self._pods: dict[Uid, Pod] = {}
        self._active = SortedPods()
        #: time of the next attempt
        self._backoff: dict[Uid, float] = {}
        self._unschedulable = UnschedulablePods()
        #: backoffQ pods awaiting terminating pods, and their deadlines
        self._awaiting_capacity: set[Uid] = set()
        self._await_until: dict[Uid, float] = {}
        #: pods of the planned batch, and pods depending on the planned batch
        self._planning: dict[Uid, None] = {}
        #: beginning of the planner's occupation without pauses, and end of its last batch
        self._planning_since, self._planning_ended = 0.0, -math.inf
        self._failures: dict[Uid, int] = {}
        self._cause: dict[Uid, Cause] = {}
        #: pods whose last bind failed, also during the next attempt
        self.failing: Container[Uid] = self._cause.keys()
        #: pods whose binds failed for the same cause, in order of their turns
        self._failing: dict[Cause, dict[Uid, None]] = {}
        #: rejections by kubelets in a row, and the time of the last
        self._rejections: dict[Workload, tuple[int, float]] = {}
        self._changed = asyncio.Event()
        #: time of the last arrival in the activeQ, for the batch window
        self.last_arrival = 0.0

    def __len__(self) -> int:
        """Return the number of pods waiting for the next scheduling cycle."""
        return len(self._active.places) + sum(each.ready for each in self._unschedulable.awake)

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._pods

    @property
    def busy(self) -> bool:
        """Return True if any pod awaits the next scheduling cycle, or the planner process.

        A planner occupied for longer than `PLANNER_WAIT` does not count, so that a tenant whose
        pods are hard to place does not hold up everyone's migrations.
        """
        occupied = self._clock.monotonic() - self._planning_since
        return (bool(self._planning) and occupied < PLANNER_WAIT) or len(self) > 0

    @property
    def statistics(self) -> QueueStatistics:
        ready, active = len(self) - len(self._active.places), len(self) + len(self._planning)
        return QueueStatistics(active, len(self._backoff), len(self.refused()) - ready)

    def refused(self) -> frozenset[Uid]:
        """Unschedulable pods in the queue, each rejected by every node."""
        return frozenset(self._unschedulable.class_of)

    def count_by_plugin(self) -> Counter[str]:
        """Count unschedulable pods by rejecting plugin; pods may count for several plugins."""
        counts: Counter[str] = Counter()
        for rejected in self._unschedulable.classes.values():
            counts.update(dict.fromkeys(rejected.why.rules, len(rejected.pods.places)))
        return counts

    def list_failing(self) -> frozenset[Workload]:
        """Return the workloads with pods that wait for another attempt after a failed bind."""
        waiting = (self._pods.get(uid) for uid in self._cause)
        return frozenset(pod.workload for pod in waiting if pod is not None)

    # Changes of the cluster.

    def observe(self, change: Change, mirror: ClusterMirror) -> None:
        """Apply a changed pod to the queue, and requeue other pods by queueing hints."""
        before, after = change.pod_before, change.pod_after
        pod = after or before
        if after is not None and (self._rejections or after.phase == "Failed"):
            self._count_rejections(before, after)
        if pod is not None:
            if after is None or not (after.waits_for_node and mirror.leaves_to_place(after)):
                self.forget(pod.uid)
            elif before is None and after.workload in self._rejections:
                self._delay(after)
            elif before is None or not before.waits_for_node or before.pod_class != after.pod_class:
                self.add(after)
            else:
                self.update(after)
        if self._awaiting_capacity or self._unschedulable.classes:
            self.help(change, mirror)

    def help(self, change: Change, mirror: ClusterMirror) -> None:
        """Requeue unschedulable pods after a cluster change: queueing hints, and freed capacity."""
        if change.freed is not None:
            for uid in list(self._awaiting_capacity):
                self.add(self._pods[uid])
        if self._unschedulable.classes and self._unschedulable.help(change, mirror):
            self._notify_arrival()

    def reconsider(self) -> None:
        """Requeue all unschedulable pods immediately."""
        if self._unschedulable.wake_all():
            self._notify_arrival()

    def _count_rejections(self, before: Pod | None, after: Pod) -> None:
        """Count a bound pod that failed before it ran, as kubelets reject pods; end the count when
        a pod of the workload runs.
        """
        if before is None or before.phase != "Pending" or before.node_name is None:
            return
        if after.phase == "Running":
            self._rejections.pop(after.workload, None)
        elif after.phase == "Failed":
            now = self._clock.monotonic()
            recent = {w: r for w, r in self._rejections.items() if now - r[1] < FLUSH_INTERVAL}
            number, _ = recent.get(after.workload, (0, now))
            self._rejections = {**recent, after.workload: (number + 1, now)}

    def _delay(self, pod: Pod) -> None:
        """Add a new pod to the backoffQ after rejections of its workload."""
        number, at = self._rejections[pod.workload]
        self._add_to_backoff(pod, at + BACK_OFF.delay_after(number - 1))

    # Queues.

    def add(self, pod: Pod) -> None:
        """Add the pod to the activeQ, or reposition the pod after a change."""
        if pod.uid not in self._active.places:
            self.remove(pod.uid)
            self._notify_arrival()
        self._active.add(pod)
        self._pods[pod.uid] = pod

    def update(self, pod: Pod) -> None:
        """Replace a queued pod's state; requeue the pod if its scheduling requirements changed."""
        if pod.uid not in self._pods:
            return
        self._pods[pod.uid] = pod
        rejected = self._unschedulable.class_of.get(pod.uid)
        if rejected is not None and Unschedulable.of(pod, rejected.why.rules) != rejected.why:
            self.add(pod)

    def forget(self, uid: Uid) -> None:
        """Remove a bound or deleted pod from the queue; pods behind it move up."""
        turn = self._backoff.get(uid, math.inf)
        self.remove(uid)
        self._await_until.pop(uid, None)
        self._failures.pop(uid, None)
        for other in self._clear_cause(uid) if uid in self._cause else ():
            if self._backoff.get(other, turn) > turn:
                self._backoff[other], turn = turn, self._backoff[other]

    def remove(self, uid: Uid) -> None:
        """Remove the pod from activeQ, backoffQ or the unschedulable pods."""
        if self._pods.pop(uid, None) is None:
            return
        self._awaiting_capacity.discard(uid)
        self._planning.pop(uid, None)
        self._backoff.pop(uid, None)
        self._active.discard(uid)
        if uid in self._unschedulable.class_of:
            self._unschedulable.discard(uid)

    async def wait_active(self) -> None:
        """Wait until the activeQ contains at least one pod."""
        while not len(self):
            self._changed.clear()
            dues = (*self._backoff.values(), *self._unschedulable.asleep.values())
            due = min(dues, default=None)
            try:
                async with asyncio.timeout(due and due - self._clock.monotonic()):
                    await self._changed.wait()
            except TimeoutError:
                # Rounding errors: the clock may be slightly behind the deadline.
                self._flush_due(max(due or 0.0, self._clock.monotonic()))

    def ready(self, limit: int) -> list[Pod]:
        """Return up to `limit` pods of the activeQ in queue order, without removing them."""
        if self._backoff or self._unschedulable.asleep:
            self._flush_due(self._clock.monotonic())
        retried = self._unschedulable.awake
        lines = [each.pods.in_order[: min(each.awake, limit)] for each in retried]
        first = islice(heapq.merge(self._active.in_order[:limit], *lines), limit)
        return [self._pods[uid] for _, uid in first]

    def pop(self, limit: int) -> list[Uid]:
        """Remove and return up to `limit` pods of the activeQ in queue order."""
        popped = [pod.uid for pod in self.ready(limit)]
        # Equivalence classes with retried pods double the number of permitted retries.
        class_of = self._unschedulable.class_of
        for rejected in {class_of[uid] for uid in popped if uid in class_of}:
            rejected.awake *= 2
        for uid in popped:
            self.remove(uid)
        return popped

    def add_unschedulable(self, pod: Pod, plugins: frozenset[str]) -> None:
        """Park a pod as unschedulable until a queueing hint of the rejecting plugins applies."""
        self.remove(pod.uid)
        self._pods[pod.uid] = pod
        self._unschedulable.add(pod, plugins, self._clock.monotonic())
        self._changed.set()

    def back_off(self, pod: Pod, cause: str = "") -> None:
        """Retry the pod after a back-off; pods with the same failure cause one at a time.

        Failure causes are distinguished by namespace.
        """
        failures = self._failures.get(pod.uid, 0)
        self._failures[pod.uid] = failures + 1
        seconds = BACK_OFF.delay_after(failures) * (1 - self._rng.random() / 5)
        due = self._clock.monotonic() + seconds
        self._add_to_backoff(pod, self._assign_turn(pod, cause, due) if cause else due)

    def end_failures(self, uid: Uid) -> None:
        """After a successful bind, requeue pods whose binds failed for the same cause as the pod's
        before.
        """
        if uid not in self._cause:
            return
        failing = self._failing[self._cause[uid]]
        self._clear_cause(uid)
        waiting = (other for other in failing if other in self._backoff)
        for other in list(islice(waiting, REQUEUED_BY_SUCCESS)):
            self.add(self._pods[other])

    def can_await_capacity(self, uid: Uid, limit: float) -> bool:
        """Return True if the pod has waited less than `limit` seconds for terminating pods."""
        now = self._clock.monotonic()
        return self._await_until.setdefault(uid, now + limit) - now >= RESOLUTION

    def await_capacity(self, pod: Pod) -> None:
        """Park the pod until capacity is freed, or its maximum waiting time ends."""
        self._add_to_backoff(pod, self._await_until[pod.uid])
        self._awaiting_capacity.add(pod.uid)

    def park(self, pod: Pod, seconds: float) -> None:
        """Retry the pod after some seconds, unless another part requeues the pod before."""
        self._add_to_backoff(pod, self._clock.monotonic() + seconds)

    def backing_off(self) -> frozenset[Uid]:
        """Return the pods that wait for a time."""
        return frozenset(self._backoff)

    def begin_planning(self, pod: Pod) -> None:
        """Park the pod until the planner process responds.

        Changes requeue parked pods as usual.
        """
        self.remove(pod.uid)
        now = self._clock.monotonic()
        if not self._planning and now - self._planning_ended >= PLANNER_PAUSE:
            self._planning_since = now
        self._pods[pod.uid] = pod
        self._planning[pod.uid] = None

    def in_planning(self, uid: Uid) -> Pod | None:
        """Return the pod's current state if the pod is still parked for the planner process."""
        return self._pods[uid] if uid in self._planning else None

    def requeue_planning(self) -> None:
        """At the end of a planned batch, move all pods that are parked for the planner process to
        the activeQ.
        """
        self._planning_ended = self._clock.monotonic()
        for uid in list(self._planning):
            self.add(self._pods[uid])

    def _notify_arrival(self) -> None:
        self.last_arrival = self._clock.monotonic()
        self._changed.set()

    def _add_to_backoff(self, pod: Pod, due: float) -> None:
        self.remove(pod.uid)
        self._pods[pod.uid] = pod
        self._backoff[pod.uid] = due
        self._changed.set()

    def _flush_due(self, now: float) -> None:
        """Requeue pods whose back-off or flush interval (as kube-scheduler's flush) has expired."""
        if self._unschedulable.wake_due(now):
            self._notify_arrival()
        for uid in [uid for uid, due in self._backoff.items() if due <= now]:
            self.add(self._pods[uid])

    def _assign_turn(self, pod: Pod, cause: str, earliest: float) -> float:
        """Return the pod's retry time, after other pods with the common failure cause."""
        self._clear_cause(pod.uid)
        self._cause[pod.uid] = (pod.namespace, cause)
        failing = self._failing.setdefault((pod.namespace, cause), {})
        last = next((self._backoff[uid] for uid in reversed(failing) if uid in self._backoff), 0.0)
        failing[pod.uid] = None
        latest = self._clock.monotonic() + MAX_RETRY_DELAY
        return min(max(earliest, last + RETRY_INTERVAL), latest)

    def _clear_cause(self, uid: Uid) -> dict[Uid, None]:
        """Forget why the pod's bind failed; return the other pods with the cause."""
        cause = self._cause.pop(uid, None)
        if cause is None:
            return {}
        failing = self._failing[cause]
        del failing[uid]
        if not failing:
            del self._failing[cause]
        return failing


@attrs.frozen(slots=True, cache_hash=True)
class Unschedulable:
    """Equivalence class of unschedulable pods, and the plugins by which nodes reject them.

    Namespace and labels count only for plugins that use them.
    """

    candidate: EquivalenceClass
    rules: frozenset[str]
    hints: tuple[Hint, ...] = attrs.field(init=False, eq=False)

    @hints.default
    def _list_hints(self) -> tuple[Hint, ...]:
        return tuple(dict.fromkeys(BY_NAME[rule].hint for rule in sorted(self.rules)))

    @classmethod
    def of(cls, pod: Pod, rules: frozenset[str]) -> Self:
        if not any(BY_NAME[rule].by_labels for rule in rules):
            return cls(EquivalenceClass(pod.pod_class), rules)
        labels = tuple(sorted(pod.labels.items()))
        return cls(EquivalenceClass(pod.pod_class, pod.namespace, labels), rules)


def node_now_accepts(change: Change, candidate: EquivalenceClass, cluster: ClusterMirror) -> bool:
    """Return True if the changed node rejected such pods before, and accepts them now."""
    pod_class, freed = candidate.pod_class, change.freed
    before, after = change.node_before, change.node_after
    if after is not None:
        free = cluster.free[after.name]
        if before is None or not accepts(pod_class, after, free):
            return False
        return not accepts(pod_class, before, free - after.allocatable + before.allocatable)
    node = cluster.node(freed.node) if freed is not None else None
    if node is None or freed is None:
        return False
    free = cluster.free[node.name]
    short_before = shortages(pod_class.requests, free - freed.amount)
    return bool(short_before) and accepts(pod_class, node, free)


def count_helped(
    hint: Hint, unschedulable: Unschedulable, change: Change, cluster: ClusterMirror, *, more: bool
) -> int:
    """Return an upper bound on the unschedulable pods that may become schedulable by the change.

    more: some node may accept such pods already.
    """
    if hint is not None:
        return EVERY if hint(change, unschedulable.candidate, cluster) else 0
    if not (more or node_now_accepts(change, unschedulable.candidate, cluster)):
        return 0
    name = change.freed.node if change.freed is not None else None
    node = change.node_after or (cluster.node(name) if name is not None else None)
    return 0 if node is None else room_for(unschedulable, cluster.free[node.name])


def room_for(unschedulable: Unschedulable, free: Resources) -> int:
    """Return the number of pods of the equivalence class that fit into the free resources."""
    room = dict(free.items())
    requests = unschedulable.candidate.pod_class.requests.items()
    return max(0, min((room.get(name, 0) // n for name, n in requests if n > 0), default=EVERY))


def still_unschedulable(
    unschedulable: Unschedulable, node: Node, cluster: ClusterMirror
) -> Unschedulable | None:
    """Add the plugin by which a new node rejects a class of unschedulable pods to its rejecting
    plugins; return None if the node accepts the pods.
    """
    rejected = rejection(unschedulable.candidate.pod_class, node, cluster.free[node.name])
    if rejected is None:
        return None
    return attrs.evolve(unschedulable, rules=unschedulable.rules | {rejected.rule})


@attrs.define(eq=False)
class _RejectedClass:
    """Equivalence class of unschedulable pods, and the number of pods that may be retried."""

    why: Unschedulable
    pods: SortedPods = attrs.field(factory=SortedPods)
    #: 0 while the class sleeps
    awake: int = 0

    @property
    def ready(self) -> int:
        return min(self.awake, len(self.pods.places))


class UnschedulablePods:
    """Unschedulable pods, grouped by equivalence class for queueing hints.

    Queueing hints are evaluated once per class, independent of the number of pods. A positive hint
    wakes the class: retries are limited by the freed capacity, and the limit doubles after success.
    Another unschedulable pod of the class puts the class to sleep again.
    """

    def __init__(self) -> None:
        self.classes: dict[EquivalenceClass, _RejectedClass] = {}
        self.class_of: dict[Uid, _RejectedClass] = {}
        #: classes with pods that may be retried now
        self.awake: dict[_RejectedClass, None] = {}
        #: flush time of each class that sleeps; the first entry is due first
        self.asleep: dict[_RejectedClass, float] = {}

    def add(self, pod: Pod, plugins: frozenset[str], now: float) -> None:
        """Add a pod rejected by these plugins on every node; pods of its equivalence class then
        wait for a queueing hint.
        """
        why = Unschedulable.of(pod, plugins)
        rejected = self.classes.setdefault(why.candidate, _RejectedClass(why))
        rejected.why, rejected.awake = why, 0
        rejected.pods.add(pod)
        self.class_of[pod.uid] = rejected
        self.awake.pop(rejected, None)
        self.asleep.pop(rejected, None)
        self.asleep[rejected] = now + FLUSH_INTERVAL

    def discard(self, uid: Uid) -> None:
        rejected = self.class_of.pop(uid)
        rejected.pods.discard(uid)
        if not rejected.pods.places:
            del self.classes[rejected.why.candidate]
            self.awake.pop(rejected, None)
            self.asleep.pop(rejected, None)

    def help(self, change: Change, mirror: ClusterMirror) -> bool:
        """Wake equivalence classes with positive queueing hints; return whether any exists."""
        if change.known is not None:
            return self.wake_all()
        matters, woken, new = change.matters, False, change.node_after
        for rejected in self.classes.values():
            for hint in rejected.why.hints if matters else ():
                if not matters.isdisjoint(_HEARS[hint]):
                    more = rejected.awake > 0
                    count = count_helped(hint, rejected.why, change, mirror, more=more)
                    woken |= self._wake(rejected, count)
            if new is not None and change.node_before is None:
                woken |= self._offer_node(rejected, new, mirror)
        return woken

    def _offer_node(self, rejected: _RejectedClass, node: Node, mirror: ClusterMirror) -> bool:
        why = still_unschedulable(rejected.why, node, mirror)
        if why is None:
            return self._wake(rejected, room_for(rejected.why, mirror.free[node.name]))
        rejected.why = why
        return False

    def wake_all(self) -> bool:
        """Permit a retry of every unschedulable pod; return True if there are any."""
        for rejected in self.classes.values():
            self._wake(rejected, EVERY)
        return bool(self.classes)

    def wake_due(self, now: float) -> bool:
        """Wake equivalence classes with an expired flush interval; return whether any exists."""
        due = [rejected for rejected, at in self.asleep.items() if at <= now]
        for rejected in due:
            self._wake(rejected, FLUSH_LIMIT)
        return bool(due)

    def _wake(self, rejected: _RejectedClass, count: int) -> bool:
        if count:
            rejected.awake += count
            self.awake[rejected] = None
            self.asleep.pop(rejected, None)
        return bool(count)
