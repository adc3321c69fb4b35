"""What comes of decisions: binds are asked for, other pods told why not, and ends of moves told."""

from collections.abc import Iterable, Mapping, Sequence

import attrs
import structlog

from kubedsm.events.event_recorder import EventRecorder
from kubedsm.events.workload_events import WorkloadEvents
from kubedsm.execution.placement_manager import PlacementManager
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.event_notes import note_migration
from kubedsm.explain.listener import Listener
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.model.mirror import ReservationError
from kubedsm.model.model import NodeName, Pod, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.decision import Binding, Decision
from kubedsm.optimizer.programming.in_order import unproven
from kubedsm.plugins.feasibility import Rejection
from kubedsm.plugins.fit import why_unschedulable
from kubedsm.process.log_throttle import cause_of
from kubedsm.scheduling.preemptor import Preemptor
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm.scheduling.work_summary import Batch, WorkDone
from plans.steps import Step, StepState

log = structlog.get_logger()

#: why a pod waits, where deciding about it failed
OWN_ERROR = "an error of the scheduler's own; see its log"
#: of a pod and each node
Rejections = Mapping[NodeName, Rejection]


@attrs.frozen(slots=True)
class Outcomes:
    queue: SchedulingQueue
    manager: PlacementManager
    recorder: EventRecorder
    workload_events: WorkloadEvents
    record: DecisionRecord
    preemptor: Preemptor
    listener: Listener
    work_done: WorkDone

    def place(
        self,
        batch: Batch,
        snapshot: Snapshot,
        decision: Decision,
        messages: Mapping[Uid, str] | None = None,
    ) -> None:
        """In the same breath as the snapshot was taken."""
        self.bind(batch, decision.bindings)
        self.record.batch(snapshot, decision, messages or {})

    def bind(self, batch: Batch, bindings: Sequence[Binding]) -> None:
        """The same of some that are noted otherwise."""
        self.work_done.asked(batch, bindings)
        try:
            self.manager.place(bindings)
        except ReservationError:
            for binding in bindings:
                self.work_done.settled(binding.pod.uid, done=False)
            raise

    def say_why_not(self, snapshot: Snapshot, unplaced: Mapping[Uid, Rejections]) -> dict[Uid, str]:
        """Have these pods wait, in the same breath as the snapshot was taken; what they are told.

        So each is back in the queue, with the rules that rejected it, before the next event is
        handled that could help it.
        """
        found = _unschedulable(snapshot, unplaced)
        for uid, why in found.items():
            pod = snapshot.pods[uid]
            if why.everywhere:
                self.queue.wait_for_help(pod, why.rules)
            else:
                # A node would take it: it needs another decision, and nothing has to happen first.
                self.queue.back_off(pod)
            self.listener.attempt_ended(pod, "unschedulable")
            self.listener.waits(pod, why.message, why.rules)
            self.recorder.failed_scheduling(pod, why.message)
        return {uid: why.message for uid, why in found.items()}

    def late(self, pods: Iterable[Pod]) -> None:
        """Requeue the pods that the decision left for the next batch."""
        for pod in pods:
            self.queue.back_off(pod)
            self.listener.attempt_ended(pod, "late")
            self.listener.waits(pod, "waits for the next batch", ())

    def failed(self, pods: Sequence[Pod]) -> None:
        """Deciding on these failed, by a mistake of ours."""
        for pod in pods:
            self.queue.back_off(pod)
            self.listener.attempt_ended(pod, "error")
            self.listener.waits(pod, OWN_ERROR, ())
            self.recorder.failed_scheduling(pod, OWN_ERROR)

    def ended(self, batch: Batch, pods: Sequence[Pod], seconds: float, decision: Decision) -> None:
        """All is decided about a batch: by this, at last."""
        self.listener.batch_decided(pods, seconds)
        if not decision.proven:
            self.listener.unproven("batch", decision.certificates)
        if decision.looked_at is not None:
            self.listener.cloud_sampled(decision.looked_at.number)
        self.work_done.decided(
            batch,
            pods=len(pods),
            unplaced=len(decision.unplaced),
            late=len(decision.late),
            proven=decision.proven,
            **({"unproven": told} if (told := unproven(decision.certificates)) else {}),
            **({"cloud_nodes": decision.looked_at.as_json()} if decision.looked_at else {}),
            milliseconds=round(1000 * seconds, 2),
        )

    def settled(self, pod: Pod | None, step: Step) -> None:
        """Take note of how a bind ended; None: the pod is gone."""
        self.work_done.settled(Uid(step.pod), done=step.state is StepState.DONE)
        if pod is None:
            return
        if step.state is StepState.DONE:
            self.queue.bound(pod.uid)
            self.listener.attempt_ended(pod, "scheduled")
            self.recorder.scheduled(pod, NodeName(step.node))
            return
        if pod.waits_for_node:
            self.listener.attempt_ended(pod, "error")
            self.queue.back_off(pod, cause_of(step.reason, pod.name, pod.uid, step.node))
            why = f"binding rejected: {step.reason}"
            self.listener.waits(pod, why, ())
            self.recorder.failed_scheduling(pod, why, reason="SchedulerError")
            self.preemptor.unbound(pod)

    def move_ended(self, ended: MoveOutcome) -> None:
        """Remember and tell what became of a move."""
        self.record.move_ended(ended)
        self.listener.move_ended(ended)
        self.work_done.move_ended(ended.outcome)
        if ended.outcome is Outcome.DROPPED:
            return
        pod, completed = ended.move.pod, ended.outcome is Outcome.COMPLETED
        log.info("move ended", pod=str(pod), outcome=ended.outcome, reason=ended.reason)
        self.workload_events.moved(ended)
        self.recorder.moved(pod, note_migration(ended), completed=completed)
        replacement = ended.replacement
        if completed and replacement is not None and replacement.node_name is not None:
            self.recorder.scheduled(replacement, replacement.node_name)


@attrs.frozen(slots=True)
class _Unschedulable:
    """Why a pod was not placed."""

    message: str
    rules: frozenset[str]
    #: no node would take it
    everywhere: bool


def _unschedulable(
    snapshot: Snapshot, unplaced: Mapping[Uid, Rejections]
) -> dict[Uid, _Unschedulable]:
    # By identity: pods that are alike share their rejections, one for each of the nodes.
    read: dict[int, _Unschedulable] = {}
    for uid, rejections in unplaced.items():
        if id(rejections) not in read:
            read[id(rejections)] = _Unschedulable(
                why_unschedulable(snapshot.pods[uid].requests, rejections, snapshot.index),
                frozenset(rejected.rule for rejected in rejections.values()),
                rejections.keys() >= snapshot.nodes.keys(),
            )
    return {uid: read[id(rejections)] for uid, rejections in unplaced.items()}
