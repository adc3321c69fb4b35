"""Placement of pods on cloud nodes: least-allocated nodes first, exact search for remaining pods,
and node sampling.

The paper assumes one cloud node of unlimited capacity; here cloud nodes have finite capacity.
A large cloud is sampled like kube-scheduler's percentageOfNodesToScore, but per batch.
"""

import heapq
from collections.abc import Iterable, Iterator
from functools import cached_property, reduce

import attrs
import numpy as np

from kubedsm.model.model import Resources, Tier
from kubedsm.model.node_index import Mask, NodeIndex, NodeRows, nodes_to_find, window
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.best_fit import order_by_size
from kubedsm.optimizer.matching.match import (
    UNREACHABLE,
    Bounds,
    MatchTable,
    build_table,
    vector_sums,
)
from kubedsm.optimizer.matching.problem import PlacementProblem

#: percentage without sampling
WHOLE_CLOUD = 100


@attrs.frozen(slots=True)
class SampledNodes:
    """Window of cloud nodes sampled for a placement decision, in round-robin order."""

    first: int
    number: int
    of: int

    @property
    def following(self) -> int:
        """Round-robin position from which the next placement decision samples cloud nodes."""
        return (self.first + self.number) % self.of

    def __str__(self) -> str:
        return f"{self.number} of {self.of} cloud nodes sampled"

    def as_json(self) -> dict[str, int]:
        return {"lookedAt": self.number, "of": self.of}

    def nodes(self, index: NodeIndex) -> Mask:
        return index.at(np.roll(index.of_tier(Tier.CLOUD), -self.first)[: self.number])

    def others(self, index: NodeIndex) -> Mask:
        """Return the mask of cloud nodes that are not sampled for the placement decision."""
        return index.at(index.of_tier(Tier.CLOUD)) & ~self.nodes(index)


@attrs.frozen(slots=True)
class Sampling:
    """Node sampling of a large cloud: percentage of nodes, and round-robin start position."""

    #: see `nodes_to_find`
    percentage: int
    start: int = 0

    def looked_at(self, index: NodeIndex, taking: Iterable[Mask]) -> SampledNodes | None:
        """Return the smallest window of cloud nodes with sufficient feasible nodes for each group
        of interchangeable pods.

        None represents the whole cloud. taking: feasible nodes of each kind, as masks. Kinds
        without any feasible cloud node are ignored.
        """
        order = index.of_tier(Tier.CLOUD)
        wanted = nodes_to_find(len(order), self.percentage)
        if wanted >= len(order):
            return None
        number = 0
        for mask in taking:
            if mask[order].any():
                _, following = window(order, self.start, mask, wanted)
                number = max(number, (following - self.start) % len(order) or len(order))
        return SampledNodes(self.start, number, len(order)) if 0 < number < len(order) else None


_MAX_NODE_SCORE = 100


def allocation_score(allocatable: list[int], requested: list[int]) -> int:
    """Return kube-scheduler's LeastAllocated score, 0..100, of CPU and memory with equal weights.

    requested: total requests on the node, with the pod.
    """
    scores = [
        (size - asked) * _MAX_NODE_SCORE // size if asked <= size else 0
        for size, asked in zip(allocatable, requested, strict=True)
        if size
    ]
    return sum(scores) // len(scores) if scores else 0


