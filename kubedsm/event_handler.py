"""Cluster events in: the mirror first, then whoever has to know.

Synchronous from end to end, so that everybody sees the same world when an event has been handled.
"""

from collections.abc import Callable

from kubedsm.core.events import ClusterEvent
from kubedsm.core.mirror import Change, ClusterMirror, holds_room
from kubedsm.core.model import Pod
from kubedsm.scheduling_queue import SchedulingQueue


class EventHandler:
    def __init__(
        self,
        mirror: ClusterMirror,
        queue: SchedulingQueue,
        scheduler_name: str,
        observe: Callable[[Change], None],
    ) -> None:
        self._mirror = mirror
        self._queue = queue
        self._scheduler_name = scheduler_name
        self._observe = observe

    def handle(self, event: ClusterEvent) -> None:
        change = self._mirror.apply(event)
        self._observe(change)
        self._enqueue(change)
        if could_help(change):
            self._queue.something_helped()

    def _enqueue(self, change: Change) -> None:
        before, after = change.pod_before, change.pod_after
        if after is None:
            if before is not None:
                self._queue.forget(before.uid)
            return
        if not self._waits_for_us(after):
            self._queue.forget(after.uid)
        elif before is None or before.gated or asks_for_something_else(before, after):
            self._queue.add(after.uid)

    def _waits_for_us(self, pod: Pod) -> bool:
        return (
            pod.scheduler_name == self._scheduler_name
            and pod.node_name is None
            and not (pod.finished or pod.terminating or pod.gated)
            and self._mirror.claimant(pod.uid) is None
        )


def asks_for_something_else(before: Pod, after: Pod) -> bool:
    return before.pod_class != after.pod_class


def could_help(change: Change) -> bool:
    """Whether a pod that fitted nowhere may fit somewhere after this change."""
    before, after = change.pod_before, change.pod_after
    if before is not None and holds_room(before):
        return after is None or not holds_room(after) or after.requests != before.requests
    return change.node_after is not None and change.node_before != change.node_after
