"""Migration algorithms of the KubeDSM paper (arXiv 2501.07130v2) under the original names.

| algorithm | the paper's name | here |
|---|---|---|
| 1 | immediateSchedule | `placing.immediate.immediate_schedule`, for both suggesters |
| 2 | suggest | `suggest` |
| 3 | makeDecision | `make_decision`; without migration: `placing.decision` |
| 4 | cloudToEdgeCandidates | `cloud_to_edge_candidates` |
| 5 | freeEdgeAsNeeded | `free_edge_as_needed` |
| 6 | reorderEdge | `reorder_edge` |
| 7 | unknown: no source of this project attributes Algorithm 7 | |
| 8 | match | `matching.match.match` |
| | bestFit | `matching.best_fit`, in `match` above the exact-search limit |
| | applyDecision | `apply_decision` |

Corrected misprints: line 17 of Algorithm 3 keeps the worse decision; Algorithm 6 has "less than"
where the text says "up to"; eq. 6 and 15 write frag(node - cur) where eq. 5 and 14 are right.

Candidates are cloud pods fitting into the aggregate free capacity of the edge. Therefore no
departure is ever necessary, and the exact suggester finds more.
"""

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Workload
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.gains import rank_gains
from kubedsm.optimizer.matching.best_fit import BestFit, greatest_allocatable, pod_size
from kubedsm.optimizer.matching.match import UNREACHABLE, match
from kubedsm.optimizer.matching.node_walk import walk_nodes
from kubedsm.optimizer.moving.best_changes import Changes, list_changes, split_options
from kubedsm.optimizer.moving.edge_problem import EdgeProblem, Proposal
from kubedsm.optimizer.moving.migration_graph import Order
from kubedsm.optimizer.moving.move_order import Impasse, drop_rejected
from kubedsm.optimizer.moving.pairing import pair_moves

#: Steps of work for an item at each pick.
_PICK_STEPS = 5_000


def suggest(problem: EdgeProblem) -> Proposal:
    """Algorithm 2: bring pods to the edge, and move pods within the edge for them.

    First the migrations within the edge with the least remaining fragmentation, then as many
    selected candidates as possible; all subject to rules between pods.
    """
    candidates = cloud_to_edge_candidates(problem)
    freeing = free_edge_as_needed(problem)
    chosen, freed = make_decision(problem, candidates, freeing)
    if not chosen.any():
        return Proposal(proven=False)
    order = pair_moves(problem, apply_decision(problem, chosen, freeing, freed))
    refused: tuple[Impasse, ...] = ()
    if isinstance(order, Impasse) and problem.rules is not None:
        order, refused = drop_rejected(
            problem.rules.feasibility, order.moves, problem.snapshot.free
        )
    feasible = order if isinstance(order, Order) else Order()
    return Proposal(feasible, proven=False, refused=refused)


def make_decision(problem: EdgeProblem, candidates: Ints, freeing: "FreeEdge") -> tuple[Ints, int]:
    """Algorithm 3 with migration: return the choice of greatest QoS, then fewest migrations, as the
    number of candidates of each item, and the number of departures in the order of `freeing`.

    The paper tries every subset and reorders the edge for each. QoS depends on counts only:
    counts are tried, and the edge is reordered once. Ties go to the lexicographically first choice.
    candidates: I, counts.
    """
    choices = np.argwhere(np.ones(tuple((candidates + 1).tolist()), dtype=np.bool_))
    freed = freeing.count_needed(choices @ problem.requests)
    possible = np.flatnonzero(freed < len(freeing.room))
    choices, freed = choices[possible], freed[possible]
    workloads = [item.workload for item in problem.items]
    gain = problem.gains.of_vectors(workloads, choices - freeing.counts[freed])
    moves = choices.sum(axis=1) + freed
    best = int(np.lexsort((moves, -rank_gains(gain)))[0])
    return choices[best], int(freed[best])


