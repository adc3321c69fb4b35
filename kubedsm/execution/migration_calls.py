"""API calls of migration steps (detach, evict, restore), preceded by checks of live objects.

Each method runs as a task of the placement manager, retries until its step is over, and reports to
the plan. After every `await` the cluster may have changed, so each call is preceded by a check
whether the step is still pending. Only the watch, or another pod of the same name, proves that a
pod is gone: a 404 may come from a lagging API server.
"""

import enum
import itertools
from collections.abc import Iterable, Sequence
from typing import Literal

import attrs
import structlog

from kubedsm.events.controller import Controller
from kubedsm.execution.bind_calls import TIER_LABEL, IsPending, Report, observation
from kubedsm.kube.calls import reads, writes
from kubedsm.kube.calls.reads import LiveOwner, LivePod
from kubedsm.kube.client.port import (
    ClusterError,
    Conflict,
    DisruptionBudgetExceeded,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    ServerError,
)
from kubedsm.kube.wire.annotations import MoveMark
from kubedsm.model.model import MIGRATING_LABEL, Pod
from kubedsm.model.selecting import Budget, Service
from kubedsm.process.backoff import Doubling
from plans.events import CallRefused, OutcomeLost, PodGone
from plans.migration import MoveMode
from plans.steps import Step

log = structlog.get_logger()

#: seconds between attempts, and the back-off after refusals
RETRY = 1.0
#: deadline of a replacement's readiness in multiples of the pod's start-up time; and its limit in
#: seconds: a pod that lost its readiness once seems to have started slowly
SLACK, LONGEST_START = 2.0, 900.0
REFUSED = Doubling(RETRY, most=16.0)
#: refused evictions: by one budget, or several; by RBAC, a webhook, or an admission policy
_MAY_LAST = (DisruptionBudgetExceeded, ServerError, Forbidden, Invalid)


@attrs.frozen(slots=True)
class Accepted:
    """Result of a passed live check: pod, owner and timing of a migration that may begin, in
    seconds.
    """

    min_ready: float
    grace: float
    #: minimum Ready pods at the eviction, unless the owner wants fewer
    ready_to_keep: int
    #: the pod with its owner
    found: LivePod
    #: seconds that its replacement may take to become Ready, if more than usual
    ready_within: float = 0.0


