"""Placement manager: executes plans by API calls, and feeds watch observations back as plan events.

Capacity is reserved in the mirror from the decision of a bind, or the start of a migration. The
reservation passes to the pod when the watch confirms the binding. The reservation is released only
after certainty that no API call was applied. Plans handle events sequentially. A background task
begins only for a step still pending.
"""

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable, Container, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import structlog
from structlog import contextvars

from kubedsm.events.controller import Controller
from kubedsm.execution.bind_calls import BindCalls, IsPending, Report, observation
from kubedsm.execution.image_pulls import ImagePulls
from kubedsm.execution.limits import Limits
from kubedsm.execution.migration_calls import Accepted, MigrationCalls
from kubedsm.execution.migrations import (
    STARTS,
    WAITS_FOR_REPLACEMENT,
    Group,
    Migration,
    Migrations,
)
from kubedsm.execution.orphan_sweep import SWEEP, OrphanSweep
from kubedsm.execution.volume_calls import OF_VOLUMES, VolumeCalls
from kubedsm.explain.listener import Listener
from kubedsm.model.events import Change, ClusterEvent, PodApplied
from kubedsm.model.mirror import ReservationError
from kubedsm.model.model import MIGRATING_LABEL, NodeName, Pod, Uid
from kubedsm.optimizer.placing.decision import Binding
from kubedsm.process.clock import RESOLUTION
from kubedsm.process.supervisor import Work
from plans.advance import advance, bind_plan, release_plan
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

#: maximum events in the history of a plan
HISTORY = 200
#: seconds without a finished step, and total seconds, until a plan counts as slow. Suggestions wait
#: for all other plans: complete knowledge of the cluster requires fewer migrations.
STALLED, LONGEST = 3.0, 20.0

#: API call about a migrated pod, repeated until completion of the step
MigrationCall = Callable[[Step, Pod, Accepted | None, IsPending, Report], Coroutine[Any, Any, None]]


@attrs.define(slots=True)
class Running:
    """Bind or migration plan in progress, with a bounded history of state changes."""

    plan: Plan
    begun: float
    #: time of the last finished step
    progressed: float
    #: time, event, and changed steps
    history: deque[tuple[float, PlanEvent, tuple[Step, ...]]] = attrs.field(
        factory=partial(deque, maxlen=HISTORY)
    )

    def is_slow(self, now: float) -> bool:
        """Return True if the plan is slow: new suggestions no longer wait for its end."""
        return now - self.progressed >= STALLED or now - self.begun >= LONGEST

    def __str__(self) -> str:
        lines = [f"{self.plan.id}, begun at {self.begun:.3f}"]
        for at, event, effects in self.history:
            changes = ", ".join(f"{step.id} {step.kind} {step.state}" for step in effects)
            lines.append(f"  {at:.3f} {event} -> {changes or 'nothing'}")
        return "\n".join(lines)


@contextmanager
def plan_logged(plan_id: str | None) -> Iterator[None]:
    """Add the plan to every log line, including tasks begun inside; None removes the plan."""
    before = contextvars.bind_contextvars(plan=plan_id)
    if plan_id is None:
        contextvars.unbind_contextvars("plan")
    try:
        yield
    finally:
        contextvars.reset_contextvars(**before)


