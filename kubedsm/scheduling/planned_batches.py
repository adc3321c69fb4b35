"""Thinking about batches that take longer than the event loop may be held up.

One at a time. Its pods are apart from the queue meanwhile, so that others are placed which can be
at once. Whatever is as hard waits for its end; and so does a pod of lower priority than any that is
thought about, for it must not take the room from that.

Replicas of the same workload wait as well, and so do pods whose preferences count the pods that are
thought about, or are counted by theirs. The answer is about a cluster without them: decided on
meanwhile, both decisions would take the node that is best for the first replica.
"""

import asyncio
from collections.abc import Iterable, Sequence

import attrs

from kubedsm.model.model import Pod, Workload
from kubedsm.model.residents import Selection
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.planner.place_request import Placing, PodsToPlace
from kubedsm.planner.requests import NoAnswerError, Thinker
from kubedsm.process.clock import Clock
from kubedsm.process.supervisor import Supervisor
from kubedsm.scheduling.decider import Deciding
from kubedsm.scheduling.outcomes import Outcomes
from kubedsm.scheduling.planned_decisions import TakingIn
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm.scheduling.work_summary import Batch


@attrs.frozen(slots=True)
class _Batch:
    pods: list[Pod]
    #: on the clock
    began: float
    workloads: frozenset[Workload]
    #: pods that the preferences of these count
    preferred: frozenset[Selection]


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
            workloads = frozenset(pod.workload for pod in pods)
            self._batch = _Batch(pods, began, workloads, _list_preferred(pods))
            self._begun.set()

    def let_pass(self, pods: list[Pod]) -> list[Pod]:
        """Those of them that need not wait for the end of what is thought about."""
        batch = self._batch
        if batch is None:
            return pods
        highest = max(pod.pod_class.priority for pod in batch.pods)
        passing = []
        for pod in pods:
            if pod.pod_class.priority < highest or self._interacts(pod, batch):
                self.queue.set_apart(pod)
            else:
                passing.append(pod)
        return passing

    def _interacts(self, pod: Pod, batch: _Batch) -> bool:
        """Return whether the best node of the pod depends on the nodes of the batch, or theirs on
        its node."""
        surroundings = self.deciding.mirror.surroundings

        def covered(selections: Iterable[Selection], other: Pod) -> bool:
            return any(s.covers(other.namespace, other.labels, surroundings) for s in selections)

        preferred = _list_preferred([pod])
        return (
            pod.workload in batch.workloads
            or covered(batch.preferred, pod)
            or (bool(preferred) and any(covered(preferred, other) for other in batch.pods))
        )

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


def _list_preferred(pods: Iterable[Pod]) -> frozenset[Selection]:
    """Return the pods that preferences of these pods count."""
    found: set[Selection] = set()
    for preferences in {pod.pod_class.rules.preferences for pod in pods}:
        terms = (*preferences.affinity, *preferences.anti_affinity)
        found.update(Selection.of(term) for _, term in terms)
        found.update(Selection(each.selector, (each.namespace,)) for each in preferences.spread)
    return frozenset(found)
