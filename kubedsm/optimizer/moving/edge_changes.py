"""Changes of one edge node: which are possible, and which are worth considering."""

from itertools import pairwise

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.node_walk import Options
from kubedsm.optimizer.moving.edge_problem import EdgeProblem

#: Changes of one numpy call: hides call overhead, fits the CPU cache.
_BLOCK = 2**14


def list_changes(lowest: Ints, highest: Ints, most: int, limit: int) -> Ints | None:
    """Return all vectors between the bounds with at most `most` pods, in lexicographic order.

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
    """Candidate changes of a node, X x I, made by `list_changes`."""

    vectors: Ints
    #: the same turned round and narrow, I x X, for quick comparing
    columns: NDArray[np.int16]
    #: X: number of touches
    touched: Ints
    #: X x I: index of the vector with one departure less; -1 without departures
    relieved: Ints

    @classmethod
    def of(cls, vectors: Ints) -> "Changes":
        width = vectors.max(axis=0) - vectors.min(axis=0) + 1
        places = np.array([int(np.prod(width[i + 1 :])) for i in range(len(width))], dtype=np.int64)
        codes = (vectors - vectors.min(axis=0)) @ places  # sorted, since the vectors are
        relieved = np.full(vectors.shape, -1, dtype=np.int64)
        for item in range(vectors.shape[1]):
            leaving = np.flatnonzero(vectors[:, item] < 0)
            relieved[leaving, item] = np.searchsorted(codes, codes[leaving] + places[item])
        columns = np.ascontiguousarray(vectors.T, dtype=np.int16)
        return cls(vectors, columns, np.abs(vectors).sum(axis=1), relieved)

    def possible(
        self, problem: EdgeProblem, nodes: Ints, present: Ints, free: Ints
    ) -> NDArray[np.bool_]:
        """Return K x X: feasible changes of these K of the N nodes, by pods present and capacity.

        present: N x I. free: N x R.
        """
        present, most = present[nodes], problem.most[nodes]
        demand = self.vectors @ problem.requests
        # Without a request, negative free capacity suffices.
        asking = np.maximum(self.vectors, 0) @ (problem.requests > 0).astype(np.int64)
        fits = np.ones((len(nodes), len(self.vectors)), dtype=np.bool_)
        for column, there, highest in zip(self.columns, present.T, most.T, strict=True):
            # Clipped to the vectors' range, so that narrow types do not overflow.
            fits &= column >= np.maximum(-there, column.min()).astype(column.dtype)[:, None]
            fits &= column <= np.minimum(highest, column.max()).astype(column.dtype)[:, None]
        for needed, room, asked in zip(demand.T, free[nodes].T, asking.T, strict=True):
            fits &= (needed <= room[:, None]) | (asked == 0)
        for on, coming, there in problem.clashes:
            # No pod of one item may come while a pod of the other is there.
            rows = np.flatnonzero(on[nodes])
            left = self.columns[there] + present[rows, there, None] - (coming == there)
            fits[rows] &= (self.columns[coming] <= 0) | (left <= 0)
        return fits

    def drop_needless(self, possible: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Drop changes in which a pod leaves that could as well stay."""
        kept = possible.copy()
        for item in range(self.vectors.shape[1]):
            leaving = np.flatnonzero(self.relieved[:, item] >= 0)
            kept[:, leaving] &= ~possible[:, self.relieved[leaving, item]]
        return kept


def added_fragmentation(problem: EdgeProblem, nodes: Ints, free: Ints, vectors: Ints) -> Ints:
    """Return the fragmentation that each of K changes, K x I, adds to its node, K; free: N x R."""
    before = problem.costs(np.arange(len(free)), free)
    added = np.empty(len(nodes), dtype=np.int64)
    for start in range(0, len(nodes), _BLOCK):
        block = slice(start, start + _BLOCK)
        here = nodes[block]
        room = free[here] - vectors[block] @ problem.requests
        added[block] = problem.costs(here, room) - before[here]
    return added


def select_cheapest(costs: Ints, acting: Ints) -> NDArray[np.bool_]:
    """Return N x K: the nodes of least cost on which each of K changes needs to be tried.

    acting: K, nodes on which anything may be done with the change. A change on a dearer node could
    be made on one of these many at no more cost; ties go to the first, as in `walk_nodes`. costs: N
    x K.
    """
    number = int(acting.max(initial=0))
    if len(costs) <= number:
        return np.ones(costs.shape, dtype=np.bool_)
    order = np.argsort(costs, axis=0, kind="stable")[:number]
    kept = np.zeros(costs.shape, dtype=np.bool_)
    np.put_along_axis(kept, order, np.arange(number)[:, None] < acting, axis=0)
    return kept


def split_options(kept: NDArray[np.bool_], vectors: Ints, costs: Ints) -> list[Options]:
    """Return the options of each node; kept: N x K, chosen vectors; costs: of these, row by row."""
    which = kept.nonzero()[1]
    ends = kept.sum(axis=1).cumsum().tolist()
    parts = (slice(start, end) for start, end in pairwise([0, *ends]))
    return [Options(vectors[which[part]], costs[part]) for part in parts]
