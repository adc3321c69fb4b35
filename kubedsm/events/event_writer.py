"""Writer of Events: a new one, a count on a series, or none above the rate limit.

The same Event about an object is written once, with a count. More than `SIMILAR` that differ only
in their notes are combined, and an object's rate is limited. Limits are those of client-go's
EventCorrelator.
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
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.model import Workload
from kubedsm.process.backoff import TokenBucket
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.process.supervisor import Supervisor

log = structlog.get_logger()

SIMILAR = 10
#: seconds within which Events count as similar, or as the same
WITHIN = 600.0
#: Events about one object at once, and seconds until there may be one more
BURST, REFILL = 25, 300.0
#: seconds from the end of a migration to its Event, which covers all that end meanwhile
GATHER = 5.0
COMBINED = "(combined from similar events): "


def is_namespace_ending(error: Exception) -> bool:
    """Return whether the API server refused because the namespace is being deleted, or gone."""
    terminating = isinstance(error, Forbidden) and error.namespace_terminating
    return terminating or isinstance(error, NotFound)


@attrs.define
class Series:
    """Occurrences that are one Event; `name` is set once the Event is written."""

    prefix: str
    #: time of the last occurrence, on the clock
    last: float
    name: str = ""
    count: int = 0


@attrs.define
class _Object:
    bucket: TokenBucket = attrs.field(factory=lambda: TokenBucket(BURST, REFILL))
    #: by reason and gist
    series: dict[tuple[str, str], Series] = attrs.field(factory=dict)


class EventSeries:
    """Aggregation of Events by object, as client-go's EventCorrelator does."""

    def __init__(self) -> None:
        self._objects: dict[str, _Object] = {}

    def take(self, uid: str, reason: str, gist: str, times: int, now: float) -> Series | None:
        """Count an occurrence into the series of its gist; None above the rate limit."""
        about = self._objects.setdefault(uid, _Object())
        if not about.bucket.take_now(now):
            return None
        about.series = {k: each for k, each in about.series.items() if now - each.last <= WITHIN}
        prefix, similar = "", sum(other == reason for other, _ in about.series)
        if similar >= SIMILAR and (reason, gist) not in about.series:
            gist = prefix = COMBINED
        series = about.series.setdefault((reason, gist), Series(prefix, now))
        series.count += times
        series.last = now
        return series

    def forget(self, uid: str) -> None:
        """Forget the series of an object that is gone, or whose problem is over."""
        self._objects.pop(uid, None)

    def __len__(self) -> int:
        return len(self._objects)


@attrs.frozen(slots=True)
class Occurrence:
    """Content of an Event, and how often it has occurred."""

    about: writes.Regarding
    reason: str
    action: str
    note: str
    #: equal for notes of the same meaning
    gist: str
    times: int = 1
    warning: bool = False


@attrs.define
class EventWriter:
    """Writes Events; errors are logged, and counted in `lost`."""

    cluster: Cluster
    clock: Clock
    said: SaidByCause
    instance: str
    #: timeout of each request, in seconds
    timeout: float
    listener: Listener
    series: EventSeries = attrs.field(factory=EventSeries, init=False)
    #: Events that could not be written
    lost: int = attrs.field(default=0, init=False)

    async def write(self, occurred: Occurrence) -> bool:
        """Write an occurrence as part of its series. Return whether users can read it now."""
        about = occurred.about
        series = self.series.take(
            about.uid, occurred.reason, occurred.gist, occurred.times, self.clock.monotonic()
        )
        return series is not None and await self._write(occurred, series)

    async def write_alone(self, occurred: Occurrence) -> bool:
        """Write an occurrence as an Event of its own. Return whether users can read it now."""
        return await self._write(occurred, Series("", self.clock.monotonic()))

    async def _write(self, occurred: Occurrence, series: Series) -> bool:
        about = occurred.about
        try:
            if not (series.name and await self._count(about, series)):
                series.name = await self._create(occurred, series)
        except (ClusterError, WireError) as error:
            self.lose(about.kind, f"{about.namespace}/{about.name}", error, reason=occurred.reason)
            return False
        return True

    def lose(self, kind: str, subject: str, error: Exception, **fields: str) -> None:
        """Log and count a lost Event, unless its namespace goes away and no user would read it."""
        if not is_namespace_ending(error):
            self.lost += 1
            key = "pod" if kind in ("Pod", "ConfigMap") else "workload"
            self.said.log(log.warning, "event lost", error, **{key: subject}, **fields)

    async def _count(self, about: writes.Regarding, series: Series) -> bool:
        """Increase the count of an Event. Return whether the Event still exists."""
        try:
            await writes.count_event(
                self.cluster,
                about.namespace,
                series.name,
                count=series.count,
                at=self.clock.wall(),
                timeout=self.timeout,
            )
        except NotFound:
            return False
        return True

    async def _create(self, occurred: Occurrence, series: Series) -> str:
        about, reason, note = occurred.about, occurred.reason, series.prefix + occurred.note
        name = await writes.create_event(
            self.cluster,
            about,
            reason=reason,
            action=occurred.action,
            note=note,
            instance=self.instance,
            at=self.clock.wall(),
            warning=occurred.warning,
            timeout=self.timeout,
        )
        self.listener.event_written(about, reason, note, occurred.warning)
        return name


@attrs.define
class WorkloadEvents:
    """Events on workloads about the migrations of their pods: one for all that end within seconds.

    The Events of a migrated pod disappear with the pod; its Deployment stays. Other notes about a
    workload are written there, too: the last one of every few seconds.
    """

    writer: EventWriter
    supervisor: Supervisor
    _ended: dict[Workload, list[MoveOutcome]] = attrs.field(factory=dict, init=False)
    _notes: dict[Workload, Note] = attrs.field(factory=dict, init=False)
    _arrived: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    @property
    def lost(self) -> int:
        """Events that could not be written."""
        return self.writer.lost

    def moved(self, ended: MoveOutcome) -> None:
        """Gather the end of a migration."""
        workload = ended.move.pod.workload
        if workload.kind in reads.APPS_RESOURCES:
            self._ended.setdefault(workload, []).append(ended)
            self._arrived.set()

    def noted(self, workload: Workload, note: Note) -> None:
        """Gather another note about the workload; it replaces an earlier one."""
        if workload.kind in reads.APPS_RESOURCES:
            self._notes[workload] = note
            self._arrived.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._arrived.wait()
            await self.writer.clock.sleep(GATHER)
            await self.flush()

    async def flush(self) -> None:
        """Write what has been gathered."""
        self._arrived.clear()
        ended, noted = dict(self._ended), dict(self._notes)
        self._ended.clear()
        self._notes.clear()
        for workload in dict.fromkeys((*ended, *noted)):
            notes = list(note_migrations(ended.get(workload, ())))
            if workload in noted:
                notes.append(noted[workload])
            with self.supervisor.catch_errors("workload events", workload=workload):
                await self._write(workload, notes)

    async def _write(self, workload: Workload, notes: Iterable[Note]) -> None:
        writer, kind = self.writer, workload.kind
        try:
            uid = await reads.uid_of(writer.cluster, workload, timeout=writer.timeout)
        except (ClusterError, WireError) as error:
            writer.lose(kind, str(workload), error)
            return
        if uid is None:
            return  # the workload is gone
        about = writes.Regarding("apps/v1", kind, workload.namespace, workload.name, uid)
        for note in notes:
            occurred = Occurrence(
                about, note.reason, note.action, note.text, gist=note.text, warning=note.warning
            )
            if not await writer.write_alone(occurred):
                return
