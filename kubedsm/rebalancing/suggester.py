"""Suggester: periodically find migrations whose benefit exceeds their cost, and execute them.

The loop has karpenter's four stages. *Candidates*: the pods that may migrate now. *Proposal*: the
planner's suggestion for them. *Validation*: the proposal against the current mirror. *Execution*:
one plan for each group of migrations. `Migrator` has the stages that capacity packing and requested
migrations share.
"""

import asyncio
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import attrs
import structlog

from kubedsm.config.settings import Configuration
from kubedsm.events.controller import Controller
from kubedsm.execution.migrations import Group
from kubedsm.execution.placement_manager import PlacementManager
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome, plan_outcome
from kubedsm.model.model import Uid
from kubedsm.model.sites import Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.gains import Gains, leading_gain
from kubedsm.optimizer.moving.plans import Towards
from kubedsm.optimizer.moving.site_moves import shares_with
from kubedsm.optimizer.moving.suggestion import Leg, Move, MoveKind, Suggestion
from kubedsm.optimizer.moving.within_tier import is_still_worthwhile, still_rebalances
from kubedsm.optimizer.programming.in_order import describe_unproven
from kubedsm.planner.hypothesis import Hypothesis
from kubedsm.planner.rebalancing_requests import SuggestRequest, SuggestResponse, migration_mode
from kubedsm.planner.requests import NoResponseError, Planner
from kubedsm.planner.what_if import WhatIfRequest
from kubedsm.plugins.fit import shortages
from kubedsm.scheduling.preemptor import Preemptor
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm.scheduling.site_monitor import Sites
from kubedsm.scheduling.workload_changes import WorkloadChanges
from plans.migration import MoveMode, MoveOrder

log = structlog.get_logger()

Q = TypeVar("Q")

#: mirror changes, configuration generation, unreachable sites: all that a proposal depends on,
#: except the time
State = tuple[int, int, Away]

#: pause after a proposal, as a multiple of its solving time: new pods are scheduled meanwhile
REST = 9
BINDS_FAIL = "migrations are deferred: binds of its pods fail"
#: limit of an execution of several groups, as a multiple of the deadline of a migration step
LONGEST = 10
#: seconds between two checks whether the cluster is stable or calm, and limit of each wait
LOOK, PATIENCE = 0.1, 10.0


