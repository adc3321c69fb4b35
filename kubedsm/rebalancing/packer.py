"""The packer: when pods are stuck that moving others would make room for, have that done.

Of a cluster that does not change it is asked once, and no more than a tenth of all time is spent on
thinking; what comes to nothing again and again, for the same pods, is looked at ever less often.
"""

import asyncio
import math
from typing import Self

import attrs
import structlog

from kubedsm.config.current import CurrentConfiguration
from kubedsm.events.event_recorder import EventRecorder
from kubedsm.execution.migrations import Moves
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.listener import Listener
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Uid
from kubedsm.model.sites import Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.moving.suggestion import Suggestion
from kubedsm.planner.pack_request import Packing, RoomByPacking
from kubedsm.planner.plurals import counted
from kubedsm.planner.requests import NoAnswerError, Thinker
from kubedsm.plugins.fit import shortages
from kubedsm.process.backoff import Doubling
from kubedsm.process.clock import Clock
from kubedsm.rebalancing.room_maker import RoomMaking
from kubedsm.rebalancing.suggester import LOOK, PATIENCE, REST, Suggester
from kubedsm.scheduling.preemptor import Preemptor
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm.scheduling.site_monitor import Sites
from kubedsm.scheduling.workload_changes import WorkloadChanges

log = structlog.get_logger()

#: seconds until the same pods are thought about again, after that came to nothing
IN_VAIN = Doubling(2.0, 60.0)


