"""Migrations: when each move may start, what is held for it, and what is left when it is over.

A group of moves is one plan. Its moves start as the limits allow, each checked once more on live
objects; a group of which no move has started yet gives way to a burst of new pods.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import attrs
import structlog

from kubedsm.clock import Clock
from kubedsm.core.moving.movable import NAMESPACE_TERMINATING
from kubedsm.core.rules.feasibility import Feasibility
from kubedsm.core.world.mirror import ClusterMirror, ReplacementClaim, ReservationError
from kubedsm.core.world.model import MIGRATING_LABEL, NodeName, Pod, Uid
from kubedsm.runtime.left_behind import SWEEP, LeftBehind
from kubedsm.runtime.limits import MoveLimits, Underway
from kubedsm.runtime.placement_manager import PlacementManager
from kubedsm.runtime.step_calls import Accepted, Mover
from kubedsm.runtime.supervisor import Work
from plans.events import CallRefused, Cancelled, MoveAccepted, PlanEvent, ReplacementClaimed
from plans.migration import MoveMode, MoveOrder, migration_plan
from plans.steps import TERMINAL, Plan, Step, StepKind, StepState

log = structlog.get_logger()


@attrs.frozen(slots=True)
class Ended:
    """How a move ended."""

    pod: Pod
    target: str
    #: completed; taken back: the old pod is its owner's again; failed: nothing was changed, or
    #: the old pod is gone and its replacement had to be placed anew
    outcome: str
    reason: str
    #: of its order
    move: str = ""
    #: the pod that took the old one's place, if there is one
    replacement: Pod | None = None


@attrs.frozen(slots=True)
class Group:
    """Moves that are taken together; the pods of those that have one to begin with."""

    orders: tuple[MoveOrder, ...]
    pods: tuple[Pod, ...]
    #: asked when the first of them starts: whether they are still worth their disruption
    worth: Callable[[], bool]


class Migrator:
    """Carries out the steps that are not binds, for the placement manager (`Moves`)."""

    def __init__(
        self,
        mirror: ClusterMirror,
        manager: PlacementManager,
        mover: Mover,
        limits: MoveLimits,
        clock: Clock,
        on_released: Callable[[Pod], None],
        on_ended: Callable[[Ended], None],
        on_dropped: Callable[[str, str], None],
        left_behind: LeftBehind,
    ) -> None:
        self._mirror = mirror
        self._manager = manager
        self._mover = mover
        self.limits = limits
        self._clock = clock
        self._on_released = on_released
        self._on_ended = on_ended
        #: hears of a move that was never begun, and why
        self._on_dropped = on_dropped
        self._left_behind = left_behind
        self._orders: dict[str, MoveOrder] = {}
        self._plan_of: dict[str, str] = {}
        self._groups: dict[str, Group] = {}
        #: plans of which a move has started
        self._begun: set[str] = set()
        self._gave_way: set[str] = set()
        #: the pod each move is about, as it was when the move started
        self._pods: dict[str, Pod] = {}
        self._accepted: dict[str, Accepted] = {}
        self._waiting: list[tuple[str, Step]] = []
        self._sweeping = False

    def migrate(self, plan_id: str, group: Group) -> None:
        """Begin to carry out a group of moves."""
        self._groups[plan_id] = group
        for order in group.orders:
            self._orders[order.id] = order
            self._plan_of[order.id] = plan_id
        self._manager.begin(migration_plan(plan_id, group.orders))

    def give_way(self, reason: str) -> None:
        """Drop the groups of which no move has started."""
        for plan_id in [p for p in self._groups if p not in self._begun]:
            self._gave_way.add(plan_id)
            self._refuse_waiting(plan_id, reason)

    def _refuse_waiting(self, plan_id: str, reason: str) -> None:
        waiting = [step for of, step in self._waiting if of == plan_id]
        self._waiting = [pair for pair in self._waiting if pair[0] != plan_id]
        self._manager.tell(plan_id, Cancelled(reason))
        for step in waiting:
            self._manager.tell(plan_id, CallRefused(step.id, reason))

    async def run(self, synced: asyncio.Event) -> None:
        """See to every detached pod that no plan knows: now, when one is seen, and ever again."""
        await synced.wait()
        self._sweeping = True
        while True:
            self._left_behind.sweep()
            self._admit()  # moves that have become slow count no more
            await self._clock.sleep(SWEEP)

    def observed(self, pod: Pod) -> None:
        if self._manager.follows(pod.uid):
            return
        move = self._mirror.claimant(pod.uid)
        if move is not None and move in self._plan_of:
            plan_id = self._plan_of[move]
            self._manager.follow(pod.uid, plan_id)
            self._manager.tell(plan_id, ReplacementClaimed(move, pod.uid))
        elif self._sweeping and MIGRATING_LABEL in pod.labels:
            self._left_behind.found(pod)

    def asked(self, plan_id: str, step: Step) -> None:
        def tell(event: PlanEvent) -> None:
            self._manager.tell(plan_id, event)

        def wanted() -> bool:
            return self._manager.wanted(plan_id, step.id)

        def spawn(work: Work) -> None:
            self._manager.spawn(plan_id, step, work)

        pod = self._pods.get(step.move) or self._mirror.pod(Uid(step.pod))
        match step.kind:
            case StepKind.START:
                self._waiting.append((plan_id, step))
                self._admit()
            case StepKind.DETACH if pod is not None:
                spawn(partial(self._mover.detach, step, pod, tell))
            case StepKind.AWAIT_REPLACEMENT if pod is not None:
                spawn(partial(self._mover.await_replacement, step, pod, wanted, tell))
            case StepKind.EVICT if pod is not None:
                keep = self._accepted[step.move].ready_to_keep
                spawn(partial(self._mover.evict, step, pod, keep, wanted, tell))
            case StepKind.RESTORE if pod is not None:
                spawn(partial(self._mover.restore, step, pod, wanted, tell))
            case _:
                self._manager.look_again(plan_id, step.pod)

    def _admit(self) -> None:
        for plan_id, step in list(self._waiting):
            if (plan_id, step) not in self._waiting:
                continue  # what another one's refusal led to came first
            pod = self._mirror.pod(Uid(step.pod))
            if pod is None or pod.node_name is None:
                self._waiting.remove((plan_id, step))
                self._manager.tell(plan_id, CallRefused(step.id, "the pod is gone"))
                continue
            breaks_first = self._orders[step.move].mode is MoveMode.RECREATE
            now = self._clock.monotonic()
            underway = Underway(pod.workload, pod.node_name, step.node, now, breaks_first)
            if self.limits.admit(step.move, underway):
                self._waiting.remove((plan_id, step))
                self._pods[step.move] = pod
                start = partial(self._start, plan_id, step, pod, pod.node_name)
                self._manager.spawn(plan_id, step, start)

    async def _start(self, plan_id: str, step: Step, pod: Pod, source: NodeName) -> None:
        order, group = self._orders[step.move], self._groups[plan_id]
        checked = await self._mover.check(pod, source, order.mode)
        if not self._manager.wanted(plan_id, step.id):
            return
        # Nothing awaits from here on: what is checked now still holds when it is reserved.
        reason = checked if isinstance(checked, str) else self._still_possible(pod, step)
        if not reason and plan_id not in self._begun and not group.worth():
            reason = "the group is not worth it any more"
        if reason:
            self._manager.tell(plan_id, CallRefused(step.id, reason))
            return
        self._begun.add(plan_id)
        self._mirror.claim(step.move, ReplacementClaim.of(pod))
        log.info("move", pod=str(pod), source=source, target=step.node, mode=order.mode.value)
        if isinstance(checked, Accepted):
            self._accepted[step.move] = checked
            settle = checked.min_ready + self._mover.drain_delay
            self._manager.tell(plan_id, MoveAccepted(step.move, settle, checked.grace))

    def _still_possible(self, pod: Pod, step: Step) -> str:
        """Reserve the target's room, or say why that cannot be."""
        snapshot = self._mirror.snapshot()
        if snapshot.surroundings.namespace_terminating(pod.namespace):
            return NAMESPACE_TERMINATING
        target = snapshot.nodes.get(NodeName(step.node))
        if target is None:
            return f"node {step.node} is gone"
        # Without the pod where it is: for its replacement it is as good as gone.
        rejected = Feasibility.of(snapshot).without_pod(pod.uid).rejection(pod, target.name)
        if rejected is not None:
            return f"{step.node}: {', '.join(rejected.reasons)}"
        try:
            self._mirror.reserve(step.move, target.name, pod.requests)
        except ReservationError as error:
            return str(error)
        return ""

    def settled(self, plan: Plan, step: Step) -> None:
        if step.kind is StepKind.BIND and step.state is not StepState.DONE and step.pod:
            self._mirror.release(step.pod)
        steps = [s for s in plan.steps if s.move == step.move]
        if step.kind is StepKind.RESTORE:
            self._left_behind.restored(step)
        if step.move in self._orders and all(s.state in TERMINAL for s in steps):
            self._end(step.move, steps)
        if plan.finished and plan.id in self._groups:
            self._rest(plan)

    def _end(self, move: str, steps: Sequence[Step]) -> None:
        del self._orders[move]
        self._waiting = [pair for pair in self._waiting if pair[1].move != move]
        self._mirror.release(move)
        replacement = self._mirror.claimed_by(move)
        self._mirror.unclaim(move)
        self._accepted.pop(move, None)
        pod = self._pods.pop(move, None)
        if pod is not None:
            self.limits.leave(move)
            ended = _ended(pod, steps)
            self._on_ended(attrs.evolve(ended, move=move, replacement=replacement))
        else:
            self._on_dropped(move, _lost(steps))
        if replacement is not None:
            self._on_released(replacement)
        self._admit()

    def _rest(self, plan: Plan) -> None:
        group = self._groups.pop(plan.id)
        self._begun.discard(plan.id)
        for order in group.orders:
            del self._plan_of[order.id]
        failures = {order.pod for order in group.orders if self._failed(plan, order)}
        self._gave_way.discard(plan.id)
        unlucky = {pod.workload for pod in group.pods if pod.uid in failures}
        for workload in dict.fromkeys(pod.workload for pod in group.pods):
            self.limits.rest(workload, self._clock.monotonic(), failed=workload in unlucky)

    def _failed(self, plan: Plan, order: MoveOrder) -> bool:
        """Whether the move went wrong: it neither gave way, nor did its pod leave before it."""
        lost = [s for s in plan.steps if s.move == order.id and s.state is StepState.FAILED]
        if not lost or plan.id in self._gave_way:
            return False
        pod = self._mirror.pod(Uid(order.pod))
        leaving = pod is None or pod.terminating
        return not (leaving and lost[0].kind is StepKind.START)


def _ended(pod: Pod, steps: Sequence[Step]) -> Ended:
    of = {step.kind: step for step in steps}
    target = steps[0].node
    lost = _lost(steps)
    if all(of[k].state is StepState.DONE for k in (StepKind.EVICT, StepKind.AWAIT_READY)):
        return Ended(pod, target, "completed", lost)
    restored = of.get(StepKind.RESTORE)
    if restored is not None and restored.state is StepState.DONE:
        return Ended(pod, target, "taken back", lost)
    return Ended(pod, target, "failed", lost)


def _lost(steps: Sequence[Step]) -> str:
    """Why the first step that failed did."""
    return next((step.reason for step in steps if step.state is StepState.FAILED), "")