@attrs.frozen(slots=True)
class MigrationCalls(Controller):
    async def check(self, pod: Pod, mode: MoveMode) -> Accepted | str:
        """Check against live objects whether the migration may begin; return Accepted, or the
        reason of a refusal.
        """
        try:
            found = await reads.read_pod(self.cluster, pod)
            if found.pod.uid != pod.uid:
                return "the pod is gone"
            if found.pod.terminating or found.pod.detached or not found.pod.ready:
                return "the pod is not Ready, or already leaving"
            owner = await reads.read_owner(self.cluster, found)
            services = await reads.list_services(self.cluster, pod.namespace)
            budgets = await reads.list_budgets(self.cluster, pod.namespace)
        except ClusterError as error:
            self._warn_of_denial("migration not checked", error, pod)
            return f"it cannot be checked: {error}"
        covering = [budget for budget in budgets if budget.covers(found.pod)]
        reason = live_reason_to_stay(found, owner, mode, services, covering)
        keep = 1 if mode is MoveMode.RECREATE else owner.ready_others + 1
        within = _ready_within(found)
        return reason or Accepted(owner.min_ready_seconds, found.grace, keep, found, within)

    async def detach(
        self, step: Step, pod: Pod, _: Accepted | None, is_pending: IsPending, report: Report
    ) -> None:
        """Detach the pod in the present state; the API server refuses after concurrent changes."""
        try:
            found = await reads.read_pod(self.cluster, pod)
            if found.pod.uid != pod.uid:
                report(PodGone(pod.uid))
                return
            if not is_pending():
                return
            mark = MoveMark(
                plan=step.move,
                replica_set=found.owner_name,
                uid=found.owner_uid,
                target=step.node,
                since=f"{self.clock.wall():.3f}",
            )
            await writes.detach(self.cluster, found.pod, found.template_hash, mark)
        except (OutcomeUnknown, ServerError) as error:
            self.throttle.log(log.warning, "detach unanswered", error, pod=str(pod))
            report(OutcomeLost(step.id, f"detaching: {error}"))
        except ClusterError as error:
            self._warn_of_denial("detach refused", error, pod)
            report(CallRefused(step.id, f"detaching: {error}"))

    async def await_replacement(
        self, step: Step, _: Pod, accepted: Accepted | None, is_pending: IsPending, report: Report
    ) -> None:
        """Report early that no replacement pod can appear, instead of waiting for the deadline.

        The old pod may be deleted meanwhile: the owner is known from the start of the migration.
        """
        await self.clock.sleep(RETRY)
        while accepted is not None and is_pending():
            try:
                owner = await reads.read_owner(self.cluster, accepted.found)
            except ClusterError:
                owner = None
            if owner is not None and is_pending():
                reason = _no_replacement(owner)
                if reason:
                    report(CallRefused(step.id, reason))
                    return
            await self.clock.sleep(RETRY)

    async def evict(
        self, step: Step, pod: Pod, accepted: Accepted | None, is_pending: IsPending, report: Report
    ) -> None:
        """Evict the pod; retry while a PodDisruptionBudget refuses, until the step's deadline.

        A refusal by RBAC, a webhook or an admission policy is final. The remaining Ready pods are
        counted live before each attempt, because counters in status may be stale. A change of the
        pod since then is a refusal, too: an eviction that arrives late finds what another leader
        has decided.
        """
        ready_to_keep = 0 if accepted is None else accepted.ready_to_keep
        refusals = 0
        while is_pending():
            pause, refused = REFUSED.delay_after(refusals), ""
            try:
                found = await reads.read_pod(self.cluster, pod)
                owner = await reads.read_owner(self.cluster, found)
                if owner.gone:
                    report(CallRefused(step.id, "the owner is gone"))  # a detached pod is restored
                    return
                if owner.ready_others < min(ready_to_keep, owner.wanted):
                    refused = f"only {owner.ready_others} other pods of its owner are Ready"
                elif found.pod.uid == pod.uid and is_pending():
                    await writes.evict(self.cluster, found.pod, unchanged=True)
            except NotFound as error:
                self.throttle.log(
                    log.info, "pod not found, waiting for the watch", error, pod=str(pod)
                )
            except (DisruptionBudgetExceeded, Conflict) as error:
                refused = error.message
            except (Forbidden, Invalid) as error:
                self._warn_of_denial("eviction refused", error, pod)
                report(CallRefused(step.id, f"evicting: {error}"))
            except ClusterError as error:
                self.throttle.log(log.warning, "eviction unanswered", error, pod=str(pod))
            if refused and self._too_late(step, pause):
                report(CallRefused(step.id, f"evicting: {refused}"))
            # The watch shows a success, and the step is over before the next attempt.
            await self.clock.sleep(pause)
            refusals = refusals + 1 if refused else 0

    def _warn_of_denial(self, event: str, error: Exception, pod: Pod) -> None:
        """Warn about an RBAC denial, easily overlooked among failure reasons of migrations."""
        if isinstance(error, Forbidden) and not error.namespace_terminating:
            self.throttle.log(log.warning, event, error, pod=str(pod))

    def _too_late(self, step: Step, pause: float) -> bool:
        """Return True if the migration step's deadline expires within `pause` seconds."""
        return step.deadline is not None and self.clock.monotonic() + pause >= step.deadline

    async def read_mark(self, pod: Pod) -> MoveMark | Literal[False] | None:
        """Read the migration annotation of a pod detached from its ReplicaSet by a migration.

        None if the pod is not detached now. False if the annotation is forged: its owner exists and
        has not released the pod. Raises ClusterError.
        """
        found = await reads.read_pod(self.cluster, pod)
        if found.pod.uid != pod.uid or not found.pod.detached:
            return None
        owner = await reads.read_owner(self.cluster, found)
        return found.mark if owner.gone or owner.lets_go else False

    async def restore(
        self, step: Step, pod: Pod, _: Accepted | None, is_pending: IsPending, report: Report
    ) -> None:
        """Return a detached pod to its ReplicaSet, or evict the pod; retry until observed."""
        reason, refused = "", ""
        for pause in map(REFUSED.delay_after, itertools.count()):
            if not is_pending():
                return
            try:
                found = await reads.read_pod(self.cluster, pod)
                if found.pod.uid != pod.uid:
                    report(PodGone(pod.uid))
                    return
                if found.pod.terminating or not found.pod.detached:
                    report(observation(found.pod))
                    return
                refused = await self._restore_once(found, refused)
                reason = refused or reason
            except ClusterError as error:
                self._warn_of_denial("detached pod not restored", error, pod)
                reason, refused = f"{refused}; {error}".removeprefix("; "), ""
            if self._too_late(step, pause):
                report(CallRefused(step.id, reason or "it is still detached"))
                return
            await self.clock.sleep(pause)

    async def _restore_once(self, found: LivePod, refused: str) -> str:
        """Evict, reattach or abandon a detached pod once; return why an eviction was refused.

        `refused`: that reason of the last attempt. After a refusal the pod is better reattached, or
        left to the garbage collector, than left detached for ever.
        """
        owner = await reads.read_owner(self.cluster, found)
        match fate(owner, eviction_refused=bool(refused)):
            case Fate.EVICT:
                try:
                    await writes.evict(self.cluster, found.pod, unchanged=True)
                except _MAY_LAST as error:
                    self._warn_of_denial("eviction refused", error, found.pod)
                    return error.message
            case Fate.COLLECT:
                await writes.leave_to_collector(
                    self.cluster, found.pod, found.owner_name, found.owner_uid
                )
                event, pod = "detached pod left to garbage collector", str(found.pod)
                self.throttle.log(log.info, event, refused, pod=pod)
                self.recorder.record_collection(found.pod, refused)
            case Fate.REATTACH:
                await writes.reattach(
                    self.cluster, found.pod, found.template_hash, found.owner_name, found.owner_uid
                )
            case Fate.WAIT:
                pass
        return ""


