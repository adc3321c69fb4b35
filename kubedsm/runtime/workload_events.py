"""Events on workloads, which tell how moves of their pods ended: one for all of a few seconds.

A pod that was moved is soon forgotten, and its Events with it; its Deployment stays.
"""

import asyncio
from collections.abc import Sequence

import attrs
import structlog

from kubedsm.clock import Clock
from kubedsm.cluster.calls import live, verbs
from kubedsm.cluster.client.port import Cluster, ClusterError
from kubedsm.cluster.wire.decoding import WireError
from kubedsm.core.moving.suggestion import Move
from kubedsm.core.world.model import Workload
from kubedsm.runtime.supervisor import Supervisor
from kubedsm.said_by_cause import SaidByCause
from kubedsm.why.entries import MoveOutcome, Outcome

log = structlog.get_logger()

#: seconds from the end of a move until it is told, with those that ended meanwhile
GATHER = 5.0
REQUEST_TIMEOUT = 10.0


@attrs.define
class WorkloadEvents:
    cluster: Cluster
    clock: Clock
    supervisor: Supervisor
    said: SaidByCause
    instance: str
    #: Events that could not be written
    lost: int = attrs.field(default=0, init=False)
    _ended: dict[Workload, list[MoveOutcome]] = attrs.field(factory=dict, init=False)
    _arrived: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def moved(self, ended: MoveOutcome) -> None:
        """Take note of how a move ended."""
        workload = ended.move.pod.workload
        if workload.kind in live.APPS_RESOURCES:
            self._ended.setdefault(workload, []).append(ended)
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
        gathered = dict(self._ended)
        self._ended.clear()
        for workload, ends in gathered.items():
            with self.supervisor.catching("workload events", workload=workload):
                await self._write(workload, ends)

    async def _write(self, workload: Workload, ends: Sequence[MoveOutcome]) -> None:
        done = [_told(e.move) for e in ends if e.outcome is Outcome.COMPLETED]
        lost = [
            f"{_told(e.move)}: {e.outcome}, {e.reason}"
            for e in ends
            if e.outcome is not Outcome.COMPLETED
        ]
        try:
            uid = await live.uid_of(self.cluster, workload, timeout=REQUEST_TIMEOUT)
            if uid is None:
                return  # nobody would read it
            kind, namespace, name = workload.kind, workload.namespace, workload.name
            about = verbs.Regarding("apps/v1", kind, namespace, name, uid)
            if done:
                await self._event(about, "Migrated", f"Moved {_pods(done)}: {'; '.join(done)}")
            if lost:
                note = f"Did not move {_pods(lost)}: {'; '.join(lost)}"
                await self._event(about, "MigrationFailed", note, warning=True)
        except (ClusterError, WireError) as error:
            self.lost += 1
            self.said.log(log.warning, "event lost", error, workload=str(workload))

    async def _event(
        self, about: verbs.Regarding, reason: str, note: str, *, warning: bool = False
    ) -> None:
        await verbs.create_event(
            self.cluster,
            about,
            reason=reason,
            action="Migrating",
            note=note,
            instance=self.instance,
            at=self.clock.wall(),
            warning=warning,
            timeout=REQUEST_TIMEOUT,
        )


def _told(move: Move) -> str:
    kind = f" ({move.kind})" if move.kind else ""
    purpose = f", {move.purpose}" if move.rebalances else ""
    return f"{move.pod.name} from {move.source} to {move.target}{kind}{purpose}"


def _pods(moves: Sequence[str]) -> str:
    return "a pod" if len(moves) == 1 else f"{len(moves)} pods"
