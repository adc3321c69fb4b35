"""Plans carried out: effects become calls, and what is observed becomes the plans' events.

Room is reserved in the mirror from the moment of a decision, or of a move's start. It goes over to
the pod when the pod is seen on its node, and is given back only when it is certain that nothing
was applied.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import attrs
import structlog

from kubedsm.clock import Clock
from kubedsm.cluster.calls import verbs
from kubedsm.cluster.client.port import (
    ApiStatusError,
    Cluster,
    ClusterError,
    Conflict,
    OutcomeUnknown,
    ServerError,
    Unreachable,
)
from kubedsm.cluster.wire.decoding import WireError
from kubedsm.core.world.change import Change
from kubedsm.core.world.events import PodApplied
from kubedsm.core.world.mirror import ClusterMirror, ReservationError
from kubedsm.core.world.model import Node, NodeName, Pod, Uid, Workload
from kubedsm.runtime.step_calls import seen
from kubedsm.runtime.supervisor import Supervisor, Work
from kubedsm.runtime.tier_marks import TIER_LABEL, lost_by_label, tier_marks
from kubedsm.said_by_cause import SaidByCause
from plans.advance import advance, bind_plan
from plans.events import (
    Abandoned,
    Ask,
    Begun,
    CallRefused,
    Effect,
    OutcomeLost,
    PlanEvent,
    PodGone,
    Settled,
    TimePassed,
    Verify,
)
from plans.steps import Plan, Step, StepKind, StepState

log = structlog.get_logger()


@attrs.frozen(slots=True)
class Limits:
    """How much is under way at once, and how long it may take, in seconds."""

    binds_in_flight: int = 64
    request_timeout: float = 10.0
    #: from asking for a bind until it is read live, if the watch has not shown it
    bind_deadline: float = 15.0
    #: a plan that takes longer is waited for by its own workloads only
    slow_after: float = 60.0


#: of a plan, so many events are remembered
STORY = 200


@attrs.define(slots=True)
class Running:
    """A plan under way."""

    plan: Plan
    #: on the clock
    begun: float
    #: what the plan was told, when, and what it asked for then
    story: deque[tuple[float, PlanEvent, tuple[Effect, ...]]] = attrs.field(
        factory=lambda: deque(maxlen=STORY)
    )

    def waits(self, number: int, state: StepState) -> bool:
        """Whether that step of it is in that state."""
        return any(step.id == number and step.state is state for step in self.plan.steps)

    def __str__(self) -> str:
        lines = [f"{self.plan.id}, begun at {self.begun:.3f}"]
        for at, event, effects in self.story:
            asked = ", ".join(
                f"{type(e).__name__} {e.step.id} {e.step.kind} {e.step.state}" for e in effects
            )
            lines.append(f"  {at:.3f} {event} -> {asked or 'nothing'}")
        return "\n".join(lines)


@attrs.frozen(slots=True)
class Placement:
    """A pod, and the node it is to be bound to."""

    pod: Pod
    node: Node


class Moves(Protocol):
    """Who carries out the steps of migrations that are not binds."""

    def asked(self, plan_id: str, step: Step) -> None:
        """Make the step happen."""

    def settled(self, plan: Plan, step: Step) -> None:
        """Take note that the step is over."""

    def observed(self, pod: Pod) -> None:
        """Look whether a pod that no plan knows is anybody's replacement, or left behind."""


