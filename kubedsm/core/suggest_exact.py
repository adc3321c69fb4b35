"""The best few moves there are: `suggest` in its exact form.

Of an item, R pods leave their edge nodes and C come to edge nodes. Those are max(R, C) moves:
min(R, C) inside the edge, and the surplus C - R from the cloud, or R - C to it. So the number of
moves is half of (touched + |C - R|) summed over items, where a pod that comes or leaves is a
touch; and QoS depends on the differences C - R only. One DP over the nodes, with a state for each
vector of differences and the fewest touches as its cost, hence knows the best of all suggestions:
greatest QoS, then fewest moves, then (in a second DP over what is left) least fragmentation.

Nobody gains by leaving the edge, so a pod only leaves a node where its room is needed.

Differences are tried in order of the QoS they give, a batch at a time, and a DP only passes
through states from which one of its batch can still be reached within the limits.
"""

from collections.abc import Iterator, Mapping

import attrs
import numpy as np

from kubedsm.core.edge_changes import Changes, changes_within, fragmentation_changes, touching
from kubedsm.core.edge_problem import EdgeProblem
from kubedsm.core.fragmentation import SCALE, Ints
from kubedsm.core.gains import Gains
from kubedsm.core.match import UNREACHABLE, Bounds
from kubedsm.core.model import NodeName, Resources
from kubedsm.core.node_walk import Options, walk
from kubedsm.core.pairing import Pairing, pair
from kubedsm.core.suggestion import SuggestLimits
from kubedsm.core.transfers import Transfer

#: How many differences are tried at once; the last batch takes all that are left.
_BATCHES = (48, 384)


#: Of solutions that cannot be carried out, that many are passed over before giving up.
_TRIES = 200
#: Workloads looked at together when all are too many: those that lack most, that can spare most.
_LACKING, _SPARING = 4, 2


@attrs.frozen(eq=False)
class Found:
    """The moves that one of the forms of `suggest` came to."""

    moves: tuple[Transfer, ...] = ()
    proven: bool = True
    states: int = 0


def suggest_exact(
    problem: EdgeProblem,
    free: Mapping[NodeName, Resources],
    gains: Gains,
    limits: SuggestLimits,
    bounds: Bounds,
) -> Found:
    """The best moves within the limits.

    Beyond the bounds only some workloads are looked at together, those farthest below their
    promises with those that can spare most, then the next, until there is something to do; and
    fewer moves, if that is still too much. What is found then is good, but not proven.
    """
    try:
        found = _best(problem, free, gains, limits, bounds)
    except TooManyError:
        found = _best_of_some(problem, free, gains, limits, bounds)
    return found if problem.cloud.certain else attrs.evolve(found, proven=False)


def _best_of_some(
    problem: EdgeProblem,
    free: Mapping[NodeName, Resources],
    gains: Gains,
    limits: SuggestLimits,
    bounds: Bounds,
) -> Found:
    supplied = {item.workload for item in problem.items if item.supply}
    ordered = sorted(problem.workloads, key=lambda w: (gains.to_promise(w), w))
    states = 0
    lacking = [w for w in ordered if w in supplied]
    for start in range(0, len(lacking), _LACKING):
        some = lacking[start : start + _LACKING]
        some += [w for w in reversed(ordered) if w not in some][:_SPARING]
        part = problem.only(some)
        for most in range(limits.max_moves, 0, -1):
            try:
                found = _best(part, free, gains, attrs.evolve(limits, max_moves=most), bounds)
            except TooManyError:
                continue
            states += found.states
            if found.moves:
                return Found(found.moves, proven=False, states=states)
            break
    return Found(proven=False, states=states)


def _best(
    problem: EdgeProblem,
    free: Mapping[NodeName, Resources],
    gains: Gains,
    limits: SuggestLimits,
    bounds: Bounds,
) -> Found:
    """The first solution that can be carried out; of equal ones, one without cycles."""
    chosen: tuple[Solution, Pairing] | None = None
    states = 0
    for tried, solution in enumerate(best_changes(problem, gains, limits, bounds)):
        states = solution.states
        if chosen is not None and chosen[0].rank != solution.rank:
            break
        if tried == _TRIES:
            return Found(() if chosen is None else chosen[1].moves, proven=False, states=states)
        pairing = pair(problem, solution.changes, free)
        if pairing is not None and (chosen is None or not pairing.cycles):
            chosen = (solution, pairing)
        if chosen is not None and not chosen[1].cycles:
            break
    return Found(() if chosen is None else chosen[1].moves, states=states)


class TooManyError(Exception):
    """The bounds were exceeded."""


@attrs.frozen(eq=False)
class Solution:
    #: N x I
    changes: Ints
    #: nano-units of QoS gained, moves, fragmentation added: what counts, in this order
    rank: tuple[int, int, int]
    #: how many differences there are
    states: int


