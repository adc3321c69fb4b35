"""How many pods could have a node at most, whatever the nodes: from sums alone.

All nodes together are taken for one, and each resource, and some sums of two, for the only one
there is. Of pods that compete the smallest go in first; those that must have a node are in it.
"""

import numpy as np

from kubedsm.optimizer.packing.problem import Problem

_MIXES = 9


def most_placed(problem: Problem, placed: tuple[int, ...]) -> tuple[int, ...]:
    """Of each tier, at most how many pods can have a node if of those before it so many have.

    placed: how many have one in a placement that is there; T.
    """
    packing = problem.packing
    reachable = (packing.most > 0).any(axis=0)
    counts = np.where(reachable, packing.counts, 0)
    total = packing.free.sum(axis=0)
    scarce = (packing.requests > 0).any(axis=0) & (total < counts @ packing.requests)
    bounds = [int(counts[problem.tiers == tier].sum()) for tier in range(len(placed))]
    if not scarce.any():
        return tuple(bounds)
    asks = packing.requests[:, scarce] / np.maximum(total[scarce], 1)
    for weights in _weights(int(scarce.sum())):
        sizes = asks @ weights
        left = 1 + 1e-9 - float(sizes @ problem.least)
        for tier, number in enumerate(placed):
            of_tier = (problem.tiers == tier) & reachable
            optional = np.repeat(sizes[of_tier], (counts - problem.least)[of_tier])
            sums = np.cumsum(np.sort(optional))
            must = int(problem.least[of_tier].sum())
            fit = int(np.searchsorted(sums, left, side="right"))
            bounds[tier] = min(bounds[tier], must + fit)
            taken = min(number - must, len(sums))
            left -= float(sums[taken - 1]) if taken > 0 else 0.0
    return tuple(bounds)


def _weights(number: int) -> list[np.typing.NDArray[np.float64]]:
    """Ways to add that many resources up to one, each a sum of 1."""
    single = list(np.eye(number))
    steps = [step / (_MIXES + 1) for step in range(1, _MIXES + 1)]
    pairs = [(a, b) for a in range(number) for b in range(a)]
    return single + [s * single[a] + (1 - s) * single[b] for a, b in pairs for s in steps]
