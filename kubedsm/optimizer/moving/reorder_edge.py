"""Algorithm 6: a few moves inside the edge that leave the least fragmentation.

The paper tries every choice of pods and every order of putting them back. Pods of an item are
interchangeable, so one DP over the nodes does: its states are how many pods of each item have
been put down more often than taken up so far, and how many were touched in all. In the end none
is missing, and the number of moves is half of the touches: up to `most`, as the text says, where
the listing has "less than".
"""

import numpy as np

from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds
from kubedsm.optimizer.matching.node_walk import walk
from kubedsm.optimizer.moving.edge_changes import (
    Changes,
    changes_within,
    fragmentation_changes,
    options_of,
)
from kubedsm.optimizer.moving.edge_problem import EdgeProblem


def reorder_edge(
    problem: EdgeProblem, free: Ints, present: Ints, most: int, bounds: Bounds
) -> Ints | None:
    """What comes to and leaves each node, N x I; None beyond the bounds.

    free: N x R. present: N x I, the pods that may be moved. Of equally little fragmentation the
    fewest moves.
    """
    everything = np.minimum(present.sum(axis=0), most)
    vectors = changes_within(-everything, everything, most, bounds.loads)
    if vectors is None:
        return None
    changes = Changes.of(vectors)
    everywhere = np.arange(len(problem.nodes))
    possible = changes.possible(problem, everywhere, present, free) & (changes.touched > 0)
    # What is missing from the edge must be put back, one touch a pod, before the touches run out.
    spans = [
        (at, touches)
        for at, touched in enumerate(changes.touched.tolist())
        for touches in range(touched, 2 * most - touched + 1, 2)
    ]
    if len(spans) * (len(problem.nodes) + 1) > bounds.states or int(possible.sum()) > bounds.loads:
        return None
    which, touches = np.array(spans, dtype=np.int64).T
    states = np.column_stack((vectors[which], touches))
    nodes, kept = possible.nonzero()
    added = fragmentation_changes(problem, nodes, free, vectors[kept])
    options = options_of(possible, np.column_stack((vectors, changes.touched)), added)
    walked = walk(states, np.full(len(states), UNREACHABLE), options, bounds)
    if walked is None:
        return None
    whole = np.flatnonzero(~vectors[which].any(axis=1))
    best = int(whole[np.lexsort((touches[whole], walked.costs[whole]))[0]])
    reordered = np.zeros_like(present)
    for node, vector in enumerate(walked.choices(best)):
        if vector is not None:
            reordered[node] = vector[:-1]
    return reordered
