"""Writer of Kubernetes Events: aggregates repetitions into series, and limits the rate per object.

Repetitions of an Event increment the counter of the series. Above `SIMILAR` Events with different
messages, further messages are combined. The limits equal client-go's EventCorrelator, but each
reason has a limit of its own: after many FailedScheduling, Scheduled is still written.
"""

import asyncio
from collections.abc import Iterable

import attrs
import structlog

from kubedsm.explain.event_notes import Note, note_migrations
from kubedsm.explain.listener import Listener
from kubedsm.explain.migration_outcome import MoveOutcome
from kubedsm.kube.calls import reads, writes
from kubedsm.kube.client.port import Cluster, ClusterError, Forbidden, NotFound
from kubedsm.model.model import Workload
from kubedsm.process.backoff import TokenBucket
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import LogThrottle
from kubedsm.process.supervisor import Supervisor

log = structlog.get_logger()

SIMILAR = 10
#: aggregation interval in seconds
WITHIN = 600.0
#: token bucket per object and reason: burst size, and seconds per additional Event
BURST, REFILL = 25, 300.0
#: seconds for collecting completed migrations of a workload into one Event
GATHER = 5.0
COMBINED = "(combined from similar events): "


def is_namespace_ending(error: Exception) -> bool:
    """Return True if the API server rejected an Event in a terminating or deleted namespace."""
    terminating = isinstance(error, Forbidden) and error.namespace_terminating
    return terminating or isinstance(error, NotFound)


@attrs.define
class Series:
    """Repetitions aggregated into one Kubernetes Event; `name` is empty before the first write."""

    prefix: str
    #: monotonic time of the last occurrence
    last: float
    name: str = ""
    count: int = 0


@attrs.define
class _Object:
    #: by reason
    buckets: dict[str, TokenBucket] = attrs.field(factory=dict)
    #: series by reason and gist
    series: dict[tuple[str, str], Series] = attrs.field(factory=dict)


class EventSeries:
    """Aggregation of repeated Events per object, equivalent to client-go's EventCorrelator."""

    def __init__(self) -> None:
        self._objects: dict[str, _Object] = {}

    def count_occurrence(
        self, uid: str, reason: str, gist: str, times: int, now: float
    ) -> Series | None:
        """Count one more occurrence of an Event about an object, and return the updated series of
        equal Events; None above the rate limit, so that nothing is written.
        """
        about = self._objects.setdefault(uid, _Object())
        if not about.buckets.setdefault(reason, TokenBucket(BURST, REFILL)).take_now(now):
            return None
        about.series = {k: each for k, each in about.series.items() if now - each.last <= WITHIN}
        prefix, similar = "", sum(other == reason for other, _ in about.series)
        if similar >= SIMILAR and (reason, gist) not in about.series:
            gist = prefix = COMBINED
        series = about.series.setdefault((reason, gist), Series(prefix, now))
        series.count += times
        series.last = now
        return series

    def forget_object(self, uid: str) -> None:
        """Forget the Event series of a deleted object, or of a resolved problem."""
        self._objects.pop(uid, None)

    def __len__(self) -> int:
        return len(self._objects)


