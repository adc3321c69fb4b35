"""The immediate scheduler: gather a batch, decide, and hand the decision to be carried out."""

import asyncio
import random

import attrs
import structlog

from kubedsm.clock import Clock
from kubedsm.config import Batch
from kubedsm.core.decision import Decision
from kubedsm.core.fit import unschedulable_message
from kubedsm.core.mirror import Change, ClusterMirror
from kubedsm.core.model import NodeName, Pod
from kubedsm.core.policies.policy import Policy
from kubedsm.migrator import Migrator
from kubedsm.placement_manager import Placement, PlacementManager
from kubedsm.recorder import Recorder
from kubedsm.scheduling_queue import SchedulingQueue, batch_window
from plans.steps import Step, StepState

log = structlog.get_logger()


@attrs.frozen(slots=True)
class Scheduler:
    """Decides on batches of waiting pods; to be run once the mirror is complete."""

    mirror: ClusterMirror
    queue: SchedulingQueue
    manager: PlacementManager
    migrator: Migrator
    recorder: Recorder
    policy: Policy
    batch: Batch
    clock: Clock
    rng: random.Random
    synced: asyncio.Event

    async def run(self) -> None:
        await self.synced.wait()
        batch = self.batch
        while True:
            await self.queue.wait_active()
            await batch_window(
                self.queue, self.clock, idle=batch.idle, longest=batch.max, size=batch.size
            )
            self._schedule_batch()

    def _schedule_batch(self) -> None:
        """Decide, reserve and ask: nothing here awaits, so nothing can come between."""
        started = self.clock.monotonic()
        snapshot = self.mirror.snapshot()
        uids = self.queue.pop(self.batch.size)
        pods = snapshot.schedulable(snapshot.pods[uid] for uid in uids if uid in snapshot.pods)
        if not pods:
            return
        decision = self.policy.place(snapshot, pods, self.rng)
        placements = [Placement(pod, snapshot.nodes[node]) for pod, node, _ in decision.bindings]
        self.migrator.give_way("new pods came")
        if placements:
            self.manager.place(placements)
        self._say_why_not(decision)
        log.info(
            "batch",
            pods=len(pods),
            bound=len(decision.bindings),
            unplaced=len(decision.unplaced),
            proven=decision.proven,
            milliseconds=round(1000 * (self.clock.monotonic() - started), 2),
        )

    def _say_why_not(self, decision: Decision) -> None:
        for uid, reasons in decision.unplaced.items():
            pod = self.mirror.pod(uid)
            if pod is not None:
                self.queue.wait_for_help(uid)
                self.recorder.failed_scheduling(pod, unschedulable_message(reasons))

    def settled(self, pod: Pod, step: Step) -> None:
        """Take note of how a bind ended."""
        if step.state is StepState.DONE:
            self.recorder.scheduled(pod, NodeName(step.node))
            return
        self.queue.something_helped()  # the room that was held for it is free again
        if pod.node_name is None and not (pod.terminating or pod.finished):
            self.queue.back_off(pod.uid)

    def changed(self, change: Change) -> None:
        if change.pod_after is None and change.pod_before is not None:
            self.recorder.forget(change.pod_before.uid)
