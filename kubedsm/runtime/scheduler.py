"""The immediate scheduler: gather a batch, decide, and hand the decision to be carried out."""

import asyncio
import random
from collections.abc import Callable, Mapping

import attrs
import structlog

from kubedsm.clock import Clock, deadline_in
from kubedsm.configuration.current import CurrentConfiguration
from kubedsm.configuration.settings import BatchSettings
from kubedsm.core.placing.contention import uncontended
from kubedsm.core.placing.decision import Decision
from kubedsm.core.policies.kubedsm import KubeDSM
from kubedsm.core.policies.policy import Policy
from kubedsm.core.rules.fit import unschedulable_message
from kubedsm.core.solving.in_order import unproven
from kubedsm.core.world.deadline import Deadline
from kubedsm.core.world.mirror import ClusterMirror
from kubedsm.core.world.model import NodeName, Pod, Uid
from kubedsm.core.world.snapshot import Snapshot
from kubedsm.runtime.batch_window import batch_window
from kubedsm.runtime.bind_calls import BindCalls
from kubedsm.runtime.event_recorder import EventRecorder
from kubedsm.runtime.listener import Listener
from kubedsm.runtime.placement_manager import PlacementManager
from kubedsm.runtime.preemptor import Preemptor
from kubedsm.runtime.scheduling_queue import SchedulingQueue
from kubedsm.runtime.sites import Sites
from kubedsm.runtime.supervisor import Supervisor
from kubedsm.runtime.workload_changes import WorkloadChanges
from kubedsm.said_by_cause import cause_of
from kubedsm.why.record import DecisionRecord
from plans.steps import Step, StepState

log = structlog.get_logger()


