"""Recorder of Events on pods, and of the PodScheduled condition of pods that wait.

The newest entry of a pod and topic replaces the older one until it is written, so there are never
more entries than pods and topics. The reason why a pod waits is written at once, and then at
intervals. A write waits briefly for bind calls in flight, and all writes keep to a rate. The
condition, which autoscalers read, is retried a few times, and so are tier labels. An Event that
could not be written is lost, and counted.
"""

import asyncio
import contextlib
import heapq
import re
from collections.abc import Callable, Container, Mapping
from typing import ClassVar

import attrs
import structlog

from kubedsm.events.event_writer import EventWriter, Occurrence
from kubedsm.explain.event_notes import (
    note_bind,
    note_earlier_migration,
    note_forged_label,
    note_left_to_collector,
    note_orphan,
)
from kubedsm.explain.listener import Listener
from kubedsm.kube.calls import reads, writes
from kubedsm.kube.client.port import (
    Cluster,
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Pod, Uid
from kubedsm.process.backoff import TokenBucket
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.process.supervisor import Supervisor

log = structlog.get_logger()

WRITERS = 4
REQUEST_TIMEOUT = 10.0
#: seconds that a write waits for bind calls at the most
BINDS_FIRST = 1.0
#: token bucket of writes: burst size, and seconds for each write above it
BURST, EACH = 200, 0.01
#: seconds until the same Event of a pod is counted again; until a different one is written
SAME, CHANGED = 300.0, 30.0
#: seconds; shorter waits are skipped
RESOLUTION = 1e-6
#: tries of a condition or labels
TRIES = 5
#: seconds between the first two tries; the pause doubles
RETRY = 1.0
#: seconds between two checks whether everything is written
FLUSH_POLL = 0.02
LOAD_KNOWN = "All Prometheus queries return data again"
#: errors that a retry would not change
FINAL = (Conflict, Forbidden, Invalid, NotFound)
_NUMBER = re.compile(r"\d+")


@attrs.frozen(slots=True)
class Scheduled:
    topic: ClassVar[str] = "scheduling"
    pod: Pod
    node: NodeName


@attrs.frozen(slots=True)
class FailedScheduling:
    topic: ClassVar[str] = "scheduling"
    once: ClassVar[bool] = True
    warning: ClassVar[bool] = True
    pod: Pod
    text: str
    reason: str
    times: int = 1


@attrs.frozen(slots=True)
class Notice:
    """Event about a migration, a preemption, or a problem."""

    about: Pod | ConfigMap
    reason: str
    text: str
    topic: str = "migrating"
    warning: bool = False
    #: counted when repeated
    once: bool = False
    times: int = 1


@attrs.frozen(slots=True)
class Retiered:
    """Tier labels and annotations of a pod whose node changed tier."""

    topic: ClassVar[str] = "tier"
    pod: Pod
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


Entry = Scheduled | FailedScheduling | Notice | Retiered
#: uid of the object, and topic
Key = tuple[Uid, str]
TOPICS = ("scheduling", "migrating", "preempting", "packing", "configuring", "collecting", "tier")


def subject_of(entry: Entry) -> Pod | ConfigMap:
    return entry.about if isinstance(entry, Notice) else entry.pod


def key_of(entry: Entry) -> Key:
    about = subject_of(entry)
    return Uid((about if isinstance(about, Pod) else about.identity).uid), entry.topic


def gist_of(entry: FailedScheduling | Notice) -> tuple[str, str]:
    """Return reason and text without the numbers of nodes, which change often."""
    if isinstance(entry, Notice):
        return entry.reason, entry.text
    return entry.reason, _NUMBER.sub("", entry.text)


def with_older(entry: Entry, older: Entry | None) -> Entry:
    """Return the entry, with the count of the older one if both have the same gist."""
    if not isinstance(entry, FailedScheduling | Notice) or type(older) is not type(entry):
        return entry
    same = gist_of(older) == gist_of(entry)
    return attrs.evolve(entry, times=entry.times + older.times) if same else entry


@attrs.frozen(slots=True)
class _Written:
    """The last Event written of those that are counted when repeated; `at`: on the clock."""

    reason: str
    text: str
    at: float

    def is_same(self, entry: FailedScheduling | Notice) -> bool:
        return (self.reason, self.text) == (entry.reason, entry.text)


class EventRecorder:
    """Queue of entries to be written.

    `why` returns the reason for a pod's node in a line, or nothing. `followed`: pods of a plan,
    whose binds are reported when they end. `binds_idle` is set while no bind call is in flight.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        mirror: ClusterMirror,
        followed: Container[Uid],
        binds_idle: asyncio.Event,
        supervisor: Supervisor,
        said: SaidByCause,
        instance: str,
        why: Callable[[Pod], str],
        listener: Listener,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._events = EventWriter(cluster, clock, said, instance, REQUEST_TIMEOUT, listener)
        self._mirror = mirror
        self._followed = followed
        self._binds_idle = binds_idle
        self._supervisor = supervisor
        self._why = why
        self._said = said
        #: newest entry by key, until it is written or given up
        self._newest: dict[Key, Entry] = {}
        #: keys that can be written now; an ordered set
        self._ready: dict[Key, None] = {}
        self._writing: set[Key] = set()
        self._arrived = asyncio.Event()
        #: time at which each postponed key is due; the same as a heap
        self._put_off: dict[Key, float] = {}
        self._dues: list[tuple[float, Key]] = []
        self._sooner = asyncio.Event()
        self._written: dict[Key, _Written] = {}
        #: failed tries by key
        self._failures: dict[Key, int] = {}
        self._rate = TokenBucket(BURST, EACH)
        #: entries dropped because their pod went away
        self._passed_over = 0
        #: namespaces that are being deleted, and were logged; nothing is written there
        self._ending: set[str] = set()

    @property
    def lost(self) -> int:
        """Events that could not be written."""
        return self._events.lost + self._passed_over

    def scheduled(self, pod: Pod, node: NodeName) -> None:
        self._written.pop((pod.uid, Scheduled.topic), None)
        self._add(Scheduled(pod, node))

    def failed_scheduling(self, pod: Pod, text: str, reason: str = "Unschedulable") -> None:
        """Report why the pod waits; the same reason again is counted."""
        self._add(FailedScheduling(pod, text, reason))

    def proposed(self, pod: Pod, text: str) -> None:
        """Report a proposed migration; the same again is counted."""
        self._add(Notice(pod, "MigrationProposed", text, once=True))

    def moved(self, pod: Pod, text: str, *, completed: bool) -> None:
        reason = "Migrated" if completed else "MigrationFailed"
        note = Notice(pod, reason, text, warning=not completed)
        self._written.pop((pod.uid, note.topic), None)
        self._add(note)

    def stuck(self, pod: Pod, reason: str) -> None:
        self._add(Notice(pod, "MigrationFailed", note_orphan(reason), warning=True))

    def taken_over(self, pod: Pod, target: str, completed: bool) -> None:
        """Report the end of a migration that an earlier leader began."""
        self.moved(pod, note_earlier_migration(target, completed=completed), completed=completed)

    def left_to_collector(self, pod: Pod, refused: str) -> None:
        text = note_left_to_collector(refused)
        self._add(Notice(pod, "MigrationFailed", text, topic="collecting", warning=True, once=True))

    def preempted(self, victim: Pod, by: Pod, node: NodeName) -> None:
        text = f"Preempted by pod {by.uid} on node {node}"
        self._add(Notice(victim, "Preempted", text, topic="preempting"))

    def not_preempted(self, pod: Pod, text: str) -> None:
        self._add(Notice(pod, "PreemptionFailed", text, topic="preempting", warning=True))

    def packing(self, pod: Pod, reason: str, text: str) -> None:
        """Report the result of packing for the pod; the same again is counted."""
        warning = reason == "PackingFailed"
        self._add(Notice(pod, reason, text, topic="packing", warning=warning, once=True))

    def mark_ignored(self, pod: Pod) -> None:
        self._add(Notice(pod, "MigrationMarkIgnored", note_forged_label(), warning=True))

    def annotation_ignored(self, pod: Pod, text: str) -> None:
        self._add(Notice(pod, "AnnotationIgnored", text, topic="configuring", warning=True))

    def configuration_refused(self, about: ConfigMap, text: str) -> None:
        self._add(Notice(about, "ConfigurationRefused", text, topic="configuring", warning=True))

    def services_unmatched(self, about: ConfigMap, text: str) -> None:
        self._add(Notice(about, "ServicesUnmatched", text, topic="matching", warning=True))

    def pause_switch_refused(self, about: ConfigMap, text: str) -> None:
        self._add(Notice(about, "PauseSwitchRefused", text, topic="pausing", warning=True))

    def load_told(self, about: ConfigMap, unknown: str) -> None:
        """Report the reason why load is unknown; empty if all load is known again."""
        reason, text = ("LoadUnknown", unknown) if unknown else ("LoadKnown", LOAD_KNOWN)
        self._add(Notice(about, reason, text, topic="measuring", warning=bool(unknown)))

    def retiered(self, pod: Pod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        """Write other tier labels on the pod: the tier of its node changed."""
        self._add(Retiered(pod, labels, annotations))

    def forget(self, change: Change) -> None:
        """Drop the entries of a pod that is gone, except for those about the outcome."""
        if change.pod_before is None:
            return
        self._events.series.forget(change.pod_before.uid)
        for key in ((change.pod_before.uid, topic) for topic in TOPICS):
            self._written.pop(key, None)
            self._failures.pop(key, None)
            entry = self._newest.get(key)
            if entry is not None and not isinstance(entry, Notice):
                del self._newest[key]
                self._ready.pop(key, None)
                self._passed_over += not isinstance(entry, Retiered)

    def _add(self, entry: Entry) -> None:
        key = key_of(entry)
        self._newest[key] = with_older(entry, self._newest.get(key))
        self._failures.pop(key, None)
        self._make_ready(key)

    def _make_ready(self, key: Key) -> None:
        """Queue the entry for now, or for the time when it is due."""
        entry = self._newest.get(key)
        if entry is None or key in self._writing:
            return
        due = self._due(key, entry)
        if due > self._clock.monotonic() + RESOLUTION:
            self._look_again(due, key)
        else:
            self._ready[key] = None
            self._arrived.set()

    def _due(self, key: Key, entry: Entry) -> float:
        """Return the time when the entry is due, on the clock."""
        written = self._written.get(key)
        if written is None or not isinstance(entry, FailedScheduling | Notice) or not entry.once:
            return 0.0
        return written.at + (SAME if written.is_same(entry) else CHANGED)

    def _look_again(self, due: float, key: Key) -> None:
        if due < self._put_off.get(key, due + 1):
            self._put_off[key] = due
            heapq.heappush(self._dues, (due, key))
            self._sooner.set()

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._bring_up())
            for _ in range(WRITERS):
                tasks.create_task(self._write_forever())

    async def _bring_up(self) -> None:
        """Queue postponed entries when they are due."""
        while True:
            now = self._clock.monotonic() + RESOLUTION
            while self._dues and self._dues[0][0] <= now:
                due, key = heapq.heappop(self._dues)
                if self._put_off.get(key) == due:
                    del self._put_off[key]
                    self._make_ready(key)
            self._sooner.clear()
            pause = self._dues[0][0] - self._clock.monotonic() if self._dues else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._sooner.wait()

    async def flushed(self) -> None:
        """Return when nothing is left to write, except for later retries."""
        while self._ready or self._writing:
            await self._clock.sleep(FLUSH_POLL)

    async def _write_forever(self) -> None:
        while True:
            while not self._ready:
                self._arrived.clear()
                await self._arrived.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BINDS_FIRST):
                    await self._binds_idle.wait()
            if not self._ready:
                continue  # another writer took it, or it was dropped
            key = next(iter(self._ready))
            del self._ready[key]
            # One writer for each key, so that writes keep the order of entries.
            self._writing.add(key)
            with self._supervisor.catch_errors("recorder"):
                await self._write_newest(key)
            self._writing.discard(key)
            if key not in self._failures:
                self._make_ready(key)  # if a newer entry came meanwhile

    async def _write_newest(self, key: Key) -> None:
        """Write the newest entry of the key, unless it is outdated."""
        entry, failures = self._newest.pop(key), self._failures.pop(key, 0)
        if self._overtaken(entry) or self._in_ending_namespace(entry):
            return
        try:
            is_written = await self._write(entry)
        except (ClusterError, WireError) as error:
            about = type(entry).__name__
            subject = str(subject_of(entry))
            self._said.log(log.warning, "not written", error, pod=subject, about=about)
            # A newer entry replaces this one.
            if not (isinstance(error, FINAL) or failures + 1 == TRIES or key in self._newest):
                self._newest[key], self._failures[key] = entry, failures + 1
                self._look_again(self._clock.monotonic() + RETRY * 2**failures, key)
            return
        if isinstance(entry, Scheduled) or self._mirror.pod(key[0]) is None:
            self._events.series.forget(key[0])
        elif is_written and isinstance(entry, FailedScheduling | Notice) and entry.once:
            self._written[key] = _Written(entry.reason, entry.text, self._clock.monotonic())

    def _in_ending_namespace(self, entry: Entry) -> bool:
        """Return whether the API server would refuse the Event; log it once for each namespace."""
        about = subject_of(entry)
        name = (about if isinstance(about, Pod) else about.identity).namespace
        is_ending = self._mirror.surroundings.namespace_terminating
        if not is_ending(name):
            return False
        if name not in self._ending:
            self._ending = {name, *filter(is_ending, self._ending)}
            log.info("no more Events: the namespace is being deleted", namespace=name)
        return True

    def _overtaken(self, entry: Entry) -> bool:
        """Return whether the pod no longer waits, or the end of a bind will be reported."""
        if not isinstance(entry, FailedScheduling):
            return False
        pod = self._mirror.pod(entry.pod.uid)
        return pod is None or not pod.waits_for_node or pod.uid in self._followed

    async def _write(self, entry: Entry) -> bool:
        """Write the entry. Return whether users can read it. Raise ClusterError for a retry."""
        match entry:
            case Scheduled(pod, node):
                note = note_bind(pod, node, self._why(pod))
                return await self._event(entry, "Scheduled", "Binding", note)
            case FailedScheduling(pod, text, reason):
                written = self._written.get(key_of(entry))
                shown = written is not None and written.is_same(entry)
                shown = shown or await self._condition(pod, reason, text)
                return await self._event(entry, "FailedScheduling", "Scheduling", text) or shown
            case Notice(_, reason, text, topic):
                return await self._event(entry, reason, topic.capitalize(), text)
            case Retiered(pod, labels, annotations):
                await self._turn()
                known_by = await reads.owner_knows_by(self._cluster, pod, timeout=REQUEST_TIMEOUT)
                kept = {k: v for k, v in labels.items() if k not in known_by}
                await writes.annotate(
                    self._cluster, pod, kept, dict(annotations), timeout=REQUEST_TIMEOUT
                )
        return True

    async def _turn(self) -> None:
        """Wait until a request may be sent."""
        pause = self._rate.take(self._clock.monotonic())
        if pause:
            await self._clock.sleep(pause)

    async def _condition(self, pod: Pod, reason: str, text: str) -> bool:
        """Set the PodScheduled condition. Return False if RBAC forbids it."""
        await self._turn()
        now = self._clock.wall()
        try:
            await writes.set_pod_condition(
                self._cluster, pod, reason, text, since=now, timeout=REQUEST_TIMEOUT
            )
        except Forbidden as error:
            self._said.log(log.warning, "condition not written", error, pod=str(pod))
            return False
        return True

    async def _event(self, entry: Entry, reason: str, action: str, note: str) -> bool:
        await self._turn()
        counted = entry if isinstance(entry, FailedScheduling | Notice) else None
        return await self._events.write(
            Occurrence(
                writes.Regarding.of(subject_of(entry)),
                reason,
                action,
                note,
                gist=note if counted is None else " ".join(gist_of(counted)),
                times=1 if counted is None else counted.times,
                warning=counted is not None and counted.warning,
            )
        )