@attrs.define(eq=False, repr=False, slots=False)
class PlacementManager(Controller):
    """Executor of all plans: binds, migrations, and the restoring of detached pods.

    `followed`: plan of each pod, read by other parts and written here only.
    `on_bound`: called at the end of each bind outside migrations; its pod may be deleted.
    `on_event`: applies an event to the mirror, and notifies all observers, `observe` included.
    """

    _followed: dict[Uid, str]
    _binds: BindCalls
    _volumes: VolumeCalls
    _calls: MigrationCalls
    migrations: Migrations
    _orphans: OrphanSweep
    _on_bound: Callable[[Pod | None, Step], None]
    _on_event: Callable[[ClusterEvent], None]
    _limits: Limits
    _listener: Listener
    _plans: dict[str, Running] = attrs.field(factory=dict, init=False)
    _numbers: Iterator[int] = attrs.field(factory=partial(itertools.count, 1), init=False)
    #: events not handled yet, including consequences of the present event
    _inbox: deque[tuple[str, PlanEvent, float]] = attrs.field(factory=deque, init=False)
    _handling: bool = attrs.field(default=False, init=False)
    _tasks: asyncio.TaskGroup | None = attrs.field(default=None, init=False)
    _pulls: ImagePulls = attrs.field(init=False)
    _deadlines_changed: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    #: time until which `run` waits
    _alarm: float = attrs.field(default=math.inf, init=False)
    _sweeping: bool = attrs.field(default=False, init=False)
    #: set while no plan is under way
    quiet: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    @_pulls.default
    def _begin_without_pulls(self) -> ImagePulls:
        return ImagePulls(self.handle)

    def __attrs_post_init__(self) -> None:
        self.quiet.set()

    # Background tasks.

    async def run(self) -> None:
        """Execute plans (binds and migrations) until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            while True:
                self._deadlines_changed.clear()
                deadlines = [running.plan.next_deadline for running in self._plans.values()]
                due = min((d for d in deadlines if d is not None), default=None)
                self._alarm = math.inf if due is None else due
                try:
                    async with asyncio.timeout(due and due - self.clock.monotonic()):
                        await self._deadlines_changed.wait()
                except TimeoutError:
                    if due is None or due - self.clock.monotonic() > RESOLUTION:
                        continue  # the clock may differ from the event loop's
                    for plan_id in list(self._plans):
                        self.report(plan_id, TimePassed(), due)

    async def sweep(self) -> None:
        """Restore pods detached by interrupted migrations: immediately, and then periodically."""
        await self.synced.wait()
        self._sweeping = True
        while True:
            self._orphans.sweep(self)
            for pod, node in list(self._volumes.follow_stranded()):
                log.info("claims released", pod=str(pod), node=node)
                self.begin(release_plan(f"release-{next(self._numbers)}", pod.uid, node))
            if pullers := self._pulls.list_orphans():
                self.spawn_task("image pulls", partial(self._pulls.remove_orphans, pullers))
            self._admit()  # slow migrations no longer count for the limits
            await self.clock.sleep(SWEEP)

    def spawn_task(self, part: str, work: Work, **context: object) -> None:
        """Run a coroutine that belongs to no plan as a background task."""

        async def run() -> None:
            with self.supervisor.catch_errors(part, context):
                await work()

        with plan_logged(None):
            self._spawn(run())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is None:
            work.close()
            raise RuntimeError("the placement manager is not running")
        self._tasks.create_task(work)

    # Plans.

    def place(self, bindings: Sequence[Binding]) -> None:
        """Reserve node capacity for all bindings of pods to nodes, and begin the binds.

        The caller decided on a snapshot of the same event-loop turn. Otherwise possibly raises
        ReservationError, without any reservation.
        """
        reserved: list[Uid] = []
        try:
            for pod, node, _ in bindings:
                self.mirror.reserve(pod.uid, node, pod.requests)
                reserved.append(pod.uid)
        except ReservationError:
            for uid in reserved:
                self.mirror.release(uid)
            raise
        limits = self._limits
        waits = [self._binds.longest_wait(number) for number in range(len(bindings))]
        for (pod, node, _), wait in zip(bindings, waits, strict=True):
            plan_id, volumes = f"bind-{next(self._numbers)}", None
            awaited = limits.volume_deadline is not None and pod.pod_class.rules.claims
            if awaited and self._volumes.follow(pod):
                volumes = limits.volume_deadline
            # A slow API server must not fail binds that still wait for their turn.
            self.begin(bind_plan(plan_id, pod.uid, node, limits.bind_deadline + wait, volumes))

    def migrate(self, plan_id: str, group: Group) -> None:
        """Begin a group of migrations as one plan."""
        self.migrations.add(plan_id, group)
        self.begin(migration_plan(plan_id, group.orders))

    def begin(self, plan: Plan) -> None:
        now = self.clock.monotonic()
        self._plans[plan.id] = Running(plan, begun=now, progressed=now)
        self._followed |= {Uid(step.pod): plan.id for step in plan.steps if step.pod}
        self.quiet.clear()
        self.report(plan.id, Begun())

    def cancel_waiting(self) -> None:
        """Cancel the migration groups that wait for their turn, because new pods arrived.

        A group that is being checked goes on: its capacity and benefit are evaluated again before
        the start. Otherwise, no migration would start while pods arrive without a pause.
        """
        if self.migrations.groups:
            self.cancel_unstarted("new pods arrived", except_checked=True)

    def cancel_unstarted(self, reason: str, *, except_checked: bool = False) -> None:
        """Cancel the migration groups in which no migration has started."""
        for plan_id in self.migrations.cancel_unstarted(except_checked=except_checked):
            steps = self._plans[plan_id].plan.steps
            self.report(plan_id, Cancelled(reason))
            for step in steps:
                # Also of admitted migrations that are still checked, or pull images ahead.
                if step.kind is StepKind.START and step.state is StepState.ASKED:
                    self.report(plan_id, CallRefused(step.id, reason))

    def abort_steps(
        self, kinds: Container[StepKind], reason: str, nodes: Container[NodeName] | None = None
    ) -> None:
        """Cancel migrations not yet started, and abort pending steps of some types (such as evict)
        in the given plans.

        `nodes`: only migrations from or to the nodes.
        """
        for plan_id, running in list(self._plans.items()):
            steps = running.plan.steps
            if nodes is not None:
                steps = tuple(step for step in steps if self.migrations.touches(step, nodes))
            if steps:
                self.report(plan_id, Cancelled(reason))
            for step in steps:
                if step.kind in kinds and step.state is StepState.ASKED:
                    self.report(plan_id, CallRefused(step.id, reason))

    def abort_at(self, nodes: Container[NodeName]) -> None:
        """Cancel or roll back migrations from or to the given nodes of a partitioned site, and stop
        waiting for volumes there.
        """
        reason = "a site is partitioned"
        for plan_id, running in list(self._plans.items()):
            for step in running.plan.steps:
                if step.kind is StepKind.BIND_VOLUMES and step.node in nodes:
                    self.report(plan_id, CallRefused(step.id, reason))
        self.cancel_unstarted(reason)
        self.abort_steps(STARTS | WAITS_FOR_REPLACEMENT, reason, nodes)

    def at_rest(self, failing: Container[Uid] = (), *, ignore_binds: bool = False) -> bool:
        """Return True if no bind or migration plan in progress is recent enough to delay new
        migration suggestions.

        Suggestions exclude the workloads and reserved capacity of slow plans.
        failing: pods whose binds fail, so that plans for them alone delay nothing.
        """
        now = self.clock.monotonic()
        slow = now - self.migrations.limits.deadline
        return not any(
            running.begun > slow
            and not running.plan.restores_only
            and not (ignore_binds and plan_id not in self.migrations.groups)
            and not all(Uid(step.pod) in failing for step in running.plan.steps)
            and (not running.is_slow(now) or self.migrations.for_others(plan_id))
            for plan_id, running in self._plans.items()
        )

    @property
    def under_way(self) -> int:
        """Return the number of bind and migration plans in progress."""
        return len(self._plans)

    @property
    def histories(self) -> list[str]:
        """Return the state-change histories of the plans in progress as text."""
        return [str(running) for running in self._plans.values()]

    def follows(self, pod: Uid) -> bool:
        return pod in self._followed

    # Events.

    def observe(self, change: Change) -> None:
        """Report a changed pod to the corresponding plan; recognise replacements and orphans."""
        pod, gone = change.pod_after or change.pod_before, change.pod_after is None
        if pod is None:
            return
        plan_id = self._followed.get(pod.uid)
        if plan_id is not None:
            self.report(plan_id, PodGone(pod.uid) if gone else observation(pod))
            return
        # A replacement with scheduling gates cannot be bound yet.
        name = None if gone or pod.gated else self.mirror.claimed.get(pod.uid)
        migration = self.migrations.find(name) if name else None
        if name and migration:
            self._followed[pod.uid] = migration.plan_id
            self.report(migration.plan_id, ReplacementClaimed(name, pod.uid))
            self.report(migration.plan_id, observation(pod))
        elif self._sweeping and not gone and MIGRATING_LABEL in pod.labels:
            self._orphans.inspect(pod, self)

    def observe_volumes(self, change: Change) -> None:
        """Report changed claims and volumes to the plans of pods that await them."""
        for uid in self._volumes.concerned(change):
            plan_id = self._followed.get(uid, "")
            running = self._plans.get(plan_id)
            for step in running.plan.steps if running is not None else ():
                if step.kind in OF_VOLUMES and step.state not in TERMINAL:
                    self.report(plan_id, self._volumes.observation(step))

    def report(self, plan_id: str, event: PlanEvent, due: float = 0.0) -> None:
        """Deliver an event to a bind or migration plan, and execute the resulting actions, such as
        API calls.

        due: by rounding, the clock may show a moment before this deadline.
        """
        self._inbox.append((plan_id, event, due))
        if self._handling:
            return
        self._handling = True
        now = self.clock.monotonic()  # identical for immediate consequences
        try:
            while self._inbox:
                recipient, event, due = self._inbox.popleft()
                running = self._plans.get(recipient)
                if running is not None:
                    self._handle(running, event, max(due, now))
        finally:
            self._handling = False

    def _handle(self, running: Running, event: PlanEvent, now: float) -> None:
        plan_id = running.plan.id
        running.plan, effects = advance(running.plan, event, now)
        running.history.append((now, event, effects))
        if not effects:
            return
        finished = False
        if any(step.state in TERMINAL for step in effects):
            running.progressed, finished = now, running.plan.finished
        for step in running.plan.steps if finished else ():
            if self._followed.get(Uid(step.pod)) == plan_id:
                del self._followed[Uid(step.pod)]
        self._listener.plan_advanced(running.plan, effects)
        for step in effects:
            about = {"plan": plan_id, "step": step, "history": running}
            with self.supervisor.catch_errors("plan", about) as caught:
                self._apply_effect(running, step)
            if caught.error:
                only = None if step.move else step.id  # migrations need all steps
                failed = Abandoned("internal error of the scheduler", only)
                self._inbox.appendleft((plan_id, failed, now))
        if finished:
            self._end_bind(running)
            del self._plans[plan_id]
            self._listener.plan_ended(running.plan, self.clock.monotonic() - running.begun)
            if not self._plans:
                self.quiet.set()
        elif any(step.deadline and step.deadline < self._alarm for step in effects):
            self._deadlines_changed.set()

    # Steps.

    def _apply_effect(self, running: Running, step: Step) -> None:
        if step.state in TERMINAL:
            self._end_step(running, step)
            return
        plan_id = running.plan.id
        pending, report = partial(self._is_pending, plan_id, step), partial(self.report, plan_id)
        match step.state, step.kind:
            case StepState.ASKED, StepKind.START:
                self.migrations.queue_start(step)
                self._admit()
            case StepState.ASKED, StepKind.BIND:
                if step.move:
                    self.mirror.hand_over(step.move, step.pod)
                bind = partial(self._binds.bind, step, pending, report)
                self._spawn(self._run_step(plan_id, step, bind))
            case StepState.ASKED, StepKind.BIND_VOLUMES:
                send = partial(self._volumes.bind_volumes, step, pending, report)
                self._spawn(self._run_step(plan_id, step, send))
            case StepState.ASKED, StepKind.RELEASE_VOLUMES:
                send = partial(self._volumes.release, step, pending, report)
                self._spawn(self._run_step(plan_id, step, send))
            case StepState.ASKED, _:
                self._call_migration(plan_id, step, pending, report)
            case _:
                self._spawn(self._run_step(plan_id, step, partial(self._verify, plan_id, step)))

    def _call_migration(self, plan_id: str, step: Step, pending: IsPending, report: Report) -> None:
        """Make the API call of a migration step; for a step without a call, observe the pod."""
        calls: Mapping[StepKind, MigrationCall] = {
            StepKind.DETACH: self._calls.detach,
            StepKind.AWAIT_REPLACEMENT: self._calls.await_replacement,
            StepKind.EVICT: self._calls.evict,
            StepKind.RESTORE: self._calls.restore,
        }
        call = calls.get(step.kind)
        migration = self.migrations.find(step.move)
        # A replacement is awaited without a pod: then the old pod describes the owner.
        old = migration.pod if migration is not None else None
        pod = self.mirror.pod(Uid(step.pod)) if step.pod else old
        is_leaving = pod is not None and pod.terminating and step.kind is StepKind.EVICT
        if pod is None or call is None or is_leaving:
            # The step may be done already: a terminating pod needs no eviction.
            report(PodGone(step.pod) if pod is None else observation(pod))
            return
        accepted = migration.accepted if migration is not None else None
        self._spawn(
            self._run_step(plan_id, step, partial(call, step, pod, accepted, pending, report))
        )

    async def _run_step(self, plan_id: str, step: Step, work: Work) -> None:
        """Execute a plan step as a background task, unless plan or step have changed meanwhile."""
        running = self._plans.get(plan_id)
        if running is None or running.plan.steps[step.id].state is not step.state:
            return
        contextvars.bind_contextvars(plan=plan_id)  # until the end of this task
        with self.supervisor.catch_errors(f"step {step.kind}", {"history": running}) as caught:
            await work()
        if caught.error and step.pod:
            # The outcome is unknown: a live read of the pod decides.
            self.report(plan_id, OutcomeLost(step.id))

    def _is_pending(self, plan_id: str, step: Step) -> bool:
        """Return True if the plan step still waits for the outcome of its API call."""
        running = self._plans.get(plan_id)
        return running is not None and running.plan.steps[step.id].state is StepState.ASKED

    async def _verify(self, plan_id: str, step: Step) -> None:
        if step.kind in OF_VOLUMES:
            seen = await self._volumes.read(step)
            if seen is not None:
                self.report(plan_id, seen)
            return
        found = await self._binds.read_pod(step)
        if isinstance(found, Pod):
            # The mirror must account for a bound pod before releasing the reservation.
            self._on_event(PodApplied(found))
            self.report(plan_id, observation(found, live=True))
        elif found is not None:
            self.report(plan_id, found)

    def _end_step(self, running: Running, step: Step) -> None:
        if step.kind is StepKind.BIND and step.state is not StepState.DONE and step.pod:
            self.mirror.release(step.pod)
        if step.kind is StepKind.RESTORE:
            self._orphans.end_restoring(step, self)
        if step.kind is StepKind.BIND_VOLUMES and step.state is StepState.FAILED:
            failed = self._volumes.list_failed(step)
            if failed:
                node = NodeName(step.node)
                self.spawn_task("volumes", partial(self._volumes.avoid_node, failed, node))
        if not step.move:
            return
        self._pulls.observe_step(step)
        with plan_logged(running.plan.id):
            wait = self.migrations.end_step(running.plan, step, STALLED)
        if wait:
            self.spawn_task("turns", partial(self._admit_later, wait))
        elif wait is not None:
            self._admit()

    def _end_bind(self, running: Running) -> None:
        """Report the end of a bind outside migrations, after its claims are released if lost."""
        for step in running.plan.steps:
            if step.kind in OF_VOLUMES:
                self._volumes.forget(Uid(step.pod))
            if step.move or step.kind is not StepKind.BIND:
                continue
            with self.supervisor.catch_errors("plan", {"step": step, "history": running}):
                if len(running.plan.steps) == 1:  # otherwise most of the time is the provisioner's
                    self._listener.bind_ended(self.clock.monotonic() - running.begun)
                self._on_bound(self.mirror.pod(Uid(step.pod)), step)

    # Starts of migrations.

    def _admit(self) -> None:
        for migration, step, pod in self.migrations.admit_starts():
            if isinstance(pod, str):
                self.report(migration.plan_id, CallRefused(step.id, pod))
            else:
                start = partial(self._start, migration, step, pod)
                self._spawn(self._run_step(migration.plan_id, step, start))

    async def _admit_later(self, wait: float) -> None:
        """Admit queued migrations after `wait` seconds, since a pod takes long to terminate."""
        await self.clock.sleep(wait)
        self._admit()

    async def _start(self, migration: Migration, step: Step, pod: Pod) -> None:
        plan_id, mode = migration.plan_id, migration.order.mode
        pending = partial(self._is_pending, plan_id, step)
        checked = await self._calls.check(pod, mode)
        if not isinstance(checked, str) and await self._pulls.pull_ahead(step, pod, pending):
            checked = await self._calls.check(pod, mode)
        if not pending():
            return
        # No await from here on: the check is still valid when the capacity is reserved.
        reason = (
            checked if isinstance(checked, str) else self.migrations.reserve_capacity(step, checked)
        )
        if isinstance(checked, str) or reason:
            self.report(plan_id, CallRefused(step.id, reason))
            return
        log.info(
            "migration begun", pod=str(pod), source=pod.node_name, target=step.node, mode=mode.value
        )
        settle = checked.min_ready + self.migrations.limits.drain_delay
        within = self._pulls.extend_deadline(step, pod, checked.ready_within)
        self.report(plan_id, MoveAccepted(step.move, settle, checked.grace, within))
