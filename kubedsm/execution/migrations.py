"""Migrations in progress: groups, admission by the limits, capacity reservations, and outcomes.

A migration group is a single plan. Migrations start subject to the limits. A group without started
migrations is cancelled when new pods arrive.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence

import attrs

from kubedsm.config.sections import MigrationSettings
from kubedsm.events.controller import Controller
from kubedsm.execution.deferrals import Deferral, Deferrals
from kubedsm.execution.limits import LATE_IN_A_ROW, Cooldowns, Underway, is_admissible
from kubedsm.execution.migration_calls import Accepted
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.model.mirror import ReplacementClaim, ReservationError
from kubedsm.model.model import TEMPLATE_HASH_LABEL, NodeName, Pod, Resources, Uid, Workload
from kubedsm.model.sites import is_unreachable
from kubedsm.optimizer.moving.suggestion import Cause
from kubedsm.optimizer.placing.batch import rejection_elsewhere
from kubedsm.planner.rebalancing_requests import migration_mode
from plans.advance import NOT_IN_TIME
from plans.migration import MoveMode, MoveOrder
from plans.steps import TERMINAL, Plan, Step, StepKind, StepState

#: reason of the deferral of a workload that is left alone
LATE = f"{LATE_IN_A_ROW} replacements in a row were not Ready in time"
PAUSED = Deferral(math.inf, "they are paused")
#: label with the template's hash, of pods of a StatefulSet
_REVISION_LABEL = "controller-revision-hash"
#: steps before any modification, and waiting steps with a possible rollback
STARTS = frozenset({StepKind.START})
WAITS_FOR_REPLACEMENT = frozenset({
    StepKind.AWAIT_REPLACEMENT, StepKind.AWAIT_READY, StepKind.SETTLE,
})  # fmt: skip


@attrs.define(slots=True, eq=False)
class Group:
    """Migration group: migrations whose benefit exceeds the disruption only together."""

    orders: tuple[MoveOrder, ...]
    #: corresponding entries of the decision record
    moves: tuple[MoveOutcome, ...]
    #: evaluated before the first start: returns whether the benefit still exceeds the cost
    worth: Callable[[], bool]
    #: frees capacity for waiting pods: `worth` is evaluated before each start, and new pods do not
    #: cancel the group
    for_others: bool = False
    #: requested by a user: neither new pods nor a changed mode cancel the group
    requested: bool = False
    #: some migration of the group has started
    begun: bool = attrs.field(default=False, init=False)
    cancelled: bool = attrs.field(default=False, init=False)
    #: a window, a freeze, a budget or the pause switch has kept the group from starting
    deferred: bool = attrs.field(default=False, init=False)


@attrs.define(slots=True, eq=False)
class Migration:
    """Migration in progress, as a member of a migration group: pod, target and state."""

    order: MoveOrder
    planned: MoveOutcome
    plan_id: str
    #: pod as of the admission, then as of the start
    pod: Pod | None = None
    #: from the admission to the end
    underway: Underway | None = None
    accepted: Accepted | None = None
    ended: bool = False

    @property
    def present(self) -> MoveOutcome:
        """Return the planned migration with the current pod, as read at admission."""
        if self.pod is None:
            return self.planned
        return attrs.evolve(self.planned, move=attrs.evolve(self.planned.move, pod=self.pod))


@attrs.define(eq=False, repr=False, slots=False)
class Migrations(Controller):
    """Registry of the migrations in progress, and of cooldown periods of their workloads."""

    #: called with a pending replacement no longer needed by the migration
    _on_released: Callable[[Pod], None]
    #: called for each migration after the reservation of capacity, before any API call
    _on_begun: Callable[[MoveOutcome], None]
    #: called at the end of each migration, including migrations without a start
    _on_ended: Callable[[MoveOutcome], None]
    #: called with a workload that is left alone from now on, as replacements were not Ready within
    #: some seconds
    _on_left_alone: Callable[[Workload, float], None]
    _cooldowns: Cooldowns = attrs.field(init=False)
    deferrals: Deferrals = attrs.field(init=False)
    #: the pause switch, if there is one
    is_paused: Callable[[], bool] = attrs.field(default=lambda: False, init=False)
    groups: dict[str, Group] = attrs.field(factory=dict, init=False)
    _moves: dict[str, Migration] = attrs.field(factory=dict, init=False)
    #: start steps awaiting admission by the limits, by migration, in order of arrival
    _waiting: dict[str, Step] = attrs.field(factory=dict, init=False)

    @_cooldowns.default
    def _begin_without_cooldowns(self) -> Cooldowns:
        return Cooldowns(self.configuration)

    @deferrals.default
    def _begin_without_migrations(self) -> Deferrals:
        return Deferrals(self.configuration, self.clock.wall)

    @property
    def limits(self) -> MigrationSettings:
        return self.configuration.current.migration

    def __len__(self) -> int:
        """Return the number of migrations in progress."""
        return len(self._list_underway())

    def _list_underway(self) -> list[Underway]:
        return [move.underway for move in self._moves.values() if move.underway is not None]

    # Restrictions of new suggestions.

    def moving_each(self) -> list[Workload]:
        """Return the workload of each migration in progress; a workload with several migrations is
        repeated.
        """
        return [underway.workload for underway in self._list_underway()]

    def resting(self) -> frozenset[Workload]:
        """Return the workloads in a cooldown period after a migration."""
        return self._cooldowns.list_resting(self.clock.monotonic())

    def list_deferred(self) -> dict[Workload, Deferral]:
        """Return the workloads whose migrations are deferred: by a window, a freeze or a budget, or
        as their last replacements were not Ready in time.
        """
        by_rule = self.deferrals.list_deferred(self.mirror.snapshot().census.shares)
        return self._list_left_alone() | by_rule

    def _list_left_alone(self) -> dict[Workload, Deferral]:
        """Return the workloads that are left alone, until their pods have another template."""
        now = self.clock.monotonic()
        left_alone = self._cooldowns.list_left_alone(now)
        for pod in self.mirror.pods() if left_alone else ():
            found = left_alone.get(pod.workload)
            if found is not None and template_of(pod) not in ("", found.template):
                del left_alone[pod.workload]
                self._cooldowns.end_left_alone(pod.workload)
        return {
            workload: Deferral(self.clock.wall() + each.until - now, LATE)
            for workload, each in left_alone.items()
        }

    def arriving(self) -> dict[NodeName, Resources]:
        """Return the future capacity usage of migrations without a reservation, by node."""
        arriving: dict[NodeName, Resources] = {}
        for move in self._moves.values():
            if not move.ended and move.accepted is None:
                target, pod = NodeName(move.order.target), move.planned.move.pod
                arriving[target] = arriving.get(target, Resources()) + pod.requests
        return arriving

    def still_to_come(self, plan_ids: Collection[str]) -> set[NodeName]:
        """Return the target nodes of planned migrations for which no capacity is reserved yet."""
        return {
            NodeName(move.order.target)
            for move in self._moves.values()
            if move.plan_id in plan_ids and not move.ended and move.accepted is None
        }

    # Groups.

    def add(self, plan_id: str, group: Group) -> None:
        self.groups[plan_id] = group
        for order, planned in zip(group.orders, group.moves, strict=True):
            self._moves[order.id] = Migration(order, planned, plan_id)

    def find(self, move: str) -> Migration | None:
        """Return the migration in progress with this id; None for plans that only restore pods."""
        return self._moves.get(move)

    def under_way(self, plan_ids: Iterable[str]) -> bool:
        """Return True if any of the given plans is in progress."""
        return any(plan_id in self.groups for plan_id in plan_ids)

    def for_others(self, plan_id: str) -> bool:
        """Return True if the plan's migrations free capacity for other, pending pods."""
        return plan_id in self.groups and self.groups[plan_id].for_others

    def touches(self, step: Step, nodes: Container[NodeName]) -> bool:
        """Return True if the step's migration starts or ends on one of the nodes."""
        known = self._moves.get(step.move)
        if known is None:
            return False
        pod = known.pod or self.mirror.pod(Uid(known.order.pod))
        return known.order.target in nodes or (pod is not None and pod.node_name in nodes)

    def cancel_unstarted(self, *, except_checked: bool) -> Iterator[str]:
        """Cancel groups in which no migration has started; yield their plan ids.

        except_checked: leave the groups whose first migration is being checked.
        """
        checked = {m.plan_id for m in self._moves.values() if except_checked and m.underway}
        for plan_id, group in list(self.groups.items()):
            ended = plan_id not in self.groups  # refused in the turn of a cancelled group
            kept = group.begun or group.for_others or group.requested or plan_id in checked
            if not (ended or kept):
                group.cancelled = True
                yield plan_id

    # Start.

    def queue_start(self, step: Step) -> None:
        """Queue the first step of a migration until the migration limits admit the start."""
        self._waiting[step.move] = step

    def admit_starts(self) -> Iterator[tuple[Migration, Step, Pod | str]]:
        """Yield the admitted migrations with start steps and pods, or the reason of a refusal.

        Namespaces with fewer migrations in progress come first, then steps in order of arrival.
        """
        busy = Counter(workload.namespace for workload in self.moving_each())
        of = {move: self._moves[move].planned.move.pod.namespace for move in self._waiting}
        for name, step in sorted(self._waiting.items(), key=lambda waiting: busy[of[waiting[0]]]):
            move = self._moves.get(name)
            if name not in self._waiting or move is None:
                continue  # ended by the refusal of another step
            pod = self.mirror.pod(Uid(step.pod))
            if pod is None or pod.node_name is None:
                del self._waiting[name]
                yield move, step, "the pod is gone"
                continue
            if deferral := self._find_deferral(self.groups[move.plan_id]):
                del self._waiting[name]
                yield move, step, str(deferral)
                continue
            breaks_first = move.order.mode is MoveMode.RECREATE
            now = self.clock.monotonic()
            underway = Underway(pod.workload, pod.node_name, step.node, now, breaks_first)
            if is_admissible(underway, self._list_underway(), self.limits):
                del self._waiting[name]
                move.pod, move.underway = pod, underway
                yield move, step, pod

    def _find_deferral(self, group: Group) -> Deferral | None:
        """Return why a group without started migrations may not begin now; then drop the group.

        A group that has begun is finished.
        """
        if group.begun:
            return None
        workloads = [outcome.move.pod.workload for outcome in group.moves]
        found = [self.deferrals.find(workload, workloads) for workload in dict.fromkeys(workloads)]
        deferral = PAUSED if self.is_paused() else next(filter(None, found), None)
        group.deferred |= deferral is not None
        return deferral

    def reserve_capacity(self, step: Step, accepted: Accepted) -> str:
        """Reserve capacity on the target node and claim the replacement pod; return the reason if
        refused.

        The pod may have changed since the admission: a pull ahead takes minutes.
        """
        move, pod = self._moves[step.move], self.mirror.pod(Uid(step.pod))
        if pod is None:
            return "the pod is gone"
        move.pod = pod
        group = self.groups[move.plan_id]
        reason = self._reserve_target(step, pod)
        evaluate = group.for_others or not group.begun
        if not reason and evaluate and not group.worth():
            group.cancelled |= group.for_others
            reason = "the group's benefit no longer exceeds its cost"
        if not reason and (deferral := self._find_deferral(group)):
            reason = str(deferral)
        if not reason:
            if not group.begun:
                self.deferrals.charge(planned.move.pod.workload for planned in group.moves)
            group.begun = True
            move.accepted = accepted
            self._on_begun(move.present)
            self.mirror.claim(step.move, ReplacementClaim.of(pod))
        return reason

    def _reserve_target(self, step: Step, pod: Pod) -> str:
        if migration_mode(pod, self.configuration.current) == "off":
            return Cause.MIGRATION_OFF.value
        self.mirror.withdraw(pod.uid, silently=True)  # a nomination of the pod itself
        snapshot = self.mirror.snapshot()
        if pod.namespace in snapshot.surroundings.terminating_namespaces:
            return Cause.NAMESPACE_TERMINATING.value
        target = snapshot.nodes.get(NodeName(step.node))
        if target is None:
            return f"node {step.node} is gone"
        rejected = rejection_elsewhere(snapshot, pod, target)
        if rejected is not None:
            return f"{step.node}: {', '.join(rejected.reasons)}"
        try:
            self.mirror.reserve(step.move, target.name, pod.requests)
        except ReservationError as error:
            return str(error)
        return ""

    # End.

    def end_step(self, plan: Plan, step: Step, soon: float) -> float | None:
        """Record the end of a migration step; return the seconds until other migrations may start.

        Zero at the end of the migration. If only termination of the old pod remains, the migration
        counts as slow for the limits after `soon` seconds.
        """
        move = self._moves.get(step.move)
        if move is None:
            return None
        steps = [s for s in plan.steps if s.move == step.move]
        left = {s.kind for s in steps if s.state not in TERMINAL}
        wait = None
        if not left and not move.ended:
            self._end_migration(move, steps)
            wait = 0.0
            if all(each.ended for each in self._moves.values() if each.plan_id == plan.id):
                self._end_group(plan)
        elif left - {StepKind.RESTORE} == {StepKind.AWAIT_GONE}:
            wait = soon
            if move.underway is not None:
                slow_since = self.clock.monotonic() + soon - self.limits.deadline
                since = min(move.underway.since, slow_since)
                move.underway = attrs.evolve(move.underway, since=since)
        return wait

    def _end_migration(self, move: Migration, steps: Sequence[Step]) -> None:
        name, move.ended = move.order.id, True
        self._waiting.pop(name, None)
        self.mirror.release(name)
        replacement = self.mirror.find_replacement(name)
        self.mirror.end_claim(name)
        never_began = move.pod is None or self.groups[move.plan_id].deferred
        outcome = Outcome.DROPPED if never_began else _judge_outcome(steps)
        move.underway = None
        reason = next((step.reason for step in steps if step.state is StepState.FAILED), "")
        self._on_ended(MoveOutcome(name, move.present.move, outcome, reason, replacement))
        if replacement is not None and replacement.waits_for_node:
            self._on_released(replacement)

    def _end_group(self, plan: Plan) -> None:
        """Forget the ended migrations of a plan, and begin the cooldowns of their workloads."""
        ended = self.groups.pop(plan.id)
        failed: dict[Workload, bool] = {}
        late: dict[Workload, tuple[str, float]] = {}
        for order, planned in zip(ended.orders, ended.moves, strict=True):
            del self._moves[order.id]
            workload = planned.move.pod.workload
            # The second leg of a detour has no original pod.
            excused = order.pod == "" or ended.cancelled or ended.deferred
            lost = not excused and self._has_failed(plan, order)
            failed[workload] = failed.get(workload, False) or lost
            within = self._find_lateness(plan, order)
            if within is not None:
                late[workload] = template_of(planned.move.pod), within
        now = self.clock.monotonic()
        for workload, has_failed in failed.items():
            # Replacements of one attempt that are late together count once.
            if not self._cooldowns.begin(workload, now, failed=has_failed) or workload not in late:
                continue
            template, seconds = late[workload]
            if self._cooldowns.note_late(workload, template, now):
                self._on_left_alone(workload, seconds)

    def _find_lateness(self, plan: Plan, order: MoveOrder) -> float | None:
        """Return the seconds within which the replacement was not Ready although its node was
        reachable; None if it was Ready, or the migration failed otherwise.
        """
        target = self.mirror.node(NodeName(order.target))
        if target is None or is_unreachable(target):
            return None
        late = NOT_IN_TIME[StepKind.AWAIT_READY]
        steps = (s for s in plan.steps if s.move == order.id and s.state is StepState.FAILED)
        return next((s.timeout for s in steps if s.reason == late), None)

    def _has_failed(self, plan: Plan, order: MoveOrder) -> bool:
        """Return True if the migration failed, unless the pod was deleted before the start."""
        lost = [s for s in plan.steps if s.move == order.id and s.state is StepState.FAILED]
        if not lost:
            return False
        pod = self.mirror.pod(Uid(order.pod))
        leaving = pod is None or pod.terminating
        return not (leaving and lost[0].kind is StepKind.START)


def template_of(pod: Pod) -> str:
    """Return the hash of the pod's template; empty if unknown, as for a detached pod."""
    return pod.labels.get(TEMPLATE_HASH_LABEL) or pod.labels.get(_REVISION_LABEL, "")


def _judge_outcome(steps: Sequence[Step]) -> Outcome:
    of = {step.kind: step for step in steps}
    if all(of[k].state is StepState.DONE for k in (StepKind.EVICT, StepKind.AWAIT_READY)):
        return Outcome.COMPLETED
    restored = of.get(StepKind.RESTORE)
    went = of[StepKind.EVICT].state is StepState.DONE
    back = restored is not None and restored.state is StepState.DONE and not went
    return Outcome.ROLLED_BACK if back else Outcome.FAILED