@attrs.frozen(eq=False)
class _Search:
    problem: EdgeProblem
    limits: SuggestLimits
    bounds: Bounds
    changes: Changes
    #: N x X
    worthwhile: Ints

    def options(self) -> list[Options]:
        """What each node can do, at a cost in touches."""
        return [touching(self.changes.vectors[kept]) for kept in self.worthwhile]

    def measured_options(self, states: Ints, touches: int, scale: int) -> list[Options]:
        """What each node can do between these states, at a cost in touches and fragmentation."""
        vectors = self.changes.vectors
        span = vectors[states].max(axis=0) - vectors[states].min(axis=0)
        used = (np.abs(vectors) <= span).all(axis=1) & (self.changes.touched <= touches)
        found = []
        for node, kept in enumerate(self.worthwhile & used):
            option = touching(vectors[kept])
            free = self.problem.free[node]
            added = fragmentation_changes(self.problem, node, free, option.vectors)
            found.append(Options(option.vectors, option.costs * scale + added))
        return found


def best_changes(
    problem: EdgeProblem, gains: Gains, limits: SuggestLimits, bounds: Bounds
) -> Iterator[Solution]:
    """The changes of the edge that give more QoS, best first.

    Of those that have the same difference only the one with the fewest moves and then the least
    fragmentation. Raises TooManyError beyond the bounds.
    """
    if not problem.items or not problem.supply.any() or not limits.max_moves:
        return
    search = _search(problem, limits, bounds)
    vectors = search.changes.vectors
    gain = gains.of_vectors([item.workload for item in problem.items], vectors)
    ranked = _candidates(search, gain)
    options = search.options()
    start = 0
    for size in (*_BATCHES, len(ranked)):
        end = min(start + size, len(ranked))
        while 0 < end < len(ranked) and gain[ranked[end]] == gain[ranked[end - 1]]:
            end += 1
        held = [at for at in ranked[start:end].tolist() if _cloud_holds(problem, vectors[at])]
        if held:
            last = size == len(ranked)
            yield from _solved(search, options, gain, np.array(held, dtype=np.int64), last)
        start = end


def _search(problem: EdgeProblem, limits: SuggestLimits, bounds: Bounds) -> _Search:
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
    worthwhile = changes.needed(changes.possible(problem, problem.present, problem.free))
    if int(worthwhile.sum()) > bounds.loads:
        raise TooManyError
    problem.cloud.promise(most)
    return _Search(problem, limits, bounds, changes, worthwhile)


def _candidates(search: _Search, gain: Ints) -> Ints:
    """The differences that might be possible and give more QoS, the greatest first."""
    problem, vectors = search.problem, search.changes.vectors
    awaited = np.array([len(item.waiting) for item in problem.items], dtype=np.int64)
    fetched = np.maximum(vectors - awaited, 0).sum(axis=1)
    room = np.maximum(problem.free, 0).sum(axis=0)
    kept = (
        (gain > 0)
        & (vectors <= problem.supply).all(axis=1)
        & (fetched <= search.limits.max_cloud_to_edge)
        & (vectors @ problem.requests <= room).all(axis=1)
    )
    found = np.flatnonzero(kept)
    return found[np.lexsort((found, search.changes.touched[found], -gain[found]))]


def _cloud_holds(problem: EdgeProblem, difference: Ints) -> bool:
    counts = problem.cloud_counts(np.maximum(-difference, 0))
    return counts is not None and problem.cloud.holds(counts)


def _solved(
    search: _Search, options: list[Options], gain: Ints, batch: Ints, last: bool
) -> Iterator[Solution]:
    touched = search.changes.touched
    most, reorder = search.limits.max_moves, search.limits.max_edge_reorder
    allowed = np.minimum(2 * most - touched[batch], 2 * reorder + touched[batch])
    ceilings = 2 * most - touched if last else _reach(search, batch, allowed)
    states = np.flatnonzero(ceilings >= touched)
    walked = walk(search.changes.vectors[states], ceilings[states], options, search.bounds.steps)
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
        yield from _cheapest(search, batch[same], spent[same], int(gain[batch[first]]))
        at += len(same)


def _reach(search: _Search, targets: Ints, allowed: Ints) -> Ints:
    """How many touches each state may have cost if one of the targets is to be reached.

    allowed: how many there may be at each target.
    """
    vectors = search.changes.vectors.astype(np.int16)
    ceilings = np.full(len(vectors), -1, dtype=np.int64)
    for target, most in zip(targets.tolist(), allowed.tolist(), strict=True):
        distance = np.abs(vectors - vectors[target]).sum(axis=1, dtype=np.int64)
        np.maximum(ceilings, most - distance, out=ceilings)
    return ceilings


def _cheapest(search: _Search, targets: Ints, spent: Ints, gain: int) -> Iterator[Solution]:
    """These targets, in as many touches each, with the least fragmentation; the least first."""
    problem = search.problem
    scale = 4 * SCALE * (len(problem.nodes) + 1)
    ceilings = _reach(search, targets, spent)
    states = np.flatnonzero(ceilings >= search.changes.touched)
    walked = walk(
        search.changes.vectors[states],
        ceilings[states] * scale + scale // 2,
        search.measured_options(states, int(spent.max()), scale),
        search.bounds.steps,
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
        yield Solution(changes, (gain, moves, int(added[at])), len(search.changes.vectors))
