"""Cluster events in: the mirror first, then all that have to know.

Synchronous from end to end, so that all see the same world when an event has been handled.
"""

from collections.abc import Callable, Iterable
from functools import partial

from kubedsm.core.world.change import Change
from kubedsm.core.world.events import ClusterEvent
from kubedsm.core.world.mirror import ClusterMirror
from kubedsm.core.world.model import Pod
from kubedsm.runtime.scheduling_queue import SchedulingQueue
from kubedsm.runtime.supervisor import Supervisor

Observer = Callable[[Change], None]


class EventHandler:
    """`on_pod` hears of what happens to pods, `on_other` of all else."""

    def __init__(
        self,
        mirror: ClusterMirror,
        queue: SchedulingQueue,
        scheduler_name: str,
        supervisor: Supervisor,
        on_pod: Iterable[Observer] = (),
        on_other: Iterable[Observer] = (),
    ) -> None:
        self._mirror = mirror
        self._queue = queue
        self._scheduler_name = scheduler_name
        self._supervisor = supervisor
        help_others: Observer = partial(queue.help, mirror=mirror)
        self._on_pod = (*on_pod, self._enqueue, help_others)
        self._on_other = (*on_other, help_others)

    def handle(self, event: ClusterEvent) -> None:
        with self._supervisor.catching("event", story=event):
            change = self._mirror.apply(event)
            observers = self._on_pod if change.pod_before or change.pod_after else self._on_other
            self._supervisor.tell("event", observers, change, story=event)

    def _enqueue(self, change: Change) -> None:
        before, after = change.pod_before, change.pod_after
        if after is None:
            if before is not None:
                self._queue.forget(before.uid)
            return
        if not self._waits_for_us(after):
            self._queue.forget(after.uid)
        elif before is None or not before.waits_for_node or before.pod_class != after.pod_class:
            self._queue.add(after)
        else:
            self._queue.update(after)

    def _waits_for_us(self, pod: Pod) -> bool:
        return (
            pod.scheduler_name == self._scheduler_name
            and pod.waits_for_node
            and self._mirror.claimant(pod.uid) is None
        )
