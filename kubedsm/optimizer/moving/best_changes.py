"""Exact search for the best migrations of the edge, by dynamic programming over vectors of pod
count changes.

An item with R departures from edge nodes and C arrivals needs max(R, C) migrations: min(R, C)
within the edge, and the surplus from or to the cloud. An arrival or departure is a touch, so the
number of migrations is half of (touches + |C - R|) summed over items, and QoS depends on C - R
only. One DP over the nodes, with a state for each vector of differences and the fewest touches as
cost, knows the optimum: greatest net benefit, then fewest migrations, then (by a second DP) least
replica spread cost, then least fragmentation.

Differences are tried in batches by their upper bound of net benefit, and a DP only passes states
with a reachable difference of the batch within the limits. A relaxation prunes differences first:
with weights for items, a difference exceeding the sum of all node contributions is unreachable.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from typing import Self

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.objective.fragmentation import SCALE, Ints
from kubedsm.objective.gains import Gain, rank_gains, select_worthwhile
from kubedsm.optimizer.matching.match import UNREACHABLE
from kubedsm.optimizer.matching.node_walk import Options, Walk, walk_nodes
from kubedsm.optimizer.matching.problem import group_equal_rows
from kubedsm.optimizer.moving.edge_problem import EdgeProblem

#: Greatest cost.
_GREATEST = UNREACHABLE // 2
#: Differences tried at once; the last batch takes the rest.
_BATCHES = (6, 48, 384)
_FAR = -(2**61)
#: Resolution of weights, and their limit: any weights are valid, if sums are exact.
_UNIT = 10**6
_MOST_PARTS = 2**45
#: Migrations above which the relaxation costs more time than it saves.
_MOST_RELAXED = 16
#: Vector comparisons in the time of one DP step.
_DISTANCES_A_STEP = 50
#: Steps of work for a target, for each number of a difference, and for a cell of an array.
_TARGET_STEPS, _VECTOR_STEPS, _CELL_STEPS = 20_000, 100, 10


class TooManyError(Exception):
    """Error: the migration problem exceeds the exact-search limit."""


@attrs.frozen(eq=False)
class Solution:
    """Candidate set of migrations as pod count changes on each edge node, with the components of
    its objective value.
    """

    #: N x I
    changes: Ints
    #: net benefit, migrations, added spread and fragmentation, lexicographically
    net: Gain
    moves: int
    spread: int
    fragmentation: int

    @property
    def rank(self) -> tuple[Gain, int, int, int]:
        """Sort key of solutions by objective: net benefit, then fewest migrations, spread and
        fragmentation; greater is better.
        """
        return self.net, -self.moves, -self.spread, -self.fragmentation


def iterate_best_changes(problem: EdgeProblem) -> Iterator[Solution]:
    """Yield changes of pod counts on edge nodes, shape (nodes, groups of interchangeable pods),
    that gain QoS, best first.

    Equal differences are represented by the fewest migrations, then the least spread, then the
    least fragmentation. Raise TooManyError above the exact-search limit.
    """
    if problem.bounds.deadline.passed:
        raise TooManyError
    if problem.items and problem.supply.any() and problem.limits.max_moves:
        yield from _Search.of(problem).iterate_solutions()


def list_changes(lowest: Ints, highest: Ints, most: int, limit: int) -> Ints | None:
    """Enumerate vectors of pod count changes between bounds, with at most `most` arriving and
    leaving pods, in lexicographic order.

    None if there are more than `limit`. The zero vector is included.
    """
    vectors = np.zeros((1, 0), dtype=np.int64)
    number = np.zeros(1, dtype=np.int64)
    for low, high in zip(lowest.tolist(), highest.tolist(), strict=True):
        digits = np.arange(low, high + 1)
        following = (number[:, None] + np.abs(digits)).reshape(-1)
        kept = np.flatnonzero(following <= most)
        if len(kept) > limit:
            return None
        vectors = np.column_stack((vectors[kept // len(digits)], digits[kept % len(digits)]))
        number = following[kept]
    return vectors


@attrs.frozen(eq=False)
class Changes:
    """Candidate changes of the pods on one edge node: for each group of interchangeable pods, the
    number that arrives or, if negative, departs.
    """

    vectors: Ints
    #: the same turned round and narrow, I x X, for quick comparing
    columns: NDArray[np.int16]
    #: X: number of touches
    touched: Ints

    @classmethod
    def of(cls, vectors: Ints) -> "Changes":
        columns = np.ascontiguousarray(vectors.T, dtype=np.int16)
        return cls(vectors, columns, np.abs(vectors).sum(axis=1))

    def possible(
        self, problem: EdgeProblem, nodes: Ints, present: Ints, free: Ints
    ) -> NDArray[np.bool_]:
        """Return which candidate changes are feasible on each of K nodes, given the pods and free
        capacity there, as a mask of shape (nodes, changes).

        present: N x I. free: N x R.
        """
        present, most = present[nodes], problem.most[nodes]
        demand = self.vectors @ problem.requests
        # Without a request, negative free capacity suffices.
        asking = np.maximum(self.vectors, 0) @ (problem.requests > 0).astype(np.int64)
        fits = np.ones((len(nodes), len(self.vectors)), dtype=np.bool_)
        for column, there, highest in zip(self.columns, present.T, most.T, strict=True):
            # Clipped to the vectors' range: narrow integer types must not overflow.
            fits &= column >= np.maximum(-there, column.min()).astype(column.dtype)[:, None]
            fits &= column <= np.minimum(highest, column.max()).astype(column.dtype)[:, None]
        for needed, room, asked in zip(demand.T, free[nodes].T, asking.T, strict=True):
            fits &= (needed <= room[:, None]) | (asked == 0)
        for on, coming, there in problem.clashes:
            # Arrivals of an item are incompatible with present pods of the conflicting item.
            rows = np.flatnonzero(on[nodes])
            left = self.columns[there] + present[rows, there, None] - (coming == there)
            fits[rows] &= (self.columns[coming] <= 0) | (left <= 0)
        return fits


@attrs.frozen
class Digits:
    """Place values that combine the number of migrated pods, the replica spread and the
    fragmentation in one 64-bit cost.
    """

    touch: int
    spread: int
    #: number of pairs represented by a unit, to stay within 64 bits
    pairs: int

    @classmethod
    def of(cls, problem: EdgeProblem) -> Self:
        touches = 2 * problem.limits.max_moves
        # A touch changes the fragmentation of a single node, by at most SCALE.
        spread = 4 * SCALE * (min(len(problem.nodes), touches) + 1)
        most, room = problem.spread.most_added(touches), _GREATEST // (touches * spread)
        pairs = 1 + most // max(1, room // 2 - 1)
        return cls(2 * (most // pairs + 1) * spread, spread, pairs)

    def parts(self, cost: int) -> tuple[int, int]:
        """Return the replica spread and the fragmentation contained in a combined cost, without its
        number of pod arrivals and departures.
        """
        spread = (cost + self.spread // 2) // self.spread
        return spread, cost - spread * self.spread


@attrs.frozen
class _Solved:
    """Reachable difference of edge pod counts, with its benefit and number of touches."""

    net: Gain
    moves: int
    #: index of the difference
    target: int
    #: touches
    spent: int


@attrs.frozen(eq=False)
class _Search:
    problem: EdgeProblem
    changes: Changes
    #: X x L
    gains: Ints
    #: X x L, benefits in the unit of the price
    worths: Ints
    #: X: pending pods among the arrivals
    awaited: Ints

    @classmethod
    def of(cls, problem: EdgeProblem) -> Self:
        limits, bounds, staying = problem.limits, problem.bounds, problem.staying
        most = limits.max_moves
        reordered = np.minimum(staying, limits.max_edge_reorder)
        vectors = list_changes(
            -np.minimum(staying, most),
            np.minimum(problem.supply + reordered, most),
            most,
            min(bounds.loads, bounds.states // (len(problem.nodes) + 1)),
        )
        steps = _VECTOR_STEPS + _CELL_STEPS * len(problem.nodes)
        if vectors is None or bounds.deadline.spend(steps * vectors.size):
            raise TooManyError
        # Evaluated first: a positive result usually makes further evaluations unnecessary.
        problem.cloud.holds(np.minimum(problem.cloud.packing.counts, most))
        return cls(problem, Changes.of(vectors), *problem.gain_arrays(vectors))

    def iterate_solutions(self) -> Iterator[Solution]:
        ranked, most = self._list_candidates()
        solved: list[_Solved] = []
        start = 0
        for size in (*_BATCHES, len(ranked)):
            end = min(start + size, len(ranked))
            while 0 < end < len(ranked) and (most[end] == most[end - 1]).all():
                end += 1
            batch = [at for at in ranked[start:end].tolist() if self._cloud_may_hold(at)]
            solved += self._solve_batch(np.array(batch, dtype=np.int64)) if batch else ()
            solved.sort(key=lambda each: (each.net, -each.moves), reverse=True)
            start = end
            # Upper bound on the benefit of all remaining differences.
            bound = tuple(most[end].tolist()) if end < len(ranked) else None
            ready = [each for each in solved if bound is None or each.net > bound]
            solved = solved[len(ready) :]
            for _, alike in groupby(ready, key=lambda each: (each.net, each.moves)):
                yield from self._order_by_spread(list(alike))

    def _net(self, differences: Ints, moves: Ints) -> Ints:
        """Return the net benefit of differences (indices) after the migrations, by level."""
        worths, awaited = self.worths[differences], self.awaited[differences]
        return self.problem.net_benefits(worths, awaited, moves)

    def _allowed(self, differences: Ints) -> Ints:
        """Return the maximum number of touches of each difference (index) within the limits."""
        touched, limits = self.changes.touched[differences], self.problem.limits
        return np.minimum(2 * limits.max_moves - touched, 2 * limits.max_edge_reorder + touched)

    def _list_candidates(self) -> tuple[Ints, Ints]:
        """Return beneficial differences (indices) with upper bounds by level, best first."""
        problem, vectors, touched = self.problem, self.changes.vectors, self.changes.touched
        fetched = np.maximum(vectors - problem.waiting, 0)
        # Headroom is reserved for new, pending pods.
        brought = np.minimum(vectors, 0) + fetched
        room = np.maximum(problem.free, 0).sum(axis=0)
        found = np.flatnonzero(
            select_worthwhile(self.gains)
            & (vectors <= problem.supply).all(axis=1)
            & (fetched.sum(axis=1) <= problem.limits.max_cloud_to_edge)
            & (vectors @ problem.requests <= room).all(axis=1)
            & (brought @ problem.requests <= problem.to_fill).all(axis=1)
        )
        found = found[select_worthwhile(self._net(found, touched[found]))]
        if len(found) and problem.limits.max_moves <= _MOST_RELAXED:
            weighing = item_weights(problem)
            added = bound_weights(vectors, self._worthwhile, weighing, problem.limits.max_moves)
            reachable = filter_reachable(vectors[found], self._allowed(found), added, weighing)
            found = found[reachable]
        most = self._net(found, touched[found])
        order = np.lexsort((found, touched[found], -rank_gains(most)))
        return found[order], most[order]

    def _cloud_may_hold(self, index: int) -> bool:
        """Return False if the cloud certainly lacks capacity for the pods leaving the edge.

        Migrations from the cloud, with any selection of pods, may release the capacity.
        """
        problem, difference = self.problem, self.changes.vectors[index]
        counts = problem.cloud_counts(difference)
        if counts is None or problem.cloud.holds(counts):
            return counts is not None
        if not self._may_begin(difference, counts):
            return False
        fetched = [
            pod
            for item, number in zip(problem.items, difference.tolist(), strict=True)
            for pod in item.fetchable(number)
        ]
        vacated = problem.cloud_room(fetched)
        packing = problem.cloud.packing
        free = np.maximum(packing.free, 0).sum(axis=0) + vacated.sum(axis=0)
        possible = bool((counts @ packing.requests <= free).all())
        return possible and problem.cloud.after_leaving(vacated).holds(counts)

    def _may_begin(self, difference: Ints, counts: Ints) -> bool:
        """Determine whether a first departure from the edge or arrival at the edge is feasible."""
        problem = self.problem
        room = np.maximum(problem.free, 0).sum(axis=0)
        fits = ((problem.requests <= room) | (problem.requests == 0)).all(axis=1)
        leaving = np.flatnonzero(counts).tolist()
        return any(map(problem.cloud.takes, leaving)) or bool((fits & (difference > 0)).any())

    def _solve_batch(self, batch: Ints) -> list[_Solved]:
        """Return the differences (changed pod counts at the edge) of the batch that are reachable
        and worthwhile, in any order.
        """
        touched, allowed = self.changes.touched, self._allowed(batch)
        states, walked = self._walk(batch, allowed)
        costs = np.full(len(touched), UNREACHABLE, dtype=np.int64)
        costs[states] = walked.costs
        batch = batch[costs[batch] <= allowed]
        moves = (costs[batch] + touched[batch]) // 2
        net = self._net(batch, moves)
        pays = select_worthwhile(net)
        columns = (each[pays].tolist() for each in (net, moves, batch, costs[batch]))
        return [_Solved(tuple(row), *numbers) for row, *numbers in zip(*columns, strict=True)]

    def _order_by_spread(self, alike: Sequence[_Solved]) -> Iterator[Solution]:
        """Yield differences with equal numbers of migrations by least spread and fragmentation."""
        targets = np.array([each.target for each in alike], dtype=np.int64)
        spent = np.array([each.spent for each in alike], dtype=np.int64)
        problem = self.problem
        digits = Digits.of(problem)
        states, walked = self._walk(targets, spent, digits)
        place = np.searchsorted(states, targets)
        added = walked.costs[place] - spent * digits.touch
        for at in np.lexsort((targets, added)).tolist():
            changes = np.zeros_like(problem.present)
            choices = walked.choices(int(place[at]))
            for node, vector in zip(problem.changeable.tolist(), choices, strict=True):
                if vector is not None:
                    changes[node] = vector
            spread, fragmentation = digits.parts(int(added[at]))
            yield Solution(changes, alike[at].net, alike[at].moves, spread, fragmentation)

    def _walk(
        self, targets: Ints, allowed: Ints, digits: Digits | None = None
    ) -> tuple[Ints, Walk]:
        """Return states and shortest paths to the target differences within the allowed touches.

        digits: the cost is touches, then spread, then fragmentation; None: touches.
        """
        ceilings = self._limit_touches(targets, allowed)
        states = np.flatnonzero(ceilings >= self.changes.touched)
        ceilings = ceilings[states]
        if digits is not None:
            ceilings = ceilings * digits.touch + digits.touch // 2
        options = self._list_options(states, int(allowed.max()), digits)
        walked = walk_nodes(self.changes.vectors[states], ceilings, options, self.problem.bounds)
        if walked is None:
            raise TooManyError
        return states, walked

    def _limit_touches(self, targets: Ints, allowed: Ints) -> Ints:
        """Return the greatest useful number of touches of each state, for reachable targets.

        allowed: most touches at each target.
        """
        vectors, bounds = self.changes.columns, self.problem.bounds
        if len(targets) * vectors.size > _DISTANCES_A_STEP * bounds.steps:
            raise TooManyError
        ceilings = np.full(vectors.shape[1], -1, dtype=np.int16)
        for target, most in zip(targets.tolist(), allowed.tolist(), strict=True):
            if bounds.deadline.spend(_TARGET_STEPS + _CELL_STEPS * vectors.size):
                raise TooManyError
            distance = np.abs(vectors - vectors[:, target, None]).sum(axis=0, dtype=np.int16)
            np.maximum(ceilings, most - distance, out=ceilings)
        return ceilings.astype(np.int64)

    @cached_property
    def _worthwhile(self) -> NDArray[np.bool_]:
        """Mask of the changes worth considering on each changeable edge node, shape (nodes,
        changes).
        """
        problem = self.problem
        return self.changes.possible(problem, problem.changeable, problem.present, problem.free)

    def _list_options(self, states: Ints, most: int, digits: Digits | None) -> list[Options]:
        """Return the alternative changes of each edge node with costs, for paths through the given
        states.

        most: touches of the longest path. Options without any continuing path are dropped.
        """
        problem, vectors = self.problem, self.changes.vectors[states]
        touched = self.changes.touched[states]
        kept = self._worthwhile[:, states] & (touched > 0)
        rows, which = kept.nonzero()
        costs = np.full(kept.shape, UNREACHABLE, dtype=np.int64)
        costs[kept] = touched[which]
        if digits is not None:
            nodes = problem.changeable[rows]
            added = problem.spread.added(nodes, vectors[which])
            spread = np.sign(added) * (np.abs(added) // digits.pairs)
            fragmented = problem.added_fragmentation(nodes, problem.free, vectors[which])
            costs[kept] = touched[which] * digits.touch + spread * digits.spread + fragmented
        kept &= select_cheapest(costs, most - touched + 1)
        return split_options(kept, vectors, costs[kept])


def select_cheapest(costs: Ints, acting: Ints) -> NDArray[np.bool_]:
    """Return a mask of shape (nodes, changes): for each change, only the least expensive candidate
    nodes.

    acting: K, maximum number of changed nodes in combination with the change. Changes on more
    expensive nodes are replaceable by candidates; ties go to the first, as in `walk_nodes`. costs:
    N x K.
    """
    number = int(acting.max(initial=0))
    if len(costs) <= number:
        return np.ones(costs.shape, dtype=np.bool_)
    order = np.argsort(costs, axis=0, kind="stable")[:number]
    kept = np.zeros(costs.shape, dtype=np.bool_)
    np.put_along_axis(kept, order, np.arange(number)[:, None] < acting, axis=0)
    return kept


def split_options(kept: NDArray[np.bool_], vectors: Ints, costs: Ints) -> list[Options]:
    """Divide the selected pod count changes into the options of each node, as input of the
    shortest-path search.

    kept: nodes x K, selected vectors. costs: of the selected vectors, row by row.
    """
    which = kept.nonzero()[1]
    ends = kept.sum(axis=1).cumsum().tolist()
    parts = (slice(start, end) for start, end in pairwise([0, *ends]))
    return [Options(vectors[which[part]], costs[part]) for part in parts]


def item_weights(problem: EdgeProblem) -> Ints:
    """Return weights for groups of interchangeable pods, shape (weights, groups), by which node
    capacity bounds the pod count changes (relaxation).

    The weights are each resource, mixtures of CPU and memory, each item, and all items alike.
    """
    number = len(problem.items)
    largest = np.maximum(problem.allocatable.max(axis=0, initial=0), 1).tolist()
    parts = np.array(
        [
            [min(n * _UNIT // most, _MOST_PARTS) for n, most in zip(row, largest, strict=True)]
            for row in problem.requests.tolist()
        ],
        dtype=np.int64,
    ).reshape(number, len(problem.axes))
    cpu, memory = parts[:, 0], parts[:, 1]
    mixed = [cpu + memory, 2 * cpu + memory, cpu + 2 * memory, 4 * cpu + memory, cpu + 4 * memory]
    return np.vstack((problem.requests.T, *mixed, np.eye(number, dtype=np.int64), cpu * 0 + 1))


def bound_weights(vectors: Ints, options: NDArray[np.bool_], weighing: Ints, most: int) -> Ints:
    """Return upper bounds on the weighted change in the number of edge pods over all nodes, for
    pruning by relaxation.

    Shape (most + 1, most + 1, weights): by the number of arriving pods, and of departing pods.
    vectors: changes x items. options: nodes x changes, permitted changes next to no change.
    """
    coming = np.maximum(vectors, 0).sum(axis=1)
    leaving = np.maximum(-vectors, 0).sum(axis=1)
    weight = vectors @ weighing.T
    total = np.full((most + 1, most + 1, len(weighing)), _FAR, dtype=np.int64)
    total[0, 0] = 0
    first, which = group_equal_rows(np.packbits(options, axis=1).astype(np.int64))
    for kept, times in zip(options[first], np.bincount(which).tolist(), strict=True):
        at = np.flatnonzero(kept)
        here = np.full_like(total, _FAR)
        np.maximum.at(here, (coming[at], leaving[at]), weight[at])
        parts = np.argwhere(here[:, :, 0] > _FAR).tolist()
        for _ in range(times):
            following = total.copy()
            for come, leave in parts:
                target = following[come:, leave:]
                source = total[: most + 1 - come, : most + 1 - leave]
                np.maximum(target, source + here[come, leave], out=target)
            if (following == total).all():
                break  # a fixed point: further equal nodes add nothing
            total = np.maximum(following, _FAR)
    for axis in (0, 1):
        np.maximum.accumulate(total, axis=axis, out=total)
    return total


def filter_reachable(
    differences: Ints, touches: Ints, added: Ints, weighing: Ints
) -> NDArray[np.bool_]:
    """Return a mask of changes in edge pod counts that node capacity (by the relaxation) does not
    prove infeasible.

    differences: one row of items for each candidate; touches: permitted touches of each candidate.
    """
    surplus = differences.sum(axis=1)
    most = added.shape[0] - 1
    come = np.clip((touches + surplus) // 2, 0, most)
    leave = np.clip((touches - surplus) // 2, 0, most)
    kept: NDArray[np.bool_] = (differences @ weighing.T <= added[come, leave]).all(axis=1)
    return kept


def bound_gain(problem: EdgeProblem) -> tuple[int, int]:
    """Return the highest pod priority level at which QoS can improve, and an upper bound on the
    gain there.

    Net, in nano-units, as if pods found capacity on any node.
    """
    limits, worths = problem.limits, problem.worths
    most, by_level = limits.max_moves, dict[int, Ints]()
    for workload, items in problem.items_by_workload.items():
        supply = int(problem.supply[list(items)].sum())
        waiting = min(int(problem.waiting[list(items)].sum()), most)
        number = np.arange(min(supply, waiting + limits.max_cloud_to_edge, most) + 1)
        worth = np.array([worths.of_workload(workload, n) for n in number.tolist()])
        initial = problem.price + problem.placement_value
        worth += initial * np.minimum(number, waiting) - problem.price * number
        level = worths.level[workload]
        before = by_level.get(level, np.zeros(most + 1, dtype=np.int64))
        ways = before.copy()
        for n in number[1:].tolist():
            np.maximum(ways[n:], before[: most + 1 - n] + worth[n], out=ways[n:])
        by_level[level] = ways
    best = {level: int(ways.max()) for level, ways in sorted(by_level.items())}
    return next(
        ((level, value) for level, value in best.items() if value > 0), (max(best, default=0), 0)
    )
