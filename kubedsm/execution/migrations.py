"""Migrations under way: groups, admission, reservations and claims, and outcomes.

A group of migrations is one plan. They start as the limits allow. A group of which no migration has
started is cancelled when new pods arrive.
"""

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence

import attrs

from kubedsm.execution.limits import MoveLimits, Underway
from kubedsm.execution.migration_calls import Accepted
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.model.mirror import ClusterMirror, ReplacementClaim, ReservationError
from kubedsm.model.model import NodeName, Pod, Resources, Uid
from kubedsm.optimizer.moving.suggestion import Cause
from kubedsm.optimizer.placing.batch import rejection_elsewhere
from kubedsm.process.clock import Clock
from plans.migration import MoveMode, MoveOrder
from plans.steps import TERMINAL, Plan, Step, StepKind, StepState

#: steps before any change for a migration, and steps that only wait and can be rolled back
STARTS = frozenset({StepKind.START})
WAITS_FOR_REPLACEMENT = frozenset({
    StepKind.AWAIT_REPLACEMENT, StepKind.AWAIT_READY, StepKind.SETTLE,
})  # fmt: skip


@attrs.frozen(slots=True)
class Group:
    """Migrations that are worth their disruption together."""

    orders: tuple[MoveOrder, ...]
    #: the same, as the decision record has them
    moves: tuple[MoveOutcome, ...]
    #: evaluated before the first start: returns whether the benefit still exceeds the cost
    worth: Callable[[], bool]
    #: frees capacity for waiting pods: `worth` is evaluated before each start, and new pods do not
    #: cancel the group
    for_others: bool = False


@attrs.define(slots=True)
class _Group:
    group: Group
    #: one of its migrations has started
    begun: bool = False
    cancelled: bool = False


@attrs.define(slots=True)
class Migration:
    """Migration of a group under way."""

    order: MoveOrder
    planned: MoveOutcome
    plan_id: str
    #: as of the start of the migration
    pod: Pod | None = None
    accepted: Accepted | None = None
    ended: bool = False

    @property
    def present(self) -> MoveOutcome:
        """Return the planned migration of the pod that is really migrated."""
        if self.pod is None:
            return self.planned
        return attrs.evolve(self.planned, move=attrs.evolve(self.planned.move, pod=self.pod))


