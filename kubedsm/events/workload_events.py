"""Events on workloads about the migrations of their pods: one for all that end within seconds.

The Events of a migrated pod disappear with the pod; its Deployment stays. Other notes about a
workload are written there, too: the last one of every few seconds.
"""

import asyncio
from collections.abc import Iterable

import attrs

from kubedsm.events.event_writer import EventWriter, Occurrence
from kubedsm.explain.event_notes import Note, note_migrations
from kubedsm.explain.migration_outcome import MoveOutcome
from kubedsm.kube.calls import reads, writes
from kubedsm.kube.client.port import ClusterError
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.model import Workload
from kubedsm.process.supervisor import Supervisor

#: seconds from the end of a migration to its Event, which covers all that end meanwhile
GATHER = 5.0


@attrs.define
class WorkloadEvents:
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
