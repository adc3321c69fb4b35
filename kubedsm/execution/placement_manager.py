"""Plans carried out: effects become calls, and what is observed becomes the plans' events.

Room is reserved in the mirror from the moment of a decision, or of a move's start. It goes over to
the pod when the pod is seen on its node, and is given back only when it is certain that nothing
was applied. Plans are told one event after the other; a task begins only if its step still waits
for it then.
"""

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable, Container, Coroutine, Sequence
from functools import partial
from typing import Any

import structlog

from kubedsm.execution.bind_calls import BindCalls
from kubedsm.execution.limits import Limits, MoveLimits
from kubedsm.execution.migration_calls import StepCalls, Tell, Wanted, seen
from kubedsm.execution.migrations import STARTS, WAITS_FOR_REPLACEMENT, Group, Moves
from kubedsm.execution.orphan_sweep import SWEEP, LeftBehind
from kubedsm.execution.plan_logging import plan_logged
from kubedsm.execution.running_plan import STALLED, Running
from kubedsm.explain.listener import Listener
from kubedsm.model.events import Change, PodApplied
from kubedsm.model.mirror import ClusterMirror, ReservationError
from kubedsm.model.model import MIGRATING_LABEL, NodeName, Pod, Uid
from kubedsm.optimizer.placing.decision import Binding
from kubedsm.process.clock import Clock
from kubedsm.process.supervisor import Supervisor, Work
from plans.advance import advance, bind_plan
from plans.events import (
    Abandoned,
    Begun,
    CallRefused,
    Cancelled,
    MoveAccepted,
    OutcomeLost,
    PlanEvent,
    PodGone,
    ReplacementClaimed,
    TimePassed,
)
from plans.migration import migration_plan
from plans.steps import TERMINAL, Plan, Step, StepKind, StepState

log = structlog.get_logger()

#: a call about a move's pod, made until its step is over
MoveCall = Callable[[Step, Pod, Wanted, Tell], Coroutine[Any, Any, None]]