def allocation_scores(allocatable: Ints, requested: Ints) -> Ints:
    """Return LeastAllocated scores of nodes; both arrays have the shape (nodes, 2)."""
    exists = allocatable > 0
    size = np.where(exists, allocatable, 1)
    scores = np.where(requested <= size, (size - requested) * _MAX_NODE_SCORE // size, 0)
    number = exists.sum(axis=1)
    return np.asarray((scores * exists).sum(axis=1) // np.maximum(number, 1))


def scores_with(requests: Resources, nodes: NodeRows) -> Ints:
    """Return the LeastAllocated score of each node after one more pod."""
    size, free = (of(("cpu", "memory")) for of in (nodes.allocatable, nodes.free))
    more = np.array([requests.cpu, requests.memory], dtype=np.int64)
    return allocation_scores(size, size - free + more)


def place_least_allocated(problem: PlacementProblem, counts: Ints) -> Ints:
    """Place up to the given pod counts on the least allocated cloud nodes; return pod counts, shape
    (nodes, groups of interchangeable pods).

    Pods are placed by priority, then by decreasing size. Nodes compare by least preference penalty,
    least charge, least allocation, fewest arrivals, and position. Neither penalties nor charges
    prevent a placement.
    """
    loads = _spread_out(problem, counts) if counts.any() else problem.nothing()
    if int(loads.sum()) == int(counts.sum()):
        return loads
    for looser in _relax_packing(problem):
        if int(loads.sum()) < int(counts.sum()):
            loads = max(loads, _spread_out(looser, counts), key=problem.worth)
    return loads


def _relax_packing(problem: PlacementProblem) -> Iterator[PlacementProblem]:
    """Enumerate relaxed placement problems: without charges, then also without penalties."""
    if problem.ladders:
        problem = attrs.evolve(problem, ladders=None)
        yield problem
    if problem.penalties.any():
        yield attrs.evolve(problem, penalties=np.zeros_like(problem.penalties))


def _spread_out(problem: PlacementProblem, counts: Ints) -> Ints:
    room, loads = problem.free.copy(), problem.nothing()
    came = np.zeros(len(room), dtype=np.int64)
    for kind in order_by_size(problem, largest_first=True):
        if counts[kind]:
            _spread_kind(problem, kind, int(counts[kind]), room, came, loads[:, kind])
    return loads


def _spread_kind(
    problem: PlacementProblem, kind: int, number: int, room: Ints, came: Ints, loads: Ints
) -> None:
    """Place pods of one kind by least allocation; update capacity, arrivals and loads."""
    requests: list[int] = problem.requests[kind].tolist()
    # Only the chosen node changes: the heap stays valid.
    best = _first_choices(problem, kind, number, room, came)
    heapq.heapify(best)
    for _ in range(number):
        if not best:
            break
        penalty, *_, node = best[0]
        loads[node] += 1
        came[node] += 1
        room[node] -= problem.requests[kind]
        there, left = int(loads[node]), room[node].tolist()
        fits = all(asked <= free for asked, free in zip(requests, left, strict=True) if asked)
        if fits and there < problem.most[node, kind]:
            size: list[int] = problem.allocatable[node, :2].tolist()
            used = [size[r] - left[r] + requests[r] for r in (0, 1)]
            charged, score = problem.charges(kind, node, there), allocation_score(size, used)
            heapq.heapreplace(best, (penalty, int(charged), -score, int(came[node]), node))
        else:
            heapq.heappop(best)


def _first_choices(
    problem: PlacementProblem, kind: int, number: int, room: Ints, came: Ints
) -> list[tuple[int, ...]]:
    """Return the sort keys of up to `number` best nodes for the next pod of the kind."""
    requests = problem.requests[kind]
    nodes = np.flatnonzero(problem.open_to(kind, room))
    size, free = problem.allocatable[nodes, :2], room[nodes, :2]
    scores = allocation_scores(size, size - free + requests[:2])
    orders = [problem.penalties[nodes, kind], problem.charges(kind, nodes), -scores, came[nodes]]
    first = np.lexsort(orders[::-1])[:number]
    return list(zip(*(order[first].tolist() for order in (*orders, nodes)), strict=True))


def _sums_over(parts: Iterable[Ints]) -> Ints:
    """Return the array of all sums of one element from each vector, with one axis for each
    vector.
    """
    return reduce(lambda sums, more: sums[..., None] + more, parts, np.zeros((), np.int64))


def cap_placement(loads: Ints, counts: Ints) -> Ints:
    """Return the placement with at most the given number of pods of each group; surplus pods are
    removed from the last nodes first.
    """
    kept: Ints = np.minimum(loads.cumsum(axis=0), counts)
    kept[1:] -= kept[:-1].copy()
    return kept


@attrs.define(eq=False)
class CloudRoom:
    """Free capacity of the cloud nodes for the pods of a batch that are not placed on the edge."""

    problem: PlacementProblem
    #: exact table, if capacity limits the placement; None above the exact-search limit
    table: MatchTable | None = attrs.field(default=None, init=False)

    @classmethod
    def of(cls, problem: PlacementProblem, bounds: Bounds) -> "CloudRoom":
        room = cls(problem)
        if not room.endless:
            room.table = build_table(problem, None, bounds)
        return room

    @cached_property
    def whole(self) -> Ints:
        """Placement of the whole batch, possibly incomplete."""
        return place_least_allocated(self.problem, self.problem.counts)

    @cached_property
    def taken(self) -> Ints:
        """Number of pods of each group that the cloud surely takes."""
        number = int(self.problem.counts.sum())
        for kind in np.flatnonzero(self._placeable).tolist():
            if int(self.problem.open_to(kind).sum()) < number:
                return np.asarray(self.whole.sum(axis=0))
        # Each pod finds a node without another pod of the batch.
        return self._placeable

    @cached_property
    def endless(self) -> bool:
        """True if capacity suffices for all pods of the batch with a feasible cloud node."""
        return bool((self.taken == self._placeable).all())

    @cached_property
    def _placeable(self) -> Ints:
        """Number of pods of each group that have a feasible cloud node."""
        return np.asarray(self.problem.counts * self.problem.feasible.any(axis=0))

    @property
    def exact(self) -> bool:
        """True if the number of pods returned by `capacity` is exact, False for a lower bound."""
        return self.table is not None or self.endless

    def capacity(self, limits: Ints) -> Ints:
        """Return how many pods the cloud can place, weighted by priority, for each combination of
        pod counts placed on the edge instead.

        limits: greatest edge count of each kind; the result has shape limits + 1.
        """
        if self.table is None and not self.taken.any():
            return np.zeros((limits + 1).tolist(), dtype=np.int64)
        weights = self.problem.weights or [1] * len(limits)
        left = [
            count - np.arange(limit + 1)
            for count, limit in zip(self.problem.counts.tolist(), limits.tolist(), strict=True)
        ]
        if self.table is None:
            return _sums_over(
                weight * np.minimum(n, most)
                for n, most, weight in zip(left, self.taken.tolist(), weights, strict=True)
            )
        most = self._weigh_vectors(self.table)
        for axis in range(most.ndim):
            np.maximum.accumulate(most, axis=axis, out=most)
        return most[np.ix_(*map(np.minimum, left, self.table.limits.tolist()))]

    def least_penalties(self, limits: Ints) -> Ints:
        """Return a lower bound on preference penalties in the cloud, for each combination of pod
        counts on the edge.
        """
        least = self.problem.least_penalties
        on_edge = tuple((limits + 1).tolist())
        return int(least @ self.problem.counts) - vector_sums(on_edge, least.tolist())

    def least_charges(self, limits: Ints) -> Ints:
        """Return a lower bound on the replica-spread cost in the cloud, for each combination of pod
        counts on the edge.
        """
        return _sums_over(
            self._least_charges_of(kind)[int(self.problem.counts[kind]) - np.arange(limit + 1)]
            for kind, limit in enumerate(limits.tolist())
        )

    def least_charged(self, counts: Ints) -> int:
        """Return a lower bound on the replica-spread cost of cloud pods, given the number of pods
        of each group of interchangeable pods.
        """
        numbers = enumerate(counts.tolist())
        return sum(int(self._least_charges_of(kind)[n]) for kind, n in numbers if n)

    def _least_charges_of(self, kind: int) -> Ints:
        """Return the least charges of 0, 1, ... cloud pods of a kind, irrespective of capacity."""
        count = int(self.problem.counts[kind])
        nodes = np.flatnonzero(self.problem.feasible[:, kind])
        if self.problem.ladders is None or not len(nodes):
            return np.zeros(count + 1, dtype=np.int64)
        return self.problem.ladders.least(kind, nodes, count)

    def place(self, counts: Ints) -> Ints:
        """Place as many of the pods in the cloud as capacity permits; return pod counts, shape
        (nodes, groups of interchangeable pods).
        """
        everything = bool((counts == self.problem.counts).all())
        spread = self.whole if everything else place_least_allocated(self.problem, counts)
        if int(spread.sum()) == int(counts.sum()):
            return spread
        if self.table is None:
            kept = cap_placement(self.whole, counts)
            return max(spread, kept, key=self.problem.worth)
        within = np.minimum(counts, self.table.limits).tolist()
        part = tuple(slice(n + 1) for n in within)
        number = self._weigh_vectors(self.table)[part]
        if self.problem.worth(spread) == int(number.max()):
            return spread
        costs = np.where(number == number.max(), self.table.costs()[part], UNREACHABLE)
        vector = np.unravel_index(int(costs.argmin()), number.shape)
        return self.table.loads(np.array(vector, dtype=np.int64))

    @staticmethod
    def _weigh_vectors(table: MatchTable) -> Ints:
        """Return the weighted pod count of each feasible cloud vector; -1 for the others."""
        costs = table.costs()
        sums = vector_sums(costs.shape, table.problem.weights)
        return np.where(costs < UNREACHABLE, sums, -1)


class CloudHold:
    """Cached feasibility test: whether the cloud has capacity for pods leaving the edge."""

    def __init__(self, packing: PlacementProblem, bounds: Bounds) -> None:
        """Prepare the test; packing: cloud nodes, and the maximum departures of each kind."""
        self.packing = packing
        self._bounds = bounds
        self._known: dict[bytes, Ints | None] = {}
        #: feasible counts, and infeasible counts
        self._enough: list[Ints] = []
        self._too_many: list[Ints] = []
        self._vacated: dict[bytes, CloudHold] = {}
        self._exact = True

    @property
    def certain(self) -> bool:
        """False if any capacity test exceeded the exact-search limit, so its negative result is
        unproven.
        """
        return self._exact and all(hold.certain for hold in self._vacated.values())

    def takes(self, kind: int) -> bool:
        """Return True if any cloud node has capacity for one pod of the group of interchangeable
        pods.
        """
        return bool(self.packing.open_to(kind).any())

    def holds(self, counts: Ints) -> bool:
        """Return True if the cloud has capacity for the given number of pods of each group at the
        same time.
        """
        if any((counts <= known).all() for known in self._enough):
            return True
        if any((counts >= known).all() for known in self._too_many):
            return False
        held = self.loads(counts) is not None
        (self._enough if held else self._too_many).append(counts)
        return held

    def after_leaving(self, room: Ints) -> "CloudHold":
        """Return a copy of the cloud capacity test in which additional capacity (nodes x resources)
        is free.
        """
        key = room.tobytes()
        if key not in self._vacated:
            free = self.packing.free + room
            self._vacated[key] = CloudHold(attrs.evolve(self.packing, free=free), self._bounds)
        return self._vacated[key]

    def loads(self, counts: Ints) -> Ints | None:
        """Return a complete cloud placement of the pod counts; None without sufficient capacity."""
        if not counts.any():
            return self.packing.nothing()
        key = counts.tobytes()
        if key not in self._known:
            room = CloudRoom.of(attrs.evolve(self.packing, counts=counts), self._bounds)
            loads = room.place(counts)
            complete = int(loads.sum()) == int(counts.sum())
            self._exact = self._exact and (complete or room.table is not None)
            self._known[key] = loads if complete else None
        return self._known[key]
