"""Recorder of Events on pods, and of the PodScheduled condition of unschedulable pods.

An unwritten entry is replaced by the newest entry of the same pod and topic, which bounds the
queue. Unschedulable reasons are written immediately, then at intervals. Writes are rate-limited,
and wait for the end of a burst, while the API server's CPU binds pods. The recorder retries
conditions, since autoscalers depend on conditions, and tier labels. Unwritten Events are dropped
and counted.
"""

import asyncio
import re
from collections.abc import Callable, Container, Mapping
from typing import Any, ClassVar

import attrs
import msgspec
import structlog

from kubedsm.events.event_writer import EventWriter
from kubedsm.explain.event_notes import Note
from kubedsm.kube.calls import reads, writes
from kubedsm.kube.client.port import (
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import MIGRATING_LABEL, NodeName, Pod, Uid
from kubedsm.process.backoff import Doubling, TokenBucket
from kubedsm.process.clock import RESOLUTION
from kubedsm.process.supervisor import Supervisor

log = structlog.get_logger()

WRITERS = 4
#: maximum wait of an entry for the end of a burst, and time without another entry that ends the
#: burst, in seconds
BURST_WAIT, BURST_GAP = 3.0, 0.1
#: token bucket of writes: burst size, and seconds per additional write
BURST, EACH = 200, 0.01
#: seconds between identical Events of a pod, and between different Events
SAME, CHANGED = 300.0, 30.0
#: maximum attempts for conditions; labels have no other way to become true again
TRIES = 5
RETRY = Doubling(1.0, most=60.0)
#: interval in seconds of looks for the end of a burst, and of `await_flush`
FLUSH_POLL = 0.02
#: permanent errors
FINAL = (Conflict, Forbidden, Invalid, NotFound)
_NUMBER = re.compile(r"\d+")


class Notice(msgspec.Struct, frozen=True, gc=False):
    """Event about a pod or ConfigMap, queued for writing, with an optional pod condition."""

    about: Pod | ConfigMap
    reason: str
    text: str
    topic: str
    warning: bool = False
    #: repetitions increment a counter
    once: bool = False
    times: int = 1
    #: node of a bind: the text is composed immediately before writing
    node: NodeName | None = None
    #: reason of the PodScheduled condition, which precedes the Event
    condition: str = ""

    @property
    def gist(self) -> str:
        """Event text and pod condition without node counts, to recognise repeated Events."""
        return f"{self.condition} {_NUMBER.sub('', self.text)}" if self.condition else self.text

    def is_same(self, other: "Notice") -> bool:
        return (self.reason, self.condition, self.text) == (
            other.reason,
            other.condition,
            other.text,
        )


@attrs.frozen(slots=True)
class Retiered:
    """Queued update of tier labels and annotations on a pod whose node changed its tier."""

    topic: ClassVar[str] = "tier"
    about: Pod
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


Entry = Notice | Retiered
#: uid of the object, and topic
Key = tuple[Uid, str]
#: topic by reason: a new Event replaces unwritten Events of the same topic
TOPICS = {
    "Scheduled": "scheduling",
    "WaitingForEdge": "scheduling",
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
_COUNTED = {
    "FailedScheduling",
    "MigrationProposed",
    "PackingFailed",
    "PackingProposed",
    "Packed",
    "PreemptionFailed",
}
_WARNING_SUFFIXES = ("Failed", "FailedScheduling", "Ignored", "Refused", "Unmatched", "Unknown")
#: topics of current state, irrelevant after deletion; other topics report outcomes
_VOID = ("scheduling", Retiered.topic)
_COLLECTING = "collecting"


def entry_key(entry: Entry) -> Key:
    about = entry.about
    return Uid((about if isinstance(about, Pod) else about.identity).uid), entry.topic


def merge_counters(entry: Entry, older: Entry | None) -> Entry:
    """Return the newer Event, plus the older Event's repetition count if equivalent."""
    if not (isinstance(entry, Notice) and isinstance(older, Notice)):
        return entry
    same = (entry.reason, entry.gist) == (older.reason, older.gist)
    times = entry.times + older.times
    return msgspec.structs.replace(entry, times=times) if same else entry


@attrs.define(eq=False)
class EventRecorder:
    """Queue of unwritten Events, pod conditions and tier labels, written in the background.

    `why` explains a placement in one line, if possible. `followed` contains pods of running plans,
    whose binds are reported on completion. `is_binding` returns True while pods are scheduled or
    bound.
    """

    _mirror: ClusterMirror
    _followed: Container[Uid]
    _is_binding: Callable[[], bool]
    _supervisor: Supervisor
    _events: EventWriter
    _why: Callable[[Pod], str]
    #: newest unwritten entry by key
    _newest: dict[Key, Entry] = attrs.field(factory=dict, init=False)
    #: keys ready for writing, in order, and since when
    _ready: dict[Key, float] = attrs.field(factory=dict, init=False)
    #: monotonic time of the latest key
    _latest: float = attrs.field(default=0.0, init=False)
    _writing: set[Key] = attrs.field(factory=set, init=False)
    _arrived: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    #: timers of postponed entries
    _postponed: dict[Key, asyncio.TimerHandle] = attrs.field(factory=dict, init=False)
    #: last written Event with a repetition counter, and the time of writing
    _written: dict[Key, tuple[Notice, float]] = attrs.field(factory=dict, init=False)
    #: since when each pod's condition says that it is unschedulable, in seconds since the epoch
    _since: dict[Uid, float] = attrs.field(factory=dict, init=False)
    #: failed attempts by key
    _failures: dict[Key, int] = attrs.field(factory=dict, init=False)
    _rate: TokenBucket = attrs.field(factory=lambda: TokenBucket(BURST, EACH), init=False)
    #: terminating namespaces, already logged
    _ending: set[str] = attrs.field(factory=set, init=False)

    @property
    def lost(self) -> int:
        """Number of Events dropped because the API server did not accept them."""
        return self._events.lost

    def record_event(
        self, reason: str, about: Pod | ConfigMap, text: str, *, topic: str = "", **fields: Any
    ) -> None:
        """Queue an Event for writing; replaces an unwritten Event of the same pod and topic."""
        topic = topic or TOPICS[reason]
        warning = reason.endswith(_WARNING_SUFFIXES)
        once = reason in _COUNTED or topic == _COLLECTING
        self._enqueue(Notice(about, reason, text, topic, warning, once, **fields))

    def record_bind(self, pod: Pod, node: NodeName) -> None:
        self._written.pop((pod.uid, TOPICS["Scheduled"]), None)
        self._since.pop(pod.uid, None)
        self.record_event("Scheduled", pod, "", node=node)

    def record_unschedulable(self, pod: Pod, text: str, reason: str = "Unschedulable") -> None:
        """Queue Event and PodScheduled condition of an unschedulable pod; repetitions increment a
        counter.
        """
        self.record_event("FailedScheduling", pod, text, condition=reason)

    def record_migration(self, pod: Pod, text: str, *, completed: bool) -> None:
        reason = "Migrated" if completed else "MigrationFailed"
        self._written.pop((pod.uid, TOPICS[reason]), None)
        self.record_event(reason, pod, text)

    def record_orphan(self, pod: Pod, reason: str) -> None:
        text = f"Detached by a migration, and neither restored nor evicted yet: {reason}"
        self.record_event("MigrationFailed", pod, text)

    def record_inherited_migration(self, pod: Pod, target: str, completed: bool) -> None:
        """Queue an Event about the completion of a migration that an earlier leader started."""
        outcome = f"Migrated to {target}" if completed else f"Migration to {target} not completed"
        self.record_migration(pod, f"{outcome}; begun by an earlier leader", completed=completed)

    def record_collection(self, pod: Pod, refused: str) -> None:
        """Queue an Event about a detached pod without owner whose eviction is refused."""
        text = f"Its owner was deleted during its migration; left to garbage collection: {refused}"
        self.record_event("MigrationFailed", pod, text, topic=_COLLECTING)

    def record_preemption(self, victim: Pod, by: Pod, node: NodeName) -> None:
        self.record_event("Preempted", victim, f"Preempted by pod {by.uid} on node {node}")

    def record_forged_label(self, pod: Pod) -> None:
        text = f"Carries {MIGRATING_LABEL}, but no migration by KubeDSM detached it; ignored"
        self.record_event("MigrationMarkIgnored", pod, text)

    def update_tier_labels(
        self, pod: Pod, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> None:
        """Queue an update of the pod's tier labels after the node's tier has changed."""
        self._enqueue(Retiered(pod, labels, annotations))

    def forget(self, change: Change) -> None:
        """Drop the queued Events of a deleted pod, except migration and preemption outcomes."""
        if change.pod_before is None:
            return
        self._events.series.forget_object(change.pod_before.uid)
        self._since.pop(change.pod_before.uid, None)
        for topic in {*TOPICS.values(), _COLLECTING, *_VOID}:
            key = change.pod_before.uid, topic
            self._written.pop(key, None)
            self._failures.pop(key, None)
            if topic in _VOID and self._newest.pop(key, None) is not None:
                self._ready.pop(key, None)

    def _enqueue(self, entry: Entry) -> None:
        key = entry_key(entry)
        self._newest[key] = merge_counters(entry, self._newest.get(key))
        self._failures.pop(key, None)
        self._make_ready(key)

    def _make_ready(self, key: Key) -> None:
        """Queue the newest Event of the key for writing now, or at its due time."""
        entry = self._newest.get(key)
        if entry is None or key in self._writing:
            return
        due, now = self._due_time(key, entry), self._events.clock.monotonic()
        if due > now + RESOLUTION:
            self._postpone(due - now, key)
        else:
            self._ready.setdefault(key, now)
            self._latest = now
            self._arrived.set()

    def _due_time(self, key: Key, entry: Entry) -> float:
        """Return the earliest permitted time for writing the Event, in monotonic seconds."""
        if key not in self._written or not isinstance(entry, Notice) or not entry.once:
            return 0.0
        written, at = self._written[key]
        return at + (SAME if written.is_same(entry) else CHANGED)

    def _postpone(self, seconds: float, key: Key) -> None:
        # Not a time: the clock may differ from the event loop's.
        loop, known = asyncio.get_running_loop(), self._postponed.get(key)
        if known is not None and known.when() <= loop.time() + seconds:
            return
        if known is not None:
            known.cancel()
        self._postponed[key] = loop.call_later(seconds, self._end_pause, key)

    def _end_pause(self, key: Key) -> None:
        del self._postponed[key]
        self._make_ready(key)

    async def run(self) -> None:
        """Write queued Events, conditions and tier labels until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write_forever())

    async def await_flush(self) -> None:
        """Wait until all queued Events and conditions are written, except postponed retries."""
        while self._ready or self._writing:
            await self._events.clock.sleep(FLUSH_POLL)

    async def _write_forever(self) -> None:
        while True:
            while not self._ready:
                self._arrived.clear()
                await self._arrived.wait()
            key, since = next(iter(self._ready.items()))
            now = self._events.clock.monotonic()
            is_followed = len(self._ready) > 1 and now - self._latest < BURST_GAP
            if (is_followed or self._is_binding()) and now - since < BURST_WAIT:
                await self._events.clock.sleep(FLUSH_POLL)
                continue
            del self._ready[key]
            # One writer per key preserves the order of entries.
            self._writing.add(key)
            with self._supervisor.catch_errors("recorder"):
                await self._write_newest(key)
            self._writing.discard(key)
            if key not in self._failures:
                self._make_ready(key)  # for a newer entry, received meanwhile

    async def _write_newest(self, key: Key) -> None:
        """Write the newest queued Event, condition or tier label of the key, unless obsolete."""
        entry, failures = self._newest.pop(key), self._failures.pop(key, 0)
        if self._is_obsolete(entry) or self._is_namespace_ending(entry):
            return
        try:
            is_written = await self._write(entry)
        except ClusterError as error:
            about = entry.reason if isinstance(entry, Notice) else "Retiered"
            self._events.throttle.log(
                log.warning, "not written", error, pod=str(entry.about), about=about
            )
            # A newer entry supersedes the failed entry.
            if isinstance(error, FINAL) or key in self._newest:
                return
            if failures + 1 < TRIES or isinstance(entry, Retiered):
                self._newest[key], self._failures[key] = entry, failures + 1
                self._postpone(RETRY.delay_after(failures), key)
            else:
                await self._write(msgspec.structs.replace(entry, condition=""))  # the Event alone
            return
        if not isinstance(entry, Notice):
            return
        is_gone = isinstance(entry.about, Pod) and self._mirror.pod(key[0]) is None
        if entry.node is not None or is_gone:
            self._events.series.forget_object(key[0])
        elif is_written and entry.once:
            self._written[key] = entry, self._events.clock.monotonic()

    def _is_namespace_ending(self, entry: Entry) -> bool:
        """Return True for a terminating namespace, which rejects Events; log once per namespace."""
        about = entry.about
        name = (about if isinstance(about, Pod) else about.identity).namespace
        terminating = self._mirror.surroundings.terminating_namespaces
        if name not in terminating:
            return False
        if name not in self._ending:
            self._ending = {name} | (self._ending & terminating)
            log.info("no more Events: the namespace is being deleted", namespace=name)
        return True

    def _is_obsolete(self, entry: Entry) -> bool:
        """Return True for an unschedulable condition whose pod is meanwhile scheduled, deleted, or
        in a running plan.
        """
        if not isinstance(entry, Notice) or not entry.condition:
            return False
        pod = self._mirror.pod(entry_key(entry)[0])
        return pod is None or not pod.waits_for_node or pod.uid in self._followed

    async def _write(self, entry: Entry) -> bool:
        """Write the entry; return True if visible to users. Raises ClusterError before a retry."""
        if isinstance(entry, Retiered):
            await self._await_rate()
            known_by = await reads.owner_knows_by(self._events.cluster, entry.about) or frozenset()
            labels = {key: value for key, value in entry.labels.items() if key not in known_by}
            annotations = dict(entry.annotations)
            await writes.annotate(self._events.cluster, entry.about, labels, annotations)
            return True
        pod, text, is_shown = entry.about, entry.text, False
        if isinstance(pod, Pod) and entry.node is not None:
            why = self._why(pod)
            text = f"Successfully assigned {pod} to {entry.node}" + (f": {why}" if why else "")
        elif isinstance(pod, Pod) and entry.condition:
            written = self._written.get(entry_key(entry))
            is_shown = written is not None and written[0].is_same(entry)
            is_shown = is_shown or await self._write_condition(pod, entry.condition, text)
        await self._await_rate()
        action = "Binding" if entry.node is not None else entry.topic.capitalize()
        note = Note(entry.reason, text, entry.warning, action)
        about = writes.Regarding.of(entry.about)
        return await self._events.write(about, note, entry.gist or text, entry.times) or is_shown

    async def _await_rate(self) -> None:
        """Wait until the rate limiter permits another write."""
        pause = self._rate.take(self._events.clock.monotonic())
        if pause:
            await self._events.clock.sleep(pause)

    async def _write_condition(self, pod: Pod, reason: str, text: str) -> bool:
        """Set the pod's PodScheduled condition to False; return False if RBAC denies the write.

        Another text keeps the time of transition.
        """
        since = self._since.setdefault(pod.uid, self._events.clock.wall())
        await self._await_rate()
        try:
            await writes.set_pod_condition(self._events.cluster, pod, reason, text, since=since)
        except Forbidden as error:
            self._events.throttle.log(log.warning, "condition not written", error, pod=str(pod))
            return False
        return True