class PlacementManager:
    """The one runner of plans: binds, moves, and the restoring of what a move left behind.

    `followed`: which plan each pod is about, for all that must know; only written here.
    `on_bound` hears of each bind that is not a move's, and how it ended; the pod may be gone.
    """

    def __init__(
        self,
        mirror: ClusterMirror,
        followed: dict[Uid, str],
        clock: Clock,
        binds: BindCalls,
        step_calls: StepCalls,
        moves: Moves,
        left_behind: LeftBehind,
        on_bound: Callable[[Pod | None, Step], None],
        supervisor: Supervisor,
        limits: Limits,
        listener: Listener,
    ) -> None:
        self._mirror = mirror
        self._plan_of = followed
        self._clock = clock
        self._binds = binds
        self._step_calls = step_calls
        self._moves = moves
        self._left_behind = left_behind
        self._on_bound = on_bound
        self._supervisor = supervisor
        self._limits = limits
        self._listener = listener
        self._plans: dict[str, Running] = {}
        self._batches = itertools.count(1)
        #: what plans have yet to be told: one thing after the other, also what follows from one
        self._inbox: deque[tuple[str, PlanEvent, float]] = deque()
        self._telling = False
        self._tasks: asyncio.TaskGroup | None = None
        self._deadlines_changed = asyncio.Event()
        #: the moment `run` waits for
        self._alarm = math.inf
        self._sweeping = False
        #: set while no plan is under way
        self.quiet = asyncio.Event()
        self.quiet.set()
        self._handlers: dict[StepKind, Callable[[str, Step], None]] = {
            StepKind.START: self._queue_start,
            StepKind.BIND: self._bind,
            StepKind.DETACH: partial(self._call, step_calls.detach),
            StepKind.AWAIT_REPLACEMENT: self._await_replacement,
            StepKind.EVICT: self._evict,
            StepKind.RESTORE: partial(self._call, step_calls.restore),
            StepKind.AWAIT_READY: self._look_again,
            StepKind.SETTLE: self._look_again,
            StepKind.AWAIT_GONE: self._look_again,
        }

    @property
    def move_limits(self) -> MoveLimits:
        return self._moves.limits

    async def run(self) -> None:
        """Carry out plans until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            while True:
                self._deadlines_changed.clear()
                deadlines = [running.plan.next_deadline for running in self._plans.values()]
                due = min((d for d in deadlines if d is not None), default=None)
                self._alarm = math.inf if due is None else due
                try:
                    async with asyncio.timeout(due and due - self._clock.monotonic()):
                        await self._deadlines_changed.wait()
                except TimeoutError:
                    for plan_id in list(self._plans):
                        self.tell(plan_id, TimePassed(), due)

    def spawn(self, plan_id: str, step: Step, work: Work) -> None:
        """Carry out a step as one of the manager's tasks, if it still waits for that by then."""
        self._spawn(partial(self._carried_out, plan_id, step, work))

    def _spawn(self, work: Work) -> None:
        if self._tasks is None:
            raise RuntimeError("the placement manager is not running")
        self._tasks.create_task(work())

    async def sweep(self, synced: asyncio.Event) -> None:
        """See to every detached pod that no plan knows: now, when one is seen, and ever again."""
        await synced.wait()
        self._sweeping = True
        while True:
            self._left_behind.sweep(self)
            self._admit()  # moves that have become slow count no more
            await self._clock.sleep(SWEEP)

    def spawn_beside(self, part: str, work: Work, **story: object) -> None:
        """Do what belongs to no plan as one of the manager's tasks."""
        with plan_logged(None):
            self._spawn(partial(self._done_beside, part, work, story))

    async def _done_beside(self, part: str, work: Work, story: dict[str, object]) -> None:
        with self._supervisor.catching(part, **story):
            await work()

    async def _carried_out(self, plan_id: str, step: Step, work: Work) -> None:
        # Between the asking and this moment the plan, its pod and all it knew can have ended.
        running = self._plans.get(plan_id)
        if running is None or not running.waits(step.id, step.state):
            return
        with (
            plan_logged(plan_id),
            self._supervisor.catching(f"step {step.kind}", story=running) as caught,
        ):
            await work()
        if caught and step.pod:
            # It is not known how far it got: a live read of the pod tells.
            self.tell(plan_id, OutcomeLost(step.id))

    def place(self, bindings: Sequence[Binding]) -> None:
        """Reserve the room of all of them, and ask for the binds.

        To be called in the same breath as the snapshot was taken that they were decided on.
        Raises ReservationError if it was not, and then holds nothing.
        """
        held: list[Uid] = []
        try:
            for pod, node, _ in bindings:
                self._mirror.reserve(pod.uid, node, pod.requests)
                held.append(pod.uid)
        except ReservationError:
            for uid in held:
                self._mirror.release(uid)
            raise
        if bindings:
            targets = ((pod.uid, node) for pod, node, _ in bindings)
            plan_id = f"bind-{next(self._batches)}"
            self.begin(bind_plan(plan_id, targets, self._limits.bind_deadline))

    def migrate(self, plan_id: str, group: Group) -> None:
        """Begin to carry out a group of moves."""
        self._moves.add(plan_id, group)
        self.begin(migration_plan(plan_id, group.orders))

    def give_way(self, reason: str) -> None:
        """Drop the groups of which no move has started."""
        for plan_id, starts in self._moves.give_way():
            self.tell(plan_id, Cancelled(reason))
            for step in starts:
                self.tell(plan_id, CallRefused(step.id, reason))

    def give_up(
        self, kinds: Container[StepKind], reason: str, nodes: Container[NodeName] | None = None
    ) -> None:
        """Let no move start any more, and take the steps of these kinds that wait for refused.

        With nodes, only of moves from there, or to there.
        """
        for plan_id, running in list(self._plans.items()):
            steps = self._moves.between(running.plan.steps, nodes)
            if steps:
                self.tell(plan_id, Cancelled(reason))
            for step in steps:
                if step.kind in kinds and step.state is StepState.ASKED:
                    self.tell(plan_id, CallRefused(step.id, reason))

    def leave_alone(self, nodes: Container[NodeName]) -> None:
        """Drop the moves that have not begun, and take back what is on its way from or to there."""
        reason = "a site is cut off"
        self.give_way(reason)
        self.give_up(STARTS | WAITS_FOR_REPLACEMENT, reason, nodes)

    def begin(self, plan: Plan) -> None:
        self._plans[plan.id] = Running(plan, self._clock.monotonic())
        for step in plan.steps:
            if step.pod:
                self._plan_of[Uid(step.pod)] = plan.id
        self.quiet.clear()
        self.tell(plan.id, Begun())

    def at_rest(self) -> bool:
        """Whether no plan is under way that is worth waiting for.

        Suggestions hold the workloads of slow plans fixed, and the capacity that these plans use.
        """
        return not any(map(self._is_waited_for, self._plans.values()))

    def _is_waited_for(self, running: Running) -> bool:
        now = self._clock.monotonic()
        if running.plan.restores_only or running.begun <= now - self.move_limits.slow_after:
            return False
        return self._moves.for_others(running.plan.id) or not running.is_slow(now)

    @property
    def under_way(self) -> int:
        """How many plans are."""
        return len(self._plans)

    @property
    def stories(self) -> list[str]:
        """What the plans under way were told, and what came of it, for people."""
        return [str(running) for running in self._plans.values()]

    def follows(self, pod: Uid) -> bool:
        return pod in self._plan_of

    def wanted(self, plan_id: str, number: int) -> bool:
        """Whether that step still waits for what it asked for."""
        running = self._plans.get(plan_id)
        return running is not None and running.waits(number, StepState.ASKED)

    def observe(self, change: Change) -> None:
        """Take in what the mirror has just been told about a pod."""
        pod = change.pod_after or change.pod_before
        if pod is None:
            return
        gone = change.pod_after is None
        if pod.uid not in self._plan_of and not gone:
            self._look_at(pod)
        plan_id = self._plan_of.get(pod.uid)
        if plan_id is not None:
            self.tell(plan_id, PodGone(pod.uid) if gone else seen(pod))

    def _look_at(self, pod: Pod) -> None:
        """Whether a pod that no plan knows is a move's replacement, or was left behind."""
        move = self._mirror.claimant(pod.uid)
        plan_id = self._moves.plan_of(move) if move else None
        if move and plan_id:
            self._plan_of[pod.uid] = plan_id
            self.tell(plan_id, ReplacementClaimed(move, pod.uid))
        elif self._sweeping and MIGRATING_LABEL in pod.labels:
            self._left_behind.found(pod, self)

    def tell(self, plan_id: str, event: PlanEvent, due: float | None = None) -> None:
        """Take an event into a plan; by rounding, the clock may show a moment before `due`."""
        self._inbox.append((plan_id, event, due or 0.0))
        if self._telling:
            return
        self._telling = True
        now = self._clock.monotonic()  # of all that follows at once
        try:
            while self._inbox:
                told, event, due = self._inbox.popleft()
                self._take_in(told, event, max(due, now))
        finally:
            self._telling = False

    def _take_in(self, plan_id: str, event: PlanEvent, now: float) -> None:
        running = self._plans.get(plan_id)
        if running is None:
            return
        running.plan, effects = advance(running.plan, event, now)
        running.story.append((now, event, effects))
        if not effects:
            return
        if any(step.state in TERMINAL for step in effects):
            running.progressed = now
        self._listener.stepped(running.plan, effects)
        with plan_logged(plan_id):
            for step in effects:
                with self._supervisor.catching("plan", step=step, story=running) as caught:
                    self._carry_out(running, step)
                if caught:
                    alone = None if step.move else step.id  # the rest of a move hangs on it
                    failed = Abandoned("an error of the scheduler's own", alone)
                    self._inbox.appendleft((plan_id, failed, now))
        if running.plan.finished:
            self._forget(running)
        elif any(step.deadline and step.deadline < self._alarm for step in effects):
            self._deadlines_changed.set()

    def _forget(self, running: Running) -> None:
        plan = running.plan
        del self._plans[plan.id]
        for step in plan.steps:
            self._unfollow(plan, step)
        self._listener.plan_ended(plan, self._clock.monotonic() - running.begun)
        if not self._plans:
            self.quiet.set()

    def _unfollow(self, plan: Plan, step: Step) -> None:
        if self._plan_of.get(Uid(step.pod)) == plan.id:
            del self._plan_of[Uid(step.pod)]

    def _carry_out(self, running: Running, step: Step) -> None:
        plan = running.plan
        match step.state:
            case StepState.ASKED:
                self._handlers[step.kind](plan.id, step)
            case StepState.VERIFYING:
                self.spawn(plan.id, step, partial(self._verify, plan.id, step))
            case _ if step.move:
                self._move_settled(plan, step)
            case _:
                self._bind_settled(running, step)

    async def _verify(self, plan_id: str, step: Step) -> None:
        def take_in(live: Pod) -> None:
            # Room must be booked for a bound pod before its reservation can go.
            self.observe(self._mirror.apply(PodApplied(live)))
            self.tell(plan_id, seen(live, live=True))

        await self._binds.read(step, partial(self.tell, plan_id), take_in)

    def _bind(self, plan_id: str, step: Step) -> None:
        if step.move:
            self._mirror.hand_over(step.move, step.pod)
        call = partial(self._binds.bind, step, partial(self.tell, plan_id))
        self._binds.make(partial(self._carried_out, plan_id, step, call), self._spawn)

    def _asks(self, plan_id: str, step: Step) -> tuple[Wanted, Tell]:
        """What a call is given to look whether its step still waits, and to tell the plan."""
        return partial(self.wanted, plan_id, step.id), partial(self.tell, plan_id)

    def _call(self, call: MoveCall, plan_id: str, step: Step) -> None:
        pod = self._moves.pod_of(step) or self._mirror.pod(Uid(step.pod))
        if pod is None:
            self._look_again(plan_id, step)
            return
        self.spawn(plan_id, step, partial(call, step, pod, *self._asks(plan_id, step)))

    def _evict(self, plan_id: str, step: Step) -> None:
        accepted = self._moves.accepted(step.move)
        keep = 0 if accepted is None else accepted.ready_to_keep
        self._call(partial(self._step_calls.evict, keep), plan_id, step)

    def _await_replacement(self, plan_id: str, step: Step) -> None:
        accepted = self._moves.accepted(step.move)
        found = None if accepted is None else accepted.found
        self._call(partial(self._step_calls.await_replacement, found), plan_id, step)

    def _look_again(self, plan_id: str, step: Step) -> None:
        """Tell the plan what is known of the pod: it may have happened before it was asked for."""
        known = self._mirror.pod(Uid(step.pod))
        self.tell(plan_id, PodGone(step.pod) if known is None else seen(known))

    def _queue_start(self, plan_id: str, step: Step) -> None:  # noqa: ARG002 - the table's
        self._moves.wait(step)
        self._admit()

    def _admit(self) -> None:
        for plan_id, step, pod in self._moves.turns():
            if pod is None:
                self.tell(plan_id, CallRefused(step.id, "the pod is gone"))
            else:
                self.spawn(plan_id, step, partial(self._start, plan_id, step, pod))

    async def _start(self, plan_id: str, step: Step, pod: Pod) -> None:
        mode = self._moves.mode_of(step.move)
        checked = await self._step_calls.check(pod, mode)
        if not self.wanted(plan_id, step.id):
            return
        # Nothing awaits from here on: what is checked now still holds when it is reserved.
        reason = checked if isinstance(checked, str) else self._moves.hold(step, pod, checked)
        if isinstance(checked, str) or reason:
            self.tell(plan_id, CallRefused(step.id, reason))
            return
        log.info("move", pod=str(pod), source=pod.node_name, target=step.node, mode=mode.value)
        settle = checked.min_ready + self._step_calls.drain_delay
        self.tell(plan_id, MoveAccepted(step.move, settle, checked.grace))

    def _move_settled(self, plan: Plan, step: Step) -> None:
        if step.kind is StepKind.BIND and step.state is not StepState.DONE and step.pod:
            self._mirror.release(step.pod)
        if step.kind is StepKind.RESTORE:
            self._left_behind.restored(step, self)
        if self._moves.settled(plan, step):
            self._admit()
        elif self._moves.leaving(plan, step, STALLED):
            self.spawn_beside("turns", self._admit_later)

    async def _admit_later(self) -> None:
        """Give others their turn when a pod takes long to terminate."""
        await self._clock.sleep(STALLED)
        self._admit()

    def _bind_settled(self, running: Running, step: Step) -> None:
        self._unfollow(running.plan, step)  # not only when the last of the batch is over
        self._listener.bind_ended(self._clock.monotonic() - running.begun)
        if step.state is not StepState.DONE:
            self._mirror.release(step.pod)
        self._on_bound(self._mirror.pod(Uid(step.pod)), step)
