"""Thinking about batches that take longer than the event loop may be held up.

One at a time. Its pods are apart from the queue meanwhile, so that others are placed which can be
at once. Whatever is as hard waits for its end; and so does a pod of lower priority than any that is
thought about, for it must not take the room from that.
"""

import asyncio
from collections.abc import Sequence

import attrs

from kubedsm.clock import Clock
from kubedsm.core.placing.decision import Decision
from kubedsm.core.world.model import Pod
from kubedsm.runtime.deciding import Deciding
from kubedsm.runtime.outcomes import Outcomes
from kubedsm.runtime.scheduling_queue import SchedulingQueue
from kubedsm.runtime.supervisor import Supervisor
from kubedsm.runtime.taking_in import TakingIn
from kubedsm.runtime.work_done import Batch
from kubedsm.thinking.pods_to_place import Placing, PodsToPlace
from kubedsm.thinking.questions import NoAnswerError, Thinker


@attrs.frozen(slots=True)
class _Batch:
    pods: list[Pod]
    #: on the clock
    began: float


@attrs.define
class Thoughts:
    queue: SchedulingQueue
    deciding: Deciding
    outcomes: Outcomes
    thinker: Thinker
    supervisor: Supervisor
    clock: Clock
    #: what was asked last has no answer: the next batch is to be decided in haste
    unanswered: bool = attrs.field(default=False, init=False)
    _batch: _Batch | None = attrs.field(default=None, init=False)
    _begun: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def begin(self, pods: list[Pod], began: float) -> None:
        """Think about these, or have them wait for the end of what is thought about."""
        for pod in pods:
            self.queue.set_apart(pod)
        if self._batch is None:
            self._batch = _Batch(pods, began)
            self._begun.set()

    def let_pass(self, pods: list[Pod]) -> list[Pod]:
        """Those of them that need not wait for the end of what is thought about."""
        if self._batch is None:
            return pods
        highest = max(pod.pod_class.priority for pod in self._batch.pods)
        for pod in pods:
            if pod.pod_class.priority < highest:
                self.queue.set_apart(pod)
        return [pod for pod in pods if pod.pod_class.priority >= highest]

    async def run(self) -> None:
        """Think about one batch after the other, until cancelled."""
        while True:
            await self._begun.wait()
            if self._batch is not None:
                await self._end(self._batch)

    async def _end(self, batch: _Batch) -> None:
        try:
            with self.supervisor.catching("decision") as caught:
                await self._think(batch)
            if caught:
                self.outcomes.failed(self._left(batch.pods))
        finally:
            self._batch = None
            self._begun.clear()
            self.queue.bring_back()

    async def _think(self, batch: _Batch) -> None:
        self.outcomes.manager.give_way("new pods came")
        binds, decision = Batch(), Decision()
        for stage in self.deciding.stages():
            those = stage.of(self._left(batch.pods))
            if not those:
                continue
            taking_in = TakingIn.asked(self.deciding, self.outcomes, binds, stage, those)
            placing = await self._answer(taking_in.question)
            self.unanswered = placing is None
            if placing is None or not await taking_in.carry_out(placing):
                return
            decision = taking_in.decision
        seconds = self.clock.monotonic() - batch.began
        self.outcomes.ended(binds, batch.pods, seconds, decision)

    async def _answer(self, question: PodsToPlace) -> Placing | None:
        """None if there is none, be it by a mistake of ours: in haste it is found whose."""
        with self.supervisor.catching("decision"):
            try:
                return await self.thinker.ask(question)
            except NoAnswerError:
                pass
        return None

    def _left(self, pods: Sequence[Pod]) -> list[Pod]:
        """Those that nothing has happened to, as they are now."""
        now = (self.queue.apart(pod.uid) for pod in pods)
        return [pod for pod in now if pod is not None]
