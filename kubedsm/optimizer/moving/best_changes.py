"""Exact suggester: best change of the edge by dynamic programming over difference vectors.

R pods of an item leave edge nodes and C pods come. That makes max(R, C) migrations: min(R, C)
within the edge, and the surplus from or to the cloud. A pod that comes or leaves is a touch, so the
number of migrations is half of (touches + |C - R|) summed over items, and QoS depends on C - R
only. One DP over the nodes, with a state for each vector of differences and the fewest touches as
cost, knows the optimum: greatest net benefit, then fewest migrations, then (by a second DP) least
replica spread cost, then least fragmentation.

A pod only leaves a node where its capacity is needed, there or, with headroom, anywhere.
Differences are tried in batches by their upper bound of net benefit, and a DP only passes states
from which one of the batch is reachable within the limits. A relaxation prunes differences first:
with weights for items, a difference that outweighs what all nodes can add is out of reach.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Self

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.objective.fragmentation import SCALE, Ints
from kubedsm.objective.gains import Gain, less_price, standing, worthwhile
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds
from kubedsm.optimizer.matching.node_walk import Options, walk_nodes
from kubedsm.optimizer.matching.problem import group_equal_rows
from kubedsm.optimizer.moving.edge_problem import (
    Changes,
    EdgeProblem,
    added_fragmentation,
    list_changes,
    select_cheapest,
    split_options,
)
from kubedsm.optimizer.moving.proposal import Question
from kubedsm.optimizer.moving.suggestion import SuggestLimits

#: Greatest cost.
_GREATEST = UNREACHABLE // 2


@attrs.frozen
class Digits:
    """Place values of touches, spread and fragmentation in one 64-bit cost."""

    touch: int
    spread: int
    #: pairs that count as one, to stay within 64 bits
    pairs: int

    @classmethod
    def of(cls, problem: EdgeProblem, limits: SuggestLimits) -> Self:
        touches = 2 * limits.max_moves
        # A touch changes the fragmentation of one node, by at most SCALE.
        spread = 4 * SCALE * (min(len(problem.nodes), touches) + 1)
        most, room = problem.spread.most_added(touches), _GREATEST // (touches * spread)
        pairs = 1 + most // max(1, room // 2 - 1)
        return cls(2 * (most // pairs + 1) * spread, spread, pairs)

    def parts(self, cost: int) -> tuple[int, int]:
        """Return the spread and the fragmentation of a cost without touches."""
        spread = (cost + self.spread // 2) // self.spread
        return spread, cost - spread * self.spread


_FAR = -(2**61)
#: Resolution of weights, and their limit: any weights are valid, if sums are exact.
_UNIT = 10**6
_MOST_PARTS = 2**45


def item_weights(problem: EdgeProblem) -> Ints:
    """Return W x I: each resource, mixtures of CPU and memory, each item, and all items alike."""
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
    """Return the most that the nodes can add to each weight, (most + 1) x (most + 1) x W.

    vectors: X x I. options: N x X, possible changes of each node next to no change. The first index
    is the number of pods that may come, the second the number that may leave.
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
    """Return which differences, T x I, are not proven unreachable within these touches, T."""
    surplus = differences.sum(axis=1)
    most = added.shape[0] - 1
    come = np.clip((touches + surplus) // 2, 0, most)
    leave = np.clip((touches - surplus) // 2, 0, most)
    kept: NDArray[np.bool_] = (differences @ weighing.T <= added[come, leave]).all(axis=1)
    return kept


def bound_gain(question: Question) -> tuple[int, int]:
    """Return the highest priority level with possible gains, and an upper bound on the gain there.

    Net, in nano-units, as if pods found capacity on any node.
    """
    problem, limits, gains = question.problem, question.limits, question.worths
    most, by_level = limits.max_moves, dict[int, Ints]()
    for workload, items in problem.items_by_workload.items():
        supply = int(problem.supply[list(items)].sum())
        waiting = min(problem.awaited.get(workload, 0), most)
        number = np.arange(min(supply, waiting + limits.max_cloud_to_edge, most) + 1)
        worth = np.array([gains.of_workload(workload, n) for n in number.tolist()])
        worth += question.price * (np.minimum(number, waiting) * (1 + most) - number)
        level = gains.level[workload]
        before = by_level.get(level, np.zeros(most + 1, dtype=np.int64))
        ways = before.copy()
        for n in number[1:].tolist():
            np.maximum(ways[n:], before[: most + 1 - n] + worth[n], out=ways[n:])
        by_level[level] = ways
    best = {level: int(ways.max()) for level, ways in sorted(by_level.items())}
    return next(
        ((level, value) for level, value in best.items() if value > 0), (max(best, default=0), 0)
    )


#: Differences that are tried at once; the last batch takes the rest.
_BATCHES = (6, 48, 384)
#: Vector comparisons in the time of one DP step.
_DISTANCES_A_STEP = 50
#: Migrations above which the relaxation costs more time than it saves.
_MOST_RELAXED = 16


class TooManyError(Exception):
    """The exact-search limit is exceeded."""


@attrs.frozen(eq=False)
class Solution:
    #: N x I
    """One change of the edge."""

    changes: Ints
    #: net benefit, migrations, added spread and fragmentation, lexicographically
    net: Gain
    moves: int
    spread: int
    fragmentation: int
    #: how many differences there are
    states: int

    @property
    def rank(self) -> tuple[Gain, int, int, int]:
        """Greater is better."""
        return self.net, -self.moves, -self.spread, -self.fragmentation


@attrs.frozen
class _Solved:
    """A reachable difference."""

    net: Gain
    moves: int
    #: index of the difference
    target: int
    #: touches
    spent: int

    def alike(self, other: "_Solved") -> bool:
        return (self.net, self.moves) == (other.net, other.moves)


@attrs.frozen(eq=False)
class _Search:
    problem: EdgeProblem
    limits: SuggestLimits
    bounds: Bounds
    changes: Changes
    #: X x L
    gains: Ints
    #: X x L, benefits in the unit of the price
    worths: Ints
    #: nano-units a move
    price: int
    #: X: pending pods among the arrivals
    awaited: Ints

    def net(self, differences: Ints, moves: Ints) -> Ints:
        """Return the net benefit of differences, given by index, after these migrations: T x L.

        A pod's first node is no migration, and capacity for it is worth any price.
        """
        awaited = self.awaited[differences]
        cost = self.price * (moves - awaited * (1 + self.limits.max_moves))
        return less_price(self.worths[differences], cost)

    def allowed(self, differences: Ints) -> Ints:
        """Return the most touches with which each difference, given by index, may be reached."""
        touched = self.changes.touched[differences]
        limits = self.limits
        return np.minimum(2 * limits.max_moves - touched, 2 * limits.max_edge_reorder + touched)

    @cached_property
    def worthwhile(self) -> NDArray[np.bool_]:
        """K x X: changes of each of the K changeable nodes that are worth considering."""
        problem = self.problem
        possible = self.changes.possible(problem, problem.changeable, problem.present, problem.free)
        # To keep room free on the edge as a whole a pod may leave any node.
        return possible if self.limits.headroom else self.changes.drop_needless(possible)

    def options(self, states: Ints, most: int) -> list[Options]:
        """Return the options of each node on paths through these states, at a cost in touches.

        most: touches of the longest path. Options that no path can begin with are left out.
        """
        touched, kept = self.changes.touched[states], self._considered_changes(states)
        kept &= select_cheapest(np.where(kept, 0, UNREACHABLE), most - touched + 1)
        return split_options(kept, self.changes.vectors[states], touched[kept.nonzero()[1]])

    def options_by_spread(self, states: Ints, most: int, digits: Digits) -> list[Options]:
        """Return the same options at a cost in touches, then spread, then fragmentation."""
        problem, vectors = self.problem, self.changes.vectors[states]
        touched, kept = self.changes.touched[states], self._considered_changes(states)
        rows, which = kept.nonzero()
        nodes = problem.changeable[rows]
        added = problem.spread.added(nodes, vectors[which])
        spread = np.sign(added) * (np.abs(added) // digits.pairs)
        costs = np.full(kept.shape, UNREACHABLE, dtype=np.int64)
        costs[kept] = (
            touched[which] * digits.touch
            + spread * digits.spread
            + added_fragmentation(problem, nodes, problem.free, vectors[which])
        )
        kept &= select_cheapest(costs, most - touched + 1)
        return split_options(kept, vectors, costs[kept])

    def _considered_changes(self, states: Ints) -> NDArray[np.bool_]:
        """Return K x S: changes that are worth considering, the empty one aside."""
        kept: NDArray[np.bool_] = self.worthwhile[:, states] & (self.changes.touched[states] > 0)
        return kept


def iterate_best_changes(question: Question) -> Iterator[Solution]:
    """Yield changes of the edge that gain QoS, best first.

    Of equal differences only that with the fewest migrations, then least spread, then least
    fragmentation. Raise TooManyError above the exact-search limit.
    """
    problem, limits = question.problem, question.limits
    if question.bounds.deadline.passed:
        raise TooManyError
    if not problem.items or not problem.supply.any() or not limits.max_moves:
        return
    search = _prepare_search(question)
    vectors = search.changes.vectors
    ranked, most = _list_candidates(search)
    solved: list[_Solved] = []
    start = 0
    for size in (*_BATCHES, len(ranked)):
        end = min(start + size, len(ranked))
        while 0 < end < len(ranked) and (most[end] == most[end - 1]).all():
            end += 1
        held = [at for at in ranked[start:end].tolist() if _cloud_may_hold(question, vectors[at])]
        if held:
            solved += _solve_batch(search, np.array(held, dtype=np.int64))
            solved.sort(key=lambda each: (each.net, -each.moves), reverse=True)
        start = end
        # Later differences have at most this benefit.
        bound = tuple(most[end].tolist()) if end < len(ranked) else None
        while solved and (bound is None or solved[0].net > bound):
            same = [each for each in solved if each.alike(solved[0])]
            del solved[: len(same)]
            yield from _order_by_spread(search, same)


def _prepare_search(question: Question) -> _Search:
    problem, limits, bounds = question.problem, question.limits, question.bounds
    most = limits.max_moves
    staying = problem.staying
    reordered = np.minimum(staying, limits.max_edge_reorder)
    vectors = list_changes(
        -np.minimum(staying, most),
        np.minimum(problem.supply + reordered, most),
        most,
        min(bounds.loads, bounds.states // (len(problem.nodes) + 1)),
    )
    if vectors is None:
        raise TooManyError
    changes = Changes.of(vectors)
    workloads = [item.workload for item in problem.items]
    gains = question.gains.of_vectors(workloads, vectors)
    worths = question.worths.of_vectors(workloads, vectors) if question.price else gains
    waiting = np.array([len(item.waiting) for item in problem.items], dtype=np.int64)
    awaited = np.clip(vectors, 0, waiting).sum(axis=1)
    # Asked first, since then there is mostly nothing more to ask.
    problem.cloud.holds(np.minimum(problem.cloud.packing.counts, most))
    return _Search(problem, limits, bounds, changes, gains, worths, question.price, awaited)


def _list_candidates(search: _Search) -> tuple[Ints, Ints]:
    """Return differences, T, that may be feasible and pay, with upper bounds, T x L, in order."""
    problem, vectors = search.problem, search.changes.vectors
    awaited = np.array([len(item.waiting) for item in problem.items], dtype=np.int64)
    fetched = np.maximum(vectors - awaited, 0)
    # Pending pods are new: the headroom is for them.
    brought = np.minimum(vectors, 0) + fetched
    room = np.maximum(problem.free, 0).sum(axis=0)
    to_fill = problem.to_fill(search.limits.headroom)
    kept = (
        worthwhile(search.gains)
        & (vectors <= problem.supply).all(axis=1)
        & (fetched.sum(axis=1) <= search.limits.max_cloud_to_edge)
        & (vectors @ problem.requests <= room).all(axis=1)
        & (brought @ problem.requests <= to_fill).all(axis=1)
    )
    found = np.flatnonzero(kept)
    found = found[worthwhile(search.net(found, search.changes.touched[found]))]
    if len(found) and search.limits.max_moves <= _MOST_RELAXED:
        weighing = item_weights(problem)
        added = bound_weights(vectors, search.worthwhile, weighing, search.limits.max_moves)
        touches = search.allowed(found)
        found = found[filter_reachable(vectors[found], touches, added, weighing)]
    touched = search.changes.touched[found]
    most = search.net(found, touched)
    order = np.lexsort((found, touched, -standing(most)))
    return found[order], most[order]


def _cloud_may_hold(question: Question, difference: Ints) -> bool:
    """Return whether the cloud may hold the pods that leave the edge, an optimistic test.

    Pods that leave the cloud may free the capacity, whichever they are.
    """
    problem = question.problem
    counts = problem.cloud_counts(np.maximum(-difference, 0))
    if counts is None or problem.cloud.holds(counts):
        return counts is not None
    if not question.vacating:
        return False
    fetched = [
        pod
        for item, number in zip(problem.items, difference.tolist(), strict=True)
        for pod in item.fetchable(number)
    ]
    if not _may_begin(problem, difference, counts):
        return False
    vacated = problem.cloud_room(fetched)
    packing = problem.cloud.packing
    free = np.maximum(packing.free, 0).sum(axis=0) + vacated.sum(axis=0)
    possible = bool((counts @ packing.requests <= free).all())
    return possible and problem.cloud.after_leaving(vacated).holds(counts)


def _may_begin(problem: EdgeProblem, difference: Ints, counts: Ints) -> bool:
    """Return whether some pod may be the first to leave the edge or to come to it."""
    leaving = np.flatnonzero(counts).tolist()
    room = np.maximum(problem.free, 0).sum(axis=0)
    fits = ((problem.requests <= room) | (problem.requests == 0)).all(axis=1)
    return any(map(problem.cloud.takes, leaving)) or bool((fits & (difference > 0)).any())


def _solve_batch(search: _Search, batch: Ints) -> list[_Solved]:
    """Return the differences of the batch that are reachable and pay, in any order."""
    touched = search.changes.touched
    allowed = search.allowed(batch)
    ceilings = _limit_touches(search, batch, allowed)
    states = np.flatnonzero(ceilings >= touched)
    walked = walk_nodes(
        search.changes.vectors[states],
        ceilings[states],
        search.options(states, int(allowed.max())),
        search.bounds,
    )
    if walked is None:
        raise TooManyError
    costs = np.full(len(touched), UNREACHABLE, dtype=np.int64)
    costs[states] = walked.costs
    reached = costs[batch] <= allowed
    batch, spent = batch[reached], costs[batch[reached]]
    moves = (spent + touched[batch]) // 2
    net = search.net(batch, moves)
    pays = worthwhile(net)
    rows = zip(net[pays].tolist(), *(x[pays].tolist() for x in (moves, batch, spent)), strict=True)
    return [_Solved(tuple(row), *numbers) for row, *numbers in rows]


def _limit_touches(search: _Search, targets: Ints, allowed: Ints) -> Ints:
    """Return the most touches of each state from which a target is still reachable.

    allowed: most touches at each target.
    """
    vectors = search.changes.columns
    if len(targets) * vectors.size > _DISTANCES_A_STEP * search.bounds.steps:
        raise TooManyError
    ceilings = np.full(vectors.shape[1], -1, dtype=np.int16)
    for target, most in zip(targets.tolist(), allowed.tolist(), strict=True):
        if search.bounds.deadline.passed:
            raise TooManyError
        distance = np.abs(vectors - vectors[:, target, None]).sum(axis=0, dtype=np.int16)
        np.maximum(ceilings, most - distance, out=ceilings)
    return ceilings.astype(np.int64)


def _order_by_spread(search: _Search, alike: list[_Solved]) -> Iterator[Solution]:
    """Yield these, with equal numbers of migrations, by least spread and fragmentation."""
    targets = np.array([each.target for each in alike], dtype=np.int64)
    spent = np.array([each.spent for each in alike], dtype=np.int64)
    problem = search.problem
    digits = Digits.of(problem, search.limits)
    scale = digits.touch
    ceilings = _limit_touches(search, targets, spent)
    states = np.flatnonzero(ceilings >= search.changes.touched)
    walked = walk_nodes(
        search.changes.vectors[states],
        ceilings[states] * scale + scale // 2,
        search.options_by_spread(states, int(spent.max()), digits),
        search.bounds,
    )
    if walked is None:
        raise TooManyError
    place = np.searchsorted(states, targets)
    added = walked.costs[place] - spent * scale
    for at in np.lexsort((targets, added)).tolist():
        changes = np.zeros_like(problem.present)
        choices = walked.choices(int(place[at]))
        for node, vector in zip(problem.changeable.tolist(), choices, strict=True):
            if vector is not None:
                changes[node] = vector
        chosen, every = alike[at], len(search.changes.vectors)
        yield Solution(changes, chosen.net, chosen.moves, *digits.parts(int(added[at])), every)
