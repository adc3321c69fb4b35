"""Immediate scheduler: the cycle that pops a batch of pods, decides placement, and binds.

`Scheduler.run` repeats the cycle that kube-scheduler's schedule_one.go runs for single pods:

1. Gather a batch until its window closes, and pop it from the queue.
2. Take a snapshot, then filter and score: the policy decides for the whole batch.
3. Reserve capacity and begin the binds, in the event-loop turn of the snapshot. Park, back off or
   preempt for pods that get no node.
4. Record the decision. `Attempts.end_bind` follows once a bind is verified, or has failed.

A batch that cannot be decided within `INLINE_BUDGET` goes to the planner: see `planned_batches`.
"""

import asyncio
import contextlib
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import attrs
import structlog

from kubedsm.config.sections import BatchSettings
from kubedsm.config.settings import Configuration
from kubedsm.events.controller import Controller
from kubedsm.execution.bind_calls import BindCalls
from kubedsm.execution.placement_manager import PlacementManager
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.model.deadline import Deadline
from kubedsm.model.mirror import ReservationError
from kubedsm.model.model import NodeName, Pod, Uid, Workload
from kubedsm.model.residents import Selection
from kubedsm.model.sites import NOTHING_AWAY
from kubedsm.model.snapshot import Snapshot
from kubedsm.model.surroundings import Surroundings
from kubedsm.optimizer.placing.cloud import SampledNodes
from kubedsm.optimizer.placing.decision import Binding, Decision
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.policies.policy import Policy
from kubedsm.optimizer.programming.in_order import describe_unproven
from kubedsm.planner.requests import PlaceRequest, View
from kubedsm.process.clock import RESOLUTION, Clock
from kubedsm.scheduling.attempts import Attempts, Batch
from kubedsm.scheduling.preemptor import Preemptor
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm.scheduling.site_monitor import Sites
from kubedsm.scheduling.workload_changes import WorkloadChanges

log = structlog.get_logger()

#: maximum event-loop seconds of a single scheduling decision: work of 25 ms on an idle core
INLINE_BUDGET = 0.075
#: maximum batch size of one event-loop turn, and of fallback scheduling, where every pod may have a
#: different class
INLINE_LIMIT, FALLBACK_LIMIT = 256, 64
#: maximum batch size under contention: smaller batches could lose feasibility or QoS
CONTENDED_LIMIT = 5000
#: revision of the configuration, and nodes of partitioned sites
Basis = tuple[int, frozenset[NodeName]]


@attrs.frozen(slots=True)
class Stage:
    """Part of a batch of pods that is decided together, and the part of the cluster visible to the
    decision.
    """

    #: None: the whole cluster
    view: View | None = None
    select: Callable[[list[Pod]], list[Pod]] = list
    #: pods unplaced at this stage are unschedulable
    last: bool = True


class StageDecision(NamedTuple):
    snapshot: Snapshot
    decision: Decision
    #: pods that wait for edge capacity about to be freed
    awaiting_capacity: tuple[Pod, ...] = ()


#: returns None if the batch needs the planner
Decide = Callable[[Stage, list[Pod]], StageDecision | None]


@attrs.frozen(slots=True)
class PlannedBatch:
    """Batch whose placement the planner process is computing."""

    pods: list[Pod]
    began: float
    workloads: frozenset[Workload] = attrs.field(init=False)
    #: selections in the preferences of the batch
    preferred: frozenset[Selection] = attrs.field(init=False)

    @workloads.default
    def _list_workloads(self) -> frozenset[Workload]:
        return frozenset(pod.workload for pod in self.pods)

    @preferred.default
    def _collect_preferred(self) -> frozenset[Selection]:
        return _list_preferred(self.pods)

    def interacts_with(self, pod: Pod, surroundings: Surroundings) -> bool:
        """Return whether the best nodes of the pod and of the batch depend on each other."""

        def is_selected(selections: Iterable[Selection], other: Pod) -> bool:
            return any(s.covers(other.namespace, other.labels, surroundings) for s in selections)

        preferred = _list_preferred([pod])
        return (
            pod.workload in self.workloads
            or is_selected(self.preferred, pod)
            or (bool(preferred) and any(is_selected(preferred, other) for other in self.pods))
        )


