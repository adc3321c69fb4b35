"""Cluster events in: the mirror first, then all that have to know.

Synchronous from end to end, so that all see the same world when an event has been handled.
"""

from collections.abc import Callable
from functools import partial

from kubedsm.core.world.change import Change
from kubedsm.core.world.events import ClusterEvent
from kubedsm.core.world.mirror import ClusterMirror
from kubedsm.core.world.model import Pod
from kubedsm.runtime.scheduling_queue import SchedulingQueue
from kubedsm.runtime.supervisor import Supervisor


class EventHandler:
    def __init__(
        self,
        mirror: ClusterMirror,
        queue: SchedulingQueue,
        scheduler_name: str,
        supervisor: Supervisor,
        *observers: Callable[[Change], None],
    ) -> None:
        self._mirror = mirror
        self._queue = queue
        self._scheduler_name = scheduler_name
        self._supervisor = supervisor
        self._observers = (*observers, self._enqueue, self._help)

    def handle(self, event: ClusterEvent) -> None:
        self._supervisor.attempt("event", partial(self._handle, event), story=event)

    def _handle(self, event: ClusterEvent) -> None:
        change = self._mirror.apply(event)
        for observer in self._observers:
            self._supervisor.attempt("event", partial(observer, change), story=event)

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

    def _help(self, change: Change) -> None:
        self._queue.help(change, self._mirror)
