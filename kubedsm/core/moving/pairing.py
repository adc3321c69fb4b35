"""Carrying out a change of the edge so that, if possible, no moves need each other's room."""

from collections.abc import Iterable, Mapping
from itertools import islice

import attrs
import numpy as np

from kubedsm.core.goals.fragmentation import Ints
from kubedsm.core.moving.edge_problem import EdgeProblem
from kubedsm.core.moving.move_groups import cycles, needs_of
from kubedsm.core.moving.move_order import RefusedMove, order_of
from kubedsm.core.moving.suggestion import MoveKind
from kubedsm.core.moving.transfers import Transfer, transfers
from kubedsm.core.rules.feasibility import Feasibility
from kubedsm.core.world.model import NodeName, Resources, Uid

#: Under rules, the ways that are looked at: the pods of an item are the same to all rules.
_RULED_WAYS = 3


@attrs.frozen(eq=False)
class Pairing:
    moves: tuple[Transfer, ...]
    cycles: tuple[frozenset[Uid], ...]


def pair(
    problem: EdgeProblem, changes: Ints, free: Mapping[NodeName, Resources]
) -> Pairing | RefusedMove | None:
    """The way with the fewest cycles, or how far the rules about other pods let it come.

    None if the cloud cannot hold what it would have to: what goes there, and one pod of each
    cycle on its way through.
    """
    if problem.rules is not None:
        ways = islice(transfers(problem, changes), _RULED_WAYS)
        return _allowed(problem.rules.feasibility, ways, free)
    best = None
    for moves in transfers(problem, changes):
        found = tuple(cycles(needs_of(moves, free)))
        if not found:
            return Pairing(moves, ())
        if (best is None or len(found) < len(best.cycles)) and _breakable(problem, moves, found):
            best = Pairing(moves, found)
    return best


def _allowed(
    feasibility: Feasibility,
    ways: Iterable[tuple[Transfer, ...]],
    free: Mapping[NodeName, Resources],
) -> Pairing | RefusedMove | None:
    best: Pairing | None = None
    refusal: RefusedMove | None = None
    for moves in ways:
        order = order_of(feasibility, moves, free)
        if isinstance(order, RefusedMove):
            refusal = refusal or order
            continue
        found = Pairing(order.moves, tuple(cycles(order.needs)))
        if best is None or len(found.cycles) < len(best.cycles):
            best = found
        if not best.cycles:
            break
    return best or refusal


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
