"""Algorithm 5: which pods leave the edge when room is needed there."""

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import NodeName, Workload
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.gains import Gains
from kubedsm.optimizer.matching.best_fit import BestFit, greatest_allocatable, size
from kubedsm.optimizer.moving.edge_problem import EdgeProblem


def item_sizes(problem: EdgeProblem) -> list[float]:
    """The size of a pod of each item, against the edge nodes."""
    greatest = greatest_allocatable(problem.nodes)
    return [size(item.requests, greatest) for item in problem.items]


@attrs.frozen(eq=False)
class FreeEdge:
    """The order in which pods would leave; it does not depend on how much room is needed."""

    #: P: of which item each is
    items: tuple[int, ...]
    #: P: the node each leaves
    nodes: tuple[NodeName, ...]
    #: (P + 1) x I: how many of each item the first 0, 1, 2 ... are
    counts: Ints
    #: (P + 1) x R: the free room of the edge, in sum, once they are gone
    room: Ints

    def needed(self, needs: Ints) -> Ints:
        """How many must leave for each of T needs, T x R; P + 1 if all of them are not enough."""
        most = np.zeros(len(needs), dtype=np.int64)
        for room, need in zip(self.room.T, needs.T, strict=True):
            # What needs nothing of a resource fits however little of it there is.
            enough = np.where(need > 0, np.searchsorted(room, need), 0)
            np.maximum(most, enough, out=most)
        return most


def free_edge_as_needed(
    problem: EdgeProblem, gains: Gains, deadline: Deadline = NO_DEADLINE
) -> FreeEdge:
    """The pods that may leave: of the lowest priority, by how little QoS is lost for their size.

    Looked at anew after every pick; ties go to the first item in canonical order. A pod that the
    cloud cannot hold beside those before it stays. Since the order is the same whatever the need,
    it is computed once, and a need is answered by binary search in the room freed. Once the
    deadline has passed no more pods are looked at.
    """
    sizes = item_sizes(problem)
    cloud = BestFit(problem.cloud.packing)
    queues = [
        [name for name in sorted(item.here) for _ in item.here[name]] for item in problem.items
    ]
    gone: dict[Workload, int] = {}
    picked: list[int] = []
    nodes: list[NodeName] = []

    def score(index: int) -> tuple[int, float]:
        workload = problem.items[index].workload
        change = gone.get(workload, 0)
        lost = gains.of_workload(workload, change - 1) - gains.of_workload(workload, change)
        return gains.level[workload], lost / sizes[index]

    able = [at for at, queue in enumerate(queues) if queue]
    while able and not deadline.passed:
        best = max(able, key=score)
        kind = problem.items[best].cloud_kind
        if kind is None or not cloud.place(kind):
            able.remove(best)
            continue
        workload = problem.items[best].workload
        gone[workload] = gone.get(workload, 0) - 1
        picked.append(best)
        nodes.append(queues[best].pop(0))
        if not queues[best]:
            able.remove(best)
    one_each = np.eye(len(problem.items), dtype=np.int64)[picked]
    counts = np.vstack((np.zeros((1, len(problem.items)), dtype=np.int64), one_each)).cumsum(axis=0)
    room = np.maximum(problem.free, 0).sum(axis=0) + counts @ problem.requests
    return FreeEdge(tuple(picked), tuple(nodes), counts, room)
