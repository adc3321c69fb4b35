"""The calls of a migration's steps: each tries until its step is over, and tells what it learned.

Every method runs as a task of the placement manager, and looks before each call whether its step
still waits for it: every await is a place where the world may have changed. That a pod is gone is
only believed of the watch, or of another pod under its name: a 404 can come from a lagging server.
"""

import itertools
from collections.abc import Callable
from typing import Literal

import attrs
import structlog

from kubedsm.config.current import CurrentConfiguration
from kubedsm.execution.migration_checks import Fate, fate, live_reason_to_stay
from kubedsm.kube.calls import reads, writes
from kubedsm.kube.calls.reads import (
    LiveOwner,
    LivePod,
)
from kubedsm.kube.client.port import (
    ApiStatusError,
    Cluster,
    ClusterError,
    Conflict,
    DisruptionBudgetExceeded,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    ServerError,
    Unreachable,
)
from kubedsm.kube.wire.annotations import MoveMark
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.model import Pod
from kubedsm.process.backoff import Doubling
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause
from plans.events import CallRefused, OutcomeLost, PlanEvent, PodGone, PodSeen
from plans.migration import MoveMode
from plans.steps import Step

log = structlog.get_logger()

#: seconds between two tries, or two looks
RETRY = 1.0
#: and of what is refused again and again
REFUSED = Doubling(RETRY, most=16.0)

Tell = Callable[[PlanEvent], None]
#: whether the step still waits for its call
Wanted = Callable[[], bool]


@attrs.frozen(slots=True)
class Accepted:
    """What is known of a pod whose move may begin. Seconds."""

    min_ready: float
    grace: float
    #: Ready pods that must be left when this one is evicted, if the owner still wants so many
    ready_to_keep: int
    #: the pod as it was read, which says whose it is
    found: LivePod


def seen(pod: Pod, *, live: bool = False) -> PodSeen:
    return PodSeen(
        pod.uid, pod.node_name or "", pod.ready, pod.terminating, pod.detached, live=live
    )