@attrs.define(eq=False, repr=False)
class Scheduler(Controller):
    """Scheduling loop over batches of pods; starts once the mirror is synced."""

    queue: SchedulingQueue
    rng: random.Random
    changes: WorkloadChanges
    sites: Sites
    manager: PlacementManager
    binds: BindCalls
    preemptor: Preemptor
    attempts: Attempts
    record: DecisionRecord
    #: binds are never sent, and therefore never verified
    dry_run: bool = False
    #: policy in place of the configured one
    other_policy: Policy | None = None
    policy: Policy = attrs.field(init=False)
    #: batch in the planner process
    planned: PlannedBatch | None = attrs.field(default=None, init=False)
    planning_begun: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    #: no planner response: fallback scheduling for the next batch
    fallback_next: bool = attrs.field(default=False, init=False)
    #: cloud node at which the next batch's sampling starts
    sampling_start: int = attrs.field(default=0, init=False)
    #: returns the seconds that pods wait for capacity at the edge instead of starting in the cloud
    find_held: Callable[[Snapshot, Decision], Mapping[Uid, float]] = attrs.field(
        default=lambda _snapshot, _decision: {}, init=False
    )
    _reconfigured: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.policy = self.other_policy or self.configuration.current.policy
        self.configuration.observe(self._apply_configuration)

    async def run(self) -> None:
        await self.synced.wait()
        while True:
            await self.queue.wait_active()
            batch = self.configuration.current.batch
            closed, enough = self._early_close()
            await batch_window(self.queue, self.clock, batch, closed, self._batch_limit, enough)
            self._schedule_batch()
            await self.clock.sleep(0)  # yield to other tasks although enough pods wait

    # 1. Gather a batch.

    def _apply_configuration(self, _: Configuration) -> None:
        """After a configuration change, requeue unschedulable pods, and close the batch window."""
        self.policy = self.other_policy or self.configuration.current.policy
        with self.supervisor.catch_errors("configuration"):
            self.queue.reconsider()
            self._reconfigured.set()

    def _early_close(self) -> tuple[asyncio.Event, int]:
        """Return an event, and a number of pods, that close the batch before the end of the batch
        window.

        Uncontended pods close the batch at the completion of all binds in flight: another batch
        would only queue behind them. Half as many pods as are bound at once do so, too: the first
        pods of a burst are bound while the last are created. Otherwise only a configuration change
        closes the batch.
        """
        with self.supervisor.catch_errors("window"):
            size = self.configuration.current.batch.size
            ready = self.queue.ready(size)
            only_stand_ins = len(self.sites.stand_ins(ready)) == len(ready) > 0
            if isinstance(self.policy, KubeDSM) and (
                only_stand_ins or self.policy.is_uncontended(self.snapshot(), ready, size)
            ):
                return self.binds.none_under_way, self.binds.at_once // 2
        self._reconfigured.clear()
        return self._reconfigured, sys.maxsize

    def _batch_limit(self) -> int:
        """Return the maximum number of pods in the next batch.

        Pods that compete for nodes or QoS are decided together, even above the configured size.
        """
        size = self.configuration.current.batch.size
        if len(self.queue) < size or not isinstance(self.policy, KubeDSM):
            return size
        ready = self.queue.ready(CONTENDED_LIMIT)
        contended = not self.policy.is_uncontended(self.snapshot(), ready, len(ready))
        return max(size, CONTENDED_LIMIT) if contended else size

    def _schedule_batch(self) -> None:
        """Pop a batch and schedule the pods in queue order, a nominated pod alone."""
        decide, limit = self.decide_inline, self.configuration.current.batch.size
        with self.supervisor.catch_errors("window"):
            limit = self._batch_limit()
        if self.fallback_next:
            decide, limit, self.fallback_next = self.decide_fallback, FALLBACK_LIMIT, False
        others: list[Uid] = []
        for uid in self.queue.pop(limit):
            if uid not in self.preemptor.nominations:
                others.append(uid)
                continue
            if others:
                self._schedule_isolated(others, decide)
                others = []
            with self.preemptor.suspend_nomination(uid):
                self._schedule_isolated([uid], self.decide_fallback)
        if others:
            self._schedule_isolated(others, decide)

    def _schedule_isolated(self, uids: list[Uid], decide: Decide) -> None:
        """Schedule pods together; after an exception, back off only the pods that caused it."""
        pods = [pod for pod in map(self.mirror.pod, uids) if pod is not None]
        schedule = partial(self._schedule, decide=decide)
        failed = self.supervisor.isolate_failures("decision", schedule, pods)
        if failed:
            self.attempts.requeue_failed(failed)

    # 2. Take a snapshot, then filter and score.

    def _schedule(self, waiting: list[Pod], decide: Decide) -> None:
        """Decide placement of pods, reserve capacity and begin binds: steps 2 to 4 of the cycle.

        No `await` occurs, so no event is processed in between.
        """
        began = self.clock.monotonic()
        pods = self.snapshot().schedulable(waiting)
        if not pods:
            return
        self.listener.batch_begun(pods)
        left = pods if self.planned is None else self._list_independent(pods, self.planned)
        batch, decision = Batch(), Decision()
        for stage in self.stages():
            selected = stage.select(left)
            if not selected:
                continue
            decided = decide(stage, selected)
            if decided is None:
                self._begin_planning(left, began)
                return
            snapshot, decision, awaiting_capacity = decided
            if decision.looked_at is not None:
                self.advance_sampling(decision.looked_at)
            decision = self.hold_new_pods(stage, snapshot, decision)
            for pod in awaiting_capacity:
                self.queue.await_capacity(pod)
            messages: dict[Uid, str] = {}
            if stage.last and decision.unplaced:
                messages = self.attempts.park_unschedulable(snapshot, decision.unplaced)
            self.bind(batch, decision.bindings)
            self.record.batch(snapshot, decision, messages, self.configuration.current)
            if stage.last and decision.late:
                self.attempts.requeue_late(decision.late)
            done = {pod.uid for pod in (*awaiting_capacity, *(b.pod for b in decision.bindings))}
            left = [pod for pod in left if pod.uid not in done]
        self.manager.cancel_waiting()
        if decision.unplaced:
            self.preemptor.consider(decision.unplaced)
        self.end_batch(batch, pods, self.clock.monotonic() - began, decision)

    def stages(self) -> tuple[Stage, ...]:
        """Return the stages in which a batch is decided: several while sites are partitioned.

        Stand-ins for pods that continue serving at a partitioned site go to the cloud. Otherwise
        unschedulable pods may go to a partitioned site: better there than nowhere.
        """
        away = self.sites.away()
        if away == NOTHING_AWAY or not isinstance(self.policy, KubeDSM):
            return (Stage(),)
        stand_ins = Stage(away.in_cloud, self.sites.stand_ins, last=False)
        return stand_ins, Stage(away.close_sites, last=False), Stage()

    def snapshot(self, view: View | None = None) -> Snapshot:
        snapshot = self.mirror.snapshot(self.clock.wall())
        return snapshot if view is None else view(snapshot)

    def basis(self) -> Basis:
        """Return the state on which scheduling decisions depend: configuration revision and
        partitioned nodes.

        Any change invalidates decisions in progress.
        """
        return self.configuration.generation, self.sites.away().nodes

    def decide_inline(self, stage: Stage, pods: list[Pod]) -> StageDecision | None:
        """Decide on the placement of a batch within `INLINE_BUDGET`; return None if the planner
        process may find a better decision.
        """
        policy, snapshot = self.policy, self.snapshot(stage.view)
        budget = self.configuration.current.batch.budget
        if not isinstance(policy, KubeDSM):
            deadline = Deadline.within(budget, self.clock.monotonic)
            return StageDecision(snapshot, policy.place(snapshot, pods, self.rng, deadline))
        if len(pods) > INLINE_LIMIT:
            return None
        deadline = Deadline.within(min(budget, INLINE_BUDGET), self.clock.monotonic)
        leaving, start = self._list_leaving(pods), self.sampling_start
        decided = policy.at_once(snapshot, pods, leaving, deadline, start)
        return decided and StageDecision(snapshot, *decided)

    def decide_fallback(self, stage: Stage, pods: list[Pod]) -> StageDecision | None:
        """Return the best placement found within `INLINE_BUDGET` seconds without a solver."""
        policy = self.policy
        if not isinstance(policy, KubeDSM):
            return self.decide_inline(stage, pods)
        snapshot = self.snapshot(stage.view)
        deadline = Deadline.within(INLINE_BUDGET, self.clock.monotonic)
        solverless, leaving = attrs.evolve(policy, solver=None), self._list_leaving(pods)
        decided = solverless.decide_ahead(snapshot, pods, leaving, deadline, self.sampling_start)
        return StageDecision(snapshot, *decided)

    def place_request(self, stage: Stage, pods: list[Pod]) -> PlaceRequest:
        configuration = self.configuration.current
        return PlaceRequest(
            tuple(pod.uid for pod in pods),
            self.clock.wall(),
            max(configuration.batch.budget, configuration.solver.budget),
            self._list_leaving(pods),
            stage.view,
            self.sampling_start,
            min(configuration.batch.budget, INLINE_BUDGET) if len(pods) <= INLINE_LIMIT else 0.0,
        )

    def _list_leaving(self, pods: list[Pod]) -> frozenset[Uid]:
        """Return terminating pods whose edge capacity the given pods may wait for."""
        limit = self.configuration.current.batch.edge_wait
        may_wait = limit and all(self.queue.can_await_capacity(pod.uid, limit) for pod in pods)
        return self.changes.stopping() if may_wait else frozenset()

    def _begin_planning(self, pods: list[Pod], began: float) -> None:
        """Hand the batch to the planner process; while another is planned, only park the pods."""
        for pod in pods:
            self.queue.begin_planning(pod)
        if self.planned is None:
            self.planned = PlannedBatch(pods, began)
            self.planning_begun.set()

    def _list_independent(self, pods: list[Pod], planned: PlannedBatch) -> list[Pod]:
        """Return the pods scheduled independently of the planned batch; park the others.

        Lower-priority pods must not take capacity from the planned batch. Replicas of the same
        workloads, and pods with mutual preferences, wait too: otherwise both decisions could choose
        the best node for the first replica.
        """
        highest = max(pod.pod_class.priority for pod in planned.pods)
        surroundings, independent = self.mirror.surroundings, []
        for pod in pods:
            if pod.pod_class.priority < highest or planned.interacts_with(pod, surroundings):
                self.queue.begin_planning(pod)
            else:
                independent.append(pod)
        return independent

    def hold_new_pods(self, stage: Stage, snapshot: Snapshot, decision: Decision) -> Decision:
        """Park the pods for which migrations make capacity at the edge; return the decision on the
        other pods.
        """
        held = {} if stage.view else self.find_held(snapshot, decision)
        if not held:
            return decision
        for uid, seconds in held.items():
            self.queue.park(snapshot.pods[uid], seconds)
        bindings = tuple(each for each in decision.bindings if each.pod.uid not in held)
        return attrs.evolve(decision, bindings=bindings)

    # 3. Reserve and bind.

    def advance_sampling(self, sampled: SampledNodes) -> None:
        """Start the next sample of cloud nodes after the last, unless another batch already did."""
        if sampled.first == self.sampling_start:
            self.sampling_start = sampled.following

    def bind(self, batch: Batch, bindings: Sequence[Binding]) -> None:
        """Reserve node capacity and begin the binds, before events can change the snapshot."""
        self.attempts.begin_binds(batch, bindings)
        try:
            self.manager.place(bindings)
        except ReservationError:
            self.attempts.cancel_binds(bindings)
            raise

    # 4. Record.

    def end_batch(
        self, batch: Batch, pods: Sequence[Pod], seconds: float, decision: Decision
    ) -> None:
        """Record metrics, log line and decision of a batch once all of its pods are decided."""
        self.listener.batch_decided(pods, seconds)
        if not decision.proof.whole:
            self.listener.optimality_unproven("batch", decision.certificates)
        if decision.looked_at is not None:
            self.listener.cloud_sampled(decision.looked_at.number)
        gaps = describe_unproven(decision.certificates) if decision.certificates else ""
        batch.fields = {
            "pods": len(pods),
            "unplaced": len(decision.unplaced),
            "late": len(decision.late),
            "proven": decision.proof.whole,
            **({"unproven": gaps} if gaps else {}),
            **({"out_of_time": True} if decision.out_of_time else {}),
            **({"cloud_nodes": decision.looked_at.as_json()} if decision.looked_at else {}),
            "milliseconds": round(1000 * seconds, 2),
        }
        decided = batch.in_flight or batch.bound or batch.failed
        if not (decided or decision.unplaced or decision.late):
            return  # all pods wait for capacity
        if self.dry_run:
            log.info("batch", bound=0, would_bind=len(batch.in_flight), **batch.fields)
        else:
            batch.log_if_complete()