@attrs.define
class EventWriter:
    """Writer of Events; failures are logged, and counted in `lost`."""

    cluster: Cluster
    clock: Clock
    throttle: LogThrottle
    instance: str
    listener: Listener
    series: EventSeries = attrs.field(factory=EventSeries, init=False)
    #: number of Events dropped without writing
    lost: int = attrs.field(default=0, init=False)

    async def write(self, about: writes.Regarding, note: Note, gist: str, times: int) -> bool:
        """Create an Event, or increment the counter of its series; return True if users can see the
        Event.

        `gist`: identical for equivalent messages. `times`: number of repetitions.
        """
        now = self.clock.monotonic()
        series = self.series.count_occurrence(about.uid, note.reason, gist, times, now)
        return series is not None and await self._write(about, note, series)

    async def write_alone(self, about: writes.Regarding, note: Note) -> bool:
        """Create a separate Event outside of any series; return True if users can see the Event."""
        return await self._write(about, note, Series("", self.clock.monotonic()))

    async def _write(self, about: writes.Regarding, note: Note, series: Series) -> bool:
        try:
            if not (series.name and await self._update_counter(about, series)):
                series.name = await self._create_event(about, note, series.prefix + note.text)
        except ClusterError as error:
            subject = f"{about.namespace}/{about.name}"
            self.record_loss(about.kind, subject, error, reason=note.reason)
            return False
        return True

    def record_loss(self, kind: str, subject: str, error: Exception, **fields: str) -> None:
        """Log and count an Event that could not be written, except in a terminating namespace."""
        if not is_namespace_ending(error):
            self.lost += 1
            key = {"Pod": "pod", "ConfigMap": "config_map"}.get(kind, "workload")
            self.throttle.log(log.warning, "event lost", error, **{key: subject}, **fields)

    async def _update_counter(self, about: writes.Regarding, series: Series) -> bool:
        """Increment the counter of an existing Event; return False if the Event has expired."""
        try:
            await writes.count_event(
                self.cluster, about.namespace, series.name, count=series.count, at=self.clock.wall()
            )
        except NotFound:
            return False
        return True

    async def _create_event(self, about: writes.Regarding, note: Note, text: str) -> str:
        name = await writes.create_event(
            self.cluster,
            about,
            reason=note.reason,
            action=note.action,
            note=text,
            instance=self.instance,
            at=self.clock.wall(),
            warning=note.warning,
        )
        self.listener.event_written(about, note.reason, text, note.warning)
        return name


@attrs.define
class WorkloadEvents:
    """Events on workloads about completed migrations, collected for `GATHER` seconds.

    Events on a migrated pod disappear with the pod, unlike Events on the Deployment. Additional
    notes about a workload are written with the migrations; the newest note counts.
    """

    writer: EventWriter
    supervisor: Supervisor
    _ended: dict[Workload, list[MoveOutcome]] = attrs.field(factory=dict, init=False)
    _notes: dict[Workload, Note] = attrs.field(factory=dict, init=False)
    _arrived: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def add_migration(self, ended: MoveOutcome) -> None:
        """Collect the end of a migration, completed or failed, for the workload's next Event."""
        workload = ended.move.pod.workload
        if workload.kind in reads.APPS_RESOURCES:
            self._ended.setdefault(workload, []).append(ended)
            self._arrived.set()

    def add_note(self, workload: Workload, note: Note) -> None:
        """Queue an Event on the workload, replacing an earlier unwritten Event of that kind."""
        if workload.kind in reads.APPS_RESOURCES:
            self._notes[workload] = note
            self._arrived.set()

    async def run(self) -> None:
        """Write the collected workload Events until cancelled."""
        while True:
            await self._arrived.wait()
            await self.writer.clock.sleep(GATHER)
            await self.flush()

    async def flush(self) -> None:
        """Write all collected workload Events immediately."""
        self._arrived.clear()
        ended, noted = dict(self._ended), dict(self._notes)
        self._ended.clear()
        self._notes.clear()
        for workload in dict.fromkeys((*ended, *noted)):
            notes = list(note_migrations(ended.get(workload, ())))
            if workload in noted:
                notes.append(noted[workload])
            with self.supervisor.catch_errors("workload events", {"workload": workload}):
                await self._write(workload, notes)

    async def _write(self, workload: Workload, notes: Iterable[Note]) -> None:
        writer, kind = self.writer, workload.kind
        try:
            uid = await reads.uid_of(writer.cluster, workload)
        except ClusterError as error:
            writer.record_loss(kind, str(workload), error)
            return
        if uid is None:
            return  # the workload is gone
        about = writes.Regarding("apps/v1", kind, workload.namespace, workload.name, uid)
        for note in notes:
            if not await writer.write_alone(about, note):
                return
