"""Taking in where pods are to go, when that was thought about and the world went on.

What is said of a pod holds if it still waits, nothing has made it another one, and its target
takes it now, beside those that were placed before; else it is decided on anew. A part at a time is
looked at and reserved in one breath: between two of them the event loop may do other things.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import attrs

from kubedsm.model.model import Pod, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.decision import Binding, Decision
from kubedsm.planner.place_request import Placing, PodsToPlace
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility
from kubedsm.scheduling.decider import Basis, Deciding, Stage
from kubedsm.scheduling.outcomes import Outcomes, Rejections
from kubedsm.scheduling.work_summary import Batch

T = TypeVar("T")

#: pods that are placed, or told why not, in one turn of the event loop
AT_A_TIME = 50


@attrs.define
class TakingIn:
    """One answer, and what comes of it."""

    deciding: Deciding
    outcomes: Outcomes
    batch: Batch
    stage: Stage
    question: PodsToPlace
    #: when it was asked: what the pods saw of the cluster, and what else the answer depends on
    snapshot: Snapshot
    basis: Basis
    #: what could be carried out of it
    decision: Decision = attrs.field(factory=Decision, init=False)
    _placed: list[Binding] = attrs.field(factory=list, init=False)
    #: why not, of those that were refused
    _messages: dict[Uid, str] = attrs.field(factory=dict, init=False)

    @classmethod
    def asked(
        cls, deciding: Deciding, outcomes: Outcomes, batch: Batch, stage: Stage, pods: list[Pod]
    ) -> "TakingIn":
        """What is to be asked about these pods now."""
        question, basis = deciding.question(stage, pods), deciding.basis()
        return cls(deciding, outcomes, batch, stage, question, deciding.seen(stage), basis)

    async def carry_out(self, placing: Placing) -> bool:
        """Whether it holds to the end; if not, what is still apart is to be decided on anew."""
        holds = await self._carried_out(placing)
        if holds:
            self.deciding.cloud_turn.went_on(placing.decision.looked_at)
        self.decision = attrs.evolve(
            placing.decision,
            bindings=tuple(self._placed),
            unplaced={uid: {} for uid in self._messages},
        )
        self.outcomes.record.batch(self.snapshot, self.decision, self._messages)
        return holds

    async def _carried_out(self, placing: Placing) -> bool:
        for number, act in enumerate(self._acts(placing)):
            if number:
                await self.deciding.clock.sleep(0)
            if self.deciding.basis() != self.basis:
                return False
            act()
        return True

    def _acts(self, placing: Placing) -> Iterator[Callable[[], None]]:
        for bindings in _parts(placing.decision.bindings):
            yield partial(self._place, bindings)
        yield partial(self._hold, placing.held)
        if self.stage.last:
            yield lambda: self.outcomes.late(self._apart(placing.decision.late))
            for pods in _parts(placing.refused):
                yield partial(self._refuse, pods)

    def _apart(self, pods: Sequence[Pod]) -> list[Pod]:
        """Those that nothing has happened to, as they are now."""
        now = (self.deciding.queue.apart(pod.uid) for pod in pods)
        return [pod for pod in now if pod is not None]

    def _place(self, bindings: Sequence[Binding]) -> None:
        queue, snapshot = self.deciding.queue, self.deciding.seen(self.stage)
        feasibility, kept = Feasibility.of(snapshot), list[Binding]()
        for binding in bindings:
            pod = queue.apart(binding.pod.uid)
            if pod is None:
                continue
            now = Binding(pod, binding.node, binding.tier)
            if _holds(snapshot, feasibility, now):
                feasibility = feasibility.with_pod(pod, now.node)
                queue.place(pod.uid)
                kept.append(now)
        self.outcomes.bind(self.batch, kept)
        self._placed += kept

    def _hold(self, pods: Sequence[Pod]) -> None:
        """Have them wait for room, unless any of that has come free meanwhile."""
        if self.question.leaving <= self.deciding.changes.stopping():
            for pod in self._apart(pods):
                self.deciding.queue.hold(pod)

    def _refuse(self, pods: Sequence[Pod]) -> None:
        """Tell why not by the nodes as they are now: what happens from here on wakes the pods."""
        snapshot = self.deciding.seen(self.stage)
        feasibility = Feasibility.of(snapshot)
        alike: dict[EquivalenceClass, Rejections] = {}
        unplaced: dict[Uid, Rejections] = {}
        for pod in self._apart(pods):
            kind = feasibility.equivalence(pod)
            if kind not in alike:
                alike[kind] = feasibility.rejections(pod)
            unplaced[pod.uid] = alike[kind]
        self._messages |= self.outcomes.say_why_not(snapshot, unplaced)
        self.outcomes.preemptor.consider(unplaced)


def _holds(snapshot: Snapshot, feasibility: Feasibility, binding: Binding) -> bool:
    """Whether the pod may go there, as things are now."""
    node = snapshot.nodes.get(binding.node)
    return (
        node is not None
        and node.tier is binding.tier
        and feasibility.rejection(binding.pod, node.name) is None
    )


def _parts(things: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(things), AT_A_TIME):
        yield things[start : start + AT_A_TIME]
