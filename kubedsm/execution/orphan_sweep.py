"""Orphan sweep: restores pods detached from their ReplicaSet by a migration that no plan continues.

A terminated scheduler process may leave orphans. But every user with permission to patch pods can
forge the migration label. Therefore each pod is checked before any action, with limited concurrency
per namespace: orphans and forged labels of a tenant never delay other tenants.
"""

from collections import Counter
from functools import partial
from typing import Protocol

import attrs
import structlog

from kubedsm.events.controller import Controller
from kubedsm.execution.migration_calls import MigrationCalls
from kubedsm.kube.client.port import ClusterError
from kubedsm.kube.wire.annotations import MoveMark
from kubedsm.model.model import MIGRATING_LABEL, NodeName, Pod, Uid
from kubedsm.process.backoff import Doubling
from kubedsm.process.supervisor import Work
from plans.migration import restore_plan
from plans.steps import Plan, Step, StepState

log = structlog.get_logger()

#: seconds between sweeps, and the back-off of orphans after failed restoration
SWEEP = 30.0
DELAYS = Doubling(SWEEP, most=600.0)
#: maximum concurrent checks and restorations within a namespace
MOST_AT_ONCE = 3
#: seconds between consecutive checks or restorations
PACE = 1.0
#: pods of a namespace whose ignored label is reported between two sweeps
MOST_REPORTED = 10


class Plans(Protocol):
    """Protocol of the plan executor (PlacementManager), as the orphan sweep uses it."""

    def follows(self, pod: Uid) -> bool:
        """Return True if a running bind or migration plan has a step about the pod."""

    def begin(self, plan: Plan) -> None:
        """Begin a plan that restores a pod detached from its ReplicaSet."""

    def spawn_task(self, part: str, work: Work, **context: object) -> None:
        """Run a coroutine that belongs to no plan as a background task."""


