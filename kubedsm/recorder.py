"""What users read on their pods: Events, and the PodScheduled condition of those that wait.

Written only while no bind is under way: an Event never delays one. Losing an Event is harmless, so
the oldest go first when there are too many, and a failed one is not tried again.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import attrs
import structlog

from kubedsm.clock import Clock
from kubedsm.cluster import moving, verbs
from kubedsm.cluster.port import Cluster, ClusterError
from kubedsm.core.model import NodeName, Pod, Tier, Uid
from kubedsm.tier_marks import tier_marks

log = structlog.get_logger()

MOST_PENDING = 5000
WRITERS = 4
REQUEST_TIMEOUT = 10.0


@attrs.frozen(slots=True)
class Scheduled:
    pod: Pod
    node: NodeName


@attrs.frozen(slots=True)
class FailedScheduling:
    pod: Pod
    message: str


@attrs.frozen(slots=True)
class Note:
    """An Event about a migration, or a preemption."""

    pod: Pod
    reason: str
    text: str
    warning: bool = False
    action: str = "Migrating"


@attrs.frozen(slots=True)
class Retiered:
    """The node's tier changed, and with it what the pod says of its own."""

    pod: Pod
    tier: Tier


Entry = Scheduled | FailedScheduling | Note | Retiered


class Recorder:
    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        quiet: asyncio.Event,
        instance: str,
        why: Callable[[Pod], str],
    ) -> None:
        self._cluster = cluster
        #: why a pod was put where it was, in a line, or nothing
        self._why = why
        self._instance = instance
        self._clock = clock
        self._quiet = quiet
        self._pending: deque[Entry] = deque(maxlen=MOST_PENDING)
        self._arrived = asyncio.Event()
        #: the last message written on each pod that waits
        self._told: dict[Uid, str] = {}

    def scheduled(self, pod: Pod, node: NodeName) -> None:
        self.forget(pod.uid)
        self._add(Scheduled(pod, node))

    def failed_scheduling(self, pod: Pod, message: str) -> None:
        """Say why the pod waits, unless that was the last thing said about it."""
        if self._told.get(pod.uid) != message:
            self._told[pod.uid] = message
            self._add(FailedScheduling(pod, message))

    def proposed(self, pod: Pod, text: str) -> None:
        """Say what would be done, unless that was the last thing said about the pod."""
        if self._told.get(pod.uid) != text:
            self._told[pod.uid] = text
            self._add(Note(pod, "MigrationProposed", text))

    def moved(self, pod: Pod, text: str, *, completed: bool) -> None:
        self.forget(pod.uid)
        reason = "Migrated" if completed else "MigrationFailed"
        self._add(Note(pod, reason, text, warning=not completed))

    def preempted(self, victim: Pod, by: Pod, node: NodeName) -> None:
        text = f"Preempted by pod {by.uid} on node {node}"
        self._add(Note(victim, "Preempted", text, action="Preempting"))

    def not_preempted(self, pod: Pod, text: str) -> None:
        self._add(Note(pod, "PreemptionFailed", text, warning=True, action="Preempting"))

    def retiered(self, pod: Pod, tier: Tier) -> None:
        self._add(Retiered(pod, tier))

    def _add(self, entry: Entry) -> None:
        self._pending.append(entry)
        self._arrived.set()

    def forget(self, uid: Uid) -> None:
        self._told.pop(uid, None)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write_forever())

    async def _write_forever(self) -> None:
        while True:
            while not (self._pending and self._quiet.is_set()):
                self._arrived.clear()
                await (self._quiet if self._pending else self._arrived).wait()
            entry = self._pending.popleft()
            try:
                await self._write(entry)
            except ClusterError as error:
                log.warning("event not written", pod=str(entry.pod), error=str(error))
                self.forget(entry.pod.uid)  # so that the next attempt says it again

    async def _write(self, entry: Entry) -> None:
        match entry:
            case Scheduled(pod, node):
                note = f"Successfully assigned {pod} to {node}"
                if why := self._why(pod):
                    note += f": {why}"
                await self._event(pod, "Scheduled", "Binding", note)
            case FailedScheduling(pod, message):
                now = self._clock.wall()
                await verbs.set_pod_condition(
                    self._cluster, pod, message, since=now, timeout=REQUEST_TIMEOUT
                )
                await self._event(pod, "FailedScheduling", "Scheduling", message, warning=True)
            case Note(pod, reason, text, warning, action):
                await self._event(pod, reason, action, text, warning=warning)
            case Retiered(pod, tier):
                marks = tier_marks(pod, tier)
                await moving.annotate(
                    self._cluster, pod, marks.labels, marks.annotations, timeout=REQUEST_TIMEOUT
                )

    async def _event(
        self, pod: Pod, reason: str, action: str, note: str, *, warning: bool = False
    ) -> None:
        await verbs.create_event(
            self._cluster,
            verbs.Regarding.pod(pod),
            reason=reason,
            action=action,
            note=note,
            instance=self._instance,
            at=self._clock.wall(),
            warning=warning,
            timeout=REQUEST_TIMEOUT,
        )
