"""Carrying out a change of the edge so that, if possible, no moves need each other's room."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import attrs

from kubedsm.model.model import NodeName, Resources
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.migration_graph import break_cycles, find_needs
from kubedsm.optimizer.moving.move_order import Impasse, order_of
from kubedsm.optimizer.moving.suggestion import MoveKind, Moves, count_stopovers
from kubedsm.optimizer.moving.transfers import in_cloud, transfers
from kubedsm.plugins.feasibility import Feasibility

#: Under rules, the ways that are looked at: the pods of an item are the same to all rules.
_RULED_WAYS = 3


def pair(problem: EdgeProblem, changes: Ints) -> Moves | Impasse | None:
    """The way with the fewest stopovers, or how far the rules about other pods let it come.

    None if the cloud cannot hold what it would have to: what goes there, and what stops over.
    """
    if problem.rules is not None:
        ways = islice(transfers(problem, changes), _RULED_WAYS)
        return _allowed(problem.rules.feasibility, ways, problem.room)
    best: Moves | None = None
    for moves in transfers(problem, changes):
        for found in _startable(problem, moves):
            if best is None or count_stopovers(found) < count_stopovers(best):
                best = found
            break
        if best is not None and not count_stopovers(best):
            break
    return best


def _allowed(
    feasibility: Feasibility, ways: Iterable[Moves], free: Mapping[NodeName, Resources]
) -> Moves | Impasse | None:
    best: Moves | None = None
    impasse: Impasse | None = None
    for moves in ways:
        order = order_of(feasibility, moves, free)
        if isinstance(order, Impasse):
            # Where room in the cloud is waited for, other moves may do without.
            if not (order.stuck and _waits_for_the_cloud(moves, free)):
                impasse = impasse or order
        elif best is None or count_stopovers(order.moves) < count_stopovers(best):
            best = order.moves
        if best is not None and not count_stopovers(best):
            break
    return best or impasse


def _waits_for_the_cloud(moves: Moves, free: Mapping[NodeName, Resources]) -> bool:
    needs = find_needs(moves, free)
    return any(move.kind is MoveKind.EDGE_TO_CLOUD and needs[move.pod.uid] for move in moves)


def _startable(problem: EdgeProblem, moves: Moves) -> Iterator[Moves]:
    """The same with stopovers where they are needed, as far as the cloud holds all that comes."""
    away = [move.pod for move in moves if move.kind is MoveKind.EDGE_TO_CLOUD]
    for chosen in break_cycles(moves, find_needs(moves, problem.room)):
        if not chosen:
            yield moves
            continue
        nodes = in_cloud(problem, [*away, *(move.pod for move in chosen)])
        if nodes is not None:
            yield tuple(
                attrs.evolve(move, stopover=nodes[move.pod])
                if move in chosen
                else attrs.evolve(move, target=nodes.get(move.pod, move.target))
                for move in moves
            )