def _ready_within(live: LivePod) -> float:
    """Return the seconds within which a replacement of the pod should be Ready."""
    return min(max(SLACK * live.started_within, live.starts_within), LONGEST_START)


def _no_replacement(owner: LiveOwner) -> str:
    if owner.gone:
        return "the owner is gone"
    if owner.failed_create:
        return f"the owner cannot create a replacement: {owner.failed_create}"
    if owner.ready_others >= owner.wanted:
        return "the owner has its desired number of pods"
    return ""


def live_reason_to_stay(
    live: LivePod,
    owner: LiveOwner,
    mode: MoveMode,
    services: Iterable[Service],
    budgets: Sequence[Budget],
) -> str:
    """Return why the live pod must not be migrated now; empty if migration is permitted.

    In surge mode the replacement is Ready before the eviction. Therefore a budget without allowed
    disruptions at present permits the eviction afterwards.
    """
    if live.pod.pinned:
        return live.pod.pinned
    if reason := _owners_reason(owner):
        return reason
    if len(budgets) > 1:
        names = ", ".join(budget.name for budget in budgets)
        return f"several PodDisruptionBudgets select it, so it cannot be evicted: {names}"
    if mode is MoveMode.SURGE:
        return _reason_in_surge(live, services)
    if budgets and budgets[0].allowed < 1:
        return f"PodDisruptionBudget {budgets[0].name} allows no disruption"
    if owner.ready_others < 1:
        return "it is the last Ready pod of its owner"
    return ""


def _owners_reason(owner: LiveOwner) -> str:
    if owner.gone:
        return "its owner is gone"
    if owner.rolling_out:
        return "its owner is rolling out"
    if owner.shrinking:
        return "its owner is scaling down"
    if owner.failed_create:
        return f"its owner cannot create pods: {owner.failed_create}"
    if label := _label_of_ours(owner):
        return f"its owner selects or sets the label {label}, which is reserved for KubeDSM"
    return ""


def _label_of_ours(owner: LiveOwner) -> str:
    """Return the scheduler's label that conflicts with selector or template of the owner."""
    for label in (MIGRATING_LABEL, TIER_LABEL):
        if label in owner.selected_labels:
            return label
    return MIGRATING_LABEL if MIGRATING_LABEL in owner.template_labels else ""


def _reason_in_surge(live: LivePod, services: Iterable[Service]) -> str:
    if live.owner_kind != "ReplicaSet" or not live.template_hash:
        return "only the pods of a Deployment's ReplicaSet can be detached"
    for service in services:
        if service.by_template:
            return f"Service {service.name} selects by pod-template-hash: would lose the pod"
    return ""


class Fate(enum.Enum):
    """Action for a detached pod whose migration has ended: evict, reattach, leave to the garbage
    collector, or wait.
    """

    EVICT = "evict"
    #: leave the pod to the garbage collector, without PodDisruptionBudgets
    COLLECT = "collect"
    REATTACH = "reattach"
    WAIT = "wait"


def fate(owner: LiveOwner, *, eviction_refused: bool) -> Fate:
    """Choose how to restore a pod detached from its ReplicaSet after the migration has ended.

    Evict the pod if the owner has sufficient Ready pods or is deleted; otherwise reattach. If the
    owner is gone and a budget refuses the eviction, the garbage collector gets the pod: without the
    migration it would have deleted the pod together with its owner. A ReplicaSet that is scaled to
    zero would delete the pod at once: then the pod has to wait until the new pods are Ready.
    """
    if owner.gone:
        return Fate.COLLECT if eviction_refused else Fate.EVICT
    enough = owner.ready_others >= owner.wanted
    if enough and not eviction_refused:
        return Fate.EVICT
    return Fate.REATTACH if owner.owner_wants > 0 or enough else Fate.WAIT
