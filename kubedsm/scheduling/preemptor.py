"""Preemption: evict lower-priority pods for an unschedulable pod.

The pod is nominated to a node together with the choice of victims: the nomination reserves capacity
exclusively. Victims are evicted individually, the least important first, and re-evaluated before
each eviction. Losing nominations in a restart is harmless: evicted pods are gone, and the pod is
unschedulable again.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import attrs
import structlog

from kubedsm.events.controller import Controller
from kubedsm.kube.calls import reads, writes
from kubedsm.kube.client.port import (
    ClusterError,
    Conflict,
    DisruptionBudgetExceeded,
    Forbidden,
    NotFound,
)
from kubedsm.model.events import Change
from kubedsm.model.model import NodeName, Pod, PodClass, Resources, Uid, Workload, serving_order
from kubedsm.model.selecting import Budget
from kubedsm.optimizer.placing.preemption import makes_room
from kubedsm.planner.requests import (
    NoResponseError,
    Planner,
    PreemptRequest,
    PreemptResponse,
)
from kubedsm.scheduling.scheduling_queue import SchedulingQueue

log = structlog.get_logger()

#: seconds without evictions from a node, for one pod, after a refused eviction
BACK_OFF = 30.0
#: seconds for which migrations wait for a nominated pod: a victim may never stop
PATIENCE = 60.0
#: seconds between attempts of an unanswered call, and maximum attempts
RETRY = 1.0
TRIES = 5


@attrs.frozen(slots=True)
class Nomination:
    """Nomination of a pod to a node where capacity is being freed by evictions or migrations."""

    pod: Pod
    node: NodeName
    since: float = attrs.field(eq=False)


class EvictionRefusedError(Exception):
    """Error: the eviction of a victim is refused, with the reason."""


@attrs.define
class Preemptor(Controller):
    queue: SchedulingQueue
    planner: Planner
    #: behave like kube-scheduler: always enabled, without preference for the edge
    as_kube_scheduler: bool = False
    _wanted: dict[Uid, None] = attrs.field(factory=dict, init=False)
    _wake: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    nominations: dict[Uid, Nomination] = attrs.field(factory=dict, init=False)
    #: pods nominated by other components, which free the capacity themselves
    _kept: set[Uid] = attrs.field(factory=set, init=False)
    #: evicted pods before their deletion
    _leaving: set[Uid] = attrs.field(factory=set, init=False)
    #: end of the back-off of nodes, by pod
    _shunned: dict[Uid, dict[NodeName, float]] = attrs.field(factory=dict, init=False)
    #: pod classes without useful evictions, and the mirror's change counter at that time
    _hopeless: set[tuple[PodClass, Workload]] = attrs.field(factory=set, init=False)
    _hopeless_at: int = attrs.field(default=-1, init=False)

    @property
    def busy(self) -> bool:
        """True if any pod was nominated to a node within the last `PATIENCE` seconds."""
        oldest = self.clock.monotonic() - PATIENCE
        return any(nomination.since > oldest for nomination in self.nominations.values())

    @property
    def enabled(self) -> bool:
        """Return True if new preemptions may begin; a preemption in progress always completes."""
        return self.as_kube_scheduler or self.configuration.current.preemption == "enabled"

    def consider(self, uids: Iterable[Uid]) -> None:
        """Queue these unschedulable pods for a preemption attempt, if preemption is enabled."""
        if not self.enabled:
            return
        self._wanted.update(dict.fromkeys(uid for uid in uids if uid not in self._kept))
        if self._wanted:
            self._wake.set()

    async def run(self) -> None:
        """Preempt for waiting pods, one at a time by priority, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            waiting = [pod for pod in map(self._find_waiting, self._wanted) if pod is not None]
            self._wanted = {pod.uid: None for pod in sorted(waiting, key=serving_order)}
            while self._wanted and not self._wake.is_set():
                uid = next(iter(self._wanted))
                del self._wanted[uid]
                try:
                    await self._free_capacity(uid)
                except NoResponseError:
                    self._back_off(uid)
                await self.clock.sleep(0)

    def observe(self, change: Change) -> None:
        """End nominations of pods that are bound or deleted; requeue pods that may fit now."""
        before, after = change.pod_before, change.pod_after
        if before is not None and after is None:
            self._forget(before.uid)
        if not self.nominations:
            return
        if after is not None and not after.waits_for_node:
            self._end_nomination(after.uid)
        nodes = {change.freed.node} if change.freed is not None else set()
        if change.node_before != change.node_after:
            nodes |= {node.name for node in (change.node_before, change.node_after) if node}
        for nomination in self.nominations.values():
            if nomination.node in nodes:
                self._requeue(nomination.pod.uid)

    @contextmanager
    def suspend_nomination(self, uid: Uid) -> Iterator[None]:
        """Show the capacity reserved for this pod as free; no `await` is allowed inside."""
        self.mirror.withdraw(uid, silently=True)
        try:
            yield
        finally:
            nomination = self.nominations.get(uid)
            if nomination is not None:
                self.mirror.nominate(nomination.pod, nomination.node)
                if self.mirror.has_reservation(uid):
                    self.mirror.withdraw(uid)  # other pods learn of the capacity

    def keep(self, pod: Pod, node: NodeName) -> None:
        """Nominate a pod to a node on which the caller (capacity packing) frees capacity.

        The nomination lasts until `give_back`, or until the pod is bound or deleted.
        """
        self._kept.add(pod.uid)
        if pod.uid not in self.nominations:
            self.nominations[pod.uid] = Nomination(pod, node, self.clock.monotonic())
            self.mirror.nominate(pod, node)
            self._requeue(pod.uid)

    def give_back(self, uid: Uid) -> None:
        """End the pod's nomination that `keep` began, and release the reserved capacity."""
        self._kept.discard(uid)
        self._end_nomination(uid)

    async def evict_all(self, victims: Sequence[Pod], by: Pod) -> None:
        """Evict all preemption victims, once dry-run evictions show that none is refused. Raises
        EvictionRefusedError.
        """
        await self._try_evictions(victims, by, await self._list_budgets())
        for victim in victims:
            if await self._request_eviction(victim, by) and victim.node_name is not None:
                self.recorder.record_preemption(victim, by, victim.node_name)

    def restore_nomination(self, pod: Pod) -> None:
        """Restore a nominated pod's capacity reservation on the node after a failed bind."""
        nomination = self.nominations.get(pod.uid)
        if nomination is not None:
            self.mirror.nominate(nomination.pod, nomination.node)

    def _find_waiting(self, uid: Uid) -> Pod | None:
        """Return the pod's current state if the pod still waits for scheduling."""
        pod = self.mirror.pod(uid)
        taken = self.mirror.has_reservation(uid) or uid in self.mirror.claimed
        return pod if pod is not None and pod.waits_for_node and not taken else None

    def _requeue(self, uid: Uid) -> None:
        pod = self._find_waiting(uid)
        if pod is not None:
            self.queue.add(pod)

    def _back_off(self, uid: Uid) -> None:
        """End the pod's nomination, and retry scheduling after a back-off."""
        self._end_nomination(uid)
        pod = self._find_waiting(uid)
        if pod is not None:
            self.queue.back_off(pod)

    async def _free_capacity(self, uid: Uid) -> None:
        """Find victims for the pod, nominate the pod to their node, and evict the victims.

        Raises NoResponseError if the planner does not respond.
        """
        pod = self._find_waiting(uid)
        if pod is None or not self.enabled:
            return
        self.listener.preemption_begun(pod)
        if await self._is_hopeless(pod):
            return
        budgets = await self._list_budgets()
        while response := await self._solve(uid, budgets, self._list_shunned(uid)):
            if response.freeing is not None:
                self._await_capacity(response.pod, response.freeing)
                return
            pod, found = response.pod, response.found
            if found is None:
                self._end_nomination(uid)
                return
            self._nominate(pod, found.node)
            log.info(
                "preemption", pod=str(pod), node=found.node, victims=[str(v) for v in found.victims]
            )
            try:
                await self._try_evictions(found.victims, pod, budgets)
                self.listener.victims_chosen(pod, found.victims)
                await self._evict(uid, found.node)
            except EvictionRefusedError as error:
                self._shun(pod, found.node, str(error))
                if self._wanted:
                    # A refusal takes long if webhooks hang: other pods have their turn.
                    self._back_off(uid)
                    return
            else:
                return

    async def _list_budgets(self) -> tuple[Budget, ...]:
        """Read the PodDisruptionBudgets; none if unreadable, as the API server enforces them."""
        try:
            listed = await reads.list_budgets(self.cluster)
        except ClusterError as error:
            self.throttle.log(log.warning, "budgets unreadable", error)
            return ()
        # As in kube-scheduler, an empty selector protects no pod.
        return tuple(budget for budget in listed if budget.selector)

    async def _is_hopeless(self, pod: Pod) -> bool:
        """Return True if no preemption can help the pod, as computed by the planner without API
        requests.

        Raises NoResponseError.
        """
        kind = (pod.pod_class, pod.workload)
        if self.mirror.changes != self._hopeless_at:
            self._hopeless.clear()
        elif kind in self._hopeless:
            return True
        at = self.mirror.changes
        response = await self._solve(pod.uid)
        if response is None:
            return True
        overtaken = self.mirror.changes != at
        if response.freeing is not None:
            self._await_capacity(pod, response.freeing)
        hopeless = response.freeing is None and not response.helps
        if hopeless:
            self._end_nomination(pod.uid)
            if not overtaken:
                self._hopeless.add(kind)
                self._hopeless_at = self.mirror.changes
        return hopeless

    async def _solve(
        self,
        uid: Uid,
        budgets: tuple[Budget, ...] | None = None,
        shunned: frozenset[NodeName] = frozenset(),
        node: NodeName | None = None,
    ) -> PreemptResponse | None:
        """Request preemption victims for the pod from the planner; None if the pod no longer waits.

        Capacity reserved for less important pods counts as free. Raises NoResponseError.
        """
        for _ in range(TRIES):
            pod = self._find_waiting(uid)
            if pod is None:
                return None
            request = PreemptRequest(
                pod,
                self._sum_reserved(pod),
                frozenset(self._leaving),
                budgets,
                shunned,
                node,
                not self.as_kube_scheduler,
            )
            changes = self.mirror.changes
            response = await self.planner.solve(request)
            if changes == self.mirror.changes or self._is_valid(response):
                return response
        raise NoResponseError("the cluster changes faster than victims can be chosen")

    def _is_valid(self, response: PreemptResponse) -> bool:
        """Return True if the pod would fit on the node at present after evicting the victims."""
        pod, found = response.pod, response.found
        if self._find_waiting(pod.uid) is None:
            return False
        snapshot = self.mirror.snapshot().with_free(self._sum_reserved(pod))
        return found is None or makes_room(snapshot, pod, found, self._leaving)

    def _sum_reserved(self, pod: Pod) -> Mapping[NodeName, Resources]:
        """Return the capacity that nominations reserve for the pod and for less important pods."""
        lesser = (nomination.pod.uid for nomination in self._list_less_important(pod))
        return self.mirror.sum_nominations([pod.uid, *lesser])

    def _list_less_important(self, pod: Pod) -> list[Nomination]:
        priority = pod.pod_class.priority
        return [n for n in self.nominations.values() if n.pod.pod_class.priority < priority]

    def _await_capacity(self, pod: Pod, node: NodeName) -> None:
        """Nominate the pod to a node where a lower-priority pod already awaits terminating pods."""
        if any(n.node == node for n in self._list_less_important(pod)):
            self._nominate(pod, node)
            self._requeue(pod.uid)

    def _nominate(self, pod: Pod, node: NodeName) -> None:
        """Nominate the pod to the node, and end nominations of lower-priority pods there."""
        for lesser in self._list_less_important(pod):
            if lesser.node == node:
                self._end_nomination(lesser.pod.uid)
                self._requeue(lesser.pod.uid)
        self.nominations[pod.uid] = Nomination(pod, node, self.clock.monotonic())
        self.mirror.nominate(pod, node)

    async def _evict(self, uid: Uid, node: NodeName) -> None:
        """Evict preemption victims from the node until the pod fits.

        Raises EvictionRefusedError and NoResponseError.
        """
        missed = 0
        while response := await self._solve(uid, await self._list_budgets(), node=node):
            if uid not in self.nominations:
                return
            pod, found = response.pod, response.found
            if found is not None and not found.victims:
                return
            if response.freeing is not None:  # on another node, without further evictions
                self._end_nomination(uid)
                self._requeue(uid)
                return
            if found is None or missed == TRIES:
                raise EvictionRefusedError(
                    "evictions would no longer free enough capacity on the node"
                )
            victim = found.victims[0]
            if not await self._request_eviction(victim, pod):
                missed += 1
                continue
            log.info("preempted", pod=str(victim), by=str(pod), node=node)
            self.recorder.record_preemption(victim, pod, node)
            if self.mirror.pod(victim.uid) is not None:
                self._leaving.add(victim.uid)

    async def _try_evictions(
        self, victims: Sequence[Pod], by: Pod, budgets: Iterable[Budget]
    ) -> None:
        """Determine that all victims may go before the first does: dry runs count each alone.

        Raises EvictionRefusedError.
        """
        for victim in victims:
            await self._request_eviction(victim, by, dry_run=True)
        for budget in budgets:
            covered = [victim for victim in victims if victim.ready and budget.covers(victim)]
            if len(covered) > budget.allowed:
                counts = f"{budget.allowed} of {len(covered)} necessary evictions"
                raise EvictionRefusedError(f"{covered[0]}: its disruption budget allows {counts}")

    async def _request_eviction(self, victim: Pod, by: Pod, *, dry_run: bool = False) -> bool:
        """Evict one victim by the API; return False if the victim appears to be deleted already, or
        the preempting pod no longer waits.

        Raises EvictionRefusedError.
        """
        error: ClusterError | None = None
        for _ in range(TRIES):
            if self._find_waiting(by.uid) is None:
                return False
            try:
                await writes.evict(self.cluster, victim, dry_run=dry_run)
            except DisruptionBudgetExceeded as refusal:
                raise EvictionRefusedError(f"{victim}: {refusal.message}") from None
            except Forbidden as refusal:
                self.throttle.log(log.warning, "eviction refused", refusal, pod=str(victim))
                raise EvictionRefusedError(f"{victim}: {refusal}") from None
            except (NotFound, Conflict):
                await self.clock.sleep(RETRY)  # until the watch shows what has happened
                return False
            except ClusterError as unanswered:
                error = unanswered
                await self.clock.sleep(RETRY)
            else:
                return True
        raise EvictionRefusedError(f"{victim}: {error}")

    def _shun(self, pod: Pod, node: NodeName, reason: str) -> None:
        """Exclude the node for a while from preemptions in favour of the pod, and report why."""
        self._end_nomination(pod.uid)
        if self.mirror.pod(pod.uid) is None:
            return
        self._shunned.setdefault(pod.uid, {})[node] = self.clock.monotonic() + BACK_OFF
        self.throttle.log(log.info, "preemption abandoned", reason, pod=str(pod), node=node)
        text = f"No preemption on node {node}: {reason}"
        self.recorder.record_event("PreemptionFailed", pod, text)

    def _list_shunned(self, uid: Uid) -> frozenset[NodeName]:
        now = self.clock.monotonic()
        return frozenset(n for n, until in self._shunned.get(uid, {}).items() if until > now)

    def _end_nomination(self, uid: Uid) -> None:
        if self.nominations.pop(uid, None) is not None:
            self.mirror.withdraw(uid)

    def _forget(self, uid: Uid) -> None:
        self._end_nomination(uid)
        self._leaving.discard(uid)
        self._shunned.pop(uid, None)
