"""Capacity packing: migrate, and if allowed evict, pods so that pending pods fit.

The same four stages as the suggester's: the candidates are the pods that no node takes, the
proposal is a packing, which is validated and executed. An execution is not persisted: a migration
that began is finished or rolled back after a crash, and the pending pods wait as before.
"""

import math
from collections.abc import Callable, Container, Mapping, Sequence

import attrs
import structlog

from kubedsm.explain.migration_outcome import Outcome
from kubedsm.model.model import NodeName, Pod, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.moving.suggestion import Move, Suggestion
from kubedsm.planner.plurals import counted
from kubedsm.planner.rebalancing_requests import PackRequest, PackResponse
from kubedsm.planner.requests import NoResponseError
from kubedsm.process.backoff import Doubling
from kubedsm.rebalancing.suggester import LONGEST, PATIENCE, REST, Migrator, State
from kubedsm.scheduling.preemptor import EvictionRefusedError

log = structlog.get_logger()

#: back-off in seconds for the same pods, after packings without result
IN_VAIN = Doubling(2.0, 60.0)
#: delays after which packing no longer waits for pods that come and go
UNSETTLED = 10
#: seconds between two checks of an execution
CHECK = 0.5
#: outcomes of a migration that leave the pod on its node
_LOST = frozenset({Outcome.DROPPED, Outcome.FAILED, Outcome.ROLLED_BACK})


