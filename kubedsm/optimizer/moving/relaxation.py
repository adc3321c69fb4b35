"""What surely cannot be reached, told without a search.

Weigh the items: then a difference weighs as much as the changes of all nodes that make it up, and
the most that some nodes can add to a weight, with so many pods coming and so many leaving, is a
DP of few numbers. A difference that weighs more than that, for some weights, is out of reach.
Weighing by what items request tells how much of the free room can really be filled.
"""

import numpy as np
from numpy.typing import NDArray

from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.ladders import alike
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.proposal import Question

_FAR = -(2**61)
#: Parts of the largest node, and the most of them: any weights will do, but they must add up.
_UNIT = 10**6
_MOST_PARTS = 2**45


def weights(problem: EdgeProblem) -> Ints:
    """W x I: each resource, mixtures of cpu and memory, each item, and all items alike."""
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


def most_added(vectors: Ints, options: NDArray[np.bool_], weighing: Ints, most: int) -> Ints:
    """The most the nodes can add to each weight, W, as an array of (most + 1) x (most + 1) x W.

    vectors: X x I. options: N x X, the changes each node can undergo beside none. The first index
    is how many pods may come, the second how many may leave.
    """
    coming = np.maximum(vectors, 0).sum(axis=1)
    leaving = np.maximum(-vectors, 0).sum(axis=1)
    weight = vectors @ weighing.T
    total = np.full((most + 1, most + 1, len(weighing)), _FAR, dtype=np.int64)
    total[0, 0] = 0
    first, which = alike(np.packbits(options, axis=1).astype(np.int64))
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
                break  # one more node like that adds nothing, and so none does
            total = np.maximum(following, _FAR)
    for axis in (0, 1):
        np.maximum.accumulate(total, axis=axis, out=total)
    return total


def reachable(differences: Ints, touches: Ints, added: Ints, weighing: Ints) -> NDArray[np.bool_]:
    """Which differences, T x I, are not out of reach in at most so many touches each, T."""
    surplus = differences.sum(axis=1)
    most = added.shape[0] - 1
    come = np.clip((touches + surplus) // 2, 0, most)
    leave = np.clip((touches - surplus) // 2, 0, most)
    kept: NDArray[np.bool_] = (differences @ weighing.T <= added[come, leave]).all(axis=1)
    return kept


def most_gained(question: Question) -> tuple[int, int]:
    """A level of priority, above which nothing can be gained, and no less than can be gained there.

    Net, in nano-units: if pods came from everywhere, and found room wherever they like.
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
