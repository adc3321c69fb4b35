"""The suggester: every period, look for migrations worth their disruption, and have them done."""

import asyncio
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import attrs
import structlog

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.settings import Configuration
from kubedsm.events.event_recorder import EventRecorder
from kubedsm.execution.migrations import Group, Moves
from kubedsm.execution.placement_manager import PlacementManager
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.listener import Listener
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome, planned
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Uid, Workload, shares_after
from kubedsm.model.sites import Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.gains import Gains, leading
from kubedsm.optimizer.moving.balancing import still_pays
from kubedsm.optimizer.moving.move_groups import edge_changes
from kubedsm.optimizer.moving.rebalance import on_one_node
from kubedsm.optimizer.moving.suggestion import Leg, Move, MoveKind, Suggestion
from kubedsm.optimizer.programming.in_order import unproven
from kubedsm.planner.requests import NoAnswerError, Thinker
from kubedsm.planner.suggest_request import MovesToMake, migration_of
from kubedsm.planner.what_if import WhatIf
from kubedsm.process.clock import Clock
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm.scheduling.site_monitor import Sites
from kubedsm.scheduling.workload_changes import WorkloadChanges
from plans.migration import MoveMode, MoveOrder

log = structlog.get_logger()

Q = TypeVar("Q")

#: Times as long as a suggestion took, the next is put off: new pods are placed meanwhile.
REST = 9
#: Seconds from one look to the next at whether all has settled, and that are waited for that.
LOOK, PATIENCE = 0.1, 10.0