@attrs.define(eq=False, repr=False, slots=False)
class Moves:
    """Migrations under way."""

    _mirror: ClusterMirror
    limits: MoveLimits
    _clock: Clock
    #: called with a pod that a migration claimed and no longer needs
    _on_released: Callable[[Pod], None]
    #: called for each migration once its capacity is reserved, before any API call
    _on_begun: Callable[[MoveOutcome], None]
    #: called at the end of each migration, even if it never began
    _on_ended: Callable[[MoveOutcome], None]
    _groups: dict[str, _Group] = attrs.field(factory=dict, init=False)
    _moves: dict[str, Migration] = attrs.field(factory=dict, init=False)
    #: start steps that wait for the limits, by migration, in order of arrival
    _waiting: dict[str, Step] = attrs.field(factory=dict, init=False)

    def add(self, plan_id: str, group: Group) -> None:
        self._groups[plan_id] = _Group(group)
        for order, planned in zip(group.orders, group.moves, strict=True):
            self._moves[order.id] = Migration(order, planned, plan_id)

    def find(self, move: str) -> Migration | None:
        """Return the migration; None for that of a plan that only restores."""
        return self._moves.get(move)

    def touches(self, step: Step, nodes: Container[NodeName]) -> bool:
        """Return whether the step's migration is from or to one of the nodes."""
        known = self._moves.get(step.move)
        if known is None:
            return False
        pod = known.pod or self._mirror.pod(Uid(known.order.pod))
        return known.order.target in nodes or (pod is not None and pod.node_name in nodes)

    def cancel_unstarted(self) -> Iterator[tuple[str, list[Step]]]:
        """Yield the plans of which no migration has started, with their waiting start steps."""
        for plan_id, group in list(self._groups.items()):
            if not (group.begun or group.group.for_others):
                group.cancelled = True
                mine = [m for m in self._waiting if self._moves[m].plan_id == plan_id]
                yield plan_id, [self._waiting.pop(move) for move in mine]

    def under_way(self, plan_ids: Iterable[str]) -> bool:
        """Return whether any of these plans is under way."""
        return any(plan_id in self._groups for plan_id in plan_ids)

    def for_others(self, plan_id: str) -> bool:
        """Return whether the plan frees capacity for waiting pods."""
        return plan_id in self._groups and self._groups[plan_id].group.for_others

    def arriving(self) -> dict[NodeName, Resources]:
        """Return the capacity that migrations without a reservation will use, by node."""
        arriving: dict[NodeName, Resources] = {}
        for move in self._moves.values():
            if not move.ended and move.accepted is None:
                target, pod = NodeName(move.order.target), move.planned.move.pod
                arriving[target] = arriving.get(target, Resources()) + pod.requests
        return arriving

    def awaits_termination(self, plan: Plan, step: Step, soon: float) -> bool:
        """Return whether only the termination of the old pod is left of the step's migration.

        If this takes longer than `soon`, the migration counts as slow for the limits.
        """
        steps = [s for s in plan.steps if s.move == step.move and s.state not in TERMINAL]
        kinds = {s.kind for s in steps} - {StepKind.RESTORE}
        only_termination = kinds == {StepKind.AWAIT_GONE} and step.move in self._moves
        if only_termination:
            self.limits.mark_slow(step.move, self._clock.monotonic() + soon)
        return only_termination

    def still_to_come(self, plan_ids: Collection[str]) -> set[NodeName]:
        """Return the targets of migrations of these plans that have no reservation yet."""
        return {
            NodeName(move.order.target)
            for move in self._moves.values()
            if move.plan_id in plan_ids and not move.ended and move.accepted is None
        }

    def queue_start(self, step: Step) -> None:
        """Queue a start step until the limits admit it."""
        self._waiting[step.move] = step

    def admit_starts(self) -> Iterator[tuple[Migration, Step, Pod | None]]:
        """Yield the admitted migrations, their start steps and pods; None for a pod that is gone.

        Namespaces with fewer migrations under way come first, then steps that waited longer.
        """
        busy = Counter(workload.namespace for workload in self.limits.moving_each())
        of = {move: self._moves[move].planned.move.pod.namespace for move in self._waiting}
        for move, step in sorted(self._waiting.items(), key=lambda waiting: busy[of[waiting[0]]]):
            known = self._moves.get(move)
            if move not in self._waiting or known is None:
                continue  # the refusal of another step has ended this one
            pod = self._mirror.pod(Uid(step.pod))
            if pod is None or pod.node_name is None:
                del self._waiting[move]
                yield known, step, None
                continue
            breaks_first = known.order.mode is MoveMode.RECREATE
            now = self._clock.monotonic()
            underway = Underway(pod.workload, pod.node_name, step.node, now, breaks_first)
            if self.limits.admit(move, underway):
                del self._waiting[move]
                known.pod = pod
                yield known, step, pod

    def reserve_capacity(self, step: Step, pod: Pod, accepted: Accepted) -> str:
        """Reserve the target's capacity and claim the replacement, or return why not."""
        move = self._moves[step.move]
        group = self._groups[move.plan_id]
        reason = self._reserve_target(step, pod)
        evaluate = group.group.for_others or not group.begun
        if not reason and evaluate and not group.group.worth():
            group.cancelled |= group.group.for_others
            reason = "the group is not worth it any more"
        if not reason:
            group.begun = True
            move.accepted = accepted
            self._on_begun(move.present)
            self._mirror.claim(step.move, ReplacementClaim.of(pod))
        return reason

    def _reserve_target(self, step: Step, pod: Pod) -> str:
        self._mirror.withdraw(pod.uid, silently=True)  # a nomination of the pod itself
        snapshot = self._mirror.snapshot()
        if snapshot.surroundings.namespace_terminating(pod.namespace):
            return Cause.NAMESPACE_TERMINATING
        target = snapshot.nodes.get(NodeName(step.node))
        if target is None:
            return f"node {step.node} is gone"
        rejected = rejection_elsewhere(snapshot, pod, target)
        if rejected is not None:
            return f"{step.node}: {', '.join(rejected.reasons)}"
        try:
            self._mirror.reserve(step.move, target.name, pod.requests)
        except ReservationError as error:
            return str(error)
        return ""

    def end_step(self, plan: Plan, step: Step) -> bool:
        """Record the end of a step; return whether its migration has ended, so others may start."""
        move = self._moves.get(step.move)
        steps = [s for s in plan.steps if s.move == step.move]
        ends = move is not None and not move.ended and all(s.state in TERMINAL for s in steps)
        if move is not None and ends:
            self._end_migration(move, steps)
        if plan.finished and plan.id in self._groups:
            self._begin_cooldowns(plan)
        return ends

    def _end_migration(self, move: Migration, steps: Sequence[Step]) -> None:
        name, move.ended = move.order.id, True
        self._waiting.pop(name, None)
        self._mirror.release(name)
        replacement = self._mirror.find_replacement(name)
        self._mirror.end_claim(name)
        outcome = Outcome.DROPPED
        if move.pod is not None:
            self.limits.remove(name)
            outcome = _judge_outcome(steps)
        reason = next((step.reason for step in steps if step.state is StepState.FAILED), "")
        self._on_ended(MoveOutcome(name, move.present.move, outcome, reason, replacement))
        if replacement is not None:
            self._on_released(replacement)

    def _begin_cooldowns(self, plan: Plan) -> None:
        under_way = self._groups.pop(plan.id)
        group = under_way.group
        failures = (
            set()
            if under_way.cancelled
            else {order.pod for order in group.orders if self._has_failed(plan, order)}
        )
        for order in group.orders:
            del self._moves[order.id]
        pods = [planned.move.pod for planned in group.moves]
        unlucky = {pod.workload for pod in pods if pod.uid in failures}
        for workload in dict.fromkeys(pod.workload for pod in pods):
            self.limits.begin_cooldown(
                workload, self._clock.monotonic(), failed=workload in unlucky
            )

    def _has_failed(self, plan: Plan, order: MoveOrder) -> bool:
        """Return whether the migration failed, and not because its pod was deleted before."""
        lost = [s for s in plan.steps if s.move == order.id and s.state is StepState.FAILED]
        if not lost:
            return False
        pod = self._mirror.pod(Uid(order.pod))
        leaving = pod is None or pod.terminating
        return not (leaving and lost[0].kind is StepKind.START)


def _judge_outcome(steps: Sequence[Step]) -> Outcome:
    of = {step.kind: step for step in steps}
    if all(of[k].state is StepState.DONE for k in (StepKind.EVICT, StepKind.AWAIT_READY)):
        return Outcome.COMPLETED
    restored = of.get(StepKind.RESTORE)
    went = of[StepKind.EVICT].state is StepState.DONE
    back = restored is not None and restored.state is StepState.DONE and not went
    return Outcome.TAKEN_BACK if back else Outcome.FAILED
