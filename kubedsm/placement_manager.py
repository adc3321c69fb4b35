"""Plans carried out: effects become calls, and what is observed becomes the plans' events.

Room is reserved in the mirror from the moment of a decision, or of a move's start. It goes over to
the pod when the pod is seen on its node, and is given back only when it is certain that nothing
was applied.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import attrs
import structlog

from kubedsm.clock import Clock
from kubedsm.cluster import verbs
from kubedsm.cluster.port import (
    ApiStatusError,
    Cluster,
    ClusterError,
    Conflict,
    OutcomeUnknown,
    ServerError,
    Unreachable,
)
from kubedsm.cluster.wire import WireError
from kubedsm.core.change import Change
from kubedsm.core.events import PodApplied
from kubedsm.core.mirror import ClusterMirror
from kubedsm.core.model import Node, NodeName, Pod, Uid
from kubedsm.mover import seen
from kubedsm.tier_marks import tier_marks
from plans.advance import advance, bind_plan
from plans.events import (
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
        limits: Limits | None = None,
    ) -> None:
        self._cluster = cluster
        self._mirror = mirror
        self._clock = clock
        self._on_bound = on_bound
        self._limits = limits or Limits()
        self._slots = asyncio.Semaphore(self._limits.binds_in_flight)
        self._plans: dict[str, Plan] = {}
        self._plan_of: dict[str, str] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._deadlines_changed = asyncio.Event()
        #: the moment `run` waits for
        self._alarm = math.inf
        #: set by whoever migrates
        self.moves: Moves | None = None
        #: set while no plan is under way
        self.quiet = asyncio.Event()
        self.quiet.set()

    async def run(self) -> None:
        """Carry out plans until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            while True:
                self._deadlines_changed.clear()
                deadlines = [plan.next_deadline for plan in self._plans.values()]
                due = min((d for d in deadlines if d is not None), default=None)
                self._alarm = math.inf if due is None else due
                try:
                    async with asyncio.timeout(due and due - self._clock.monotonic()):
                        await self._deadlines_changed.wait()
                except TimeoutError:
                    for plan_id in list(self._plans):
                        self.tell(plan_id, TimePassed(), due)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it as one of the manager's tasks."""
        if self._tasks is None:
            work.close()
            raise RuntimeError("the placement manager is not running")
        self._tasks.create_task(work)

    def place(self, placements: Sequence[Placement]) -> None:
        """Reserve the room of all of them, and ask for the binds.

        To be called in the same breath as the snapshot was taken that they were decided on.
        Raises ReservationError if it was not.
        """
        for placement in placements:
            pod = placement.pod
            self._mirror.reserve(pod.uid, placement.node.name, pod.requests)
        for placement in placements:
            uid, node = placement.pod.uid, placement.node.name
            self.begin(bind_plan(uid, node, self._limits.bind_deadline))

    def begin(self, plan: Plan) -> None:
        self._plans[plan.id] = plan
        for step in plan.steps:
            if step.pod:
                self._plan_of[step.pod] = plan.id
        self.quiet.clear()
        self.tell(plan.id, Begun())

    def follow(self, pod: Uid, plan_id: str) -> None:
        """Tell that plan from now on what is observed of that pod."""
        self._plan_of[pod] = plan_id

    def follows(self, pod: Uid) -> bool:
        return pod in self._plan_of

    def wanted(self, plan_id: str, number: int) -> bool:
        """Whether that step still waits for what it asked for."""
        plan = self._plans.get(plan_id)
        return plan is not None and any(
            s.id == number and s.state is StepState.ASKED for s in plan.steps
        )

    def observe(self, change: Change) -> None:
        """Take in what the mirror has just been told about a pod."""
        pod = change.pod_after or change.pod_before
        if pod is None:
            return
        if self.moves is not None and change.pod_after is not None:
            self.moves.observed(pod)
        plan_id = self._plan_of.get(pod.uid)
        if plan_id is not None:
            gone = change.pod_after is None
            self.tell(plan_id, PodGone(pod.uid) if gone else seen(pod))

    def tell(self, plan_id: str, event: PlanEvent, due: float | None = None) -> None:
        """Take an event into a plan; by rounding, the clock may show a moment before `due`."""
        plan = self._plans.get(plan_id)
        if plan is None:
            return
        plan, effects = advance(plan, event, max(due or 0.0, self._clock.monotonic()))
        self._plans[plan_id] = plan
        for effect in effects:
            self._carry_out(plan, effect)
        if plan.finished and self._plans.pop(plan_id, None) is not None:
            for step in plan.steps:
                if self._plan_of.get(step.pod) == plan_id:
                    del self._plan_of[step.pod]
            if not self._plans:
                self.quiet.set()
        elif effects and (plan.next_deadline or math.inf) < self._alarm:
            self._deadlines_changed.set()

    def _carry_out(self, plan: Plan, effect: Effect) -> None:
        match effect:
            case Ask(step) if step.kind is StepKind.BIND:
                if step.move:
                    self._mirror.hand_over(step.move, step.pod)
                self.spawn(self._bind(plan.id, step))
            case Ask(step) if self.moves is not None:
                self.moves.asked(plan.id, step)
            case Verify(step):
                self.spawn(self._read(plan.id, step))
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
        async with self._slots:
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
                    labels=marks.labels,
                    timeout=self._limits.request_timeout,
                )
            except (Conflict, OutcomeUnknown, ServerError) as error:
                # A conflict can be a bind of ours whose answer got lost: only a read can tell.
                log.warning("bind unanswered", pod=str(pod), node=step.node, error=str(error))
                self.tell(plan_id, OutcomeLost(step.id))
            except (ApiStatusError, Unreachable) as error:
                log.warning("bind refused", pod=str(pod), node=step.node, error=str(error))
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
            log.warning("pod unreadable", pod=str(pod), error=str(error))
            return  # the step stays overdue, and is verified again, unless the watch tells
        if live.uid != step.pod or self._mirror.pod(Uid(step.pod)) is None:
            self.tell(plan_id, PodGone(step.pod))
            return
        # Room must be booked for a bound pod before its reservation can go.
        self.observe(self._mirror.apply(PodApplied(live)))
        self.tell(plan_id, seen(live, live=True))