@attrs.define
class Migrator(Controller):
    """Access to migrations for the suggester, the packer and user requests: builds planner
    requests, validates plans, and executes plans.
    """

    queue: SchedulingQueue
    manager: PlacementManager
    preemptor: Preemptor
    record: DecisionRecord
    planner: Planner
    #: pause switch: no migration may begin now
    paused: Callable[[], bool]
    changes: WorkloadChanges
    sites: Sites
    #: last proposal in mode suggest, while it is valid
    proposed: Suggestion | None = attrs.field(default=None, init=False)
    #: new pods wait for capacity at the edge: no other migration begins
    making_room: bool = attrs.field(default=False, init=False)
    #: held while a suggestion or a packing is solved: the time until its turn is no solving time
    solving: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _plans: "itertools.count[int]" = attrs.field(factory=lambda: itertools.count(1), init=False)

    # candidates

    def about_candidates(self, request: Callable[..., Q], **more: object) -> Q:
        """Construct a planner request of the given class with the current restrictions of
        migrations: workloads migrating, in cooldown or deferred, and sites.

        While binds of a workload's pods fail, the bind of a replacement would fail as well.
        """
        deferred = self.manager.migrations.list_deferred()
        texts = {workload: str(deferral) for workload, deferral in deferred.items()}
        return request(
            moving=frozenset(self.manager.migrations.moving_each()),
            resting=self.manager.migrations.resting(),
            deferred=dict.fromkeys(self.queue.list_failing(), BINDS_FAIL) | texts,
            most_moves=self.manager.migrations.deferrals.count_left(),
            quiet=self.changes.quiet(),
            away=self.sites.away(),
            arriving=self.manager.migrations.arriving(),
            **more,
        )

    def what_if(self, hypothesis: Hypothesis) -> WhatIfRequest:
        """Return a planner request for the placements and migrations under hypothetical changes;
        the response is never executed.
        """
        budget = self.configuration.current.suggester.budget
        return self.about_candidates(WhatIfRequest, budget=budget, hypothesis=hypothesis)

    def suggestion_request(self) -> WhatIfRequest | None:
        """Return the planner request for the migrations to be suggested now; None before all
        cluster objects are listed.
        """
        return self.what_if(Hypothesis()) if self.synced.is_set() else None

    def seconds_deferred(self) -> float:
        """Return the time until a deferral of migrations ends; inf without deferrals."""
        ends = (each.until for each in self.manager.migrations.list_deferred().values())
        return max(LOOK, min(ends, default=math.inf) - self.clock.wall())

    # validation

    @property
    def state(self) -> State:
        return self.mirror.changes, self.configuration.generation, self.sites.away()

    def is_calm(self, *, waited: bool = False) -> bool:
        """Return True if migrations may begin: no batch of pods is being collected, no recent plan
        is in progress, and no preemption.

        Slow plans are not awaited, so that no tenant delays another's migrations: their workloads
        and the capacity they use are held fixed. Quick plans are awaited, since a proposal that
        knows their outcome makes fewer migrations. After a wait in vain (`waited`), batches and
        binds are held fixed, too.
        """
        return self.is_idle(waited=waited) and not self.making_room

    def is_idle(self, *, waited: bool = False) -> bool:
        """Return True if migrations may begin, also while new pods wait for capacity."""
        return (
            self.manager.at_rest(self.queue.failing, ignore_binds=waited)
            and (waited or not self.queue.busy)
            and not self.preemptor.busy
            and not self.paused()
        )

    async def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until the condition holds, for up to some seconds; return False if in vain."""
        until = self.clock.monotonic() + seconds
        while not (holds := condition()) and self.clock.monotonic() < until:
            await self.clock.sleep(LOOK)
        return holds

    def frees_capacity(self, snapshot: Snapshot, suggestion: Suggestion) -> bool:
        """Return True if migrations for pending pods are still possible: pods and nodes are the
        same as in the snapshot, with no less free capacity on targets.
        """
        now = self.mirror.snapshot()
        targets = {leg.target for leg in suggestion.legs}
        targets |= {move.target for move in suggestion.awaited}
        known = (now.pods.get(move.pod.uid) for move in suggestion.awaited)
        waiting = [pod for pod in known if pod is not None]
        return (
            self.is_unchanged(snapshot, suggestion.legs)
            and len(now.schedulable(waiting)) == len(suggestion.awaited)
            and all(
                node in now.nodes and not shortages(snapshot.free[node], now.free[node])
                for node in targets
            )
        )

    def is_unchanged(self, snapshot: Snapshot, legs: Iterable[Leg]) -> bool:
        """Return True if the pods and target nodes of these migration steps (legs) are the same as
        in the snapshot.

        Feasibility and benefit are checked again when each migration begins.
        """
        now = self.mirror.snapshot()
        return all(
            now.pods.get(leg.move.pod.uid) == snapshot.pods.get(leg.move.pod.uid)
            and now.nodes.get(leg.target) == snapshot.nodes.get(leg.target)
            for leg in legs
        )

    # execution

    def execute(
        self,
        snapshot: Snapshot,
        suggestion: Suggestion,
        needed: Callable[[int], bool] | None = None,
        *,
        requested: bool = False,
    ) -> dict[int, str]:
        """Start one migration plan for each group of the suggestion; return the plan ids by group
        number.

        `needed` decides before each migration, by group, if the migration is still made. Without
        it, the benefit of a group is checked when the group begins. `requested`: by a user.
        """
        self.proposed = None
        waiting = [awaited.pod.uid for awaited in suggestion.awaited]
        groups: dict[str, Group] = {}
        plans: dict[int, str] = {}
        choices: list[MoveOutcome] = []
        legs_of: dict[int, list[Leg]] = {}
        for leg in suggestion.legs:
            legs_of.setdefault(leg.move.group, []).append(leg)
        by_group = sorted(legs_of.items())
        if self.manager.migrations.deferrals.count_left() is not None:
            # A budget is spent on the greatest benefit first.
            by_group.sort(key=lambda group: -max(leg.move.gain for leg in group[1]))
        for number, legs in by_group:
            plan_id = f"plan-{next(self._plans)}"
            moves = [leg.move for leg in legs if not leg.continues]
            orders = tuple(order_of(plan_id, leg, self.configuration.current) for leg in legs)
            outcomes = tuple(plan_outcome(o.id, leg) for o, leg in zip(orders, legs, strict=True))
            choices += outcomes
            # Migrations of a plan pay together with those that follow.
            rest = suggestion.rest if any(move.plan for move in moves) else ()
            has_benefit = partial(self.has_benefit, [*moves, *rest], waiting)
            worth = partial(needed, number) if needed else has_benefit
            plans[number] = plan_id
            groups[plan_id] = Group(orders, outcomes, worth, needed is not None, requested)
        self.record.suggestion(snapshot, suggestion, choices, self.configuration.current)
        for plan_id, group in groups.items():
            self.manager.migrate(plan_id, group)
        return plans

    def has_benefit(self, moves: Sequence[Move], waiting: Sequence[Uid] = ()) -> bool:
        """Return True if these migrations are still worthwhile, for QoS or for the pending pods
        that wait for their capacity.
        """
        snapshot, policy = self.mirror.snapshot(), self.configuration.current.policy
        if all(move.load_scores for move in moves):
            return all(is_still_worthwhile(snapshot, policy.load, move) for move in moves)
        if all(move.rebalances for move in moves):
            return any(still_rebalances(snapshot, move) for move in moves)
        snapshot, qos_targets = policy.resolve(snapshot)
        sited = any(qos_targets(move.pod.workload).demand is not None for move in moves)
        if not sited and all(move.kind is MoveKind.EDGE_TO_EDGE for move in moves):
            return True
        if any(uid in snapshot.pods and uid not in snapshot.placed for uid in waiting):
            return True
        gains = Gains.of(snapshot, qos_targets, policy.objective)
        sites = snapshot.index.site(policy.sites.labels) if sited and policy.sites else None
        after = shares_with(gains.shares, moves, snapshot.index.positions, sites)
        return leading_gain(gains.of_shares(after)) > 0

    def propose(self, snapshot: Snapshot, suggestion: Suggestion) -> None:
        """Record the suggested migrations as proposed in the decision record, without executing
        them.
        """
        proposed = [MoveOutcome("", move, Outcome.PROPOSED) for move in suggestion.moves]
        self.record.suggestion(snapshot, suggestion, proposed, self.configuration.current)


@attrs.define
class Suggester:
    """Periodic search for migrations, while no batch of pods is being collected and no recent plan
    is in progress.
    """

    migrator: Migrator
    #: state without a beneficial migration, or with those that are proposed, unless a workload
    #: rested; and the time of a retry
    _nothing_at: State | None = attrs.field(default=None, init=False)
    _again_at: float = attrs.field(default=math.inf, init=False)
    #: remaining migrations of the plan under way
    _plan: Towards = attrs.field(factory=dict, init=False)
    _reconfigured: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.migrator.configuration.observe(self._apply_configuration)

    async def run(self) -> None:
        now = self.migrator.clock.monotonic
        await self.migrator.synced.wait()
        started = ended = now()
        while True:
            await self._await_turn(ended, ended - started)
            waited = False
            if self._is_due():
                await self._await_stability()
                waited = not await self.migrator.wait_for(self.migrator.is_calm, PATIENCE)
            async with self.migrator.solving:
                started = ended = now()
                if self._is_due(waited=waited):
                    await self._suggest_moves(waited=waited)
                    ended = now()

    def _apply_configuration(self, _: Configuration) -> None:
        self._reconfigured.set()
        if self.migrator.configuration.current.suggester.mode == "off":
            self.migrator.proposed = None
            self.migrator.manager.cancel_unstarted("the suggester is off")

    async def _await_turn(self, since: float, solving: float) -> None:
        """Wait until the next suggestion is due; a changed configuration may change the time."""
        while True:
            settings = self.migrator.configuration.current.suggester
            due = since + max(settings.period, REST * solving)
            wait = None if settings.mode == "off" else due - self.migrator.clock.monotonic()
            self._reconfigured.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._reconfigured.wait()
            except TimeoutError:
                return

    async def _await_stability(self) -> None:
        """Wait until no pod is about to start or stop, for up to `PATIENCE` seconds.

        Pods that migrate earlier may have to migrate again. In the middle of a burst, capacity goes
        to the pods that can migrate already, and is taken where capacity is about to be released.
        """
        migrator = self.migrator
        if migrator.configuration.current.migration.price:
            await migrator.wait_for(lambda: not migrator.changes.settling(), PATIENCE)

    def _is_due(self, *, waited: bool = True) -> bool:
        """Return True if a suggestion is due; after a wait also during batches and binds."""
        migrator = self.migrator
        mode = migrator.configuration.current.suggester.mode
        changed = migrator.state != self._nothing_at
        again = changed or migrator.clock.monotonic() >= self._again_at
        return again and mode != "off" and migrator.is_calm(waited=waited)

    async def _suggest_moves(self, *, waited: bool) -> None:
        migrator, state = self.migrator, self.migrator.state
        settings = migrator.configuration.current.suggester
        migration = migrator.configuration.current.migration
        # A plan needs all its groups: a proposal may remain without approval, and a cooldown, a
        # spent budget or the end of a window would leave the plan half done.
        closing = not self._plan and migrator.manager.migrations.deferrals.is_closing(
            migrator.mirror.snapshot().census.shares, LONGEST * migration.deadline
        )
        whole = not (migration.cooldown or migration.budget.limited or closing)
        towards = self._plan if settings.mode == "apply" and whole else None
        candidates = migrator.about_candidates(
            SuggestRequest, budget=settings.budget, towards=towards
        )
        snapshot, began = migrator.mirror.snapshot(), migrator.clock.monotonic()
        try:
            suggested = await migrator.planner.solve(candidates)
        except NoResponseError:
            return
        suggestion = suggested.suggestion
        seconds = migrator.clock.monotonic() - began
        migrator.listener.suggestion_made(suggestion.moves, settings.mode, seconds)
        if not suggestion.proven:
            migrator.listener.optimality_unproven("suggestion", suggestion.certificates)
        if not suggestion.moves:
            self._rest_until_change(suggested, state)
            migrator.proposed, self._plan = None, {}
        elif not (self._is_due(waited=waited) and self._is_valid(suggestion, snapshot, state)):
            log.info("suggestion overtaken", moves=len(suggestion.moves))
        else:
            self._carry_out(snapshot, suggestion)
            if settings.mode == "suggest":
                self._rest_until_change(suggested, state)

    def _rest_until_change(self, suggested: SuggestResponse, state: State) -> None:
        """Suggest again after a change, or once the benefit of migrations has grown."""
        migrator, suggestion = self.migrator, suggested.suggestion
        self._nothing_at = None if suggested.rests else state
        may_grow = suggestion.may_pay_later or bool(suggestion.moves)
        wait = migrator.changes.worth_another_look() if may_grow else math.inf
        wait = min(wait, migrator.seconds_deferred())
        self._again_at = migrator.clock.monotonic() + wait

    def _is_valid(self, suggestion: Suggestion, snapshot: Snapshot, state: State) -> bool:
        unchanged = self.migrator.is_unchanged(snapshot, suggestion.legs)
        return unchanged and self.migrator.state[1:] == state[1:]

    def _carry_out(self, snapshot: Snapshot, suggestion: Suggestion) -> None:
        """Execute the suggested migrations, or only publish them as a proposal in mode
        `suggest`.
        """
        migrator = self.migrator
        mode = migrator.configuration.current.suggester.mode
        proposes = mode == "suggest"
        known, migrator.proposed = migrator.proposed, suggestion if proposes else None
        if known is None or known.id != suggestion.id:
            log.info(
                "suggestion",
                moves=[f"{m.pod} {m.source} -> {m.target}" for m in suggestion.moves],
                proven=suggestion.proven,
                **(
                    {"unproven": told}
                    if (told := describe_unproven(suggestion.certificates))
                    else {}
                ),
                **({"out_of_time": True} if suggestion.out_of_time else {}),
                mode=mode,
                **({"proposal": suggestion.id} if proposes else {}),
            )
        if not proposes:
            self._plan = {move.pod.uid: move.target for move in suggestion.rest}
            migrator.execute(snapshot, suggestion)
            return
        migrator.propose(snapshot, suggestion)
        for move in suggestion.moves:
            migrator.recorder.record_event(
                "MigrationProposed", move.pod, _proposal_text(move, suggestion.id)
            )


def _proposal_text(move: Move, id_: str) -> str:
    would = f"Would migrate from {move.source} to {move.target} ({move.kind}): {move.purpose}"
    return f"{would}. To approve it and the rest of the proposal: kubedsm approve {id_}"


def order_of(plan_id: str, leg: Leg, configuration: Configuration) -> MoveOrder:
    """Convert a migration step of a suggestion to the order (pod, target node, times) that a
    migration plan executes.
    """
    return MoveOrder(
        id=f"{plan_id}/{leg.name}",
        pod="" if leg.continues else leg.move.pod.uid,
        target=leg.target,
        mode=MoveMode(migration_mode(leg.move.pod, configuration)),
        deadline=configuration.migration.deadline,
        needs=frozenset(f"{plan_id}/{name}" for name in leg.needs - {leg.continues}),
        second_leg_of=f"{plan_id}/{leg.continues}" if leg.continues else "",
    )