@attrs.frozen(slots=True)
class Scheduler:
    """Decides on batches of waiting pods; to be run once the mirror is complete."""

    mirror: ClusterMirror
    queue: SchedulingQueue
    manager: PlacementManager
    binds: BindCalls
    recorder: EventRecorder
    record: DecisionRecord
    preemptor: Preemptor
    configuration: CurrentConfiguration
    #: the one that holds now
    policy: Callable[[], Policy]
    clock: Clock
    rng: random.Random
    synced: asyncio.Event
    supervisor: Supervisor
    listener: Listener
    changes: WorkloadChanges
    sites: Sites
    #: closes the batch that is gathered by a configuration that holds no more
    _reconfigured: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    @property
    def _batch(self) -> BatchSettings:
        return self.configuration.current.batch

    async def run(self) -> None:
        await self.synced.wait()
        while True:
            await self.queue.wait_active()
            await batch_window(self.queue, self.clock, self._batch, self._closed())
            self._schedule_batch()
            await self.clock.sleep(0)  # with enough pods waiting nothing else here would

    def reconfigured(self) -> None:
        """Wait no longer for a batch than is told now."""
        self._reconfigured.set()

    def _closed(self) -> asyncio.Event:
        """What closes the batch before its time, if that costs nothing: no bind is under way.

        While one is, the next would only come behind it. Else, that all is configured anew.
        """
        with self.supervisor.catching("window"):
            snapshot, most = self.mirror.snapshot(self.clock.wall()), self._batch.size
            exact, ready = isinstance(self.policy(), KubeDSM), self.queue.ready(most)
            alone = len(self.sites.stand_ins(ready)) == len(ready) > 0
            if exact and (alone or uncontended(snapshot, ready, most)):
                return self.binds.none_under_way
        self._reconfigured.clear()
        return self._reconfigured

    def _schedule_batch(self) -> None:
        """Decide on what is ready; on a pod that room is held for, by itself and before others."""
        uids = self.queue.pop(self._batch.size)
        for uid in self.preemptor.nominated(uids):
            with self.preemptor.lifted([uid]):
                self._decide_each([uid])
            uids.remove(uid)
        self._decide_each(uids)

    def _decide_each(self, uids: list[Uid]) -> None:
        """Decide on all at once; if that fails, put off only the pods that it fails for."""
        pods = [pod for pod in map(self.mirror.pod, uids) if pod is not None]
        for pod in self.supervisor.isolate("decision", self._decide, pods):
            self.queue.back_off(pod)
            self.listener.attempt_ended(pod, "error")
            self.recorder.failed_scheduling(pod, "an error of the scheduler's own; see its log")

    def _decide(self, waiting: list[Pod]) -> None:
        """Decide, reserve and ask.

        Nothing here awaits, so nothing can come between: a pod is back in the queue, with the
        rules that rejected it, before the next event is handled that could help it.
        """
        started = self.clock.monotonic()
        snapshot = self.mirror.snapshot(self.clock.wall())
        pods = snapshot.schedulable(waiting)
        if not pods:
            return
        self.listener.batch_begun(pods)
        deadline = deadline_in(self._batch.budget, self.clock)
        left = self._placed_apart(pods, deadline)
        if len(left) < len(pods):
            snapshot = self.mirror.snapshot(self.clock.wall())
        decision = self._decided(snapshot, left, deadline)
        unschedulable = _unschedulable(snapshot, decision)
        # First of all: what follows may give room back.
        self._say_why_not(snapshot, unschedulable)
        self.manager.give_way("new pods came")
        messages = {uid: why.message for uid, why in unschedulable.items()}
        self._place(snapshot, decision, messages)
        for pod in decision.late:
            self.queue.back_off(pod)
            self.listener.attempt_ended(pod, "late")
        self.preemptor.consider(decision.unplaced)
        seconds = self.clock.monotonic() - started
        self.listener.batch_decided(pods, seconds)
        if not decision.proven:
            self.listener.unproven("batch", decision.certificates)
        log.info(
            "batch",
            pods=len(pods),
            bound=len(decision.bindings) + len(pods) - len(left),
            unplaced=len(decision.unplaced),
            late=len(decision.late),
            proven=decision.proven,
            **({"unproven": told} if (told := unproven(decision.certificates)) else {}),
            milliseconds=round(1000 * seconds, 2),
        )

    def _placed_apart(self, pods: list[Pod], deadline: Deadline) -> list[Pod]:
        """Place what has its place apart from sites that are away; the pods that are left.

        What comes instead of pods that go on serving where they are goes to the cloud, beside all
        others. What nothing else takes may still go anywhere: better there than nowhere.
        """
        away, policy = self.sites.away(), self.policy()
        if not (away and isinstance(policy, KubeDSM)):
            return pods
        stand_ins = self.sites.stand_ins(pods)
        if stand_ins:
            snapshot = away.in_cloud(self.mirror.snapshot(self.clock.wall()))
            decision = policy.decide(snapshot, stand_ins, deadline)
            self._place(snapshot, decision)
            placed = {binding.pod.uid for binding in decision.bindings}
            pods = [pod for pod in pods if pod.uid not in placed]
        if pods:
            snapshot = away.apart(self.mirror.snapshot(self.clock.wall()))
            decision = self._decided(snapshot, pods, deadline)
            self._place(snapshot, decision)
            late = {pod.uid for pod in decision.late}
            pods = [pod for pod in pods if pod.uid in late or pod.uid in decision.unplaced]
        return pods

    def _place(
        self, snapshot: Snapshot, decision: Decision, messages: Mapping[Uid, str] | None = None
    ) -> None:
        self.manager.place(decision.bindings)
        self.record.batch(snapshot, decision, messages or {})

    def _decided(self, snapshot: Snapshot, pods: list[Pod], deadline: Deadline) -> Decision:
        """What is decided now; some pods may be held for room on the edge that is being left."""
        policy, longest = self.policy(), self._batch.edge_wait
        may_wait = longest and all(self.queue.may_hold(pod.uid, longest) for pod in pods)
        if not (may_wait and isinstance(policy, KubeDSM)):
            return policy.place(snapshot, pods, self.rng, deadline)
        decision, held = policy.decide_ahead(snapshot, pods, self.changes.stopping(), deadline)
        for pod in held:
            self.queue.hold(pod)
        return decision

    def _say_why_not(self, snapshot: Snapshot, found: "Mapping[Uid, _Unschedulable]") -> None:
        for uid, why in found.items():
            pod = snapshot.pods[uid]
            if why.everywhere:
                self.queue.wait_for_help(pod, why.rules)
            else:
                # A node would take it: it needs another decision, and nothing has to happen first.
                self.queue.back_off(pod)
            self.listener.attempt_ended(pod, "unschedulable")
            self.recorder.failed_scheduling(pod, why.message)

    def settled(self, pod: Pod, step: Step) -> None:
        """Take note of how a bind ended."""
        if step.state is StepState.DONE:
            self.queue.bound(pod.uid)
            self.listener.attempt_ended(pod, "scheduled")
            self.recorder.scheduled(pod, NodeName(step.node))
            return
        if pod.waits_for_node:
            self.listener.attempt_ended(pod, "error")
            self.queue.back_off(pod, cause_of(step.reason, pod.name, pod.uid, step.node))
            self.recorder.failed_scheduling(
                pod, f"binding rejected: {step.reason}", reason="SchedulerError"
            )
            self.preemptor.unbound(pod)


@attrs.frozen(slots=True)
class _Unschedulable:
    """Why a pod was not placed."""

    message: str
    rules: frozenset[str]
    #: no node would take it
    everywhere: bool


def _unschedulable(snapshot: Snapshot, decision: Decision) -> dict[Uid, _Unschedulable]:
    # By identity: pods that are alike share their rejections, one for each of the nodes.
    read: dict[int, _Unschedulable] = {}
    for rejections in decision.unplaced.values():
        if id(rejections) not in read:
            read[id(rejections)] = _Unschedulable(
                unschedulable_message(rejections),
                frozenset(rejected.rule for rejected in rejections.values()),
                rejections.keys() >= snapshot.nodes.keys(),
            )
    return {uid: read[id(rejections)] for uid, rejections in decision.unplaced.items()}
