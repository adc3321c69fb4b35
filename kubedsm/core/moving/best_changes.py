"""The best change of the edge there is: the DP of the exact form of `suggest`.

Of an item, R pods leave their edge nodes and C come to edge nodes. Those are max(R, C) moves:
min(R, C) inside the edge, and the surplus C - R from the cloud, or R - C to it. So the number of
moves is half of (touched + |C - R|) summed over items, where a pod that comes or leaves is a
touch; and QoS depends on the differences C - R only. One DP over the nodes, with a state for each
vector of differences and the fewest touches as its cost, hence knows the best of all suggestions:
greatest QoS, then fewest moves, then (in a second DP over what is left) least fragmentation.

No workload gains by leaving the edge, so a pod only leaves a node where its room is needed, there
or, with headroom to be left, anywhere.

Differences are tried in order of the QoS they give, a batch at a time, and a DP only passes
through states from which one of its batch can still be reached within the limits.
"""

from collections.abc import Iterator

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.core.goals.fragmentation import SCALE, Ints
from kubedsm.core.goals.gains import Gain, standing, worthwhile
from kubedsm.core.moving.edge_changes import (
    Changes,
    changes_within,
    fragmentation_changes,
    touching,
)
from kubedsm.core.moving.edge_problem import EdgeProblem
from kubedsm.core.moving.proposal import Question
from kubedsm.core.moving.relaxation import most_added, reachable, weights
from kubedsm.core.moving.suggestion import SuggestLimits
from kubedsm.core.packing.match import UNREACHABLE, Bounds
from kubedsm.core.packing.node_walk import Options, walk

#: How many differences are tried at once; the last batch takes all that are left.
_BATCHES = (6, 48, 384)
#: Comparing vectors is so much quicker than a step of the DP.
_DISTANCES_A_STEP = 50
#: With more moves the relaxation takes longer than what it saves.
_MOST_RELAXED = 16


class TooManyError(Exception):
    """The bounds were exceeded."""


@attrs.frozen(eq=False)
class Solution:
    #: N x I
    changes: Ints
    #: QoS gained, moves, fragmentation added: what counts, in this order
    gain: Gain
    moves: int
    fragmentation: int
    #: how many differences there are
    states: int

    @property
    def rank(self) -> tuple[Gain, int, int]:
        """Greater is better."""
        return self.gain, -self.moves, -self.fragmentation


@attrs.frozen(eq=False)
class _Search:
    problem: EdgeProblem
    limits: SuggestLimits
    bounds: Bounds
    changes: Changes
    #: N x X
    worthwhile: NDArray[np.bool_]
    #: X x L
    gains: Ints
    #: X: compares as the gains do
    standing: Ints

    def allowed(self, differences: Ints) -> Ints:
        """How many touches there may be when one of these, given by index, is reached."""
        touched = self.changes.touched[differences]
        limits = self.limits
        return np.minimum(2 * limits.max_moves - touched, 2 * limits.max_edge_reorder + touched)

    def options(self, states: Ints) -> list[Options]:
        """What each node can do on a way through these states, at a cost in touches.

        What no way through them could begin with is no part of one that comes to it later.
        """
        vectors, of_state = self.changes.vectors[states], self.worthwhile[:, states]
        return [touching(vectors[kept]) for kept in of_state]

    def measured_options(self, states: Ints, scale: int) -> list[Options]:
        """The same, at a cost in touches and then in fragmentation."""
        found = []
        for node, option in enumerate(self.options(states)):
            free = self.problem.free[node]
            added = fragmentation_changes(self.problem, node, free, option.vectors)
            found.append(Options(option.vectors, option.costs * scale + added))
        return found


def best_changes(question: Question) -> Iterator[Solution]:
    """The changes of the edge that give more QoS, best first.

    Of those that have the same difference only the one with the fewest moves and then the least
    fragmentation. Raises TooManyError beyond the bounds.
    """
    problem, limits = question.problem, question.limits
    if question.bounds.deadline.passed:
        raise TooManyError
    if not problem.items or not problem.supply.any() or not limits.max_moves:
        return
    search = _search(question)
    vectors, gain = search.changes.vectors, search.standing
    ranked = _candidates(search)
    start = 0
    for size in (*_BATCHES, len(ranked)):
        end = min(start + size, len(ranked))
        while 0 < end < len(ranked) and gain[ranked[end]] == gain[ranked[end - 1]]:
            end += 1
        held = [at for at in ranked[start:end].tolist() if _cloud_holds(question, vectors[at])]
        if held:
            yield from _solved(search, np.array(held, dtype=np.int64))
        start = end


