"""The moves under way: their groups, their turns, what each holds, and how each ends.

A group of moves is one plan. Its moves start as the limits allow; a group of which no move has
started yet gives way to a burst of new pods.
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
from kubedsm.optimizer.placing.alone import rejection_elsewhere
from kubedsm.process.clock import Clock
from plans.migration import MoveMode, MoveOrder
from plans.steps import TERMINAL, Plan, Step, StepKind, StepState

#: steps before which nothing is changed for a move, and those that only wait, with a way back
STARTS = frozenset({StepKind.START})
WAITS_FOR_REPLACEMENT = frozenset({
    StepKind.AWAIT_REPLACEMENT, StepKind.AWAIT_READY, StepKind.SETTLE,
})  # fmt: skip


@attrs.frozen(slots=True)
class Group:
    """Moves that are taken together."""

    orders: tuple[MoveOrder, ...]
    #: the same, as they are remembered
    moves: tuple[MoveOutcome, ...]
    #: asked when the first of them starts: whether they are still worth their disruption
    worth: Callable[[], bool]
    #: made for pods that wait: then that is asked when any of them starts, and while it is so they
    #: do not give way
    for_others: bool = False


@attrs.define(slots=True)
class _Group:
    group: Group
    #: a move of it has started
    begun: bool = False
    gave_way: bool = False


@attrs.define(slots=True)
class _Move:
    order: MoveOrder
    planned: MoveOutcome
    plan_id: str
    #: as it was when the move started
    pod: Pod | None = None
    accepted: Accepted | None = None
    ended: bool = False

    @property
    def as_it_is(self) -> MoveOutcome:
        """What was planned, of the pod that is really moved."""
        if self.pod is None:
            return self.planned
        return attrs.evolve(self.planned, move=attrs.evolve(self.planned.move, pod=self.pod))


class Moves:
    def __init__(
        self,
        mirror: ClusterMirror,
        limits: MoveLimits,
        clock: Clock,
        on_released: Callable[[Pod], None],
        on_begun: Callable[[MoveOutcome], None],
        on_ended: Callable[[MoveOutcome], None],
    ) -> None:
        self._mirror = mirror
        self.limits = limits
        self._clock = clock
        #: hears of a pod that a move claimed and has no use for any more
        self._on_released = on_released
        #: hears of every move when its room is held, and nothing has been done about it yet
        self._on_begun = on_begun
        #: hears of every move in the end, and of those that were never begun
        self._on_ended = on_ended
        self._groups: dict[str, _Group] = {}
        self._moves: dict[str, _Move] = {}
        #: the starts that wait for their turn, by move, in the order they were asked for
        self._waiting: dict[str, Step] = {}

    def add(self, plan_id: str, group: Group) -> None:
        self._groups[plan_id] = _Group(group)
        for order, planned in zip(group.orders, group.moves, strict=True):
            self._moves[order.id] = _Move(order, planned, plan_id)

    def plan_of(self, move: str) -> str | None:
        known = self._moves.get(move)
        return None if known is None else known.plan_id

    def pod_of(self, step: Step) -> Pod | None:
        """Return the pod that the step's move is about, as it was when the move started."""
        known = self._moves.get(step.move)
        return None if known is None else known.pod

    def between(self, steps: Sequence[Step], nodes: Container[NodeName] | None) -> Sequence[Step]:
        """Those of these steps whose moves come from one of the nodes, or go there; None: all."""
        return steps if nodes is None else [step for step in steps if self._touches(step, nodes)]

    def _touches(self, step: Step, nodes: Container[NodeName]) -> bool:
        known = self._moves.get(step.move)
        if known is None:
            return False
        pod = known.pod or self._mirror.pod(Uid(known.order.pod))
        return known.order.target in nodes or (pod is not None and pod.node_name in nodes)

    def accepted(self, move: str) -> Accepted | None:
        """Return what was found when the migration began; None for a plan that only restores."""
        known = self._moves.get(move)
        return None if known is None else known.accepted

    def give_way(self) -> Iterator[tuple[str, list[Step]]]:
        """Give up the plans of which no move has started, with the starts of theirs that wait."""
        for plan_id, group in list(self._groups.items()):
            if not (group.begun or group.group.for_others):
                group.gave_way = True
                mine = [m for m in self._waiting if self._moves[m].plan_id == plan_id]
                yield plan_id, [self._waiting.pop(move) for move in mine]

    def under_way(self, plan_ids: Iterable[str]) -> bool:
        """Whether any of these is."""
        return any(plan_id in self._groups for plan_id in plan_ids)

    def for_others(self, plan_id: str) -> bool:
        """Whether the plan makes room for pods that wait."""
        return plan_id in self._groups and self._groups[plan_id].group.for_others

    def arriving(self) -> dict[NodeName, Resources]:
        """The capacity that migrations which wait for their turn are going to use, by node."""
        arriving: dict[NodeName, Resources] = {}
        for move in self._moves.values():
            if not move.ended and move.accepted is None:
                target, pod = NodeName(move.order.target), move.planned.move.pod
                arriving[target] = arriving.get(target, Resources()) + pod.requests
        return arriving

    def leaving(self, plan: Plan, step: Step, soon: float) -> bool:
        """Whether the step leaves its migration nothing but the termination of its old pod.

        If that takes longer than `soon`, the migration is one that takes long for the limits.
        """
        steps = [s for s in plan.steps if s.move == step.move and s.state not in TERMINAL]
        kinds = {s.kind for s in steps} - {StepKind.RESTORE}
        leaves = kinds == {StepKind.AWAIT_GONE} and step.move in self._moves
        if leaves:
            self.limits.leaving(step.move, self._clock.monotonic() + soon)
        return leaves

    def still_to_come(self, plan_ids: Collection[str]) -> set[NodeName]:
        """The nodes on which moves of these plans have yet to take their room."""
        return {
            NodeName(move.order.target)
            for move in self._moves.values()
            if move.plan_id in plan_ids and not move.ended and move.accepted is None
        }

    def wait(self, step: Step) -> None:
        """Let the start wait for its turn."""
        self._waiting[step.move] = step

    def turns(self) -> Iterator[tuple[str, Step, Pod | None]]:
        """The starts whose turn it is now, with their plans and pods; None for one that is gone.

        Namespaces with fewer migrations under way come first, then those that waited longer.
        """
        for move, step in self._in_turn():
            known = self._moves.get(move)
            if move not in self._waiting or known is None:
                continue  # what another one's refusal led to came first
            pod = self._mirror.pod(Uid(step.pod))
            if pod is None or pod.node_name is None:
                del self._waiting[move]
                yield known.plan_id, step, None
                continue
            breaks_first = known.order.mode is MoveMode.RECREATE
            now = self._clock.monotonic()
            underway = Underway(pod.workload, pod.node_name, step.node, now, breaks_first)
            if self.limits.admit(move, underway):
                del self._waiting[move]
                known.pod = pod
                yield known.plan_id, step, pod

    def _in_turn(self) -> list[tuple[str, Step]]:
        busy = Counter(workload.namespace for workload in self.limits.moving_each())
        of = {move: self._moves[move].planned.move.pod.namespace for move in self._waiting}
        return sorted(self._waiting.items(), key=lambda waiting: busy[of[waiting[0]]])

    def mode_of(self, move: str) -> MoveMode:
        return self._moves[move].order.mode

    def hold(self, step: Step, pod: Pod, accepted: Accepted) -> str:
        """Reserve the target's room and claim the replacement, or say why that cannot be."""
        move = self._moves[step.move]
        group = self._groups[move.plan_id]
        reason = self._reserve(step, pod)
        asks = group.group.for_others or not group.begun
        if not reason and asks and not group.group.worth():
            group.gave_way |= group.group.for_others
            reason = "the group is not worth it any more"
        if not reason:
            group.begun = True
            move.accepted = accepted
            self._on_begun(move.as_it_is)
            self._mirror.claim(step.move, ReplacementClaim.of(pod))
        return reason

    def _reserve(self, step: Step, pod: Pod) -> str:
        self._mirror.withdraw(pod.uid, silently=True)  # if its room was kept for it
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

    def settled(self, plan: Plan, step: Step) -> bool:
        """Take note that a step is over; whether its move is, and others may have their turn."""
        move = self._moves.get(step.move)
        steps = [s for s in plan.steps if s.move == step.move]
        ends = move is not None and not move.ended and all(s.state in TERMINAL for s in steps)
        if move is not None and ends:
            self._end(move, steps)
        if plan.finished and plan.id in self._groups:
            self._rest(plan)
        return ends

    def _end(self, move: _Move, steps: Sequence[Step]) -> None:
        name, move.ended = move.order.id, True
        self._waiting.pop(name, None)
        self._mirror.release(name)
        replacement = self._mirror.claimed_by(name)
        self._mirror.unclaim(name)
        outcome = Outcome.DROPPED
        if move.pod is not None:
            self.limits.leave(name)
            outcome = _outcome(steps)
        reason = next((step.reason for step in steps if step.state is StepState.FAILED), "")
        self._on_ended(MoveOutcome(name, move.as_it_is.move, outcome, reason, replacement))
        if replacement is not None:
            self._on_released(replacement)

    def _rest(self, plan: Plan) -> None:
        under_way = self._groups.pop(plan.id)
        group = under_way.group
        failures = (
            set()
            if under_way.gave_way
            else {order.pod for order in group.orders if self._failed(plan, order)}
        )
        for order in group.orders:
            del self._moves[order.id]
        pods = [planned.move.pod for planned in group.moves]
        unlucky = {pod.workload for pod in pods if pod.uid in failures}
        for workload in dict.fromkeys(pod.workload for pod in pods):
            self.limits.rest(workload, self._clock.monotonic(), failed=workload in unlucky)

    def _failed(self, plan: Plan, order: MoveOrder) -> bool:
        """Whether the move went wrong, and not because its pod left before it."""
        lost = [s for s in plan.steps if s.move == order.id and s.state is StepState.FAILED]
        if not lost:
            return False
        pod = self._mirror.pod(Uid(order.pod))
        leaving = pod is None or pod.terminating
        return not (leaving and lost[0].kind is StepKind.START)


def _outcome(steps: Sequence[Step]) -> Outcome:
    of = {step.kind: step for step in steps}
    if all(of[k].state is StepState.DONE for k in (StepKind.EVICT, StepKind.AWAIT_READY)):
        return Outcome.COMPLETED
    restored = of.get(StepKind.RESTORE)
    went = of[StepKind.EVICT].state is StepState.DONE
    back = restored is not None and restored.state is StepState.DONE and not went
    return Outcome.TAKEN_BACK if back else Outcome.FAILED