class PlacementManager:
    def __init__(
        self,
        cluster: Cluster,
        mirror: ClusterMirror,
        clock: Clock,
        on_bound: Callable[[Pod, Step], None],
        supervisor: Supervisor,
        limits: Limits | None = None,
    ) -> None:
        self._cluster = cluster
        self._mirror = mirror
        self._clock = clock
        self._on_bound = on_bound
        self._supervisor = supervisor
        self._limits = limits or Limits()
        self._slots = asyncio.Semaphore(self._limits.binds_in_flight)
        self._plans: dict[str, Running] = {}
        #: what plans have yet to be told: one thing after the other, also what follows from one
        self._inbox: deque[tuple[str, PlanEvent, float]] = deque()
        self._telling = False
        self._plan_of: dict[str, str] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._deadlines_changed = asyncio.Event()
        #: the moment `run` waits for
        self._alarm = math.inf
        #: workloads that lost pods by the label we set: theirs are bound without it
        self._unlabelled: set[Workload] = set()
        #: set by whoever migrates
        self.moves: Moves | None = None
        #: set while no bind is being asked for
        self.no_bind_call = asyncio.Event()
        self.no_bind_call.set()
        self._bind_calls = 0
        self._said = SaidByCause(clock)
        #: set while no plan is under way
        self.quiet = asyncio.Event()
        self.quiet.set()

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
        if self._tasks is None:
            raise RuntimeError("the placement manager is not running")
        self._tasks.create_task(self._carried_out(plan_id, step, work))

    def spawn_beside(self, part: str, work: Work, **story: object) -> None:
        """Do what belongs to no plan as one of the manager's tasks."""
        if self._tasks is None:
            raise RuntimeError("the placement manager is not running")
        self._tasks.create_task(self._supervisor.finish(part, work, **story))

    async def _carried_out(self, plan_id: str, step: Step, work: Work) -> None:
        # Between the asking and this moment the plan, its pod and all it knew can have ended.
        running = self._plans.get(plan_id)
        if running is None or not running.waits(step.id, step.state):
            return
        well = await self._supervisor.finish(f"step {step.kind}", work, story=running)
        if not well and step.pod:
            # Nobody knows how far it got: a live read of the pod tells.
            self.tell(plan_id, OutcomeLost(step.id))

    def place(self, placements: Sequence[Placement]) -> None:
        """Reserve the room of all of them, and ask for the binds.

        To be called in the same breath as the snapshot was taken that they were decided on.
        Raises ReservationError if it was not, and then holds nothing.
        """
        held: list[Uid] = []
        try:
            for placement in placements:
                pod = placement.pod
                self._mirror.reserve(pod.uid, placement.node.name, pod.requests)
                held.append(pod.uid)
        except ReservationError:
            for uid in held:
                self._mirror.release(uid)
            raise
        for placement in placements:
            uid, node = placement.pod.uid, placement.node.name
            self.begin(bind_plan(uid, node, self._limits.bind_deadline))

    def begin(self, plan: Plan) -> None:
        self._plans[plan.id] = Running(plan, self._clock.monotonic())
        for step in plan.steps:
            if step.pod:
                self._plan_of[step.pod] = plan.id
        self.quiet.clear()
        self.tell(plan.id, Begun())

    def at_rest(self) -> bool:
        """Whether no plan is under way that is worth waiting for."""
        since = self._clock.monotonic() - self._limits.slow_after
        return all(r.begun <= since or r.plan.restores_only for r in self._plans.values())

    def follow(self, pod: Uid, plan_id: str) -> None:
        """Tell that plan from now on what is observed of that pod."""
        self._plan_of[pod] = plan_id

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
        if (workload := lost_by_label(change)) is not None:
            log.warning("owner lets go of what we label", pod=str(pod), label=TIER_LABEL)
            self._unlabelled.add(workload)
        if self.moves is not None and change.pod_after is not None:
            self.moves.observed(pod)
        plan_id = self._plan_of.get(pod.uid)
        if plan_id is not None:
            gone = change.pod_after is None
            self.tell(plan_id, PodGone(pod.uid) if gone else seen(pod))

    def tell(self, plan_id: str, event: PlanEvent, due: float | None = None) -> None:
        """Take an event into a plan; by rounding, the clock may show a moment before `due`."""
        self._inbox.append((plan_id, event, due or 0.0))
        if self._telling:
            return
        self._telling = True
        try:
            while self._inbox:
                self._take_in(*self._inbox.popleft())
        finally:
            self._telling = False

    def _take_in(self, plan_id: str, event: PlanEvent, due: float) -> None:
        running = self._plans.get(plan_id)
        if running is None:
            return
        now = max(due, self._clock.monotonic())
        running.plan, effects = advance(running.plan, event, now)
        running.story.append((now, event, effects))
        plan = running.plan
        done = [
            self._supervisor.attempt(
                "plan", partial(self._carry_out, plan, effect), effect=effect, story=running
            )
            for effect in effects
        ]
        if plan.finished:
            self._forget(plan)
        elif not all(done):
            self._inbox.appendleft((plan_id, Abandoned("an error of the scheduler's own"), due))
        elif effects and (plan.next_deadline or math.inf) < self._alarm:
            self._deadlines_changed.set()

    def _forget(self, plan: Plan) -> None:
        del self._plans[plan.id]
        for step in plan.steps:
            if self._plan_of.get(step.pod) == plan.id:
                del self._plan_of[step.pod]
        if not self._plans:
            self.quiet.set()

    def _carry_out(self, plan: Plan, effect: Effect) -> None:
        match effect:
            case Ask(step) if step.kind is StepKind.BIND:
                if step.move:
                    self._mirror.hand_over(step.move, step.pod)
                self.spawn(plan.id, step, partial(self._bind, plan.id, step))
            case Ask(step) if self.moves is not None:
                self.moves.asked(plan.id, step)
            case Verify(step):
                self.spawn(plan.id, step, partial(self._read, plan.id, step))
            case Settled(step) if step.move and self.moves is not None:
                self.moves.settled(plan, step)
            case Settled(step):
                self._bind_settled(step)

    def look_again(self, plan_id: str, pod: str) -> None:
        """Tell the plan what is known of the pod: it may have happened before it was asked for."""
        known = self._mirror.pod(Uid(pod))
        self.tell(plan_id, PodGone(pod) if known is None else seen(known))

    def _bind_settled(self, step: Step) -> None:
        if step.state is not StepState.DONE:
            self._mirror.release(step.pod)
        pod = self._mirror.pod(Uid(step.pod))
        if pod is not None:
            self._on_bound(pod, step)

    async def _bind(self, plan_id: str, step: Step) -> None:
        self._bind_calls += 1
        self.no_bind_call.clear()
        try:
            async with self._slots:
                await self._ask_to_bind(plan_id, step)
        finally:
            self._bind_calls -= 1
            if not self._bind_calls:
                self.no_bind_call.set()

    async def _ask_to_bind(self, plan_id: str, step: Step) -> None:
        pod = self._mirror.pod(Uid(step.pod))
        if pod is None or not self.wanted(plan_id, step.id):
            return  # settled while it waited for a slot
        node = self._mirror.node(NodeName(step.node))
        marks = tier_marks(pod, None if node is None else node.tier)
        try:
            # The API server copies both to the pod, at no extra call.
            await verbs.bind(
                self._cluster,
                pod,
                NodeName(step.node),
                annotations=marks.annotations,
                labels={} if pod.workload in self._unlabelled else marks.labels,
                timeout=self._limits.request_timeout,
            )
        except (Conflict, OutcomeUnknown, ServerError) as error:
            # A conflict can be a bind of ours whose answer got lost: only a read can tell.
            self._said.log(log.warning, "bind unanswered", error, pod=str(pod), node=step.node)
            self.tell(plan_id, OutcomeLost(step.id, str(error)))
        except (ApiStatusError, Unreachable) as error:
            self._said.log(log.warning, "bind refused", error, pod=str(pod), node=step.node)
            self.tell(plan_id, CallRefused(step.id, str(error)))

    async def _read(self, plan_id: str, step: Step) -> None:
        pod = self._mirror.pod(Uid(step.pod))
        if pod is None:
            self.tell(plan_id, PodGone(step.pod))
            return
        try:
            live = await verbs.get_pod(
                self._cluster, pod.namespace, pod.name, timeout=self._limits.request_timeout
            )
        except (ClusterError, WireError) as error:
            self._said.log(log.warning, "pod unreadable", error, pod=str(pod))
            return  # the step stays overdue, and is verified again, unless the watch tells
        if live.uid != step.pod or self._mirror.pod(Uid(step.pod)) is None:
            self.tell(plan_id, PodGone(step.pod))
            return
        # Room must be booked for a bound pod before its reservation can go.
        self.observe(self._mirror.apply(PodApplied(live)))
        self.tell(plan_id, seen(live, live=True))