@attrs.define
class Packer:
    """Thinks when pods have waited unchanged for a while, and moves might begin."""

    mirror: ClusterMirror
    queue: SchedulingQueue
    suggester: Suggester
    making: RoomMaking
    recorder: EventRecorder
    record: DecisionRecord
    thinker: Thinker
    configuration: CurrentConfiguration
    clock: Clock
    synced: asyncio.Event
    listener: Listener
    changes: WorkloadChanges
    sites: Sites
    #: the pods that were thought about last, how often in vain, and until when that is enough
    _thought_of: frozenset[Uid] = attrs.field(default=frozenset(), init=False)
    _in_vain: int = attrs.field(default=0, init=False)
    _enough_until: float = attrs.field(default=0.0, init=False)
    #: until when there is no thinking at all
    _rests_until: float = attrs.field(default=0.0, init=False)
    #: the state in which nothing was to be done; and when time may change that
    _nothing_at: tuple[int, int, Away] | None = attrs.field(default=None, init=False)
    _again_at: float = attrs.field(default=math.inf, init=False)
    #: what was logged last, of whom
    _said: tuple[object, ...] = attrs.field(default=(), init=False)

    @classmethod
    def beside(cls, suggester: Suggester, moves: Moves, preemptor: Preemptor) -> Self:
        """One that moves pods as the suggester does, and is about the same cluster."""
        return cls(
            mirror=suggester.mirror,
            queue=suggester.queue,
            suggester=suggester,
            making=RoomMaking.beside(suggester, moves, preemptor),
            recorder=suggester.recorder,
            record=suggester.record,
            thinker=suggester.thinker,
            configuration=suggester.configuration,
            clock=suggester.clock,
            synced=suggester.synced,
            listener=suggester.listener,
            changes=suggester.changes,
            sites=suggester.sites,
        )

    async def run(self) -> None:
        await self.synced.wait()
        while True:
            refused = self.queue.refused()
            await self.clock.sleep(self.configuration.current.optimiser.delay)
            if refused and refused == self.queue.refused() and self._may_think(refused):
                await self._think(refused)

    def _may_think(self, refused: frozenset[Uid]) -> bool:
        now = self.clock.monotonic()
        if self.configuration.current.packing_mode == "off" or now < self._rests_until:
            return False
        enough = self._state == self._nothing_at or now < self._enough_until
        if refused <= self._thought_of and enough and now < self._again_at:
            return False
        return self.suggester.calm()

    @property
    def _state(self) -> tuple[int, int, Away]:
        """As the suggester's."""
        return self.mirror.changes, self.configuration.generation, self.sites.away()

    async def _think(self, refused: frozenset[Uid]) -> None:
        snapshot, state, began = self.mirror.snapshot(), self._state, self.clock.monotonic()
        try:
            packing = await self.thinker.ask(self._question(refused, state[2]))
        except NoAnswerError:
            return
        now = self.clock.monotonic()
        seconds = now - began
        self._rests_until = now + REST * seconds
        if not refused <= self._thought_of:
            self._in_vain = 0
        self._thought_of = refused
        if not all(certificate.proven for certificate in packing.certificates):
            self.listener.unproven("packing", packing.certificates)
        if self._state[1:] != state[1:]:
            self._overtaken(seconds)
            return
        mode, found = self.configuration.current.packing_mode, packing.suggestion
        self._tell(refused, packing, mode, seconds)
        if found is not None and mode == "apply":
            await self._calm()
            if self._state[1:] == state[1:] and self._still_holds(snapshot, found):
                await self._apply(snapshot, packing, seconds)
            else:
                self._overtaken(seconds)
            return
        if found is not None:
            self._propose(snapshot, found)
        self.listener.packed("nothing" if found is None else "proposed", seconds)
        self._came_to_nothing(None if packing.rests else state)
        wait = self.changes.worth_another_look() if packing.may_pay_later else math.inf
        self._again_at = now + wait

    async def _apply(self, snapshot: Snapshot, packing: Packing, seconds: float) -> None:
        self.listener.packed("applied", seconds)
        if await self.making.carry_out(snapshot, packing):
            self._in_vain, self._thought_of = 0, frozenset()
        else:
            self._came_to_nothing(None)

    def _overtaken(self, seconds: float) -> None:
        log.info("packing overtaken")
        self.listener.packed("overtaken", seconds)

    async def _calm(self) -> None:
        """Return when moves may begin, but wait no longer than is sensible."""
        until = self.clock.monotonic() + PATIENCE
        while not self.suggester.calm() and self.clock.monotonic() < until:
            await self.clock.sleep(LOOK)

    def _question(self, refused: frozenset[Uid], away: Away) -> RoomByPacking:
        limits = self.suggester.manager.move_limits
        return RoomByPacking(
            limits.moving(),
            limits.resting(self.clock.monotonic()),
            self.changes.quiet(),
            self.configuration.current.optimiser.budget,
            away,
            self.suggester.moves.arriving(),
            refused,
        )

    def _came_to_nothing(self, state: tuple[int, int, Away] | None) -> None:
        self._nothing_at, self._again_at = state, math.inf
        self._enough_until = self.clock.monotonic() + IN_VAIN.after(self._in_vain)
        self._in_vain += 1

    def _still_holds(self, snapshot: Snapshot, suggestion: Suggestion) -> bool:
        """Whether all that matters is as it was, with no less room where some is needed."""
        now = self.mirror.snapshot()
        targets = {leg.target for leg in suggestion.legs}
        targets |= {move.target for move in suggestion.awaited}
        known = (now.pods.get(move.pod.uid) for move in suggestion.awaited)
        waiting = [pod for pod in known if pod is not None]
        return (
            self.suggester.calm()
            and self.suggester.unchanged(snapshot, suggestion.legs)
            and len(now.schedulable(waiting)) == len(suggestion.awaited)
            and all(
                node in now.nodes and not shortages(snapshot.free[node], now.free[node])
                for node in targets
            )
        )

    def _tell(self, refused: frozenset[Uid], packing: Packing, mode: str, seconds: float) -> None:
        """What was found for each pod, for whoever asks; in the log, if it is anything new."""
        found = packing.suggestion
        told = dict(packing.left)
        if found is not None:
            moves = counted(len(found.legs), "move")
            text = f"{moves} would make room on {{}}, mode is {mode}"
            if mode == "apply":
                text = f"room is being made on {{}}: {moves}"
            told |= {move.pod.uid: text.format(move.target) for move in found.awaited}
        self.record.packing_found(told)
        said = refused, mode, tuple(found.moves) if found else (), packing.evicted
        if said == self._said:
            return
        self._said = said
        write = log.info if found or packing.evicted else log.debug
        write(
            "packing",
            stuck=len(refused),
            placed=len(found.awaited) if found else 0,
            moves=[f"{m.pod} {m.source} -> {m.target}" for m in found.moves] if found else [],
            evicted=[str(pod) for pod in packing.evicted],
            certificate=[certificate.words for certificate in packing.certificates],
            mode=mode,
            seconds=round(seconds, 3),
        )

    def _propose(self, snapshot: Snapshot, found: Suggestion) -> None:
        proposed = [MoveOutcome("", move, Outcome.PROPOSED) for move in found.moves]
        self.record.suggestion(snapshot, found, proposed)
        moves = ", ".join(f"{m.pod} {m.source} -> {m.target}" for m in found.moves[:3])
        count = counted(len(found.legs), "move")
        for awaited in found.awaited:
            text = f"Packing: {count} would make room on {awaited.target}: {moves}"
            self.recorder.packing(awaited.pod, "PackingProposed", text)
