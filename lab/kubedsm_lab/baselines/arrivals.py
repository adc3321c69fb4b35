"""Pods that come to a cluster one after the other, and preempt each other or do not.

What becomes of a snapshot under kube-scheduler as its users have it: a pod that no node takes may
have others of lower priority evicted (DefaultPreemption), whose owners make new ones at once. Only
when pods have gone are those that wait tried again, the most important first. Nothing takes time:
what is evicted is gone, and its room is given to the pod it was evicted for.
"""

import heapq
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from kubedsm.model.model import NodeName, Pod, Uid, serving_order
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import Objective
from kubedsm.optimizer.placing.preemption import Preemption, PreemptionSearch
from kubedsm_lab.baselines.in_turn import Choose, Room

if TYPE_CHECKING:
    import random


@attrs.frozen(slots=True)
class Served:
    #: pods that have come run, or wait for a node
    snapshot: Snapshot
    #: how many pods were evicted, each time that they were
    evictions: int


def served(
    snapshot: Snapshot,
    arrivals: Iterable[Iterable[Pod]],
    choose: Choose,
    rng: "random.Random",
    *,
    preempting: bool,
) -> Served:
    """Serve pods that are new to the snapshot, or wait in it, as they come, some at a time.

    They are taken to be created as they come, in that order.
    """
    empty = snapshot.without(snapshot.placed)
    pods_of, targets = dict(snapshot.pods), dict(snapshot.placed)
    cluster = _Cluster(empty, Room.of(snapshot), choose, rng, pods_of, targets)
    for pods in arrivals:
        cluster.come(pods)
        while (pod := cluster.next()) is not None:
            if not cluster.place(pod) and preempting:
                cluster.preempt(pod)
    return Served(cluster.snapshot(), cluster.evictions)


@attrs.define
class _Cluster:
    """The snapshot as it has become."""

    #: without any pod on a node
    empty: Snapshot
    room: Room
    choose: Choose
    rng: "random.Random"
    pods: dict[Uid, Pod]
    #: of those that are on one, the node
    targets: dict[Uid, NodeName]
    #: to be tried, by the order in which they are served
    queue: list[tuple[tuple[int, float, str, str], Uid]] = attrs.field(factory=list)
    #: tried in vain since the last eviction
    waiting: dict[Uid, None] = attrs.field(factory=dict)
    evictions: int = 0
    now: int = 0

    def come(self, pods: Iterable[Pod]) -> None:
        """New pods, all created now."""
        self.now += 1
        for pod in pods:
            self.pods[pod.uid] = attrs.evolve(pod, created=float(self.now))
            self._try(pod.uid)

    def next(self) -> Pod | None:
        return self.pods[heapq.heappop(self.queue)[1]] if self.queue else None

    def place(self, pod: Pod) -> bool:
        """Whether there was a node for it."""
        fitting = self.room.fitting(pod)
        if fitting:
            node = self.choose(pod, fitting, self.room, self.rng)
            self.room.put(pod, node)
            self.targets[pod.uid] = node.name
        else:
            self.waiting[pod.uid] = None
        return bool(fitting)

    def preempt(self, pod: Pod) -> None:
        """Put the pod where others have to go for it, if there is such a node."""
        search = PreemptionSearch(self.snapshot(), pod, None, Objective())
        found = search.best()
        if found is not None:
            self._evict(found)
            self.waiting.pop(pod.uid)
            self.targets[pod.uid] = found.node
            self.room = Room.of(self.snapshot())
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