@attrs.define
class Suggester:
    """Looks for migrations when no batch is open, and no quick plan under way.

    Slow plans are not waited for, so that no tenant delays another's migrations: their workloads
    and the capacity they use are held fixed. Quick plans are, since a suggestion that knows how
    they ended makes fewer migrations.
    """

    mirror: ClusterMirror
    queue: SchedulingQueue
    manager: PlacementManager
    recorder: EventRecorder
    record: DecisionRecord
    thinker: Thinker
    configuration: CurrentConfiguration
    clock: Clock
    synced: asyncio.Event
    #: the pause switch: whether no move may be begun now
    paused: Callable[[], bool]
    #: whether room is being made already, by preemption
    preempting: Callable[[], bool]
    listener: Listener
    changes: WorkloadChanges
    sites: Sites
    moves: Moves
    #: what was proposed last, in mode suggest, and still is
    proposed: Suggestion | None = attrs.field(default=None, init=False)
    _plans: "itertools.count[int]" = attrs.field(factory=lambda: itertools.count(1), init=False)
    #: the state when nothing was worth moving, and nothing rested; and when time may change that
    _nothing_at: tuple[int, int, Away] | None = attrs.field(default=None, init=False)
    _again_at: float = attrs.field(default=math.inf, init=False)
    _reconfigured: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.configuration.observe(lambda _: self._reconfigured.set())

    async def run(self) -> None:
        await self.synced.wait()
        started = ended = self.clock.monotonic()
        while True:
            await self._rest(ended, ended - started)
            started = ended = self.clock.monotonic()
            if self._may_think():
                await self._settled()
                started = ended = self.clock.monotonic()
            if self._may_think():
                await self._suggest()
                ended = self.clock.monotonic()

    async def _rest(self, since: float, thought: float) -> None:
        """Return when it is time for the next suggestion, by what is configured meanwhile."""
        while True:
            settings = self.configuration.current.suggester
            due = since + max(settings.period, REST * thought)
            wait = None if settings.mode == "off" else due - self.clock.monotonic()
            self._reconfigured.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._reconfigured.wait()
            except TimeoutError:
                return

    @property
    def _state(self) -> tuple[int, int, Away]:
        """What a suggestion depends on, beside the time: the cluster, and the configuration.

        And what is away, which time alone may change.
        """
        return self.mirror.changes, self.configuration.generation, self.sites.away()

    async def _settled(self) -> None:
        """Return when no pod is about to start or to stop, but wait no longer than is sensible.

        What is moved before may have to be moved again: of a burst that is only half there, room
        is given to the pods that can be moved already, and taken that comes free anyway.
        """
        if not self.configuration.current.migration.price:
            return
        until = self.clock.monotonic() + PATIENCE
        while self.changes.settling() and self.clock.monotonic() < until:
            await self.clock.sleep(LOOK)

    def _may_think(self) -> bool:
        due = self._state != self._nothing_at or self.clock.monotonic() >= self._again_at
        return due and self.calm()

    def calm(self) -> bool:
        """Whether moves may begin."""
        return (
            not self.queue.busy
            and self.manager.at_rest()
            and not self.preempting()
            and not self.paused()
        )

    async def _suggest(self) -> None:
        settings, state = self.configuration.current.suggester, self._state
        snapshot, began = self.mirror.snapshot(), self.clock.monotonic()
        try:
            suggested = await self.thinker.ask(self._about_moves(MovesToMake))
        except NoAnswerError:
            return
        suggestion = suggested.suggestion
        seconds = self.clock.monotonic() - began
        self.listener.suggested(suggestion.moves, settings.mode, seconds)
        if not suggestion.proven:
            self.listener.unproven("suggestion", suggestion.certificates)
        if not suggestion.moves:
            self._nothing_at = None if suggested.rests else state
            wait = self.changes.worth_another_look() if suggestion.may_pay_later else math.inf
            self._again_at = self.clock.monotonic() + wait
            self.proposed = None
            return
        holds = self._may_think() and self.unchanged(snapshot, suggestion.legs)
        if self._state[1:] != state[1:] or not holds:
            log.info("suggestion overtaken", moves=len(suggestion.moves))
            return
        proposes = settings.mode == "suggest"
        known, self.proposed = self.proposed, suggestion if proposes else None
        if known is None or known.id != suggestion.id:
            log.info(
                "suggestion",
                moves=[f"{m.pod} {m.source} -> {m.target}" for m in suggestion.moves],
                proven=suggestion.proven,
                **({"unproven": told} if (told := unproven(suggestion.certificates)) else {}),
                mode=settings.mode,
                **({"proposal": suggestion.id} if proposes else {}),
            )
        if proposes:
            proposed = [MoveOutcome("", move, Outcome.PROPOSED) for move in suggestion.moves]
            self.record.suggestion(snapshot, suggestion, proposed)
            for move in suggestion.moves:
                self.recorder.proposed(move.pod, proposal(move, suggestion.id))
            return
        self.begin(snapshot, suggestion)

    def what_if(
        self, qos: tuple[tuple[str, float], ...], replicas: tuple[tuple[Workload, int], ...]
    ) -> WhatIf:
        """The question what would be suggested then: whoever asks it, nothing comes of it."""
        return self._about_moves(WhatIf, qos=qos, replicas=replicas)

    def _about_moves(self, question: Callable[..., Q], **more: object) -> Q:
        """The question, with what all about moves have to heed now."""
        limits = self.manager.move_limits
        return question(
            limits.moving(),
            limits.resting(self.clock.monotonic()),
            self.changes.quiet(),
            self.configuration.current.suggester.budget,
            self.sites.away(),
            self.moves.arriving(),
            **more,
        )

    def unchanged(self, snapshot: Snapshot, legs: Iterable[Leg]) -> bool:
        """Whether of these pods and nodes nothing has changed since.

        Whether they are worth it, and go, is looked at again when each begins.
        """
        now = self.mirror.snapshot()
        return all(
            now.pods.get(leg.move.pod.uid) == snapshot.pods.get(leg.move.pod.uid)
            and now.nodes.get(leg.target) == snapshot.nodes.get(leg.target)
            for leg in legs
        )

    def begin(
        self,
        snapshot: Snapshot,
        suggestion: Suggestion,
        needed: Callable[[int], bool] | None = None,
    ) -> dict[int, str]:
        """Have the moves done, each group that can be carried out as one plan: ids, by group.

        needed: asked before each move whether it is made at all, by its group; without, whether a
        group gains what it is made for is asked when it begins.
        """
        self.proposed = None
        waiting = [awaited.pod.uid for awaited in suggestion.awaited]
        groups: dict[str, Group] = {}
        plans: dict[int, str] = {}
        choices: list[MoveOutcome] = []
        for number, legs in by_group(suggestion):
            plan_id = f"plan-{next(self._plans)}"
            moves = [leg.move for leg in legs if not leg.continues]
            orders = tuple(order_of(plan_id, leg, self.configuration.current) for leg in legs)
            outcomes = tuple(planned(o.id, leg) for o, leg in zip(orders, legs, strict=True))
            choices += outcomes
            worth = partial(needed, number) if needed else self._worth(moves, waiting)
            plans[number] = plan_id
            groups[plan_id] = Group(orders, outcomes, worth, for_others=needed is not None)
        self.record.suggestion(snapshot, suggestion, choices)
        for plan_id, group in groups.items():
            self.manager.migrate(plan_id, group)
        return plans

    def _worth(self, moves: Sequence[Move], waiting: Sequence[Uid]) -> Callable[[], bool]:
        def worth() -> bool:
            snapshot, policy = self.mirror.snapshot(), self.configuration.current.policy
            if all(move.load_scores for move in moves):
                return all(still_pays(snapshot, policy.load, move) for move in moves)
            if all(move.rebalances for move in moves):
                at_risk = on_one_node(snapshot)
                return any(move.pod.workload in at_risk for move in moves)
            if all(move.kind is MoveKind.EDGE_TO_EDGE for move in moves):
                return True
            if any(uid in snapshot.pods and uid not in snapshot.placed for uid in waiting):
                return True
            gains = Gains.of(snapshot, policy.promises_in(snapshot), policy.objective)
            after = shares_after(gains.shares, edge_changes(moves))
            changes = {w: share.edge - gains.shares[w].edge for w, share in after.items()}
            return leading(gains.of_changes(changes)) > 0

        return worth


def by_group(suggestion: Suggestion) -> Iterator[tuple[int, list[Leg]]]:
    """The legs of each group: what is a plan."""
    legs = sorted(suggestion.legs, key=lambda leg: leg.move.group)
    for number, members in itertools.groupby(legs, key=lambda leg: leg.move.group):
        yield number, list(members)


def proposal(move: Move, id_: str) -> str:
    would = f"Would move from {move.source} to {move.target} ({move.kind}): {move.purpose}"
    return f"{would}. To have it done, with the rest of proposal {id_}: kubedsm approve {id_}"


def order_of(plan_id: str, leg: Leg, configuration: Configuration) -> MoveOrder:
    """What a leg is in its plan."""
    return MoveOrder(
        id=f"{plan_id}/{leg.name}",
        pod="" if leg.continues else leg.move.pod.uid,
        target=leg.target,
        mode=MoveMode(migration_of(leg.move.pod, configuration)),
        deadline=configuration.migration.deadline,
        needs=frozenset(f"{plan_id}/{name}" for name in leg.needs - {leg.continues}),
        second_leg_of=f"{plan_id}/{leg.continues}" if leg.continues else "",
    )
