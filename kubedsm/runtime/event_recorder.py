"""What users read on their pods: Events, and the PodScheduled condition of those that wait.

What is to be said of a pod is kept, the newest in place of the older, until it is written; so there
is never more of it than pods, and none is passed over. A write waits for bind calls under way, but
not for long. The condition, which autoscalers read, is tried again a few times, and so is the mark
of a tier. An Event that could not be written is lost, and counted.
"""

import asyncio
import contextlib
from collections.abc import Callable, Container
from typing import ClassVar

import attrs
import structlog

from kubedsm.clock import Clock
from kubedsm.cluster.calls import live, pod_writes, verbs
from kubedsm.cluster.client.port import (
    Cluster,
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from kubedsm.cluster.wire.decoding import ConfigMap, WireError
from kubedsm.core.world.change import Change
from kubedsm.core.world.mirror import ClusterMirror
from kubedsm.core.world.model import MIGRATING_LABEL, NodeName, Pod, Tier, Uid
from kubedsm.runtime.bind_calls import BindCalls
from kubedsm.runtime.supervisor import Supervisor
from kubedsm.runtime.tier_marks import tier_marks
from kubedsm.said_by_cause import SaidByCause

log = structlog.get_logger()

WRITERS = 4
REQUEST_TIMEOUT = 10.0
#: seconds that a write waits for bind calls at most
BINDS_FIRST = 0.1
#: of what is not an Event
TRIES = 5
#: seconds between the first two of them; the pause doubles
RETRY = 1.0
#: seconds between two looks whether all is written
FLUSH_POLL = 0.02
#: answers that another try would not change
FINAL = (Conflict, Forbidden, Invalid, NotFound)


@attrs.frozen(slots=True)
class Scheduled:
    topic: ClassVar[str] = "scheduling"
    pod: Pod
    node: NodeName


@attrs.frozen(slots=True)
class FailedScheduling:
    topic: ClassVar[str] = "scheduling"
    once: ClassVar[bool] = True
    pod: Pod
    text: str
    reason: str


@attrs.frozen(slots=True)
class Note:
    """An Event about a migration, a preemption, or something that is not as it should be."""

    about: Pod | ConfigMap
    reason: str
    text: str
    topic: str = "migrating"
    warning: bool = False
    #: not to be said twice in a row
    once: bool = False


@attrs.frozen(slots=True)
class Retiered:
    """The node's tier changed, and with it what the pod says of its own."""

    topic: ClassVar[str] = "tier"
    pod: Pod
    tier: Tier


Entry = Scheduled | FailedScheduling | Note | Retiered
#: a pod, and what is said about it
Key = tuple[Uid, str]
TOPICS = ("scheduling", "migrating", "preempting", "configuring", "tier")


class EventRecorder:
    """`why` says in a line why a pod was put where it was, or nothing.

    `followed`: the pods that a plan is about, of which more is going to be said.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        mirror: ClusterMirror,
        followed: Container[Uid],
        binds: BindCalls,
        supervisor: Supervisor,
        said: SaidByCause,
        instance: str,
        why: Callable[[Pod], str],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._mirror = mirror
        self._followed = followed
        self._binds = binds
        self._supervisor = supervisor
        self._instance = instance
        self._why = why
        self._said = said
        #: the newest on each matter, until it is written or given up
        self._newest: dict[Key, Entry] = {}
        #: which of it can be written now; an ordered set
        self._ready: dict[Key, None] = {}
        self._writing: set[Key] = set()
        self._arrived = asyncio.Event()
        #: the last text written of what is not said twice in a row
        self._told: dict[Key, str] = {}
        #: tries so far of what is tried again
        self._failures: dict[Key, int] = {}
        #: Events that could not be written
        self.lost = 0

    def scheduled(self, pod: Pod, node: NodeName) -> None:
        self._told.pop((pod.uid, Scheduled.topic), None)
        self._add(Scheduled(pod, node))

    def failed_scheduling(self, pod: Pod, text: str, reason: str = "Unschedulable") -> None:
        """Say why the pod waits, unless that was the last thing said about it."""
        self._add(FailedScheduling(pod, text, reason))

    def proposed(self, pod: Pod, text: str) -> None:
        """Say what would be done, unless that was the last thing said about it."""
        self._add(Note(pod, "MigrationProposed", text, once=True))

    def moved(self, pod: Pod, text: str, *, completed: bool) -> None:
        reason = "Migrated" if completed else "MigrationFailed"
        note = Note(pod, reason, text, warning=not completed)
        self._told.pop((pod.uid, note.topic), None)
        self._add(note)

    def stuck(self, pod: Pod, reason: str) -> None:
        text = f"Detached by a move, and neither given back nor evicted yet: {reason}"
        self._add(Note(pod, "MigrationFailed", text, warning=True))

    def preempted(self, victim: Pod, by: Pod, node: NodeName) -> None:
        text = f"Preempted by pod {by.uid} on node {node}"
        self._add(Note(victim, "Preempted", text, topic="preempting"))

    def not_preempted(self, pod: Pod, text: str) -> None:
        self._add(Note(pod, "PreemptionFailed", text, topic="preempting", warning=True))

    def mark_ignored(self, pod: Pod) -> None:
        text = f"Carries {MIGRATING_LABEL}, but no move of ours took it from its owner; ignored"
        self._add(Note(pod, "MigrationMarkIgnored", text, warning=True))

    def annotation_ignored(self, pod: Pod, text: str) -> None:
        self._add(Note(pod, "AnnotationIgnored", text, topic="configuring", warning=True))

    def configuration_refused(self, about: ConfigMap, text: str) -> None:
        self._add(Note(about, "ConfigurationRefused", text, topic="configuring", warning=True))

    def retiered(self, pod: Pod, tier: Tier) -> None:
        self._add(Retiered(pod, tier))

    def forget(self, change: Change) -> None:
        """A pod is gone: only what became of it is still to be said."""
        if change.pod_before is None:
            return
        for key in ((change.pod_before.uid, topic) for topic in TOPICS):
            self._told.pop(key, None)
            self._failures.pop(key, None)
            entry = self._newest.get(key)
            if entry is not None and not isinstance(entry, Note):
                del self._newest[key]
                self._ready.pop(key, None)
                self.lost += not isinstance(entry, Retiered)

    def _add(self, entry: Entry) -> None:
        key = _key(entry)
        self._newest[key] = entry
        self._failures.pop(key, None)
        self._make_ready(key)

    def _make_ready(self, key: Key) -> None:
        if key in self._newest and key not in self._writing:
            self._ready[key] = None
            self._arrived.set()

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write_forever(tasks))

    async def flushed(self) -> None:
        """Return when nothing is to be written, but for what is tried again later."""
        while self._ready or self._writing:
            await self._clock.sleep(FLUSH_POLL)

    async def _write_forever(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            while not self._ready:
                self._arrived.clear()
                await self._arrived.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BINDS_FIRST):
                    await self._binds.none_under_way.wait()
            if not self._ready:
                continue  # another writer took it, or it is not to be said any more
            key = next(iter(self._ready))
            del self._ready[key]
            # One writer for each: what is said later must be written later.
            self._writing.add(key)
            with self._supervisor.catching("recorder"):
                await self._see_to(key, tasks)
            self._writing.discard(key)
            if key not in self._failures:
                self._make_ready(key)  # if something newer came meanwhile

    async def _see_to(self, key: Key, tasks: asyncio.TaskGroup) -> None:
        pause = await self._write_newest(key)
        if pause is not None:
            tasks.create_task(self._make_ready_after(pause, key))

    async def _make_ready_after(self, pause: float, key: Key) -> None:
        await self._clock.sleep(pause)
        self._make_ready(key)

    async def _write_newest(self, key: Key) -> float | None:
        """Write it, if it is worth it; the seconds until it is to be tried again, if so."""
        entry, failures = self._newest.pop(key), self._failures.pop(key, 0)
        once = entry.text if isinstance(entry, FailedScheduling | Note) and entry.once else ""
        if (once and self._told.get(key) == once) or self._overtaken(entry):
            return None
        try:
            said = await self._write(entry)
        except (ClusterError, WireError) as error:
            about = type(entry).__name__
            subject = str(_subject(entry))
            self._said.log(log.warning, "not written", error, pod=subject, about=about)
            # What is newer says it better.
            if isinstance(error, FINAL) or failures + 1 == TRIES or key in self._newest:
                return None
            self._newest[key], self._failures[key] = entry, failures + 1
            return float(RETRY * 2**failures)
        if said and once and self._mirror.pod(key[0]) is not None:
            self._told[key] = once
        return None

    def _overtaken(self, entry: Entry) -> bool:
        """Whether the pod does not wait any more, or how a bind of it ends will be said."""
        if not isinstance(entry, FailedScheduling):
            return False
        pod = self._mirror.pod(entry.pod.uid)
        return pod is None or not pod.waits_for_node or pod.uid in self._followed

    async def _write(self, entry: Entry) -> bool:
        """Whether it is said now. Raises ClusterError where another try may be worth it."""
        match entry:
            case Scheduled(pod, node):
                note = f"Successfully assigned {pod} to {node}"
                if why := self._why(pod):
                    note += f": {why}"
                return await self._event(pod, "Scheduled", "Binding", note)
            case FailedScheduling(pod, text, reason):
                shown = await self._condition(pod, reason, text)
                told = await self._event(pod, "FailedScheduling", "Scheduling", text, warning=True)
                return shown or told
            case Note(about, reason, text, topic, warning):
                return await self._event(about, reason, topic.capitalize(), text, warning=warning)
            case Retiered(pod, tier):
                marks = tier_marks(pod, tier)
                known_by = await live.owner_knows_by(self._cluster, pod, timeout=REQUEST_TIMEOUT)
                labels = {k: v for k, v in marks.labels.items() if k not in known_by}
                await pod_writes.annotate(
                    self._cluster, pod, labels, marks.annotations, timeout=REQUEST_TIMEOUT
                )
        return True

    async def _condition(self, pod: Pod, reason: str, text: str) -> bool:
        """Without the right to it the Event still tells. Raises any other ClusterError."""
        now = self._clock.wall()
        try:
            await verbs.set_pod_condition(
                self._cluster, pod, reason, text, since=now, timeout=REQUEST_TIMEOUT
            )
        except Forbidden as error:
            self._said.log(log.warning, "condition not written", error, pod=str(pod))
            return False
        return True

    async def _event(
        self, about: Pod | ConfigMap, reason: str, action: str, note: str, *, warning: bool = False
    ) -> bool:
        try:
            await verbs.create_event(
                self._cluster,
                verbs.Regarding.of(about),
                reason=reason,
                action=action,
                note=note,
                instance=self._instance,
                at=self._clock.wall(),
                warning=warning,
                timeout=REQUEST_TIMEOUT,
            )
        except ClusterError as error:
            if isinstance(error, Forbidden) and error.namespace_terminating:
                return False  # it would not be read
            self.lost += 1
            self._said.log(log.warning, "event lost", error, pod=str(about), reason=reason)
            return False
        return True


def _subject(entry: Entry) -> Pod | ConfigMap:
    return entry.about if isinstance(entry, Note) else entry.pod


def _key(entry: Entry) -> Key:
    about = _subject(entry)
    return Uid((about if isinstance(about, Pod) else about.identity).uid), entry.topic
