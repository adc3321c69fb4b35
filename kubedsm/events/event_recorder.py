"""What users read on their pods: Events, and the PodScheduled condition of those that wait.

What is to be said of a pod is kept, the newest in place of the older, until it is written; so there
is never more of it than pods, and none is passed over. Why a pod waits is written at once, and then
from time to time, if it was tried again. A write waits for bind calls under way, but not for long,
and all of them keep to a rate. The condition, which autoscalers read, is tried again a few times,
and so is the mark of a tier. An Event that could not be written is lost, and counted.
"""

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Container

import attrs
import structlog

from kubedsm.events.event_writer import EventWriter, Occurrence
from kubedsm.events.notices import (
    TOPICS,
    Entry,
    FailedScheduling,
    Key,
    Note,
    Retiered,
    Scheduled,
    gist_of,
    key_of,
    subject_of,
    with_older,
)
from kubedsm.execution.bind_calls import BindCalls, tier_marks
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
from kubedsm.model.model import MIGRATING_LABEL, NodeName, Pod, Tier, Uid
from kubedsm.process.backoff import TokenBucket
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.process.supervisor import Supervisor

log = structlog.get_logger()

WRITERS = 4
REQUEST_TIMEOUT = 10.0
#: seconds that a write waits for bind calls at most
BINDS_FIRST = 1.0
#: writes at once, and seconds for each beyond
BURST, EACH = 200, 0.01
#: seconds until the same is written of a pod once more, as a count; until something else is
SAME, CHANGED = 300.0, 30.0
#: less is no time to wait for
RESOLUTION = 1e-6
#: of what is not an Event
TRIES = 5
#: seconds between the first two of them; the pause doubles
RETRY = 1.0
#: seconds between two looks whether all is written
FLUSH_POLL = 0.02
LOAD_KNOWN = "All that is asked of Prometheus is known again"
#: answers that another try would not change
FINAL = (Conflict, Forbidden, Invalid, NotFound)


