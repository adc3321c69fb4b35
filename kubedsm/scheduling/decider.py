"""How it is decided where pods go: at once, in haste, or by a question that takes its time."""

import random
from collections.abc import Callable
from typing import NamedTuple

import attrs

from kubedsm.config.current import CurrentConfiguration
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Pod, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.cloud import LookedAt
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.policies.policy import Policy
from kubedsm.planner.place_request import PodsToPlace, View, as_it_is
from kubedsm.process.clock import Clock, deadline_in
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm.scheduling.site_monitor import Sites
from kubedsm.scheduling.workload_changes import WorkloadChanges

#: seconds of the event loop for one decision; then it is thought about elsewhere, or by rough rules
AT_ONCE = 0.025
#: pods that can be decided on and reserved for in one turn of the loop; and of those, how many by
#: rough rules, however different they are
MOST, HASTY = 256, 64


@attrs.frozen(slots=True)
class Stage:
    """Some of the pods that are left, and what of the cluster they may have."""

    view: View = as_it_is
    of: Callable[[list[Pod]], list[Pod]] = list
    #: whatever has no place now has none
    last: bool = True


#: a generation of the configuration, and nodes that are away
Basis = tuple[int, frozenset[NodeName]]


class Decided(NamedTuple):
    snapshot: Snapshot
    decision: Decision
    #: pods that wait for room on the edge to come free
    held: tuple[Pod, ...] = ()


@attrs.define
class CloudTurn:
    """Where the search among the nodes of a large cloud goes on, from batch to batch."""

    start: int = 0

    def went_on(self, looked_at: LookedAt | None) -> None:
        """So much was looked at for a batch that is carried out.

        While it was thought about others may have gone on from there: then they have. So none of
        the nodes is passed over.
        """
        if looked_at is not None and looked_at.first == self.start:
            self.start = looked_at.following


@attrs.frozen(slots=True)
class Deciding:
    mirror: ClusterMirror
    queue: SchedulingQueue
    configuration: CurrentConfiguration
    #: the one that holds now
    policy: Callable[[], Policy]
    clock: Clock
    rng: random.Random
    changes: WorkloadChanges
    sites: Sites
    cloud_turn: CloudTurn = attrs.field(factory=CloudTurn)

    def stages(self) -> tuple[Stage, ...]:
        """One after the other; several while sites are away.

        What comes instead of pods that go on serving where they are goes to the cloud, beside all
        others. What nothing else takes may still go anywhere: better there than nowhere.
        """
        away = self.sites.away()
        if not (away and isinstance(self.policy(), KubeDSM)):
            return (Stage(),)
        stand_ins = Stage(away.in_cloud, self.sites.stand_ins, last=False)
        return stand_ins, Stage(away.apart, last=False), Stage()

    def basis(self) -> Basis:
        """What a decision depends on beside the cluster: it is none if that has changed."""
        return self.configuration.generation, self.sites.away().nodes

    def seen(self, stage: Stage) -> Snapshot:
        return stage.view(self.mirror.snapshot(self.clock.wall()))

    def at_once(self, stage: Stage, pods: list[Pod]) -> Decided | None:
        """None if a longer thought may come to more; never for policies that do not think."""
        policy, snapshot = self.policy(), self.seen(stage)
        budget = self.configuration.current.batch.budget
        if not isinstance(policy, KubeDSM):
            deadline = deadline_in(budget, self.clock)
            return Decided(snapshot, policy.place(snapshot, pods, self.rng, deadline))
        if len(pods) > MOST:
            return None
        deadline = deadline_in(min(budget, AT_ONCE), self.clock)
        start = self.cloud_turn.start
        decided = policy.at_once(snapshot, pods, self._leaving(pods), deadline, start)
        return decided and Decided(snapshot, *decided)

    def in_haste(self, stage: Stage, pods: list[Pod]) -> Decided | None:
        """What is known when the time is up, of no more pods than `HASTY`."""
        policy = self.policy()
        if not isinstance(policy, KubeDSM):
            return self.at_once(stage, pods)
        snapshot, deadline = self.seen(stage), deadline_in(AT_ONCE, self.clock)
        hasty, leaving = attrs.evolve(policy, solver=None), self._leaving(pods)
        start = self.cloud_turn.start
        return Decided(snapshot, *hasty.decide_ahead(snapshot, pods, leaving, deadline, start))

    def question(self, stage: Stage, pods: list[Pod]) -> PodsToPlace:
        configuration = self.configuration.current
        return PodsToPlace(
            tuple(pod.uid for pod in pods),
            self.clock.wall(),
            max(configuration.batch.budget, configuration.solver.budget),
            self._leaving(pods),
            stage.view,
            self.cloud_turn.start,
        )

    def _leaving(self, pods: list[Pod]) -> frozenset[Uid]:
        """The pods whose room on the edge these may wait for."""
        longest = self.configuration.current.batch.edge_wait
        may_wait = longest and all(self.queue.may_hold(pod.uid, longest) for pod in pods)
        return self.changes.stopping() if may_wait else frozenset()
