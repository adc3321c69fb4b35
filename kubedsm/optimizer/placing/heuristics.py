"""Placement heuristics above the exact-search limit: greedy, best fit, and ejection chains.

Each heuristic fills edge and cloud as one problem. Then ejection chains place further pods, and
cloud pods with the greatest gain fill available edge capacity. One heuristic is kube-scheduler's
one pod at a time, therefore the result is never worse.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Workload, serving_order
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.best_fit import (
    BestFit,
    add_by_ejection_chains,
    best_fit_increasing,
    kind_sizes,
)
from kubedsm.optimizer.matching.problem import PlacementProblem
from kubedsm.optimizer.placing.cloud import allocation_scores, cap_placement
from kubedsm.optimizer.placing.split import Demand, Picks
from kubedsm.optimizer.programming.in_order import NO_PROOF, Certificate, Proof

#: Objective value of a placement; greater is better.
Standing = tuple[list[int], list[int], int]
#: negative priority, patience and score; member, kind, and number of pods
#: taken at scoring time
_Candidate = tuple[int, int, float, int, int, int]


def pick_greedily(
    edge: PlacementProblem,
    members: Sequence[Demand],
    there: Ints | None = None,
    elsewhere: Ints | None = None,
) -> tuple[Picks, Ints]:
    """Pick edge pods greedily by priority, then by QoS gain relative to size, and place them;
    return the picks, and pod counts, shape (nodes, groups of interchangeable pods).

    Gains and sizes are updated after every pick. A pod counts the steepest average gain of itself
    and additional pods of its workload, so that targets without partial credit are met pod by pod.
    No deadline applies: unpicked pods would go to the cloud. One heap operation per kind and pick.
    there: pods that are on the edge already and stay; of other pods, at most `elsewhere` of each
    kind are picked.
    """
    room = BestFit(edge, there)
    staying: list[int] = room.loads.sum(axis=0).tolist()
    coming: list[int] = (edge.counts if elsewhere is None else elsewhere).tolist()
    size = kind_sizes(edge)
    gains = [steepest_slopes(member.values.tolist()) for member in members]
    picks: Picks = {}
    taken = [0] * len(members)

    def candidate(m: int, kind: int) -> _Candidate:
        priority, overdue = edge.kinds[kind].rank.turn
        return -priority, -overdue, -gains[m][taken[m]] / size[kind], m, kind, taken[m]

    def put(m: int, kind: int) -> bool:
        if staying[kind]:
            staying[kind] -= 1
            return True
        if not (members[m].wants(taken[m] + 1) and coming[kind]) or room.place(kind) is None:
            return False
        coming[kind] -= 1
        return True

    # Best first, ties by name.
    candidates = [candidate(m, kind) for m, member in enumerate(members) for kind in member.kinds()]
    heapq.heapify(candidates)
    while candidates:
        *_, m, kind, looked_at = heapq.heappop(candidates)
        # Stale entries have newer copies in the heap; a pod that finds no room
        # never will.
        if looked_at != taken[m] or not put(m, kind):
            continue
        taken[m] += 1
        pick = (members[m].workload, kind)
        picks[pick] = picks.get(pick, 0) + 1
        for other in members[m].kinds():
            if picks.get((members[m].workload, other), 0) < int(members[m].counts[other]):
                heapq.heappush(candidates, candidate(m, other))
    return picks, room.loads


def steepest_slopes(values: Sequence[int]) -> list[float]:
    """Return the steepest slope from each value to a later value (concave envelope)."""

    def slope(start: int, end: int) -> float:
        return (values[end] - values[start]) / (end - start)

    found: list[float] = []
    corners = [len(values) - 1]  # corners of the concave envelope, backwards
    for start in range(len(values) - 2, -1, -1):
        while len(corners) > 1 and slope(start, corners[-1]) <= slope(corners[-1], corners[-2]):
            corners.pop()
        found.append(slope(start, corners[-1]))
        corners.append(start)
    return found[::-1]


#: Longest ejection chain, and trial displacements.
_CHAIN, _TRIES = 3, 1000
#: Steps of work to place a pod, and more for each node.
_POD_STEPS, _NODE_STEPS = 30_000, 20


@attrs.frozen(eq=False)
class Placement:
    """Placement of a batch as pod counts: edge pods by workload and group, and pods by node in both
    tiers; which goals are proven optimal, and the bounds of the others.
    """

    #: edge pods by workload and kind
    picks: Picks
    #: N x S, both
    on_edge: Ints
    in_cloud: Ints
    proof: Proof = NO_PROOF
    #: of unproven goals, evenness aside
    certificates: tuple[Certificate, ...] = ()
    #: lower bound of the edge's charges
    charged: int = 0


def best_by_heuristics(
    edge: PlacementProblem,
    cloud: PlacementProblem,
    members: Sequence[Demand],
    first: Placement,
    deadline: Deadline,
) -> Placement:
    """Return the best placement found by the heuristics; after the deadline, the completed
    placement `first`.
    """
    if is_utmost(edge, cloud, members, first):
        return first
    on_edge, in_cloud = first.on_edge, first.in_cloud
    in_cloud = best_fit_increasing(cloud, in_cloud, on_edge)
    on_edge = best_fit_increasing(edge, on_edge, in_cloud)
    first = Placement(first.picks, on_edge, in_cloud)
    if deadline.passed:
        return first
    whole = PlacementProblem.of(edge.kinds, edge.rows + cloud.rows)
    number = len(edge.free)

    def finish(loads: Ints, chain: int = 1) -> Placement:
        loads = add_by_ejection_chains(whole, loads, chain, _TRIES, deadline)
        on_edge, in_cloud = loads[:number], loads[number:]
        picks, on_edge = pick_greedily(edge, members, on_edge, in_cloud.sum(axis=0))
        left = loads.sum(axis=0) - on_edge.sum(axis=0)
        return Placement(picks, on_edge, cap_placement(in_cloud, left))

    def standing(placement: Placement) -> Standing:
        return _rate_placement(edge, cloud, members, placement)

    utmost = _best_standing(edge, members)
    best = finish(np.concatenate((first.on_edge, first.in_cloud)))
    others = _list_placements(whole, number, deadline)
    while standing(best) != utmost and (other := next(others, None)) is not None:
        best = max(best, finish(other), key=standing)
    loads = np.concatenate((best.on_edge, best.in_cloud))
    if (loads.sum(axis=0) == whole.counts).all():
        return best
    return max(best, finish(loads, _CHAIN), key=standing)


def _list_placements(whole: PlacementProblem, number: int, deadline: Deadline) -> Iterator[Ints]:
    """Enumerate alternative placements of edge and cloud; number: count of edge nodes."""
    steps = int(whole.counts.sum()) * (_POD_STEPS + _NODE_STEPS * len(whole.free))
    if not deadline.spend(steps):
        yield best_fit_increasing(whole)
    if not deadline.spend(steps):
        yield place_one_by_one(whole, number)


def place_one_by_one(whole: PlacementProblem, number: int) -> Ints:
    """Place each pod in scheduling order on the node with kube-scheduler's highest resource score.

    Edge nodes are preferred; number: count of edge nodes, which precede cloud nodes.
    """
    filling, size = BestFit(whole), np.maximum(whole.allocatable[:, :2], 1)
    #: S x N
    ratings = np.empty(filling.fits.shape)
    for kind, requested in enumerate(whole.requests):
        rated = _rate(size, filling.room, requested)
        ratings[kind] = np.where(filling.fits[kind], rated, -np.inf)
    line = sorted(
        (serving_order(pod), kind) for kind, of in enumerate(whole.kinds) for pod in of.pods
    )
    for _, kind in line:
        on_edge = ratings[kind, :number]
        candidates = on_edge if on_edge.max(initial=-np.inf) > -np.inf else ratings[kind]
        if candidates.max(initial=-np.inf) > -np.inf:
            node = int(candidates.argmax())
            filling.put(kind, node)
            # Only the chosen node changes.
            rated = _rate(size[node], filling.room[node], whole.requests)
            ratings[:, node] = np.where(filling.fits[:, node], rated, -np.inf)
    return filling.loads


def _rate(size: Ints, room: Ints, requested: Ints) -> NDArray[np.float64]:
    """Return LeastAllocated plus BalancedAllocation scores, for kinds and available capacity."""
    used = size - room[..., :2]
    then = used + requested[..., :2]
    balance = np.abs(np.diff(used / size)) - np.abs(np.diff(then / size))
    return np.asarray(
        allocation_scores(np.broadcast_to(size, then.shape), then) + 25 * balance[..., 0]
    )


def is_utmost(
    edge: PlacementProblem,
    cloud: PlacementProblem,
    members: Sequence[Demand],
    placement: Placement,
) -> bool:
    """Return True if all pods are placed without penalty, and each workload has its greatest QoS:
    no placement is better.
    """
    # Pods that fill the edge after the picks are not picked.
    picked = sum(placement.picks.values()) == int(placement.on_edge.sum())
    reached = _rate_placement(edge, cloud, members, placement)
    return picked and reached == _best_standing(edge, members)


def _rate_placement(
    edge: PlacementProblem,
    cloud: PlacementProblem,
    members: Sequence[Demand],
    placement: Placement,
) -> Standing:
    """Return the objective value of a placement: placed pods in scheduling order, QoS by level, and
    preferences.
    """
    on_edge, in_cloud, at_edge = placement.on_edge, placement.in_cloud, Counter[Workload]()
    for (workload, _), number in placement.picks.items():
        at_edge[workload] += number
    placed = on_edge.sum(axis=0) + in_cloud.sum(axis=0)
    penalty = int((edge.penalties * on_edge).sum() + (cloud.penalties * in_cloud).sum())
    return _by_turn(edge, placed), _by_level(members, at_edge), -penalty


def _best_standing(problem: PlacementProblem, members: Sequence[Demand]) -> Standing:
    """Return the objective value if all pods were placed and each workload had its greatest QoS: an
    upper bound for the batch.
    """
    wished = {member.workload: int(member.values.argmax()) for member in members}
    return _by_turn(problem, problem.counts), _by_level(members, wished), 0


def _by_turn(problem: PlacementProblem, placed: Ints) -> list[int]:
    turns = [kind.rank.turn for kind in problem.kinds]
    number = dict.fromkeys(sorted(turns, reverse=True), 0)
    for turn, of_kind in zip(turns, placed.tolist(), strict=True):
        number[turn] += of_kind
    return list(number.values())


def _by_level(members: Sequence[Demand], on_edge: Mapping[Workload, int]) -> list[int]:
    worth = dict.fromkeys(sorted((member.level for member in members), reverse=True), 0)
    for member in members:
        worth[member.level] += int(member.values[on_edge[member.workload]])
    return list(worth.values())
