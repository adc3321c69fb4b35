"""Sequential scheduling: each pod of a batch is placed on the capacity that preceding pods left
free.

A baseline policy supplies only the choice among the feasible nodes (`Choose`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import attrs

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    Resources,
    Tier,
    Uid,
    serving_order,
    shares_after,
)
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.load import LoadGoal, Loads
from kubedsm.objective.objective import Objective, QosTargets, quality
from kubedsm.optimizer.placing.decision import Binding, Decision
from kubedsm.optimizer.programming.in_order import NO_PROOF
from kubedsm.plugins.feasibility import Feasibility, Rejection

if TYPE_CHECKING:
    import random

T = TypeVar("T")


@attrs.define
class NodeUsage:
    """Free capacity and running pods of each node while a batch is placed; only `InTurn` updates
    these.
    """

    nodes: Mapping[NodeName, Node]
    feasibility: Feasibility
    free: dict[NodeName, Resources]
    #: pods with reserved or allocated capacity
    pods: dict[NodeName, list[Pod]]
    #: measured node load; None if unavailable or irrelevant
    loads: Loads | None = None
    #: as `Snapshot.at`
    at: float = 0.0

    @classmethod
    def of(cls, snapshot: Snapshot, goal: LoadGoal | None = None) -> "NodeUsage":
        pods: dict[NodeName, list[Pod]] = {name: [] for name in snapshot.nodes}
        for uid, node in snapshot.placed.items():
            pod = snapshot.pods[uid]
            if node in pods and not pod.finished:
                pods[node].append(pod)
        loads = None if goal is None else Loads.of(goal, snapshot)
        rules, free = Feasibility.of(snapshot), dict(snapshot.free)
        return cls(snapshot.nodes, rules, free, pods, loads, snapshot.at)

    def fitting(self, pod: Pod) -> list[Node]:
        """Return the nodes that are feasible for the pod (all Filter plugins pass), in alphabetical
        order.
        """
        return [self.nodes[name] for name in self.feasibility.feasible(pod)]

    def put(self, pod: Pod, node: Node) -> None:
        self.feasibility = self.feasibility.with_pod(pod, node.name)
        self.free[node.name] -= pod.requests
        self.pods[node.name].append(pod)
        if self.loads is not None:
            self.loads.put(pod, node.name)


#: Selection of one of the feasible nodes, which are never empty and in alphabetical order.
Choose = Callable[[Pod, Sequence[Node], NodeUsage, "random.Random"], Node]


def _nothing(_pod: Pod) -> None:
    return


@attrs.frozen
class InTurn:
    """Scheduling policy that places pods one at a time; the baseline's function `choose` picks each
    pod's node.
    """

    choose: Choose
    qos_targets: QosTargets
    objective: Objective
    #: None if measured consumption is irrelevant
    load: LoadGoal | None = None
    #: callback for each unschedulable pod
    on_unplaced: Callable[[Pod], object] = _nothing

    def place(
        self,
        snapshot: Snapshot,
        pods: Iterable[Pod],
        rng: "random.Random",
        deadline: Deadline = NO_DEADLINE,
    ) -> Decision:
        """Place the pods one at a time, in scheduling order, until the deadline; return the
        decision.
        """
        room = NodeUsage.of(snapshot, self.load)
        bindings: list[Binding] = []
        unplaced: dict[Uid, Mapping[NodeName, Rejection]] = {}
        late: list[Pod] = []
        ordered = sorted(pods, key=serving_order)
        for number, pod in enumerate(ordered):
            if number and deadline.passed:
                late.append(pod)
                continue
            fitting = room.fitting(pod)
            node = self.choose(pod, fitting, room, rng) if fitting else None
            if node is None or node.tier is None:
                self.on_unplaced(pod)
                unplaced[pod.uid] = room.feasibility.rejections(pod)
                continue
            room.put(pod, node)
            bindings.append(Binding(pod, node.name, node.tier))
        before = snapshot.census.shares
        more = Counter(binding.pod.workload for binding in bindings if binding.tier is Tier.EDGE)
        after = shares_after(before, more)
        workloads = {pod.workload for pod in ordered} & before.keys()
        scores = [
            quality({each: of[each] for each in workloads}, self.qos_targets, self.objective)
            for of in (before, after)
        ]
        return Decision(
            bindings=tuple(bindings),
            unplaced=unplaced,
            late=tuple(late),
            score_before=scores[0],
            score_after=scores[1],
            proof=NO_PROOF,
            shares_before=before,
            shares_after=after,
        )


def pick(rng: "random.Random", options: Sequence[T]) -> T:
    """Return one element of the sequence, drawn uniformly at random.

    Only `Random.random` is called: its sequence is the same in every Python version.
    """
    return options[int(rng.random() * len(options))]


def of_tier(nodes: Iterable[Node], tier: Tier) -> list[Node]:
    return [node for node in nodes if node.tier is tier]