@attrs.define(eq=False, repr=False)
class OrphanSweep(Controller):
    _calls: MigrationCalls
    #: pods being restored, as of the beginning
    _restoring: dict[Uid, tuple[Pod, MoveMark]] = attrs.field(factory=dict, init=False)
    #: number of failed attempts, and time of the next attempt
    _stuck: dict[Uid, tuple[int, float]] = attrs.field(factory=dict, init=False)
    #: pods to be checked by namespace, in order of discovery
    _waiting: dict[str, dict[Uid, None]] = attrs.field(factory=dict, init=False)
    #: namespaces of the pods being checked or restored
    _handled: dict[Uid, str] = attrs.field(factory=dict, init=False)
    #: pods with forged labels
    _forged: set[Uid] = attrs.field(factory=set, init=False)
    _reported: set[Uid] = attrs.field(factory=set, init=False)
    #: reports by namespace since the last sweep
    _reports: Counter[str] = attrs.field(factory=Counter, init=False)

    def sweep(self, plans: Plans) -> None:
        """Inspect every pod with the migration label for an interrupted migration."""
        labelled = {p.uid: p for p in self.mirror.labelled_pods() if MIGRATING_LABEL in p.labels}
        self._stuck = {uid: tries for uid, tries in self._stuck.items() if uid in labelled}
        self._handled = {uid: of for uid, of in self._handled.items() if uid in labelled}
        self._forged &= labelled.keys()
        self._reported &= labelled.keys()
        self._reports.clear()
        for pod in labelled.values():
            self.inspect(pod, plans)

    def inspect(self, pod: Pod, plans: Plans) -> None:
        """Queue a pod with the migration label for restoring, or ignore a forged label.

        Pods of other schedulers stay: another KubeDSM may have detached them.
        """
        is_ours = pod.scheduler_name == self.configuration.current.scheduler_name
        if not is_ours or pod.terminating:
            return
        if pod.uid in self._handled or plans.follows(pod.uid):
            return
        if not pod.detached or pod.uid in self._forged:
            self._ignore(pod)
        elif self._stuck.get(pod.uid, (0, 0.0))[1] <= self.clock.monotonic():
            self._waiting.setdefault(pod.namespace, {})[pod.uid] = None
            self._admit(pod.namespace, plans)

    def end_restoring(self, step: Step, plans: Plans) -> None:
        """Record that the plan for restoring a detached pod has ended."""
        uid = Uid(step.pod)
        pod, found = self.mirror.pod(uid), self._restoring.pop(uid, None)
        if found is not None and step.state is StepState.DONE:
            self.recorder.record_inherited_migration(
                found[0], found[1].target, self._is_replaced(*found)
            )
        if step.state is StepState.FAILED and pod is not None:
            tries, _ = self._stuck.get(uid, (0, 0.0))
            again = self.clock.monotonic() + DELAYS.delay_after(tries)
            self._stuck[uid] = (tries + 1, again)
            self.recorder.record_orphan(pod, step.reason)
        else:
            self._stuck.pop(uid, None)
        self._release_slot(uid, plans)

    def _is_replaced(self, old: Pod, mark: MoveMark) -> bool:
        """Return True if the old pod terminates and a Ready replacement runs on the target node."""
        known = self.mirror.pod(old.uid)
        others = self.mirror.pods_on(NodeName(mark.target))
        return (known is None or known.terminating) and any(
            pod.workload == old.workload
            and pod.ready
            and not pod.terminating
            and pod.created >= mark.began
            for pod in others
        )

    def _release_slot(self, uid: Uid, plans: Plans) -> None:
        """Permit restoring another detached pod of the namespace, after `PACE` seconds."""
        if uid in self._handled:
            plans.spawn_task("orphans", partial(self._admit_later, uid, plans))

    async def _admit_later(self, uid: Uid, plans: Plans) -> None:
        await self.clock.sleep(PACE)
        namespace = self._handled.pop(uid, None)
        if namespace is not None:
            self._admit(namespace, plans)

    def _admit(self, namespace: str, plans: Plans) -> None:
        waiting = self._waiting.get(namespace, {})
        free = MOST_AT_ONCE - sum(of == namespace for of in self._handled.values())
        for uid in list(waiting)[:free]:
            del waiting[uid]
            self._handled[uid] = namespace
            plans.spawn_task("orphans", partial(self._check_orphan, uid, plans), uid=uid)
        if not waiting:
            self._waiting.pop(namespace, None)

    async def _check_orphan(self, uid: Uid, plans: Plans) -> None:
        """Check a detached pod's migration annotation; if genuine, begin restoring the pod."""
        try:
            mark = await self._read_mark(uid, plans)
        except Exception:  # not when cancelled: nothing begins any more then
            self._release_slot(uid, plans)
            raise
        pod = self.mirror.pod(uid)
        if mark is None or pod is None:
            self._release_slot(uid, plans)
            return
        log.info("detached pod found", pod=str(pod))
        self._restoring[uid] = pod, mark
        plans.begin(restore_plan(uid))

    async def _read_mark(self, uid: Uid, plans: Plans) -> MoveMark | None:
        """Return the genuine migration annotation of a pod still detached, otherwise None."""
        pod = self.mirror.pod(uid)
        if pod is None:
            return None
        try:
            mark = await self._calls.read_mark(pod)
        except ClusterError as error:
            self.throttle.log(log.warning, "detached pod unreadable", error, pod=str(pod))
            return None  # until the next sweep
        now = self.mirror.pod(uid)
        if now is None or now.terminating or plans.follows(uid):
            return None
        if mark is False:
            self._forged.add(uid)
            self._ignore(now)
            return None
        return mark if now.detached else None

    def _ignore(self, pod: Pod) -> None:
        if pod.uid not in self._reported and self._reports[pod.namespace] < MOST_REPORTED:
            self._reports[pod.namespace] += 1
            self._reported.add(pod.uid)
            log.warning("label ignored", pod=str(pod), label=MIGRATING_LABEL)
            self.recorder.record_forged_label(pod)
