"""Outcomes of scheduling attempts: unschedulable, postponed, error, bind verified or failed.

Each end requeues the pod if necessary, and is counted, logged, and reported in Events.
"""

from collections.abc import Iterable, Mapping, Sequence

import attrs
import structlog

from kubedsm.events.controller import Controller
from kubedsm.execution.placement_manager import plan_logged
from kubedsm.explain.listener import Result
from kubedsm.model.model import NodeName, Pod, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.decision import Binding
from kubedsm.plugins.feasibility import Rejection
from kubedsm.plugins.fit import why_unschedulable
from kubedsm.process.log_throttle import cause_of
from kubedsm.scheduling.preemptor import Preemptor
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from plans.steps import Step, StepState

log = structlog.get_logger()

#: message for pods retried after an internal error
INTERNAL_ERROR = "internal error of the scheduler; see its log"

#: rejections of a pod by node
Rejections = Mapping[NodeName, Rejection]


@attrs.define(eq=False)
class Batch:
    """Binds of one batch of pods, and the log line written when the last bind ends."""

    #: "pod on node" of each bind in flight
    in_flight: dict[Uid, str] = attrs.field(factory=dict, init=False)
    bound: list[str] = attrs.field(factory=list, init=False)
    failed: list[str] = attrs.field(factory=list, init=False)
    #: further fields; None until completion of the decision
    fields: dict[str, object] | None = attrs.field(default=None, init=False)

    def log_if_complete(self) -> None:
        if self.fields is None or self.in_flight:
            return
        failed = {"failed": len(self.failed)} if self.failed else {}
        with plan_logged(None):  # a batch has a plan for each bind
            log.info("batch", bound=len(self.bound), **failed, **self.fields)
            if self.bound or self.failed:
                log.debug("batch pods", bound=self.bound, failed=self.failed)


@attrs.define(eq=False, repr=False)
class Attempts(Controller):
    queue: SchedulingQueue
    preemptor: Preemptor
    #: number of verified binds
    bound: int = attrs.field(default=0, init=False)
    #: batch of each bind in flight
    _batches: dict[Uid, Batch] = attrs.field(factory=dict, init=False)

    def park_unschedulable(
        self, snapshot: Snapshot, unplaced: Mapping[Uid, Rejections]
    ) -> dict[Uid, str]:
        """Move unschedulable pods to the unschedulable queue; return a message for each.

        Called in the event-loop turn of the snapshot: each pod is queued with its rejecting plugins
        before the mirror handles the next change.
        """
        # By identity: equivalent pods share their rejections.
        verdicts: dict[int, tuple[str, frozenset[str], bool]] = {}
        messages = {}
        for uid, rejections in unplaced.items():
            pod = snapshot.pods[uid]
            if id(rejections) not in verdicts:
                verdicts[id(rejections)] = (
                    why_unschedulable(pod.requests, rejections, snapshot.index),
                    frozenset(rejected.rule for rejected in rejections.values()),
                    rejections.keys() >= snapshot.nodes.keys(),
                )
            message, plugins, everywhere = verdicts[id(rejections)]
            if everywhere:
                self.queue.add_unschedulable(pod, plugins)
            else:
                # Some node accepts the pod: another decision may succeed without any change.
                self.queue.back_off(pod)
            self._end_attempt(pod, "unschedulable", message, plugins)
            self.recorder.record_unschedulable(pod, message)
            messages[uid] = message
        return messages

    def requeue_late(self, pods: Iterable[Pod]) -> None:
        """Requeue pods that the placement decision postponed to the next batch."""
        for pod in pods:
            self.queue.back_off(pod)
            self._end_attempt(pod, "late", "waits for the next batch")

    def requeue_failed(self, pods: Iterable[Pod]) -> None:
        """Requeue pods with back-off whose placement decision raised an internal error."""
        for pod in pods:
            self.queue.back_off(pod)
            self._end_attempt(pod, "error", INTERNAL_ERROR)
            self.recorder.record_unschedulable(pod, INTERNAL_ERROR)

    def _end_attempt(
        self, pod: Pod, result: Result, message: str, plugins: frozenset[str] = frozenset()
    ) -> None:
        self.listener.attempt_ended(pod, result)
        self.listener.pod_waits(pod, message, plugins)

    def begin_binds(self, batch: Batch, bindings: Sequence[Binding]) -> None:
        """Register a batch's binds before the API calls, since refusals may arrive immediately."""
        for pod, node, _ in bindings:
            batch.in_flight[pod.uid] = f"{pod} on {node}"
            self._batches[pod.uid] = batch

    def cancel_binds(self, bindings: Sequence[Binding]) -> None:
        """Count binds as failed because node capacity could not be reserved."""
        for binding in bindings:
            self._count_bind(binding.pod.uid, done=False)

    def end_bind(self, pod: Pod | None, step: Step) -> None:
        """Record a verified or failed bind; back off the pod after a failure. None: pod deleted."""
        bound = step.state is StepState.DONE
        self._count_bind(Uid(step.pod), done=bound)
        if pod is None:
            return
        if bound:
            self.queue.end_failures(pod.uid)
            self.listener.attempt_ended(pod, "scheduled")
            self.recorder.record_bind(pod, NodeName(step.node))
        elif pod.waits_for_node:
            self.queue.back_off(pod, cause_of(step.reason, pod.name, pod.uid, step.node))
            message = f"binding rejected: {step.reason}"
            self._end_attempt(pod, "error", message)
            self.recorder.record_unschedulable(pod, message, reason="SchedulerError")
            self.preemptor.restore_nomination(pod)

    def _count_bind(self, uid: Uid, *, done: bool) -> None:
        self.bound += done
        batch = self._batches.pop(uid, None)
        if batch is not None:
            (batch.bound if done else batch.failed).append(batch.in_flight.pop(uid))
            batch.log_if_complete()
