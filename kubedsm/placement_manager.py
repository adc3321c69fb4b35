"""Plans carried out: effects become calls, and what is observed becomes the plans' events.

The room of every bind under way is reserved in the mirror from the moment of the decision. It goes
over to the pod when the pod is seen on its node, and is given back only when it is certain that
the bind was not applied.
"""

import asyncio
from collections.abc import Callable, Sequence

import attrs
import structlog

from kubedsm.clock import Clock
from kubedsm.cluster import verbs
from kubedsm.cluster.port import (
    ApiStatusError,
    Cluster,
    ClusterError,
    Conflict,
    NotFound,
    OutcomeUnknown,
    ServerError,
    Unreachable,
)
from kubedsm.core.events import PodApplied
from kubedsm.core.mirror import Change, ClusterMirror
from kubedsm.core.model import Node, NodeName, Pod, Tier, Uid
from plans.advance import advance, bind_plan
from plans.steps import (
    Begun,
    BindPod,
    CallRefused,
    Effect,
    OutcomeLost,
    Plan,
    PlanEvent,
    PodGone,
    PodOnNode,
    PodUnbound,
    ReadPod,
    Settle,
    Step,
    StepState,
    TimePassed,
)

log = structlog.get_logger()

#: copied to the pod by the API server, so that a scale-down takes cloud pods first
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
DELETION_COST = {Tier.EDGE: "100", Tier.CLOUD: "-100"}
TIER_LABEL = "kubedsm.io/tier"


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


class PlacementManager:
    def __init__(
        self,
        cluster: Cluster,
        mirror: ClusterMirror,
        clock: Clock,
        on_settled: Callable[[Pod, Step], None],
        limits: Limits | None = None,
    ) -> None:
        self._cluster = cluster
        self._mirror = mirror
        self._clock = clock
        self._on_settled = on_settled
        self._limits = limits or Limits()
        self._slots = asyncio.Semaphore(self._limits.binds_in_flight)
        self._plans: dict[str, Plan] = {}
        self._plan_of: dict[str, str] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._deadlines_changed = asyncio.Event()
        #: set while no bind is under way
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
                try:
                    async with asyncio.timeout(due and due - self._clock.monotonic()):
                        await self._deadlines_changed.wait()
                except TimeoutError:
                    for plan_id in list(self._plans):
                        self._advance(plan_id, TimePassed(), due)

    def place(self, placements: Sequence[Placement]) -> None:
        """Reserve the room of all of them, and ask for the binds.

        To be called in the same breath as the snapshot was taken that they were decided on.
        Raises ReservationError if it was not.
        """
        for placement in placements:
            pod = placement.pod
            self._mirror.reserve(pod.uid, placement.node.name, pod.requests)
        for placement in placements:
            uid = placement.pod.uid
            plan = bind_plan(uid, placement.node.name, self._limits.bind_deadline)
            self._plans[plan.id] = plan
            self._plan_of[uid] = plan.id
            self._advance(plan.id, Begun())
        self.quiet.clear()
        self._deadlines_changed.set()

    def observe(self, change: Change) -> None:
        """Take in what the mirror has just been told about a pod."""
        pod = change.pod_after or change.pod_before
        plan_id = self._plan_of.get(pod.uid) if pod is not None else None
        if pod is None or plan_id is None:
            return
        if change.pod_after is None or (pod.terminating and pod.node_name is None):
            self._advance(plan_id, PodGone(pod.uid))
        elif pod.node_name is not None:
            self._advance(plan_id, PodOnNode(pod.uid, pod.node_name))

    def _advance(self, plan_id: str, event: PlanEvent, due: float | None = None) -> None:
        """Take an event into a plan; by rounding, the clock may show a moment before `due`."""
        plan = self._plans.get(plan_id)
        if plan is None:
            return
        plan, effects = advance(plan, event, max(due or 0.0, self._clock.monotonic()))
        self._plans[plan_id] = plan
        for effect in effects:
            self._carry_out(plan_id, effect)
        if plan.finished:
            del self._plans[plan_id]
            if not self._plans:
                self.quiet.set()

    def _carry_out(self, plan_id: str, effect: Effect) -> None:
        if self._tasks is None:
            raise RuntimeError("the placement manager is not running")
        match effect:
            case BindPod(step, pod, node):
                self._tasks.create_task(self._bind(plan_id, step, Uid(pod), NodeName(node)))
            case ReadPod(pod):
                self._tasks.create_task(self._read(plan_id, Uid(pod)))
                self._deadlines_changed.set()
            case Settle(step):
                self._settle(step)

    def _settle(self, step: Step) -> None:
        self._plan_of.pop(step.pod, None)
        if step.state is not StepState.DONE:
            self._mirror.release(step.pod)
        pod = self._mirror.pod(Uid(step.pod))
        if pod is not None:
            self._on_settled(pod, step)

    async def _bind(self, plan_id: str, step: int, uid: Uid, node_name: NodeName) -> None:
        async with self._slots:
            pod = self._mirror.pod(uid)
            if pod is None or self._plan_of.get(uid) != plan_id:
                return  # settled while it waited for a slot
            tier = self._mirror.tier(node_name)
            try:
                await verbs.bind(
                    self._cluster,
                    pod,
                    node_name,
                    annotations={}
                    if tier is None
                    else {DELETION_COST_ANNOTATION: DELETION_COST[tier]},
                    labels={} if tier is None else {TIER_LABEL: tier.value},
                    timeout=self._limits.request_timeout,
                )
            except (Conflict, OutcomeUnknown, ServerError) as error:
                # A conflict can be a bind of ours whose answer got lost: only a read can tell.
                log.warning("bind unanswered", pod=str(pod), node=node_name, error=str(error))
                self._advance(plan_id, OutcomeLost(step))
            except (ApiStatusError, Unreachable) as error:
                log.warning("bind refused", pod=str(pod), node=node_name, error=str(error))
                self._advance(plan_id, CallRefused(step, str(error)))

    async def _read(self, plan_id: str, uid: Uid) -> None:
        pod = self._mirror.pod(uid)
        if pod is None:
            return
        try:
            live = await verbs.get_pod(
                self._cluster, pod.namespace, pod.name, timeout=self._limits.request_timeout
            )
        except NotFound:
            self._advance(plan_id, PodGone(uid))
            return
        except ClusterError as error:
            log.warning("pod unreadable", pod=str(pod), error=str(error))
            return  # the step stays overdue, and is verified again
        if live.uid != uid or self._mirror.pod(uid) is None:
            self._advance(plan_id, PodGone(uid))
        elif live.node_name is None:
            self._advance(plan_id, PodUnbound(uid))
        else:
            # The room must be booked for the pod before its reservation can go.
            self.observe(self._mirror.apply(PodApplied(live)))
