"""Record of begun migrations, needed for hourly and daily migration budgets, in an annotation of a
Lease.

A new leader reads the record before a migration with a budget may begin, and writes it after each
begin. The rights and the optimistic concurrency are those of leader election: a former leader
cannot overwrite the record of its successor.
"""

from collections.abc import Sequence

import attrs
import msgspec
import structlog

from kubedsm.events.controller import Controller
from kubedsm.execution.deferrals import DAY, Deferrals
from kubedsm.kube.calls import leases
from kubedsm.kube.client.port import (
    ClusterError,
    Conflict,
    Forbidden,
    NotFound,
    ObjectName,
)
from kubedsm.kube.wire.errors import UNREADABLE
from kubedsm.model.model import Workload
from kubedsm.process.clock import ends_within

log = structlog.get_logger()

ANNOTATION = "kubedsm.io/begun-migrations"
#: most characters of the record: all annotations of an object may have 256 KiB
MOST = 200_000
#: seconds between attempts
RETRY = 5.0
#: namespace, kind and name of the workload, and time in whole seconds since the epoch
Entry = tuple[str, str, str, int]
_ENTRIES = msgspec.json.Decoder(list[Entry])


def read_begun(found: leases.Lease | None, now: float) -> list[tuple[Workload, float]]:
    """Return the recorded migrations of the last day. Raises `UNREADABLE` errors."""
    annotations = {} if found is None else found.metadata.get("annotations") or {}
    return [
        (Workload(namespace, kind, name), float(at))
        for namespace, kind, name, at in _ENTRIES.decode(annotations.get(ANNOTATION, "[]"))
        if now - DAY < at <= now
    ]


def _encode_newest(begun: Sequence[tuple[Workload, float]]) -> str:
    """Return the newest migrations that fit into an annotation, as JSON."""
    texts: list[str] = []
    left = MOST
    for workload, at in reversed(begun):
        entry: Entry = workload.namespace, workload.kind, workload.name, int(at)
        texts.append(msgspec.json.encode(entry).decode())
        left -= len(texts[-1]) + 1
        if left < 0:
            texts.pop()
            break
    return f"[{','.join(reversed(texts))}]"


@attrs.define(eq=False)
class MigrationRecord(Controller):
    name: ObjectName
    deferrals: Deferrals
    #: identity of this process
    instance: str
    _found: leases.Lease | None = attrs.field(default=None, init=False)
    #: begun migrations as last written
    _written: object = attrs.field(default=None, init=False)
    _is_read: bool = attrs.field(default=False, init=False)

    async def run(self) -> None:
        """Read the record, then write it after each begun migration, while a budget is set."""
        changed = self.deferrals.changed
        self.configuration.observe(lambda _: changed.set())
        while True:
            changed.clear()
            wait: float | None = None
            if self.configuration.current.migration.budget.limited:
                try:
                    await self._synchronise()
                except ClusterError as error:
                    self.throttle.log(log.warning, "record of migrations unavailable", error)
                    wait = RETRY
            await ends_within(wait, changed.wait())

    async def _synchronise(self) -> None:
        """Read the record once, and write it if a migration has begun since.

        Without the right to read, the budget counts from the start of this process. Raises
        ClusterError.
        """
        if not self._is_read:
            try:
                self._found = await leases.read(self.cluster, self.name)
            except Forbidden:
                self.deferrals.restore(())
                raise
            self._restore()
        begun = self.deferrals.begun
        if begun and begun is not self._written:
            await self._write(begun)

    def _restore(self) -> None:
        """Add the recorded migrations of the last day; an unreadable record counts as empty."""
        try:
            begun = read_begun(self._found, self.clock.wall())
        except UNREADABLE as error:
            begun = []
            self.throttle.log(log.warning, "record of migrations unreadable", error)
        unrecorded = bool(self.deferrals.begun)  # without a budget
        self.deferrals.restore(begun)
        self._is_read, self._written = True, None if unrecorded else self.deferrals.begun

    async def _write(self, begun: list[tuple[Workload, float]]) -> None:
        text = _encode_newest(begun)
        term = leases.term_of(self.instance, DAY, self.clock.wall(), 0)
        try:
            self._found = await leases.write(
                self.cluster, self.name, self._found, term, annotations={ANNOTATION: text}
            )
        except (Conflict, NotFound):  # changed or deleted since, by a user
            self._found = await leases.read(self.cluster, self.name)
            raise
        self._written = begun
