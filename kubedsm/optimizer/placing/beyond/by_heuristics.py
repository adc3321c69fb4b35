"""A batch placed by several heuristics, where it is beyond the bounds of the tables.

Each fills the edge and the cloud as one; then pods make room for others, and those of the cloud
that gain most come to what room is left at the edge. One of them is what kube-scheduler does with
one pod after the other, so that this is no worse.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Workload
from kubedsm.model.serving_order import serving_order
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.best_fit import BestFit, best_fit_increasing, by_size
from kubedsm.optimizer.matching.making_room import with_room_made
from kubedsm.optimizer.matching.problem import Packing
from kubedsm.optimizer.placing.beyond.greedy import DrawnIn, pick_greedily
from kubedsm.optimizer.placing.cloud import at_most, least_allocated_scores
from kubedsm.optimizer.placing.split import Demand, Picks

#: of kube-scheduler's sum: a preference for the edge, beside scores of 0..100
_EDGE_SCORE = 200
#: How many pods at most change nodes for another, and how often that is tried.
_CHAIN, _TRIES = 3, 1000


@attrs.frozen(eq=False)
class Placement:
    #: whose pods are on the edge
    picks: Picks
    #: N x S, both
    on_edge: Ints
    in_cloud: Ints

    @property
    def on_edge_of(self) -> Counter[Workload]:
        """How many pods the edge has of each workload."""
        number: Counter[Workload] = Counter()
        for (workload, _), of_kind in self.picks.items():
            number[workload] += of_kind
        return number


def best_by_heuristics(
    edge: Packing,
    cloud: Packing,
    members: Sequence[Demand],
    first: Placement,
    deadline: Deadline,
) -> Placement:
    """The best of what the heuristics make of the first and of others; the first, without time."""
    left = edge.counts - first.on_edge.sum(axis=0) - first.in_cloud.sum(axis=0)
    in_cloud = _filled_up(cloud, first.in_cloud, left)
    left = edge.counts - first.on_edge.sum(axis=0) - in_cloud.sum(axis=0)
    first = Placement(first.picks, _filled_up(edge, first.on_edge, left), in_cloud)
    if deadline.passed:
        return first
    whole = Packing.of(edge.kinds, edge.rows + cloud.rows)
    number = len(edge.free)

    def finished(loads: Ints, chain: int = 1) -> Placement:
        loads = with_room_made(whole, loads, chain, _TRIES, deadline)
        on_edge, in_cloud = loads[:number], loads[number:]
        room = DrawnIn(BestFit(edge, on_edge), on_edge.sum(axis=0), in_cloud.sum(axis=0))
        picks = pick_greedily(edge, members, room)
        return Placement(picks, room.loads, at_most(in_cloud, room.elsewhere))

    def standing(placement: Placement) -> tuple[object, ...]:
        on_edge, in_cloud = placement.on_edge, placement.in_cloud
        placed = on_edge.sum(axis=0) + in_cloud.sum(axis=0)
        penalty = int((edge.penalties * on_edge).sum() + (cloud.penalties * in_cloud).sum())
        return _by_turn(edge, placed), _by_level(members, placement.on_edge_of), -penalty

    utmost = _utmost(edge, members)
    best = finished(np.concatenate((first.on_edge, first.in_cloud)))
    others = _others(whole, number, deadline)
    while standing(best) != utmost and (other := next(others, None)) is not None:
        best = max(best, finished(other), key=standing)
    loads = np.concatenate((best.on_edge, best.in_cloud))
    if (loads.sum(axis=0) == whole.counts).all():
        return best
    return max(best, finished(loads, _CHAIN), key=standing)


def _others(whole: Packing, number: int, deadline: Deadline) -> Iterator[Ints]:
    """Placements of the batch; `number` is that of the nodes at the edge."""
    if not deadline.passed:
        yield best_fit_increasing(whole)
    if not deadline.passed:
        yield one_by_one(whole, number)


def one_by_one(whole: Packing, number: int) -> Ints:
    """Each pod in the order in which it is served, on the node that kube-scheduler rates highest.

    As far as resources and a preference for the edge go, to which it is told to give much weight.
    """
    room, loads = whole.free.copy(), whole.nothing()
    size = np.maximum(whole.allocatable[:, :2], 1)
    at_edge = _EDGE_SCORE * (np.arange(len(room)) < number)
    ratings = np.empty(loads.shape[::-1])
    for kind, asked in enumerate(whole.requests):
        fits = (room >= asked).all(axis=1) & (whole.most[:, kind] > 0)
        ratings[kind] = np.where(fits, _rated(at_edge, size, room, asked), -np.inf)
    line = sorted(
        (serving_order(pod), kind) for kind, of in enumerate(whole.kinds) for pod in of.pods
    )
    for _, kind in line:
        if ratings[kind].max(initial=-np.inf) == -np.inf:
            continue
        node = int(ratings[kind].argmax())
        room[node] -= whole.requests[kind]
        loads[node, kind] += 1
        # Only the node that was chosen changes.
        fits = (room[node] >= whole.requests).all(axis=1) & (loads[node] < whole.most[node])
        rated = _rated(at_edge[node], size[node], room[node], whole.requests)
        ratings[:, node] = np.where(fits, rated, -np.inf)
    return loads


def _rated(at_edge: Ints, size: Ints, room: Ints, asked: Ints) -> NDArray[np.float64]:
    """Of many nodes for one kind of pods, or of one node for many."""
    used = size - room[..., :2]
    then = used + asked[..., :2]
    balance = np.abs(np.diff(used / size)) - np.abs(np.diff(then / size))
    scores = least_allocated_scores(np.broadcast_to(size, then.shape), then)
    return np.asarray(at_edge + scores + 25 * balance[..., 0])


def _utmost(packing: Packing, members: Sequence[Demand]) -> tuple[object, ...]:
    """The standing that none exceeds: all are placed, each workload as it wishes, and liked."""
    wished = {member.workload: int(member.values.argmax()) for member in members}
    return _by_turn(packing, packing.counts), _by_level(members, wished), 0


def _by_turn(packing: Packing, placed: Ints) -> list[int]:
    turns = [kind.rank.turn for kind in packing.kinds]
    number = dict.fromkeys(sorted(turns, reverse=True), 0)
    for turn, of_kind in zip(turns, placed.tolist(), strict=True):
        number[turn] += of_kind
    return list(number.values())


def _by_level(members: Sequence[Demand], on_edge: Mapping[Workload, int]) -> list[int]:
    worth = dict.fromkeys(sorted((member.level for member in members), reverse=True), 0)
    for member in members:
        worth[member.level] += int(member.values[on_edge[member.workload]])
    return list(worth.values())


def _filled_up(packing: Packing, loads: Ints, counts: Ints) -> Ints:
    """The placement with so many more pods of each kind, as far as they fit."""
    room = BestFit(packing, loads)
    for kind in by_size(packing):
        for _ in range(int(counts[kind])):
            if not room.place(kind):
                break
    return room.loads
