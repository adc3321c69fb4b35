"""Placement of large batches by the planner process, to keep the event loop responsive.

One batch at a time. Its pods are parked in the queue during planning; other pods are scheduled. A
response may be outdated: a placement requires an unchanged pending pod and a feasible node in the
present mirror. Otherwise the pod is requeued.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import attrs

from kubedsm.model.model import Pod, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.decision import Binding, Decision
from kubedsm.planner.requests import NoResponseError, PlaceRequest, PlaceResponse, Planner
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility
from kubedsm.scheduling.attempts import Batch, Rejections
from kubedsm.scheduling.scheduling_cycle import Basis, PlannedBatch, Scheduler, Stage

T = TypeVar("T")

#: maximum pods bound or parked within a single event-loop turn
CHUNK = 50


@attrs.define
class PlannedBatches:
    scheduler: Scheduler
    planner: Planner

    async def run(self) -> None:
        """Have the planner process decide large batches of pods, one after the other, until
        cancelled.
        """
        while True:
            await self.scheduler.planning_begun.wait()
            if self.scheduler.planned is not None:
                await self._plan_isolated(self.scheduler.planned)

    async def _plan_isolated(self, batch: PlannedBatch) -> None:
        scheduler = self.scheduler
        try:
            with scheduler.supervisor.catch_errors("decision") as caught:
                await self._plan(batch)
            if caught.error:
                scheduler.attempts.requeue_failed(_list_planning(scheduler, batch.pods))
        finally:
            scheduler.planned = None
            scheduler.planning_begun.clear()
            scheduler.queue.requeue_planning()

    async def _plan(self, planned: PlannedBatch) -> None:
        scheduler = self.scheduler
        scheduler.manager.cancel_waiting()
        batch, decision = Batch(), Decision()
        for stage in scheduler.stages():
            pods = stage.select(_list_planning(scheduler, planned.pods))
            if not pods:
                continue
            # Snapshot and basis describe the cluster at the time of the request.
            request, basis = scheduler.place_request(stage, pods), scheduler.basis()
            snapshot = scheduler.snapshot(stage.view)
            application = Application(scheduler, batch, stage, request, snapshot, basis)
            response = await self._request(request)
            scheduler.fallback_next = response is None
            if response is None or not await application.apply(response):
                return
            decision = application.decision
        seconds = scheduler.clock.monotonic() - planned.began
        scheduler.end_batch(batch, planned.pods, seconds, decision)

    async def _request(self, request: PlaceRequest) -> PlaceResponse | None:
        """Request a batch's placement from the planner process; return None without a response.

        After a programming error, fallback scheduling finds the pod that causes the error.
        """
        with self.scheduler.supervisor.catch_errors("decision"):
            try:
                return await self.planner.solve(request)
            except NoResponseError:
                pass
        return None


@attrs.define
class Application:
    """Application of a planner response to the present mirror, in chunks of several pods.

    A chunk is validated and reserved in one turn of the event loop. Between chunks other tasks run.
    """

    scheduler: Scheduler
    batch: Batch
    stage: Stage
    request: PlaceRequest
    #: of the request
    snapshot: Snapshot
    basis: Basis
    #: the applied part of the response
    decision: Decision = attrs.field(factory=Decision, init=False)
    _placed: list[Binding] = attrs.field(factory=list, init=False)
    _messages: dict[Uid, str] = attrs.field(factory=dict, init=False)

    async def apply(self, response: PlaceResponse) -> bool:
        """Bind pods as the planner decided; return False if changes invalidated the decision.

        After an invalidation, the remaining pods are replanned.
        """
        configuration = self.scheduler.configuration.current
        valid = await self._apply_chunks(response)
        if valid and response.decision.looked_at is not None:
            self.scheduler.advance_sampling(response.decision.looked_at)
        self.decision = attrs.evolve(
            response.decision,
            bindings=tuple(self._placed),
            unplaced={uid: {} for uid in self._messages},
        )
        self.scheduler.record.batch(self.snapshot, self.decision, self._messages, configuration)
        return valid

    async def _apply_chunks(self, response: PlaceResponse) -> bool:
        for number, apply_chunk in enumerate(self._chunks(response)):
            if number:
                await self.scheduler.clock.sleep(0)
            if self.scheduler.basis() != self.basis:
                return False
            apply_chunk()
        return True

    def _chunks(self, response: PlaceResponse) -> Iterator[Callable[[], None]]:
        in_planning = self.scheduler.queue.in_planning
        present = tuple(b for b in response.decision.bindings if in_planning(b.pod.uid))
        decision = attrs.evolve(response.decision, bindings=present)
        decision = self.scheduler.hold_new_pods(self.stage, self.snapshot, decision)
        for bindings in _split(decision.bindings):
            yield partial(self._place, bindings)
        yield partial(self._await_capacity, response.awaiting_capacity)
        if self.stage.last:
            late = response.decision.late
            yield lambda: self.scheduler.attempts.requeue_late(_list_planning(self.scheduler, late))
            for pods in _split(response.unplaced):
                yield partial(self._park_unschedulable, pods)

    def _place(self, bindings: Sequence[Binding]) -> None:
        queue, snapshot = self.scheduler.queue, self.scheduler.snapshot(self.stage.view)
        feasibility, valid = Feasibility.of(snapshot), list[Binding]()
        for binding in bindings:
            pod = queue.in_planning(binding.pod.uid)
            if pod is None:
                continue
            present = Binding(pod, binding.node, binding.tier)
            if _is_feasible(snapshot, feasibility, present):
                feasibility = feasibility.with_pod(pod, present.node)
                queue.remove(pod.uid)
                valid.append(present)
        try:
            self.scheduler.bind(self.batch, valid)
        except Exception:
            for binding in valid:
                queue.begin_planning(binding.pod)  # requeued with the rest of the batch
            raise
        self._placed += valid

    def _await_capacity(self, pods: Sequence[Pod]) -> None:
        """Let pods wait for capacity of terminating pods, unless capacity was freed meanwhile."""
        if self.request.leaving <= self.scheduler.changes.stopping():
            for pod in _list_planning(self.scheduler, pods):
                self.scheduler.queue.await_capacity(pod)

    def _park_unschedulable(self, pods: Sequence[Pod]) -> None:
        """Filter the unplaced pods on the present nodes, and park them as unschedulable."""
        snapshot = self.scheduler.snapshot(self.stage.view)
        feasibility = Feasibility.of(snapshot)
        by_class: dict[EquivalenceClass, Rejections] = {}
        unplaced: dict[Uid, Rejections] = {}
        for pod in _list_planning(self.scheduler, pods):
            pod_class = feasibility.equivalence(pod)
            if pod_class not in by_class:
                by_class[pod_class] = feasibility.rejections(pod)
            unplaced[pod.uid] = by_class[pod_class]
        self._messages |= self.scheduler.attempts.park_unschedulable(snapshot, unplaced)
        self.scheduler.preemptor.consider(unplaced)


def _list_planning(scheduler: Scheduler, pods: Sequence[Pod]) -> list[Pod]:
    """Return the present state of the pods that are still parked for the planner process."""
    present = (scheduler.queue.in_planning(pod.uid) for pod in pods)
    return [pod for pod in present if pod is not None]


def _is_feasible(snapshot: Snapshot, feasibility: Feasibility, binding: Binding) -> bool:
    """Return True if the node still has the tier of the decision and accepts the pod."""
    node = snapshot.nodes.get(binding.node)
    return (
        node is not None
        and node.tier is binding.tier
        and feasibility.rejection(binding.pod, node.name) is None
    )


def _split(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]