def _search(question: Question) -> _Search:
    problem, limits, bounds = question.problem, question.limits, question.bounds
    most = limits.max_moves
    present = problem.present.sum(axis=0)
    reordered = np.minimum(present, limits.max_edge_reorder)
    vectors = changes_within(
        -np.minimum(present, most),
        np.minimum(problem.supply + reordered, most),
        most,
        min(bounds.loads, bounds.states // (len(problem.nodes) + 1)),
    )
    if vectors is None:
        raise TooManyError
    changes = Changes.of(vectors)
    possible = changes.possible(problem, problem.present, problem.free)
    # To keep room free on the edge as a whole a pod may leave any node.
    worth_trying = possible if limits.headroom else changes.needed(possible)
    gained = question.gains.of_vectors([item.workload for item in problem.items], vectors)
    # Asked first, since then there is mostly nothing more to ask.
    problem.cloud.holds(np.minimum(problem.cloud.packing.counts, most))
    return _Search(problem, limits, bounds, changes, worth_trying, gained, standing(gained))


def _candidates(search: _Search) -> Ints:
    """The differences that might be possible and give more QoS, the greatest first."""
    problem, vectors = search.problem, search.changes.vectors
    awaited = np.array([len(item.waiting) for item in problem.items], dtype=np.int64)
    fetched = np.maximum(vectors - awaited, 0)
    # Those that wait are new pods: they may use what is kept free.
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
    if len(found) and search.limits.max_moves <= _MOST_RELAXED:
        weighing = weights(problem)
        added = most_added(vectors, search.worthwhile, weighing, search.limits.max_moves)
        touches = search.allowed(found)
        found = found[reachable(vectors[found], touches, added, weighing)]
    return found[np.lexsort((found, search.changes.touched[found], -search.standing[found]))]


def _cloud_holds(question: Question, difference: Ints) -> bool:
    """Whether what leaves the edge finds room in the cloud, as far as can be told so early.

    Perhaps only in the room of pods that leave the cloud: whichever they will be.
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
    return possible and problem.cloud.vacated(vacated).holds(counts)


def _may_begin(problem: EdgeProblem, difference: Ints, counts: Ints) -> bool:
    """Whether some pod might leave the edge, or come to it, before all others.

    Moves within the edge leave its room what it is in all.
    """
    leaving = np.flatnonzero(counts).tolist()
    room = np.maximum(problem.free, 0).sum(axis=0)
    fits = ((problem.requests <= room) | (problem.requests == 0)).all(axis=1)
    return any(map(problem.cloud.takes, leaving)) or bool((fits & (difference > 0)).any())


def _solved(search: _Search, batch: Ints) -> Iterator[Solution]:
    touched, gain = search.changes.touched, search.standing
    allowed = search.allowed(batch)
    ceilings = _reach(search, batch, allowed)
    states = np.flatnonzero(ceilings >= touched)
    walked = walk(
        search.changes.vectors[states],
        ceilings[states],
        search.options(states),
        search.bounds,
    )
    if walked is None:
        raise TooManyError
    costs = np.full(len(touched), UNREACHABLE, dtype=np.int64)
    costs[states] = walked.costs
    reached = costs[batch] <= allowed
    batch, spent = batch[reached], costs[batch[reached]]
    moves = (spent + touched[batch]) // 2
    order = np.lexsort((batch, moves, -gain[batch]))
    at = 0
    while at < len(order):
        first = order[at]
        same = order[(gain[batch[order]] == gain[batch[first]]) & (moves[order] == moves[first])]
        yield from _cheapest(search, batch[same], spent[same])
        at += len(same)


def _reach(search: _Search, targets: Ints, allowed: Ints) -> Ints:
    """How many touches each state may have cost if one of the targets is to be reached.

    allowed: how many there may be at each target.
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


def _cheapest(search: _Search, targets: Ints, spent: Ints) -> Iterator[Solution]:
    """These targets, in as many touches each, with the least fragmentation; the least first."""
    problem = search.problem
    scale = 4 * SCALE * (len(problem.nodes) + 1)
    ceilings = _reach(search, targets, spent)
    states = np.flatnonzero(ceilings >= search.changes.touched)
    walked = walk(
        search.changes.vectors[states],
        ceilings[states] * scale + scale // 2,
        search.measured_options(states, scale),
        search.bounds,
    )
    if walked is None:
        raise TooManyError
    place = np.searchsorted(states, targets)
    added = walked.costs[place] - spent * scale
    for at in np.lexsort((targets, added)).tolist():
        changes = np.zeros_like(problem.present)
        for node, vector in enumerate(walked.choices(int(place[at]))):
            if vector is not None:
                changes[node] = vector
        moves = int(spent[at] + search.changes.touched[targets[at]]) // 2
        gain = tuple(search.gains[targets[at]].tolist())
        yield Solution(changes, gain, moves, int(added[at]), len(search.changes.vectors))
