"""Preemption: room for a pod that no node takes, by evicting pods of lower priority.

The room is held for the pod from the moment its victims are chosen (it is nominated, as
kube-scheduler says), and shows as free to no other pod. Evictions are asked for one by one,
the least important pod first; before each, the victims are chosen anew on what is known then. All
this is forgotten in a crash, and none of it is missed: evicted pods are gone, and the pod waits.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import attrs
import structlog

from kubedsm.config.current import CurrentConfiguration
from kubedsm.events.event_recorder import EventRecorder
from kubedsm.explain.listener import Listener
from kubedsm.kube.calls import live, pod_writes
from kubedsm.kube.client.port import (
    Cluster,
    ClusterError,
    Conflict,
    DisruptionBudgetExceeded,
    Forbidden,
    NotFound,
)
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Pod, PodClass, Resources, Uid, Workload, serving_order
from kubedsm.optimizer.placing.preemption import Budget, Preemption, makes_room
from kubedsm.planner.preempt_request import Room, RoomFor, with_free
from kubedsm.planner.requests import NoAnswerError, Thinker
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.scheduling.scheduling_queue import SchedulingQueue

log = structlog.get_logger()

#: seconds; so long a node is left alone where an eviction was refused for the pod
BACK_OFF = 30.0
#: seconds between tries of a call that had no answer, and how many there are
RETRY = 1.0
TRIES = 5


@attrs.frozen(slots=True)
class Nomination:
    """A pod, and the node where room is being made for it."""

    pod: Pod
    node: NodeName


class EvictionRefusedError(Exception):
    """A victim may not go, with the reason."""


@attrs.define
class Preemptor:
    mirror: ClusterMirror
    queue: SchedulingQueue
    cluster: Cluster
    recorder: EventRecorder
    clock: Clock
    configuration: CurrentConfiguration
    thinker: Thinker
    #: seconds
    timeout: float
    said: SaidByCause
    listener: Listener
    #: as kube-scheduler preempts: whenever a pod may, and on the edge no sooner than elsewhere
    as_kube_scheduler: bool = False
    _wanted: dict[Uid, None] = attrs.field(factory=dict, init=False)
    _wake: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _nominations: dict[Uid, Nomination] = attrs.field(factory=dict, init=False)
    #: pods for which room is made otherwise
    _kept: set[Uid] = attrs.field(factory=set, init=False)
    #: pods whose eviction was granted, and that are still there
    _leaving: set[Uid] = attrs.field(factory=set, init=False)
    #: until when nodes are left alone, for each pod
    _shunned: dict[Uid, dict[NodeName, float]] = attrs.field(factory=dict, init=False)
    #: the last refusal told of each pod
    _told: dict[Uid, str] = attrs.field(factory=dict, init=False)
    #: kinds of pods for which nothing was found, and the mirror's changes then
    _in_vain: set[tuple[PodClass, Workload]] = attrs.field(factory=set, init=False)
    _in_vain_at: int = attrs.field(default=-1, init=False)

    @property
    def busy(self) -> bool:
        """Whether room is being made for any pod."""
        return bool(self._nominations)

    @property
    def enabled(self) -> bool:
        """Whether it may begin to make room; what has begun is finished."""
        return self.as_kube_scheduler or self.configuration.current.preemption == "enabled"

    def consider(self, uids: Iterable[Uid]) -> None:
        """Make room for those of these pods that may have it, for no node takes them."""
        if not self.enabled:
            return
        self._wanted.update(dict.fromkeys(uid for uid in uids if uid not in self._kept))
        if self._wanted:
            self._wake.set()

    async def run(self) -> None:
        """Preempt, one pod after the other and the most important first, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            waiting = [pod for pod in map(self._waiting, self._wanted) if pod is not None]
            self._wanted = {pod.uid: None for pod in sorted(waiting, key=serving_order)}
            while self._wanted and not self._wake.is_set():
                uid = next(iter(self._wanted))
                del self._wanted[uid]
                await self._preempt(uid)
                await self.clock.sleep(0)

    def observe(self, change: Change) -> None:
        """Notice which pods are bound or gone, and what may be room for a nominated pod."""
        before, after = change.pod_before, change.pod_after
        if before is not None and after is None:
            self._forget(before.uid)
        elif after is not None and not after.waits_for_node:
            self._end(after.uid)
        if not self._nominations:
            return
        nodes = {change.freed.node} if change.freed is not None else set()
        nodes |= {node.name for node in (change.node_before, change.node_after) if node}
        for nomination in self._nominations.values():
            if nomination.node in nodes:
                self._try_again(nomination.pod.uid)

    def nominated(self, uids: Iterable[Uid]) -> list[Uid]:
        """Those of them that room is held for; each must be decided on by itself."""
        return [uid for uid in uids if uid in self._nominations]

    @contextmanager
    def lifted(self, uids: Iterable[Uid]) -> Iterator[None]:
        """Meanwhile the room held for these pods is free; nothing may await meanwhile."""
        uids = list(uids)
        for uid in uids:
            self.mirror.withdraw(uid, silently=True)
        try:
            yield
        finally:
            for uid in uids:
                nomination = self._nominations.get(uid)
                if nomination is not None and not self.mirror.reserved(uid):
                    self.mirror.nominate(nomination.pod, nomination.node)

    def keep(self, pod: Pod, node: NodeName) -> None:
        """Hold room that others make for the pod, until `give_back`, or it is bound or gone."""
        self._kept.add(pod.uid)
        if pod.uid not in self._nominations:
            self._nominations[pod.uid] = Nomination(pod, node)
            self.mirror.nominate(pod, node)
            self._try_again(pod.uid)

    def give_back(self, uid: Uid) -> None:
        self._kept.discard(uid)
        self._end(uid)

    async def make_way(self, victims: Sequence[Pod], by: Pod) -> None:
        """Have all of these evicted, if all of them may go. Raises EvictionRefusedError."""
        for dry_run in (True, False):
            for victim in victims:
                granted = await self._request(victim, dry_run=dry_run)
                if granted and not dry_run and victim.node_name is not None:
                    self.recorder.preempted(victim, by, victim.node_name)

    def unbound(self, pod: Pod) -> None:
        """Hold the room again for a pod whose bind failed."""
        nomination = self._nominations.get(pod.uid)
        if nomination is not None:
            self.mirror.nominate(nomination.pod, nomination.node)

    def _waiting(self, uid: Uid) -> Pod | None:
        """The pod, if it is still to be placed."""
        pod = self.mirror.pod(uid)
        taken = self.mirror.reserved(uid) or self.mirror.claimant(uid) is not None
        return pod if pod is not None and pod.waits_for_node and not taken else None

    def _try_again(self, uid: Uid) -> None:
        pod = self._waiting(uid)
        if pod is not None:
            self.queue.add(pod)

    async def _room_for(
        self,
        uid: Uid,
        budgets: tuple[Budget, ...] | None = None,
        shunned: frozenset[NodeName] = frozenset(),
        node: NodeName | None = None,
    ) -> Room | None:
        """What room there is for the pod; None if it does not wait any more.

        What is held for less important pods counts as free. Raises NoAnswerError.
        """
        for _ in range(TRIES):
            pod = self._waiting(uid)
            if pod is None:
                return None
            lesser = [n.pod.uid for n in self._less_important(pod)]
            held = self.mirror.held_for([uid, *lesser])
            question = RoomFor(
                pod,
                held,
                frozenset(self._leaving),
                budgets,
                shunned,
                node,
                not self.as_kube_scheduler,
            )
            changes = self.mirror.changes
            room = await self.thinker.ask(question)
            if changes == self.mirror.changes or self._still_holds(room, held):
                return room
        raise NoAnswerError("the cluster changes faster than room is found in it")

    def _still_holds(self, room: Room, held: Mapping[NodeName, Resources]) -> bool:
        """Whether the victims are still there, and the pod would have room without them."""
        if self._waiting(room.pod.uid) is None:
            return False
        snapshot = with_free(self.mirror.snapshot(), held)
        return room.found is None or makes_room(snapshot, room.pod, room.found, self._leaving)

    def _less_important(self, pod: Pod) -> list[Nomination]:
        priority = pod.pod_class.priority
        return [n for n in self._nominations.values() if n.pod.pod_class.priority < priority]

    async def _preempt(self, uid: Uid) -> None:
        try:
            await self._make_room(uid)
        except NoAnswerError:
            self._end(uid)
            pod = self._waiting(uid)
            if pod is not None:
                self.queue.back_off(pod)

    async def _make_room(self, uid: Uid) -> None:
        """Raises NoAnswerError."""
        pod = self._waiting(uid)
        if pod is None or not self.enabled:
            return
        self.listener.preemption_begun(pod)
        if await self._hopeless(pod):
            return
        try:
            budgets = await live.all_budgets(self.cluster, timeout=self.timeout)
        except (ClusterError, WireError) as error:
            self.said.log(log.warning, "budgets unreadable", error)
            budgets = []  # whether a pod may go, the API server decides
        while room := await self._room_for(uid, tuple(budgets), self._shunned_now(uid)):
            if room.coming is not None:
                self._await_room(room.pod, room.coming)
                return
            pod, found = room.pod, room.found
            if found is None:
                self._end(uid)
                return
            self._nominate(pod, found.node)
            log.info(
                "preemption", pod=str(pod), node=found.node, victims=[str(v) for v in found.victims]
            )
            try:
                await self._ask(found)
                self.listener.victims_chosen(pod, found.victims)
                await self._evict(uid, found.node)
            except EvictionRefusedError as error:
                self._give_up(pod, found.node, str(error))
            else:
                return

    async def _hopeless(self, pod: Pod) -> bool:
        """Whether nothing can be done for it: found out without asking the API server.

        Raises NoAnswerError.
        """
        kind = (pod.pod_class, pod.workload)
        if self.mirror.changes != self._in_vain_at:
            self._in_vain.clear()
        elif kind in self._in_vain:
            return True
        at = self.mirror.changes
        room = await self._room_for(pod.uid)
        if room is None:
            return True
        overtaken = self.mirror.changes != at
        if room.coming is not None:
            self._await_room(pod, room.coming)
        hopeless = room.coming is None and not room.helps
        if hopeless:
            self._end(pod.uid)
            if not overtaken:
                self._in_vain.add(kind)
                self._in_vain_at = self.mirror.changes
        return hopeless

    def _await_room(self, pod: Pod, node: NodeName) -> None:
        """It gets room there without any eviction; if it is held for others, it no longer is."""
        if any(n.node == node for n in self._less_important(pod)):
            self._nominate(pod, node)
            self._try_again(pod.uid)

    def _nominate(self, pod: Pod, node: NodeName) -> None:
        """Hold the room that is to come for the pod; the less important must look elsewhere."""
        for lesser in self._less_important(pod):
            if lesser.node == node:
                self._end(lesser.pod.uid)
                self._try_again(lesser.pod.uid)
        self._nominations[pod.uid] = Nomination(pod, node)
        self.mirror.nominate(pod, node)

    async def _ask(self, found: Preemption) -> None:
        """Find out whether all victims may go, before the first does."""
        for victim in found.victims:
            await self._request(victim, dry_run=True)

    async def _evict(self, uid: Uid, node: NodeName) -> None:
        """Evict the pods that must go from the node, until none must.

        Raises EvictionRefusedError and NoAnswerError.
        """
        missed = 0
        while room := await self._room_for(uid, node=node):
            if uid not in self._nominations:
                return
            pod, found = room.pod, room.found
            if found is not None and not found.victims:
                return
            if room.coming is not None:  # elsewhere, without any more evictions
                self._end(uid)
                self._try_again(uid)
                return
            if found is None or missed == TRIES:
                raise EvictionRefusedError("evictions would make no room there any more")
            victim = found.victims[0]
            if not await self._request(victim):
                missed += 1
                continue
            log.info("preempted", pod=str(victim), by=str(pod), node=node)
            self.recorder.preempted(victim, pod, node)
            if self.mirror.pod(victim.uid) is not None:
                self._leaving.add(victim.uid)

    async def _request(self, victim: Pod, *, dry_run: bool = False) -> bool:
        """Ask for an eviction; False if the victim seems gone. Raises EvictionRefusedError."""
        error: ClusterError | None = None
        for _ in range(TRIES):
            try:
                await pod_writes.evict(self.cluster, victim, timeout=self.timeout, dry_run=dry_run)
            except DisruptionBudgetExceeded as refusal:
                raise EvictionRefusedError(f"{victim}: {refusal.message}") from None
            except Forbidden as refusal:
                self.said.log(log.warning, "eviction refused", refusal, pod=str(victim))
                raise EvictionRefusedError(f"{victim}: {refusal}") from None
            except (NotFound, Conflict):
                await self.clock.sleep(RETRY)  # the watch will tell
                return False
            except ClusterError as unanswered:
                error = unanswered
                await self.clock.sleep(RETRY)
            else:
                return True
        raise EvictionRefusedError(f"{victim}: {error}")

    def _give_up(self, pod: Pod, node: NodeName, reason: str) -> None:
        """Leave the node alone for a while."""
        self._end(pod.uid)
        self._shunned.setdefault(pod.uid, {})[node] = self.clock.monotonic() + BACK_OFF
        text = f"No room is made on node {node}: {reason}"
        self.said.log(log.info, "preemption given up", reason, pod=str(pod), node=node)
        if self._told.get(pod.uid) != text:
            self._told[pod.uid] = text
            self.recorder.not_preempted(pod, text)

    def _shunned_now(self, uid: Uid) -> frozenset[NodeName]:
        now = self.clock.monotonic()
        return frozenset(n for n, until in self._shunned.get(uid, {}).items() if until > now)

    def _end(self, uid: Uid) -> None:
        """Hold nothing for the pod any more."""
        if self._nominations.pop(uid, None) is not None:
            self.mirror.withdraw(uid)

    def _forget(self, uid: Uid) -> None:
        self._end(uid)
        self._leaving.discard(uid)
        self._shunned.pop(uid, None)
        self._told.pop(uid, None)
