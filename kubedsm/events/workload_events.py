"""Events on workloads, which tell how moves of their pods ended: one for all of a few seconds.

A pod that was moved is soon forgotten, and its Events with it; its Deployment stays. What else is
to be known of a workload is told there, too: the last of each few seconds.
"""

import asyncio
from collections.abc import Iterable, Sequence

import attrs
import structlog

from kubedsm.events.event_writer import is_namespace_ending
from kubedsm.explain.entries import MoveOutcome, Outcome
from kubedsm.explain.listener import Listener
from kubedsm.kube.calls import reads, writes
from kubedsm.kube.client.port import Cluster, ClusterError
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.model import Workload
from kubedsm.optimizer.moving.suggestion import Move
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.process.supervisor import Supervisor

log = structlog.get_logger()

#: seconds from the end of a move until it is told, with those that ended meanwhile
GATHER = 5.0
REQUEST_TIMEOUT = 10.0


@attrs.frozen(slots=True)
class Note:
    """What is told of a workload."""

    reason: str
    text: str
    warning: bool = False
    action: str = "Migrating"


@attrs.define
class WorkloadEvents:
    cluster: Cluster
    clock: Clock
    supervisor: Supervisor
    said: SaidByCause
    instance: str
    listener: Listener
    #: Events that could not be written
    lost: int = attrs.field(default=0, init=False)
    _ended: dict[Workload, list[MoveOutcome]] = attrs.field(factory=dict, init=False)
    _notes: dict[Workload, Note] = attrs.field(factory=dict, init=False)
    _arrived: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def moved(self, ended: MoveOutcome) -> None:
        """Take note of how a move ended."""
        workload = ended.move.pod.workload
        if workload.kind in reads.APPS_RESOURCES:
            self._ended.setdefault(workload, []).append(ended)
            self._arrived.set()

    def noted(self, workload: Workload, note: Note) -> None:
        """Take note of what is to be told."""
        if workload.kind in reads.APPS_RESOURCES:
            self._notes[workload] = note
            self._arrived.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._arrived.wait()
            await self.clock.sleep(GATHER)
            await self.flush()

    async def flush(self) -> None:
        """Write what has been gathered."""
        self._arrived.clear()
        ended, noted = dict(self._ended), dict(self._notes)
        self._ended.clear()
        self._notes.clear()
        for workload in dict.fromkeys((*ended, *noted)):
            notes = _about_moves(ended.get(workload, ()))
            if workload in noted:
                notes.append(noted[workload])
            with self.supervisor.catch_errors("workload events", workload=workload):
                await self._write(workload, notes)

    async def _write(self, workload: Workload, notes: Iterable[Note]) -> None:
        try:
            uid = await reads.uid_of(self.cluster, workload, timeout=REQUEST_TIMEOUT)
            if uid is None:
                return  # nobody would read it
            kind, namespace, name = workload.kind, workload.namespace, workload.name
            about = writes.Regarding("apps/v1", kind, namespace, name, uid)
            for note in notes:
                await writes.create_event(
                    self.cluster,
                    about,
                    reason=note.reason,
                    action=note.action,
                    note=note.text,
                    instance=self.instance,
                    at=self.clock.wall(),
                    warning=note.warning,
                    timeout=REQUEST_TIMEOUT,
                )
                self.listener.event_written(about, note.reason, note.text, note.warning)
        except (ClusterError, WireError) as error:
            if is_namespace_ending(error):
                return
            self.lost += 1
            self.said.log(log.warning, "event lost", error, workload=str(workload))


def _about_moves(ends: Iterable[MoveOutcome]) -> list[Note]:
    done, lost = list[str](), list[str]()
    for ended in ends:
        told = _told(ended.move)
        if ended.outcome is Outcome.COMPLETED:
            done.append(told)
        else:
            lost.append(f"{told}: {ended.outcome}, {ended.reason}")
    notes = []
    if done:
        notes.append(Note("Migrated", f"Moved {_pods(done)}: {'; '.join(done)}"))
    if lost:
        text = f"Did not move {_pods(lost)}: {'; '.join(lost)}"
        notes.append(Note("MigrationFailed", text, warning=True))
    return notes


def _told(move: Move) -> str:
    kind = f" ({move.kind})" if move.kind else ""
    purpose = f", {move.purpose}" if move.evens else ""
    return f"{move.pod.name} from {move.source} to {move.target}{kind}{purpose}"


def _pods(moves: Sequence[str]) -> str:
    return "a pod" if len(moves) == 1 else f"{len(moves)} pods"
