"""Carrying out a change of the edge so that, if possible, no moves need each other's room."""

from collections.abc import Mapping

import attrs
import numpy as np

from kubedsm.core.edge_problem import EdgeProblem
from kubedsm.core.fragmentation import Ints
from kubedsm.core.model import NodeName, Resources, Uid
from kubedsm.core.move_groups import cycles, needs_of
from kubedsm.core.suggestion import MoveKind
from kubedsm.core.transfers import Transfer, transfers


@attrs.frozen(eq=False)
class Pairing:
    moves: tuple[Transfer, ...]
    cycles: tuple[frozenset[Uid], ...]


def pair(problem: EdgeProblem, changes: Ints, free: Mapping[NodeName, Resources]) -> Pairing | None:
    """The way with the fewest cycles; None if the cloud cannot hold what it would have to.

    That is what goes there, and one pod of each cycle on its way through.
    """
    best = None
    for moves in transfers(problem, changes):
        found = tuple(cycles(needs_of(moves, free)))
        if not found:
            return Pairing(moves, ())
        if (best is None or len(found) < len(best.cycles)) and _breakable(problem, moves, found):
            best = Pairing(moves, found)
    return best


def _breakable(
    problem: EdgeProblem, moves: tuple[Transfer, ...], found: tuple[frozenset[Uid], ...]
) -> bool:
    packing = problem.cloud.packing
    kind_of = {pod.uid: index for index, kind in enumerate(packing.kinds) for pod in kind.pods}
    counts = np.zeros(len(packing.kinds), dtype=np.int64)
    for move in moves:
        if move.kind is MoveKind.EDGE_TO_CLOUD:
            counts[kind_of[move.pod.uid]] += 1
    for cycle in found:
        for kind in sorted({kind_of[uid] for uid in cycle if uid in kind_of}):
            counts[kind] += 1
            if problem.cloud.holds(counts):
                break
            counts[kind] -= 1
        else:
            return False
    return True
