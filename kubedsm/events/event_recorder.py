"""Recorder of Events on pods, and of the PodScheduled condition of pods that wait.

The newest entry of a pod and topic replaces the older one until it is written, so there are never
more entries than pods and topics. The reason why a pod waits is written at once, and then at
intervals. A write waits briefly for bind calls in flight, and all writes keep to a rate. The
condition, which autoscalers read, is retried a few times, and so are tier labels. An Event that
could not be written is lost, and counted.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Container, Mapping
from typing import Any, ClassVar

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
#: errors that a retry would not change
FINAL = (Conflict, Forbidden, Invalid, NotFound)
_NUMBER = re.compile(r"\d+")


@attrs.frozen(slots=True)
class Notice:
    """Event about a pod or a ConfigMap."""

    about: Pod | ConfigMap
    reason: str
    text: str
    topic: str
    warning: bool = False
    #: counted when repeated
    once: bool = False
    times: int = 1
    #: node of a bind, whose text is composed when it is written
    node: NodeName | None = None
    #: reason of the PodScheduled condition, written before the Event
    condition: str = ""

    @property
    def gist(self) -> str:
        """Condition and text without the numbers of nodes, which change often."""
        return f"{self.condition} {_NUMBER.sub('', self.text)}" if self.condition else self.text

    def is_same(self, other: "Notice") -> bool:
        return (self.reason, self.condition, self.text) == (
            other.reason,
            other.condition,
            other.text,
        )


@attrs.frozen(slots=True)
class Retiered:
    """Tier labels and annotations of a pod whose node changed tier."""

    topic: ClassVar[str] = "tier"
    about: Pod
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


Entry = Notice | Retiered
#: uid of the object, and topic
Key = tuple[Uid, str]
#: topic of each reason; a new Event replaces an unwritten one of its topic
TOPICS = {
    "Scheduled": "scheduling",
    "FailedScheduling": "scheduling",
    "MigrationProposed": "migrating",
    "Migrated": "migrating",
    "MigrationFailed": "migrating",
    "MigrationMarkIgnored": "migrating",
    "Preempted": "preempting",
    "PreemptionFailed": "preempting",
    "PackingProposed": "packing",
    "Packed": "packing",
    "PackingFailed": "packing",
    "AnnotationIgnored": "configuring",
    "ConfigurationRefused": "configuring",
    "ServicesUnmatched": "matching",
    "PauseSwitchRefused": "pausing",
    "LoadUnknown": "measuring",
    "LoadKnown": "measuring",
}
_COUNTED = {"FailedScheduling", "MigrationProposed", "PackingProposed", "Packed", "PackingFailed"}
_WARNING_SUFFIXES = ("Failed", "FailedScheduling", "Ignored", "Refused", "Unmatched", "Unknown")
#: topics of pods whose entries are void once the pod is gone; the others report an outcome
_VOID = ("scheduling", Retiered.topic)
_COLLECTING = "collecting"


def key_of(entry: Entry) -> Key:
    about = entry.about
    return Uid((about if isinstance(about, Pod) else about.identity).uid), entry.topic


def with_older(entry: Entry, older: Entry | None) -> Entry:
    """Return the entry, with the count of the older one if both have the same gist."""
    if not (isinstance(entry, Notice) and isinstance(older, Notice)):
        return entry
    same = (entry.reason, entry.gist) == (older.reason, older.gist)
    return attrs.evolve(entry, times=entry.times + older.times) if same else entry


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
        #: timers of postponed keys
        self._postponed: dict[Key, asyncio.TimerHandle] = {}
        #: last Event written of those that are counted when repeated, and its time
        self._written: dict[Key, tuple[Notice, float]] = {}
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

    def note(
        self, reason: str, about: Pod | ConfigMap, text: str, *, topic: str = "", **fields: Any
    ) -> None:
        """Report by an Event, which replaces an unwritten one of its topic."""
        topic = topic or TOPICS[reason]
        warning = reason.endswith(_WARNING_SUFFIXES)
        once = reason in _COUNTED or topic == _COLLECTING
        self._add(Notice(about, reason, text, topic, warning, once, **fields))

    def scheduled(self, pod: Pod, node: NodeName) -> None:
        self._written.pop((pod.uid, TOPICS["Scheduled"]), None)
        self.note("Scheduled", pod, "", node=node)

    def failed_scheduling(self, pod: Pod, text: str, reason: str = "Unschedulable") -> None:
        """Report why the pod waits; the same reason again is counted."""
        self.note("FailedScheduling", pod, text, condition=reason)

    def moved(self, pod: Pod, text: str, *, completed: bool) -> None:
        reason = "Migrated" if completed else "MigrationFailed"
        self._written.pop((pod.uid, TOPICS[reason]), None)
        self.note(reason, pod, text)

    def stuck(self, pod: Pod, reason: str) -> None:
        self.note("MigrationFailed", pod, note_orphan(reason))

    def taken_over(self, pod: Pod, target: str, completed: bool) -> None:
        """Report the end of a migration that an earlier leader began."""
        self.moved(pod, note_earlier_migration(target, completed=completed), completed=completed)

    def left_to_collector(self, pod: Pod, refused: str) -> None:
        self.note("MigrationFailed", pod, note_left_to_collector(refused), topic=_COLLECTING)

    def preempted(self, victim: Pod, by: Pod, node: NodeName) -> None:
        self.note("Preempted", victim, f"Preempted by pod {by.uid} on node {node}")

    def mark_ignored(self, pod: Pod) -> None:
        self.note("MigrationMarkIgnored", pod, note_forged_label())

    def retiered(self, pod: Pod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        """Write other tier labels on the pod: the tier of its node changed."""
        self._add(Retiered(pod, labels, annotations))

    def forget(self, change: Change) -> None:
        """Drop the entries of a pod that is gone, except for those about the outcome."""
        if change.pod_before is None:
            return
        self._events.series.forget(change.pod_before.uid)
        for topic in {*TOPICS.values(), _COLLECTING, *_VOID}:
            key = change.pod_before.uid, topic
            self._written.pop(key, None)
            self._failures.pop(key, None)
            if topic in _VOID and self._newest.pop(key, None) is not None:
                self._ready.pop(key, None)
                self._passed_over += topic != Retiered.topic

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
        if key not in self._written or not isinstance(entry, Notice) or not entry.once:
            return 0.0
        written, at = self._written[key]
        return at + (SAME if written.is_same(entry) else CHANGED)

    def _look_again(self, due: float, key: Key) -> None:
        known = self._postponed.get(key)
        if known is not None and known.when() <= due:
            return
        if known is not None:
            known.cancel()
        loop = asyncio.get_running_loop()
        self._postponed[key] = loop.call_at(due, self._end_pause, key)

    def _end_pause(self, key: Key) -> None:
        del self._postponed[key]
        self._make_ready(key)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write_forever())

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
            about = entry.reason if isinstance(entry, Notice) else "Retiered"
            self._said.log(log.warning, "not written", error, pod=str(entry.about), about=about)
            # A newer entry replaces this one.
            if not (isinstance(error, FINAL) or failures + 1 == TRIES or key in self._newest):
                self._newest[key], self._failures[key] = entry, failures + 1
                self._look_again(self._clock.monotonic() + RETRY * 2**failures, key)
            return
        if not isinstance(entry, Notice):
            return
        if entry.node is not None or self._mirror.pod(key[0]) is None:
            self._events.series.forget(key[0])
        elif is_written and entry.once:
            self._written[key] = entry, self._clock.monotonic()

    def _in_ending_namespace(self, entry: Entry) -> bool:
        """Return whether the API server would refuse the Event; log it once for each namespace."""
        about = entry.about
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
        if not isinstance(entry, Notice) or not entry.condition:
            return False
        pod = self._mirror.pod(key_of(entry)[0])
        return pod is None or not pod.waits_for_node or pod.uid in self._followed

    async def _write(self, entry: Entry) -> bool:
        """Write the entry. Return whether users can read it. Raise ClusterError for a retry."""
        if isinstance(entry, Retiered):
            timeout = REQUEST_TIMEOUT
            await self._turn()
            known_by = await reads.owner_knows_by(self._cluster, entry.about, timeout=timeout)
            labels = {key: value for key, value in entry.labels.items() if key not in known_by}
            await writes.annotate(
                self._cluster, entry.about, labels, dict(entry.annotations), timeout=timeout
            )
            return True
        pod, text, is_shown = entry.about, entry.text, False
        if isinstance(pod, Pod) and entry.node is not None:
            text = note_bind(pod, entry.node, self._why(pod))
        elif isinstance(pod, Pod) and entry.condition:
            written = self._written.get(key_of(entry))
            is_shown = written is not None and written[0].is_same(entry)
            is_shown = is_shown or await self._condition(pod, entry.condition, text)
        await self._turn()
        occurred = Occurrence(
            writes.Regarding.of(entry.about),
            entry.reason,
            "Binding" if entry.node is not None else entry.topic.capitalize(),
            text,
            gist=entry.gist or text,
            times=entry.times,
            warning=entry.warning,
        )
        return await self._events.write(occurred) or is_shown

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