@attrs.define
class Packer:
    """Control loop of capacity packing: plans a packing once the same pods were unschedulable for a
    while and migrations may begin.

    An unchanged cluster is packed once. Solving takes at most a tenth of the time, and packings
    without result for the same pods back off.
    """

    migrator: Migrator
    #: pods of the last packing, count of packings without result, and end of their back-off
    _packed_for: frozenset[Uid] = attrs.field(default=frozenset(), init=False)
    _in_vain: int = attrs.field(default=0, init=False)
    _backs_off_until: float = attrs.field(default=0.0, init=False)
    #: end of the pause after solving
    _rests_until: float = attrs.field(default=0.0, init=False)
    #: state without a beneficial packing; and when to retry all the same
    _nothing_at: State | None = attrs.field(default=None, init=False)
    _again_at: float = attrs.field(default=math.inf, init=False)
    #: last log entry
    _logged: tuple[object, ...] = attrs.field(default=(), init=False)

    async def run(self) -> None:
        migrator = self.migrator
        await migrator.synced.wait()
        unsettled = 0
        while True:
            refused = migrator.queue.refused()
            await migrator.clock.sleep(migrator.configuration.current.optimiser.delay)
            present = migrator.queue.refused()
            stuck = refused & present
            unsettled = unsettled + 1 if stuck and refused != present else 0
            if stuck and unsettled in (0, UNSETTLED) and self._is_due(stuck):
                await self._pack_pods(stuck)
            unsettled %= UNSETTLED

    def _is_due(self, refused: frozenset[Uid], *, waited: bool = True) -> bool:
        """Return True if a packing is due; after a wait also during batches and binds."""
        migrator, now = self.migrator, self.migrator.clock.monotonic()
        if migrator.configuration.current.packing_mode == "off" or now < self._rests_until:
            return False
        enough = migrator.state == self._nothing_at or now < self._backs_off_until
        if refused <= self._packed_for and enough and now < self._again_at:
            return False
        return migrator.is_calm(waited=waited)

    async def _pack_pods(self, refused: frozenset[Uid]) -> None:
        """Request a packing if one is still due, and carry it out or propose it."""
        migrator = self.migrator
        waited = not await migrator.wait_for(migrator.is_calm, PATIENCE)
        async with migrator.solving:
            refused &= migrator.queue.refused()
            if not (refused and self._is_due(refused, waited=waited)):
                return
            state, now = migrator.state, migrator.clock.monotonic
            snapshot, began = migrator.mirror.snapshot(), now()
            budget = migrator.configuration.current.optimiser.budget
            request = migrator.about_candidates(PackRequest, budget=budget, refused=refused)
            try:
                packing = await migrator.planner.solve(request)
            except NoResponseError:
                return
            answered = now()
        seconds = answered - began
        self._rests_until = answered + REST * seconds
        if not refused <= self._packed_for:
            self._in_vain = 0
        self._packed_for = refused
        if not all(certificate.proven for certificate in packing.certificates):
            migrator.listener.optimality_unproven("packing", packing.certificates)
        if migrator.state[1:] != state[1:]:
            self._drop_outdated(seconds)
            return
        mode, found = migrator.configuration.current.packing_mode, packing.suggestion
        self._report_packing(refused, packing, mode, seconds)
        if found is not None and mode == "apply":
            waited = waited or not await migrator.wait_for(migrator.is_calm, PATIENCE)
            still = migrator.is_calm(waited=waited) and migrator.frees_capacity(snapshot, found)
            if migrator.state[1:] != state[1:] or not still:
                self._drop_outdated(seconds)
                return
            migrator.listener.packing_ended("applied", seconds)
            if await self.execute(snapshot, found, packing.evicted):
                self._in_vain, self._packed_for = 0, frozenset()
            else:
                self._back_off(None)
            return
        if found is not None:
            self._propose_packing(snapshot, found)
        migrator.listener.packing_ended("nothing" if found is None else "proposed", seconds)
        self._back_off(None if packing.rests else state)
        wait = migrator.changes.worth_another_look() if packing.may_pay_later else math.inf
        self._again_at = answered + min(wait, migrator.seconds_deferred())

    def _drop_outdated(self, seconds: float) -> None:
        log.info("packing overtaken")
        self.migrator.listener.packing_ended("overtaken", seconds)

    def _back_off(self, state: State | None) -> None:
        self._nothing_at, self._again_at = state, math.inf
        self._backs_off_until = self.migrator.clock.monotonic() + IN_VAIN.delay_after(self._in_vain)
        self._in_vain += 1

    def _report_packing(
        self, refused: frozenset[Uid], packing: PackResponse, mode: str, seconds: float
    ) -> None:
        """Record the packing result for each unschedulable pod, and log results not logged
        before.
        """
        found = packing.suggestion
        results = dict(packing.left)
        if found is not None:
            moves = counted(len(found.legs), "migration")
            text = f"{moves} would free capacity on {{}}; the mode is {mode}"
            if mode == "apply":
                text = f"capacity is being freed on {{}}: {moves}"
            results |= {move.pod.uid: text.format(move.target) for move in found.awaited}
        self.migrator.record.packing_found(results)
        entry = refused, mode, tuple(found.moves) if found else (), packing.evicted
        if entry == self._logged:
            return
        self._logged = entry
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
            **({"out_of_time": True} if packing.out_of_time else {}),
        )

    def _propose_packing(self, snapshot: Snapshot, found: Suggestion) -> None:
        self.migrator.propose(snapshot, found)
        moves = ", ".join(f"{m.pod} {m.source} -> {m.target}" for m in found.moves[:3])
        count = counted(len(found.legs), "migration")
        for awaited in found.awaited:
            text = f"Packing: {count} would free capacity on {awaited.target}: {moves}"
            self.migrator.recorder.record_event("PackingProposed", awaited.pod, text)

    async def execute(
        self, snapshot: Snapshot, found: Suggestion, victims: Sequence[Pod] = ()
    ) -> bool:
        """Execute a packing (evictions, migrations, nominations); return True if a pending pod was
        placed.

        The caller has validated the packing, and has not awaited since.
        """
        deadline = self.migrator.configuration.current.migration.deadline
        until = self.migrator.clock.monotonic() + LONGEST * deadline
        execution = Execution(self.migrator, found, until, self.migrator.queue.refused)
        ended = await execution.run(snapshot, victims)
        return ended is not None and self._report_end(ended)

    def _report_end(self, ended: "Ended") -> bool:
        migrator = self.migrator
        for pod in ended.placed:
            text = f"Packing: migrated {counted(ended.migrated, 'pod')} to free capacity for {pod}"
            migrator.recorder.record_event("Packed", pod, text)
        why = f"no capacity was freed: {ended.why}"
        for pod in ended.left:
            migrator.record.packing_came_to(pod.uid, why)
            migrator.recorder.record_event("PackingFailed", pod, f"Packing: {why}")
        log.info(
            "packing ended",
            migrated=ended.migrated,
            placed=len(ended.placed),
            left=len(ended.left),
        )
        return bool(ended.placed)


@attrs.frozen
class Ended:
    """End of an execution: number of migrated pods, pending pods with and without a node, and the
    reason in words why some have none.
    """

    migrated: int
    placed: list[Pod]
    left: list[Pod]
    why: str