def cloud_to_edge_candidates(problem: EdgeProblem) -> Ints:
    """Algorithm 4: pick cloud pods for the edge by priority, then by QoS gain relative to size.

    Return the picked pods by item. Scores are updated after every pick, up to MC2E picks, or until
    there are too many subsets. A pod fits into the aggregate free capacity of all edge nodes (by
    resource), after previous picks.
    """
    gains, sizes, room = problem.gains, item_sizes(problem), problem.to_fill
    most, subsets = problem.limits.max_cloud_to_edge, problem.bounds.loads
    candidates = np.zeros(len(problem.items), dtype=np.int64)
    change = dict.fromkeys(problem.items_by_workload, 0)
    able = [at for at, item in enumerate(problem.items) if item.in_cloud]

    def score(index: int) -> float:
        workload = problem.items[index].workload
        now = change[workload]
        more = gains.of_workload(workload, now + 1) - gains.of_workload(workload, now)
        return more / sizes[index]

    def turn(index: int) -> tuple[int, float]:
        return -gains.level[problem.items[index].workload], score(index)

    while able and int(candidates.sum()) < most and int(np.prod(candidates + 1)) < subsets:
        best = max(able, key=turn)
        requests = problem.requests[best]
        if score(best) <= 0 or not bool(((requests <= room) | (requests == 0)).all()):
            able.remove(best)
            continue
        room = room - requests
        candidates[best] += 1
        change[problem.items[best].workload] += 1
        if int(candidates[best]) == len(problem.items[best].in_cloud):
            able.remove(best)
    return candidates


def item_sizes(problem: EdgeProblem) -> list[float]:
    """Return the normalised pod size of each item (group of interchangeable pods), relative to the
    largest edge node.
    """
    greatest = greatest_allocatable(problem.allocatable)
    return [pod_size(item.requests, greatest) for item in problem.items]


@attrs.frozen(eq=False)
class FreeEdge:
    """Order in which movable pods would leave the edge to release capacity (`freeEdgeAsNeeded`),
    independent of the amount needed.
    """

    #: P: item and source node of each departure
    departures: tuple[tuple[int, NodeName], ...]
    #: (P + 1) x I: how many of each item the first 0, 1, 2 ... are
    counts: Ints
    #: (P + 1) x R: total free capacity of the edge after each departure
    room: Ints

    def count_needed(self, needs: Ints) -> Ints:
        """Return how many pods must leave the edge to release each required capacity, shape
        (requirements, resources).

        The number of all pods plus one if all are not sufficient.
        """
        most = np.zeros(len(needs), dtype=np.int64)
        for room, need in zip(self.room.T, needs.T, strict=True):
            # Without a request any free capacity suffices.
            enough = np.where(need > 0, np.searchsorted(room, need), 0)
            np.maximum(most, enough, out=most)
        return most


def free_edge_as_needed(problem: EdgeProblem) -> FreeEdge:
    """Algorithm 5: order the movable pods by priority, then by QoS lost relative to size.

    Scores are updated after every pick; ties go to the first item in canonical order. A pod
    without cloud capacity, after previous departures, remains. The order is independent of the
    requirement: computed once, and evaluated by binary search. After the deadline the order ends.
    """
    gains, sizes, cloud = problem.gains, item_sizes(problem), BestFit(problem.cloud.packing)
    queues = [
        [name for name in sorted(item.here) for _ in item.here[name]] for item in problem.items
    ]
    gone: dict[Workload, int] = {}
    departures: list[tuple[int, NodeName]] = []

    def score(index: int) -> tuple[int, float]:
        workload = problem.items[index].workload
        change = gone.get(workload, 0)
        lost = gains.of_workload(workload, change - 1) - gains.of_workload(workload, change)
        return gains.level[workload], lost / sizes[index]

    able = [at for at, queue in enumerate(queues) if queue]
    while able and not problem.bounds.deadline.spend(_PICK_STEPS * (1 + len(able))):
        best = max(able, key=score)
        kind = problem.items[best].cloud_kind
        if kind is None or cloud.place(kind) is None:
            able.remove(best)
            continue
        workload = problem.items[best].workload
        gone[workload] = gone.get(workload, 0) - 1
        departures.append((best, queues[best].pop(0)))
        if not queues[best]:
            able.remove(best)
    one_each = np.eye(len(problem.items), dtype=np.int64)[[item for item, _ in departures]]
    counts = np.vstack((np.zeros((1, len(problem.items)), dtype=np.int64), one_each)).cumsum(axis=0)
    room = np.maximum(problem.free, 0).sum(axis=0) + counts @ problem.requests
    return FreeEdge(tuple(departures), counts, room)


