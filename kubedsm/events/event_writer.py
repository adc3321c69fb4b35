"""Events as they are written: a new one, one more of a series, or none where there are too many."""

import attrs
import structlog

from kubedsm.events.event_series import EventSeries, Series
from kubedsm.explain.listener import Listener
from kubedsm.kube.calls import writes
from kubedsm.kube.client.port import Cluster, ClusterError, Forbidden, NotFound
from kubedsm.kube.wire.errors import WireError
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause

log = structlog.get_logger()


def is_namespace_ending(error: Exception) -> bool:
    """Whether an Event could not be created because its namespace is being deleted, or is gone."""
    terminating = isinstance(error, Forbidden) and error.namespace_terminating
    return terminating or isinstance(error, NotFound)


@attrs.frozen(slots=True)
class Occurrence:
    """What an Event tells, and how often it has happened."""

    about: writes.Regarding
    reason: str
    action: str
    note: str
    #: equal where notes say the same
    gist: str
    times: int = 1
    warning: bool = False


@attrs.define
class EventWriter:
    cluster: Cluster
    clock: Clock
    said: SaidByCause
    instance: str
    #: seconds, of each request
    timeout: float
    listener: Listener
    series: EventSeries = attrs.field(factory=EventSeries, init=False)
    #: Events that could not be written
    lost: int = attrs.field(default=0, init=False)

    async def write(self, occurred: Occurrence) -> bool:
        """Whether users can read it now; errors are logged, and the Event lost."""
        about = occurred.about
        series = self.series.take(
            about.uid, occurred.reason, occurred.gist, occurred.times, self.clock.monotonic()
        )
        if series is None:
            return False
        try:
            if not (series.name and await self._counted(about, series)):
                series.name = await self._created(occurred, series)
        except (ClusterError, WireError) as error:
            if is_namespace_ending(error):
                return False  # it would not be read
            self.lost += 1
            subject = f"{about.namespace}/{about.name}"
            self.said.log(log.warning, "event lost", error, pod=subject, reason=occurred.reason)
            return False
        return True

    async def _counted(self, about: writes.Regarding, series: Series) -> bool:
        """Whether the Event is still there to be counted on."""
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

    async def _created(self, occurred: Occurrence, series: Series) -> str:
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