@attrs.define
class Execution:
    """Execution of one suggestion for pending pods: evictions, migrations, and nominations.

    Capacity released by migrations is reserved, node by node, for the waiting pods.
    """

    migrator: Migrator
    found: Suggestion
    #: limit, monotonic
    until: float
    #: pods that the scheduler does not try to place now
    parked: Callable[[], Container[Uid]]
    #: plan ids by group
    _plans: Mapping[int, str] = attrs.field(factory=dict, init=False)
    #: pods with a nomination
    _held: set[Uid] = attrs.field(factory=set, init=False)
    #: unschedulable pods at the beginning, which the suggestion has considered
    _known: frozenset[Uid] = attrs.field(factory=frozenset, init=False)
    _over: bool = attrs.field(default=False, init=False)

    async def run(self, snapshot: Snapshot, victims: Sequence[Pod] = ()) -> Ended | None:
        """Evict, migrate, and wait until the pending pods have a node; None if an eviction was
        refused.
        """
        migrator = self.migrator
        self._known = migrator.queue.refused() | {move.pod.uid for move in self.found.awaited}
        try:
            if victims and not await self._evict_victims(snapshot, victims):
                return None
            self._plans = migrator.execute(snapshot, self.found, self._is_needed)
            while self._is_in_progress():
                self.hold_capacity(migrator.manager.migrations.still_to_come(self._plans.values()))
                await migrator.clock.sleep(CHECK)
        finally:
            self._over = True
            for uid in self._held:
                self.migrator.preemptor.give_back(uid)
            for move in self.found.moves:
                migrator.mirror.withdraw(move.pod.uid)
        return self._end()

    async def _evict_victims(self, snapshot: Snapshot, victims: Sequence[Pod]) -> bool:
        """Evict the packing's victims; return True if the packing's migrations are still possible
        afterwards.

        Released capacity is reserved meanwhile, against replacements by the victims' owners.
        """
        mirror, legs = self.migrator.mirror, self.found.legs
        self.hold_capacity({leg.target for leg in legs})
        for leg in legs:
            if not leg.needs:
                mirror.nominate(leg.move.pod, leg.target)
        by = self.found.awaited[0].pod
        try:
            await self.migrator.preemptor.evict_all(victims, by)
        except EvictionRefusedError as refusal:
            text = f"Packing: no migration begins: {refusal}"
            self.migrator.recorder.record_event("PackingFailed", by, text)
            return False
        while any(mirror.pod(victim.uid) for victim in victims):
            if self._is_late():
                return False
            await self.migrator.clock.sleep(CHECK)
        return self.migrator.is_unchanged(snapshot, legs)

    def _is_needed(self, group: int) -> bool:
        """Return True if a migration of the group may begin: none does after one has failed."""
        ended = self.migrator.record.moves_of({self._plans.get(group, "")})
        failed = any(move.outcome in _LOST for move in ended)
        waits = any(move.group == group for move in self._list_waiting())
        return waits and not (self._over or failed or self.migrator.paused())

    def _list_waiting(self) -> list[Move]:
        """Return the packing's placements of pods that still have no node."""
        pods = ((move, self.migrator.mirror.pod(move.pod.uid)) for move in self.found.awaited)
        return [move for move, pod in pods if pod is not None and pod.waits_for_node]

    def _is_late(self) -> bool:
        return self.migrator.clock.monotonic() >= self.until

    def _is_in_progress(self) -> bool:
        waiting, refused = self._list_waiting(), self.migrator.queue.refused()
        if not waiting or self._is_late():
            return False
        least = min(move.pod.pod_class.priority for move in waiting)
        others = map(self.migrator.mirror.pod, refused - self._known)
        if any(pod is not None and pod.pod_class.priority > least for pod in others):
            return False  # a nomination must not block a pod of higher priority
        if self.migrator.manager.migrations.under_way(self._plans.values()):
            return True
        parked, failing = self.parked(), self.migrator.queue.list_failing()
        return any(m.pod.uid not in parked and m.pod.workload not in failing for m in waiting)

    def hold_capacity(self, coming: Container[NodeName]) -> None:
        """Nominate the pending pods of the packing once, on nodes where no migration has to come
        first.
        """
        for move in self._list_waiting():
            if move.pod.uid not in self._held and move.target not in coming:
                self._held.add(move.pod.uid)
                self.migrator.preemptor.keep(move.pod, move.target)

    def _end(self) -> Ended:
        migrator = self.migrator
        moves = migrator.record.moves_of(set(self._plans.values()))
        otherwise = "deadline exceeded" if self._is_late() else "other pods took the capacity"
        pods = [migrator.mirror.pod(move.pod.uid) for move in self.found.awaited]
        return Ended(
            sum(move.outcome is Outcome.COMPLETED for move in moves),
            [pod for pod in pods if pod is not None and not pod.waits_for_node],
            [move.pod for move in self._list_waiting()],
            next((m.reason for m in moves if m.outcome in _LOST and m.reason), otherwise),
        )