@attrs.frozen(slots=True)
class StepCalls:
    cluster: Cluster
    clock: Clock
    timeout: float
    configuration: CurrentConfiguration
    said: SaidByCause
    #: notified of a detached pod that the garbage collector is to delete, and why
    on_collected: Callable[[Pod, str], None]

    @property
    def drain_delay(self) -> float:
        """Seconds from a replacement's readiness until the old pod is evicted."""
        return self.configuration.current.migration.drain_delay

    async def check(self, pod: Pod, mode: MoveMode) -> Accepted | str:
        """Judge the move on the live objects: what is needed to begin it, or why it may not be."""
        try:
            found = await reads.read_pod(self.cluster, pod, timeout=self.timeout)
            if found.pod.uid != pod.uid:
                return "the pod is gone"
            if found.pod.terminating or found.pod.detached or not found.pod.ready:
                return "the pod is not Ready, or on its way already"
            owner = await reads.read_owner(self.cluster, found, timeout=self.timeout)
            services = await reads.services_by_template(
                self.cluster, pod.namespace, timeout=self.timeout
            )
            budgets = await reads.budgets_of(self.cluster, found.pod, timeout=self.timeout)
        except (ClusterError, WireError) as error:
            self._warn_of_right("move not checked", error, pod)
            return f"it cannot be checked: {error}"
        reason = live_reason_to_stay(found, owner, mode, services, budgets)
        keep = 1 if mode is MoveMode.RECREATE else owner.ready_others + 1
        return reason or Accepted(owner.min_ready_seconds, found.grace, keep, found)

    async def detach(self, step: Step, pod: Pod, wanted: Wanted, tell: Tell) -> None:
        """Detach the pod in the state it has now; a state that changes meanwhile refuses it."""
        try:
            found = await reads.read_pod(self.cluster, pod, timeout=self.timeout)
            if found.pod.uid != pod.uid:
                tell(PodGone(pod.uid))
                return
            if not wanted():
                return
            mark = MoveMark(
                plan=step.move,
                replica_set=found.owner_name,
                uid=found.owner_uid,
                target=step.node,
                since=f"{self.clock.wall():.3f}",
            )
            await writes.detach(
                self.cluster, found.pod, found.template_hash, mark, timeout=self.timeout
            )
        except (OutcomeUnknown, ServerError) as error:
            self.said.log(log.warning, "detach unanswered", error, pod=str(pod))
            tell(OutcomeLost(step.id))
        except (ApiStatusError, Unreachable, WireError) as error:
            self._warn_of_right("detach refused", error, pod)
            tell(CallRefused(step.id, f"detaching: {error}"))

    async def await_replacement(
        self, found: LivePod | None, step: Step, _: Pod, wanted: Wanted, tell: Tell
    ) -> None:
        """Notice at once that no replacement will come, rather than wait for the deadline.

        `found`: the old pod when its migration began. It may be gone, but not whose it was.
        """
        await self.clock.sleep(RETRY)
        while found is not None and wanted():
            try:
                owner = await reads.read_owner(self.cluster, found, timeout=self.timeout)
            except (ClusterError, WireError):
                owner = None
            if owner is not None and wanted():
                reason = _no_replacement(owner)
                if reason:
                    tell(CallRefused(step.id, reason))
                    return
            await self.clock.sleep(RETRY)

    async def evict(
        self, ready_to_keep: int, step: Step, pod: Pod, wanted: Wanted, tell: Tell
    ) -> None:
        """Evict the pod, again and again while a budget refuses and the step is not overdue.

        What refuses an eviction with 403, a missing right or a webhook, will not allow it in time.
        The Ready pods that stay are counted live each time: counters may be stale.
        """
        refusals = 0
        while wanted():
            pause, refused = REFUSED.after(refusals), ""
            try:
                found = await reads.read_pod(self.cluster, pod, timeout=self.timeout)
                owner = await reads.read_owner(self.cluster, found, timeout=self.timeout)
                if owner.gone:
                    tell(CallRefused(step.id, "the owner is gone"))  # a detached pod is restored
                    return
                if owner.ready_others < min(ready_to_keep, owner.wanted):
                    refused = f"only {owner.ready_others} other pods of its owner are Ready"
                elif found.pod.uid == pod.uid and wanted():
                    await writes.evict(self.cluster, pod, timeout=self.timeout)
            except NotFound as error:
                self.said.log(log.info, "pod not found, the watch will tell", error, pod=str(pod))
            except DisruptionBudgetExceeded as error:
                refused = error.message
            except (Conflict, Forbidden) as error:
                self._warn_of_right("eviction refused", error, pod)
                tell(CallRefused(step.id, f"evicting: {error}"))
            except (ClusterError, WireError) as error:
                self.said.log(log.warning, "eviction unanswered", error, pod=str(pod))
            if refused and self._too_late(step, pause):
                tell(CallRefused(step.id, f"evicting: {refused}"))
            # A success shows in the watch, and the step is over before the next try.
            await self.clock.sleep(pause)
            refusals = refusals + 1 if refused else 0

    def _warn_of_right(self, event: str, error: Exception, pod: Pod) -> None:
        """A right that is missing, nobody would look for among the reasons of single moves."""
        if isinstance(error, Forbidden) and not error.namespace_terminating:
            self.said.log(log.warning, event, error, pod=str(pod))

    def _too_late(self, step: Step, pause: float) -> bool:
        """Whether the step is overdue before another try."""
        return step.deadline is not None and self.clock.monotonic() + pause >= step.deadline

    async def took(self, pod: Pod) -> MoveMark | Literal[False] | None:
        """Return the mark of the move of ours that took the pod from its owner.

        None if the pod is not detached now. False if its owner neither knows of it nor is gone for
        sure: then the mark is none of ours. Raises ClusterError, WireError.
        """
        found = await reads.read_pod(self.cluster, pod, timeout=self.timeout)
        if found.pod.uid != pod.uid or not found.pod.detached:
            return None
        owner = await reads.read_owner(self.cluster, found, timeout=self.timeout)
        return found.mark if owner.gone or owner.lets_go else False

    async def restore(self, step: Step, pod: Pod, wanted: Wanted, tell: Tell) -> None:
        """See to a detached pod until it is its owner's again, or on its way out."""
        reason, refused = "", ""
        for pause in map(REFUSED.after, itertools.count()):
            if not wanted():
                return
            try:
                found = await reads.read_pod(self.cluster, pod, timeout=self.timeout)
                if found.pod.uid != pod.uid:
                    tell(PodGone(pod.uid))
                    return
                if found.pod.terminating or not found.pod.detached:
                    tell(seen(found.pod))
                    return
                refused = await self._decide(found, refused)
                reason = refused or reason
            except (ClusterError, WireError) as error:
                self._warn_of_right("detached pod not restored", error, pod)
                reason, refused = f"{refused}; {error}".removeprefix("; "), ""
            if self._too_late(step, pause):
                tell(CallRefused(step.id, reason or "it is still detached"))
                return
            await self.clock.sleep(pause)

    async def _decide(self, found: LivePod, refused: str) -> str:
        """Do what is right for the pod; why its eviction was refused, if it was.

        `refused`: the same of the last try. By its budget or for good: then the pod is better
        given back, or left to the garbage collector, than left for ever.
        """
        owner = await reads.read_owner(self.cluster, found, timeout=self.timeout)
        match fate(owner, eviction_refused=bool(refused)):
            case Fate.EVICT:
                try:
                    await writes.evict(self.cluster, found.pod, timeout=self.timeout)
                except (DisruptionBudgetExceeded, Forbidden) as error:
                    self._warn_of_right("eviction refused", error, found.pod)
                    return error.message
            case Fate.COLLECT:
                await writes.leave_to_collector(
                    self.cluster,
                    found.pod,
                    found.owner_name,
                    found.owner_uid,
                    timeout=self.timeout,
                )
                event, pod = "detached pod left to garbage collector", str(found.pod)
                self.said.log(log.info, event, refused, pod=pod)
                self.on_collected(found.pod, refused)
            case Fate.REATTACH:
                await writes.reattach(
                    self.cluster, found.pod, found.template_hash, timeout=self.timeout
                )
            case Fate.WAIT:
                pass
        return ""


def _no_replacement(owner: LiveOwner) -> str:
    if owner.gone:
        return "the owner is gone"
    if owner.failed_create:
        return f"the owner cannot create a replacement: {owner.failed_create}"
    if owner.ready_others >= owner.wanted:
        return "the owner has all the pods it wants"
    return ""
