"""Room made for pods that no node takes, by moving others: a packing is carried out.

The pods to be evicted go first, then the moves are made as a suggestion's are, and the room that
they leave is held, node by node, for those that wait. All this is forgotten in a crash, and none of
it is missed: a move that has begun is finished or taken back, and the pods wait as before.
"""

from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import Self

import attrs
import structlog

from kubedsm.config.current import CurrentConfiguration
from kubedsm.events.event_recorder import EventRecorder
from kubedsm.execution.migrations import Moves
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.migration_outcome import Outcome
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Pod, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.moving.suggestion import Move, Suggestion
from kubedsm.planner.pack_request import Packing
from kubedsm.planner.plurals import counted
from kubedsm.process.clock import Clock
from kubedsm.rebalancing.suggester import Suggester
from kubedsm.scheduling.preemptor import EvictionRefusedError, Preemptor
from kubedsm.scheduling.scheduling_queue import SchedulingQueue

log = structlog.get_logger()

#: seconds from one look at how it goes to the next
LOOK = 0.5
#: times the deadline of a step of a move, the whole takes at most
PATIENCE = 10
#: how a move ends that leaves the pod where it is
_LOST = frozenset({Outcome.DROPPED, Outcome.FAILED, Outcome.TAKEN_BACK})


@attrs.frozen
class RoomMaking:
    mirror: ClusterMirror
    queue: SchedulingQueue
    moves: Moves
    suggester: Suggester
    preemptor: Preemptor
    recorder: EventRecorder
    record: DecisionRecord
    configuration: CurrentConfiguration
    clock: Clock

    @classmethod
    def beside(cls, suggester: Suggester, moves: Moves, preemptor: Preemptor) -> Self:
        return cls(
            mirror=suggester.mirror,
            queue=suggester.queue,
            moves=moves,
            suggester=suggester,
            preemptor=preemptor,
            recorder=suggester.recorder,
            record=suggester.record,
            configuration=suggester.configuration,
            clock=suggester.clock,
        )

    async def carry_out(self, snapshot: Snapshot, packing: Packing) -> bool:
        """Whether any pod that room is made for has a node in the end.

        To be called in the same breath as it was seen that the packing holds.
        """
        found = packing.suggestion
        if found is None:
            return False
        going = _Underway(found, self.clock.monotonic() + PATIENCE * self._deadline)
        try:
            if packing.evicted and not await self._evicted(snapshot, going, packing.evicted):
                return False
            going.plans = self.suggester.begin(snapshot, found, partial(self._needed, going))
            while self._goes_on(going):
                self._hold(going, self.moves.still_to_come(going.plans.values()))
                await self.clock.sleep(LOOK)
        finally:
            going.over = True
            for uid in going.held:
                self.preemptor.give_back(uid)
            for move in found.moves:
                self.mirror.withdraw(move.pod.uid)
        return self._ended(going)

    @property
    def _deadline(self) -> float:
        return self.configuration.current.migration.deadline

    async def _evicted(
        self, snapshot: Snapshot, going: "_Underway", victims: Sequence[Pod]
    ) -> bool:
        """Have the victims gone; whether all that is to be done then can be done still.

        Their room is held meanwhile: what their owners put in their place is not to have it.
        """
        legs = going.found.legs
        self._hold(going, {leg.target for leg in legs})
        for leg in legs:
            if not leg.needs:
                self.mirror.nominate(leg.move.pod, leg.target)
        by = going.found.awaited[0].pod
        try:
            await self.preemptor.make_way(victims, by)
        except EvictionRefusedError as refusal:
            self.recorder.packing(by, "PackingFailed", f"Packing: no room is made: {refusal}")
            return False
        while any(self.mirror.pod(victim.uid) for victim in victims):
            if self.clock.monotonic() >= going.until:
                return False
            await self.clock.sleep(LOOK)
        return self.suggester.unchanged(snapshot, legs)

    def _needed(self, going: "_Underway", group: int) -> bool:
        """Whether a move of the group is to begin: none is once one of them has failed."""
        failed = any(
            move.outcome in _LOST for move in self.record.moves_of({going.plans.get(group, "")})
        )
        waits = any(move.group == group for move in self._waiting(going))
        return waits and not (going.over or failed or self.suggester.paused())

    def _waiting(self, going: "_Underway") -> list[Move]:
        """The pods that have no node yet."""
        pods = ((move, self.mirror.pod(move.pod.uid)) for move in going.found.awaited)
        return [move for move, pod in pods if pod is not None and pod.waits_for_node]

    def _goes_on(self, going: "_Underway") -> bool:
        waiting, refused = self._waiting(going), self.queue.refused()
        if not waiting or self.clock.monotonic() >= going.until:
            return False
        least = min(move.pod.pod_class.priority for move in waiting)
        others = map(self.mirror.pod, refused - {move.pod.uid for move in waiting})
        if any(pod is not None and pod.pod_class.priority > least for pod in others):
            return False  # nothing less important is to keep it from its room
        if self.moves.under_way(going.plans.values()):
            return True
        return any(move.pod.uid not in refused for move in waiting)

    def _hold(self, going: "_Underway", coming: Container[NodeName]) -> None:
        """Hold the room of those that wait, where no moves have to come first."""
        for move in self._waiting(going):
            if move.pod.uid not in going.held and move.target not in coming:
                going.held.add(move.pod.uid)
                self.preemptor.keep(move.pod, move.target)

    def _ended(self, going: "_Underway") -> bool:
        moves = self.record.moves_of(set(going.plans.values()))
        moved = sum(move.outcome is Outcome.COMPLETED for move in moves)
        late = self.clock.monotonic() >= going.until
        otherwise = "it took too long" if late else "others have it"
        why = next((m.reason for m in moves if m.outcome in _LOST and m.reason), otherwise)
        there = [self.mirror.pod(move.pod.uid) for move in going.found.awaited]
        placed = [pod for pod in there if pod is not None and not pod.waits_for_node]
        for pod in placed:
            text = f"Packing: moved {counted(moved, 'pod')} to make room for {pod}"
            self.recorder.packing(pod, "Packed", text)
        left = [move.pod for move in self._waiting(going)]
        for pod in left:
            self.record.packing_came_to(pod.uid, f"no room was made: {why}")
            self.recorder.packing(pod, "PackingFailed", f"Packing: no room was made: {why}")
        log.info("packing ended", moved=moved, placed=len(placed), left=len(left))
        return bool(placed)


@attrs.define
class _Underway:
    found: Suggestion
    #: on the clock
    until: float
    #: by the groups of the moves
    plans: Mapping[int, str] = attrs.field(factory=dict)
    #: the pods that room was held for
    held: set[Uid] = attrs.field(factory=set)
    over: bool = False
