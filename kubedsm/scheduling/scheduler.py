"""The immediate scheduler: gather a batch, decide, and hand the decision to be carried out."""

import asyncio
from collections.abc import Callable

import attrs

from kubedsm.execution.bind_calls import BindCalls
from kubedsm.model.model import Pod, Uid
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.placing.immediate import is_uncontended
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.process.supervisor import Supervisor
from kubedsm.scheduling.batch_window import batch_window
from kubedsm.scheduling.decider import HASTY, Decided, Deciding, Stage
from kubedsm.scheduling.outcomes import Outcomes
from kubedsm.scheduling.planned_batches import Thoughts
from kubedsm.scheduling.work_summary import Batch

#: pods that are decided on together, if it may cost some of them something that they are not
LONGEST = 5000
#: how to come to a decision; None if it has to be thought about for longer
Decide = Callable[[Stage, list[Pod]], Decided | None]


@attrs.frozen(slots=True)
class Scheduler:
    """Decides on batches of waiting pods; to be run once the mirror is complete."""

    deciding: Deciding
    outcomes: Outcomes
    thoughts: Thoughts
    binds: BindCalls
    synced: asyncio.Event
    supervisor: Supervisor
    #: closes the batch that is gathered by a configuration that holds no more
    _reconfigured: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    async def run(self) -> None:
        queue, clock = self.deciding.queue, self.deciding.clock
        await self.synced.wait()
        while True:
            await queue.wait_active()
            batch = self.deciding.configuration.current.batch
            await batch_window(queue, clock, batch, self._closed(), self._most)
            self._schedule_batch()
            await clock.sleep(0)  # with enough pods waiting nothing else here would

    def reconfigured(self) -> None:
        """Wait no longer for a batch than is told now."""
        self._reconfigured.set()

    def _closed(self) -> asyncio.Event:
        """What closes the batch before its time, if that costs nothing: no bind is under way.

        While one is, the next would only come behind it. Else, that all is configured anew.
        """
        with self.supervisor.catching("window"):
            ready = self.deciding.queue.ready(self._size)
            alone = len(self.deciding.sites.stand_ins(ready)) == len(ready) > 0
            if self._exact and (alone or self._uncontended(ready, self._size)):
                return self.binds.none_under_way
        self._reconfigured.clear()
        return self._reconfigured

    @property
    def _size(self) -> int:
        return self.deciding.configuration.current.batch.size

    @property
    def _exact(self) -> bool:
        return isinstance(self.deciding.policy(), KubeDSM)

    def _uncontended(self, pods: list[Pod], batch: int) -> bool:
        return is_uncontended(self.deciding.seen(Stage()), pods, batch)

    def _most(self) -> int:
        """How many of the pods that are ready to take at once.

        All of them, unless it costs none a place, nor any QoS, that the others come after it.
        """
        size = self._size
        if len(self.deciding.queue) < size or not self._exact:
            return size
        ready = self.deciding.queue.ready(LONGEST)
        return size if self._uncontended(ready, len(ready)) else max(size, LONGEST)

    def _schedule_batch(self) -> None:
        """Decide on what is ready; on a pod that room is held for, by itself and before others."""
        decide, most = self.deciding.at_once, self._size
        with self.supervisor.catching("window"):
            most = self._most()
        if self.thoughts.unanswered:
            decide, most, self.thoughts.unanswered = self.deciding.in_haste, HASTY, False
        uids, preemptor = self.deciding.queue.pop(most), self.outcomes.preemptor
        for uid in preemptor.nominated(uids):
            with preemptor.lifted([uid]):
                self._decide_each([uid], self.deciding.in_haste)
            uids.remove(uid)
        self._decide_each(uids, decide)

    def _decide_each(self, uids: list[Uid], decide: Decide) -> None:
        """Decide on all at once; if that fails, put off only the pods that it fails for."""

        def decided(pods: list[Pod]) -> None:
            self._decide(pods, decide)

        pods = [pod for pod in map(self.deciding.mirror.pod, uids) if pod is not None]
        self.outcomes.failed(self.supervisor.isolate("decision", decided, pods))

    def _decide(self, waiting: list[Pod], decide: Decide) -> None:
        """Decide, reserve and ask. Nothing here awaits, so nothing can come between."""
        deciding, outcomes = self.deciding, self.outcomes
        began = deciding.clock.monotonic()
        pods = deciding.seen(Stage()).schedulable(waiting)
        if not pods:
            return
        outcomes.listener.batch_begun(pods)
        left = self.thoughts.let_pass(pods)
        batch, decision = Batch(), Decision()
        for stage in deciding.stages():
            those = stage.of(left)
            if not those:
                continue
            decided = decide(stage, those)
            if decided is None:
                self.thoughts.begin(left, began)
                return
            self._carry_out(batch, decided, last=stage.last)
            decision = decided.decision
            gone = {pod.uid for pod in (*decided.held, *(b.pod for b in decision.bindings))}
            left = [pod for pod in left if pod.uid not in gone]
        outcomes.manager.give_way("new pods came")
        outcomes.preemptor.consider(decision.unplaced)
        outcomes.ended(batch, pods, deciding.clock.monotonic() - began, decision)

    def _carry_out(self, batch: Batch, decided: Decided, *, last: bool) -> None:
        snapshot, decision, held = decided
        self.deciding.cloud_turn.went_on(decision.looked_at)
        for pod in held:
            self.deciding.queue.hold(pod)
        messages = self.outcomes.say_why_not(snapshot, decision.unplaced) if last else {}
        self.outcomes.place(batch, snapshot, decision, messages)
        if last:
            self.outcomes.late(decision.late)
