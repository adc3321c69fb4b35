"""Which changes of one edge node are possible, and which of them are worth considering."""

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.core.goals.fragmentation import Ints
from kubedsm.core.moving.edge_problem import EdgeProblem
from kubedsm.core.packing.node_walk import Options


def changes_within(lowest: Ints, highest: Ints, most: int, limit: int) -> Ints | None:
    """Every vector between the two with at most so many pods in it, in lexicographic order.

    None if there are more than `limit`. The zero vector is always one of them.
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
    """The changes, X x I, that some node might undergo; made by `changes_within`."""

    vectors: Ints
    #: the same turned round and narrow, I x X, for quick comparing
    columns: NDArray[np.int16]
    #: X: pods that come or leave
    touched: Ints
    #: X x I: the index of the vector with one pod less leaving; -1 where none leaves
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

    def possible(self, problem: EdgeProblem, present: Ints, free: Ints) -> NDArray[np.bool_]:
        """Which changes each node can undergo, N x X: enough pods there, and room for what comes.

        present: N x I. free: N x R.
        """
        demand = np.ascontiguousarray((self.vectors @ problem.requests).T)
        # What asks for nothing of a resource fits even where there is less than none of it.
        asking = np.maximum(self.vectors, 0) @ (problem.requests > 0).astype(np.int64)
        unasked = np.ascontiguousarray(asking.T == 0)
        greatest = self.columns.max(axis=1)
        fits = np.empty((len(problem.nodes), len(self.vectors)), dtype=np.bool_)
        for node, free_here in enumerate(free):
            kept = np.ones(len(self.vectors), dtype=np.bool_)
            bounds = zip(
                self.columns, -present[node], np.minimum(problem.most[node], greatest), strict=True
            )
            for column, lowest, highest in bounds:
                kept &= (column >= lowest) & (column <= highest)
            for needed, room, indifferent in zip(demand, free_here, unasked, strict=True):
                kept &= (needed <= room) | indifferent
            fits[node] = kept
        for on, coming, there in problem.clashes:
            for node in np.flatnonzero(on).tolist():
                # None of the one may come while there is any of the other, itself aside.
                left = self.columns[there] + present[node, there] - (coming == there)
                fits[node] &= (self.columns[coming] <= 0) | (left <= 0)
        return fits

    def needed(self, possible: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Without those in which a pod leaves that could as well stay."""
        kept = possible.copy()
        for item in range(self.vectors.shape[1]):
            leaving = np.flatnonzero(self.relieved[:, item] >= 0)
            kept[:, leaving] &= ~possible[:, self.relieved[leaving, item]]
        return kept


def fragmentation_changes(problem: EdgeProblem, node: int, free: Ints, vectors: Ints) -> Ints:
    """What each of K changes adds to the fragmentation of the node, whose free room is R."""
    unchanged = np.zeros((1, vectors.shape[1]), dtype=np.int64)
    room = free - np.vstack((unchanged, vectors)) @ problem.requests
    costs = problem.costs(np.full(len(room), node), room)
    added: Ints = costs[1:] - costs[0]
    return added


def touching(vectors: Ints) -> Options:
    """Options whose cost is the number of pods that come or leave."""
    return Options(vectors, np.abs(vectors).sum(axis=1))