async def batch_window(
    queue: SchedulingQueue,
    clock: Clock,
    batch: BatchSettings,
    closed: asyncio.Event,
    limit: Callable[[], int],
    enough: int,
) -> None:
    """Wait until the batch of new pods is complete, or `closed` is set.

    A batch is complete after `idle` seconds without a new pod, at the age of `max` seconds, or with
    `enough` or `limit()` pods. The limit is evaluated once the batch has `size` pods.
    """
    opened, full = clock.monotonic(), batch.size
    while not closed.is_set() and len(queue) < enough:
        if len(queue) >= full:
            full = limit()
            if len(queue) >= full:
                return
        closes = min(queue.last_arrival + batch.idle, opened + batch.max)
        remaining = closes - clock.monotonic()
        if remaining < RESOLUTION:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(remaining):
                await closed.wait()


def _list_preferred(pods: Iterable[Pod]) -> frozenset[Selection]:
    """Return selections of the pods named in these pods' affinity and spread preferences."""
    found: set[Selection] = set()
    for preferences in {pod.pod_class.rules.preferences for pod in pods}:
        terms = (*preferences.affinity, *preferences.anti_affinity)
        found.update(Selection.of(term) for _, term in terms)
        found.update(Selection.of_spread(each) for each in preferences.spread)
    return frozenset(found)