def reorder_edge(problem: EdgeProblem, free: Ints, present: Ints, most: int) -> Ints | None:
    """Algorithm 6: return the pod count changes by migrations within the edge that leave the least
    fragmentation.

    The paper tries every choice of pods and every order. A dynamic programme over nodes is
    equivalent: states are the placed less the removed pods of each item, and the touches. Up to
    `most` migrations (MER). None above the exact-search limit. free: nodes x resources. present:
    nodes x items, movable pods. Ties have the fewest migrations.
    """
    bounds = problem.bounds
    everything = np.minimum(present.sum(axis=0), most)
    vectors = list_changes(-everything, everything, most, bounds.loads)
    if vectors is None:
        return None
    changes = Changes.of(vectors)
    everywhere = np.arange(len(problem.nodes))
    possible = changes.possible(problem, everywhere, present, free) & (changes.touched > 0)
    # Every missing pod must be placed again, a touch each, within the limit.
    spans = [
        (at, touches)
        for at, touched in enumerate(changes.touched.tolist())
        for touches in range(touched, 2 * most - touched + 1, 2)
    ]
    if len(spans) * (len(problem.nodes) + 1) > bounds.states or int(possible.sum()) > bounds.loads:
        return None
    which, touches = np.array(spans, dtype=np.int64).T
    states = np.column_stack((vectors[which], touches))
    nodes, kept = possible.nonzero()
    added = problem.added_fragmentation(nodes, free, vectors[kept])
    options = split_options(possible, np.column_stack((vectors, changes.touched)), added)
    walked = walk_nodes(states, np.full(len(states), UNREACHABLE), options, bounds)
    if walked is None:
        return None
    whole = np.flatnonzero(~vectors[which].any(axis=1))
    best = int(whole[np.lexsort((touches[whole], walked.costs[whole]))[0]])
    reordered = np.zeros_like(present)
    for node, vector in enumerate(walked.choices(best)):
        if vector is not None:
            reordered[node] = vector[:-1]
    return reordered


def apply_decision(problem: EdgeProblem, chosen: Ints, freeing: FreeEdge, freed: int) -> Ints:
    """applyDecision: return the pod count changes on edge nodes by departures, reordering and
    `match`.

    chosen, freed: as returned by `make_decision`.
    """
    changes = np.zeros_like(problem.present)
    for item, name in freeing.departures[:freed]:
        changes[problem.rows[name], item] -= 1
    free, present = problem.free - changes @ problem.requests, problem.present + changes
    reordered = reorder_edge(problem, free, present, problem.limits.max_edge_reorder)
    if reordered is not None:
        changes += reordered
    room = dict(problem.snapshot.free)
    for (node, item), number in np.ndenumerate(changes):
        for _ in range(abs(int(number))):
            requests, name = problem.items[item].requests, problem.nodes[node].name
            room[name] = room[name] - requests if number > 0 else room[name] + requests
    pods = {
        pod: index
        for index, number in enumerate(chosen.tolist())
        for pod in problem.items[index].outside[:number]
    }
    for pod, name in match(pods, problem.nodes, room, problem.fragmentation, problem.bounds):
        changes[problem.rows[name], pods[pod]] += 1
    return changes
