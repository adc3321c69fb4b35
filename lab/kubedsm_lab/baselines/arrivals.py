"""Simulation of pods that arrive one at a time at a cluster under kube-scheduler, with or without
preemption.

An unschedulable pod may preempt pods of lower priority (DefaultPreemption), whose controllers
create replacements immediately. Pending pods are reconsidered only after an eviction, highest
priority first. Evictions are instantaneous: the preemptor receives the released capacity.
"""

import heapq
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from kubedsm.model.model import NodeName, Pod, Uid, serving_order
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import Objective
from kubedsm.optimizer.placing.preemption import Preemption, PreemptionSearch
from kubedsm_lab.baselines.in_turn import Choose, NodeUsage

if TYPE_CHECKING:
    import random


@attrs.frozen(slots=True)
class Served:
    #: snapshot of bound and unschedulable pods after all arrivals
    snapshot: Snapshot
    #: number of preemption victims of each preemption
    evictions: int


def simulate_arrivals(
    snapshot: Snapshot,
    arrivals: Iterable[Iterable[Pod]],
    choose: Choose,
    rng: "random.Random",
    *,
    preempting: bool,
) -> Served:
    """Simulate a one-pod-at-a-time scheduler on batches of arriving pods.

    Pending and new pods are scheduled in the order of arrival, which also sets their creation
    timestamps. With `preempting`, an unschedulable pod may evict pods of lower priority.
    """
    empty = snapshot.without(snapshot.placed)
    pods_of, targets = dict(snapshot.pods), dict(snapshot.placed)
    cluster = _Cluster(empty, NodeUsage.of(snapshot), choose, rng, pods_of, targets)
    for pods in arrivals:
        cluster.come(pods)
        while (pod := cluster.next()) is not None:
            if not cluster.place(pod) and preempting:
                cluster.preempt(pod)
    return Served(cluster.snapshot(), cluster.evictions)


@attrs.define
class _Cluster:
    """Simulated cluster: pending queue, free capacity, and the node assigned to each pod."""

    #: initial snapshot without scheduled pods
    empty: Snapshot
    room: NodeUsage
    choose: Choose
    rng: "random.Random"
    pods: dict[Uid, Pod]
    #: node assignments of scheduled pods
    targets: dict[Uid, NodeName]
    #: pending pods by scheduling order
    queue: list[tuple[tuple[int, float, str, str], Uid]] = attrs.field(factory=list)
    #: unschedulable pods since the last preemption
    waiting: dict[Uid, None] = attrs.field(factory=dict)
    evictions: int = 0
    now: int = 0

    def come(self, pods: Iterable[Pod]) -> None:
        """Enqueue newly arrived pods, stamped with the next arrival number as creation time."""
        self.now += 1
        for pod in pods:
            self.pods[pod.uid] = attrs.evolve(pod, created=float(self.now))
            self._try(pod.uid)

    def next(self) -> Pod | None:
        return self.pods[heapq.heappop(self.queue)[1]] if self.queue else None

    def place(self, pod: Pod) -> bool:
        """Bind one pod to the scheduler's choice of node; return False if no node is feasible."""
        fitting = self.room.fitting(pod)
        if fitting:
            node = self.choose(pod, fitting, self.room, self.rng)
            self.room.put(pod, node)
            self.targets[pod.uid] = node.name
        else:
            self.waiting[pod.uid] = None
        return bool(fitting)

    def preempt(self, pod: Pod) -> None:
        """Evict the lowest-priority victims that make a node feasible for the pod, if any such node
        exists.
        """
        search = PreemptionSearch(self.snapshot(), pod, None, Objective())
        found = search.best()
        if found is not None:
            self._evict(found)
            self.waiting.pop(pod.uid)
            self.targets[pod.uid] = found.node
            self.room = NodeUsage.of(self.snapshot())
            for uid in self.waiting:
                self._try(uid)
            self.waiting.clear()

    def snapshot(self) -> Snapshot:
        running = {
            uid: attrs.evolve(self.pods[uid], phase="Running", ready=True) for uid in self.targets
        }
        pods = {**self.pods, **running}
        return attrs.evolve(self.empty, pods=pods).with_placed(self.targets)

    def _evict(self, found: Preemption) -> None:
        self.now += 1
        for victim in found.victims:
            self.pods[victim.uid] = attrs.evolve(
                self.pods[victim.uid], node_name=None, created=float(self.now)
            )
            del self.targets[victim.uid]
            self.waiting[victim.uid] = None
        self.evictions += len(found.victims)

    def _try(self, uid: Uid) -> None:
        heapq.heappush(self.queue, (serving_order(self.pods[uid]), uid))
