"""Cluster events in: the mirror first, then all that have to know.

Synchronous from end to end, so that all see the same world when an event has been handled.
"""

from collections.abc import Callable, Iterable
from functools import partial

from kubedsm.model.events import Change, ClusterEvent
from kubedsm.model.mirror import ClusterMirror
from kubedsm.process.supervisor import Supervisor
from kubedsm.scheduling.scheduling_queue import SchedulingQueue

Observer = Callable[[Change], None]


class EventHandler:
    """`on_pod` hears of pods, `on_gone` of those that are gone, `on_other` of all else.

    The queue hears of everything, after them.
    """

    def __init__(
        self,
        mirror: ClusterMirror,
        queue: SchedulingQueue,
        supervisor: Supervisor,
        on_pod: Iterable[Observer] = (),
        on_gone: Iterable[Observer] = (),
        on_other: Iterable[Observer] = (),
    ) -> None:
        self._mirror = mirror
        self._supervisor = supervisor
        last: Observer = partial(queue.observe, mirror=mirror)
        self._on_pod = (*on_pod, last)
        self._on_gone = (*on_gone, last)
        self._on_other = (*on_other, last)

    def handle(self, event: ClusterEvent) -> None:
        with self._supervisor.catching("event", story=event):
            change = self._mirror.apply(event)
            if change.pod_after is not None:
                observers = self._on_pod
            else:
                observers = self._on_gone if change.pod_before is not None else self._on_other
            self._supervisor.tell("event", observers, change, story=event)