@attrs.frozen(slots=True)
class _Told:
    """The last that was written of what is not said twice in a row, and when, on the clock."""

    reason: str
    text: str
    at: float

    def of(self, entry: FailedScheduling | Note) -> bool:
        return (self.reason, self.text) == (entry.reason, entry.text)


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
        listener: Listener,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._events = EventWriter(cluster, clock, said, instance, REQUEST_TIMEOUT, listener)
        self._mirror = mirror
        self._followed = followed
        self._binds = binds
        self._supervisor = supervisor
        self._why = why
        self._said = said
        #: the newest on each matter, until it is written or given up
        self._newest: dict[Key, Entry] = {}
        #: which of it can be written now; an ordered set
        self._ready: dict[Key, None] = {}
        self._writing: set[Key] = set()
        self._arrived = asyncio.Event()
        #: when what cannot be written now is looked at again; and in the order of that
        self._put_off: dict[Key, float] = {}
        self._dues: list[tuple[float, Key]] = []
        self._sooner = asyncio.Event()
        self._told: dict[Key, _Told] = {}
        #: tries so far of what is tried again
        self._failures: dict[Key, int] = {}
        self._rate = TokenBucket(BURST, EACH)
        #: of what there was no time to say
        self._passed_over = 0
        #: the namespaces that are being deleted, and were logged: nothing is written there any more
        self._ending: set[str] = set()

    @property
    def lost(self) -> int:
        """Events that could not be written."""
        return self._events.lost + self._passed_over

    def scheduled(self, pod: Pod, node: NodeName) -> None:
        self._told.pop((pod.uid, Scheduled.topic), None)
        self._add(Scheduled(pod, node))

    def failed_scheduling(self, pod: Pod, text: str, reason: str = "Unschedulable") -> None:
        """Say why the pod waits; that it still does so for the same reason is counted."""
        self._add(FailedScheduling(pod, text, reason))

    def proposed(self, pod: Pod, text: str) -> None:
        """Say what would be done; that it still would is counted."""
        self._add(Note(pod, "MigrationProposed", text, once=True))

    def moved(self, pod: Pod, text: str, *, completed: bool) -> None:
        reason = "Migrated" if completed else "MigrationFailed"
        note = Note(pod, reason, text, warning=not completed)
        self._told.pop((pod.uid, note.topic), None)
        self._add(note)

    def stuck(self, pod: Pod, reason: str) -> None:
        text = f"Detached by a move, and neither given back nor evicted yet: {reason}"
        self._add(Note(pod, "MigrationFailed", text, warning=True))

    def taken_over(self, pod: Pod, target: str, completed: bool) -> None:
        """Report the end of a migration that an earlier leader began."""
        outcome = "Moved to {}" if completed else "Move to {} not completed"
        text = f"{outcome.format(target)}; begun by an earlier leader"
        self.moved(pod, text, completed=completed)

    def left_to_collector(self, pod: Pod, refused: str) -> None:
        """Report a detached pod whose owner is gone, and whose eviction is refused."""
        text = f"Its owner was deleted during its migration; left to garbage collection: {refused}"
        self._add(Note(pod, "MigrationFailed", text, topic="collecting", warning=True, once=True))

    def preempted(self, victim: Pod, by: Pod, node: NodeName) -> None:
        text = f"Preempted by pod {by.uid} on node {node}"
        self._add(Note(victim, "Preempted", text, topic="preempting"))

    def not_preempted(self, pod: Pod, text: str) -> None:
        self._add(Note(pod, "PreemptionFailed", text, topic="preempting", warning=True))

    def packing(self, pod: Pod, reason: str, text: str) -> None:
        """Say what came of looking for room by moving others; the same again is counted."""
        warning = reason == "PackingFailed"
        self._add(Note(pod, reason, text, topic="packing", warning=warning, once=True))

    def mark_ignored(self, pod: Pod) -> None:
        text = f"Carries {MIGRATING_LABEL}, but no move of ours took it from its owner; ignored"
        self._add(Note(pod, "MigrationMarkIgnored", text, warning=True))

    def annotation_ignored(self, pod: Pod, text: str) -> None:
        self._add(Note(pod, "AnnotationIgnored", text, topic="configuring", warning=True))

    def configuration_refused(self, about: ConfigMap, text: str) -> None:
        self._add(Note(about, "ConfigurationRefused", text, topic="configuring", warning=True))

    def services_unmatched(self, about: ConfigMap, text: str) -> None:
        self._add(Note(about, "ServicesUnmatched", text, topic="matching", warning=True))

    def pause_switch_refused(self, about: ConfigMap, text: str) -> None:
        self._add(Note(about, "PauseSwitchRefused", text, topic="pausing", warning=True))

    def load_told(self, about: ConfigMap, unknown: str) -> None:
        """Say what is not known of the load, and why; nothing: that all of it is known again."""
        reason, text = ("LoadUnknown", unknown) if unknown else ("LoadKnown", LOAD_KNOWN)
        self._add(Note(about, reason, text, topic="measuring", warning=bool(unknown)))

    def retiered(self, pod: Pod, tier: Tier) -> None:
        self._add(Retiered(pod, tier))

    def forget(self, change: Change) -> None:
        """A pod is gone: only what became of it is still to be said."""
        if change.pod_before is None:
            return
        self._events.series.forget(change.pod_before.uid)
        for key in ((change.pod_before.uid, topic) for topic in TOPICS):
            self._told.pop(key, None)
            self._failures.pop(key, None)
            entry = self._newest.get(key)
            if entry is not None and not isinstance(entry, Note):
                del self._newest[key]
                self._ready.pop(key, None)
                self._passed_over += not isinstance(entry, Retiered)

    def _add(self, entry: Entry) -> None:
        key = key_of(entry)
        self._newest[key] = with_older(entry, self._newest.get(key))
        self._failures.pop(key, None)
        self._make_ready(key)

    def _make_ready(self, key: Key) -> None:
        """Have it written, now or when it is time for it."""
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
        """When it is to be written, on the clock."""
        told = self._told.get(key)
        if told is None or not isinstance(entry, FailedScheduling | Note) or not entry.once:
            return 0.0
        return told.at + (SAME if told.of(entry) else CHANGED)

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
        """Look again at what was put off, when it is time."""
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
        """Return when nothing is to be written, but for what is tried again later."""
        while self._ready or self._writing:
            await self._clock.sleep(FLUSH_POLL)

    async def _write_forever(self) -> None:
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
            with self._supervisor.catch_errors("recorder"):
                await self._write_newest(key)
            self._writing.discard(key)
            if key not in self._failures:
                self._make_ready(key)  # if something newer came meanwhile

    async def _write_newest(self, key: Key) -> None:
        """Write it, if it is worth it."""
        entry, failures = self._newest.pop(key), self._failures.pop(key, 0)
        if self._overtaken(entry) or self._in_ending_namespace(entry):
            return
        try:
            said = await self._write(entry)
        except (ClusterError, WireError) as error:
            about = type(entry).__name__
            subject = str(subject_of(entry))
            self._said.log(log.warning, "not written", error, pod=subject, about=about)
            # What is newer says it better.
            if not (isinstance(error, FINAL) or failures + 1 == TRIES or key in self._newest):
                self._newest[key], self._failures[key] = entry, failures + 1
                self._look_again(self._clock.monotonic() + RETRY * 2**failures, key)
            return
        if isinstance(entry, Scheduled) or self._mirror.pod(key[0]) is None:
            self._events.series.forget(key[0])
        elif said and isinstance(entry, FailedScheduling | Note) and entry.once:
            self._told[key] = _Told(entry.reason, entry.text, self._clock.monotonic())

    def _in_ending_namespace(self, entry: Entry) -> bool:
        """Whether the API server would refuse the Event; logged once for each namespace."""
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
                return await self._event(entry, "Scheduled", "Binding", note)
            case FailedScheduling(pod, text, reason):
                told = self._told.get(key_of(entry))
                shown = told is not None and told.of(entry)
                shown = shown or await self._condition(pod, reason, text)
                return await self._event(entry, "FailedScheduling", "Scheduling", text) or shown
            case Note(_, reason, text, topic):
                return await self._event(entry, reason, topic.capitalize(), text)
            case Retiered(pod, tier):
                labels, annotations = tier_marks(pod, tier)
                await self._turn()
                known_by = await reads.owner_knows_by(self._cluster, pod, timeout=REQUEST_TIMEOUT)
                labels = {k: v for k, v in labels.items() if k not in known_by}
                await writes.annotate(
                    self._cluster, pod, labels, annotations, timeout=REQUEST_TIMEOUT
                )
        return True

    async def _turn(self) -> None:
        """Return when a request may be sent."""
        pause = self._rate.take(self._clock.monotonic())
        if pause:
            await self._clock.sleep(pause)

    async def _condition(self, pod: Pod, reason: str, text: str) -> bool:
        """Without the right to it the Event still tells. Raises any other ClusterError."""
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
        counted = entry if isinstance(entry, FailedScheduling | Note) else None
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
