"""Assigns individual pods to planned changes of edge pod counts, as migrations with the fewest
stopovers in the cloud.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, permutations, product

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, Resources
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.moving.edge_items import Item
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.migration_graph import break_cycles, find_needs
from kubedsm.optimizer.moving.move_order import Impasse, order_migrations
from kubedsm.optimizer.moving.suggestion import Move, MoveKind, Moves, count_stopovers
from kubedsm.plugins.feasibility import Feasibility

#: Maximum pairings of pods with places in the search for a pairing without a cycle.
_WAYS = 720
#: Choices of cloud pods to try where others wait for their capacity.
_FETCHES = 24

#: Pod and node.
_Place = tuple[Pod, NodeName]


def iterate_transfers(problem: EdgeProblem, changes: Ints) -> Iterator[tuple[Move, ...]]:
    """Yield alternative lists of migrations that produce the pod count changes, shape (nodes,
    groups of interchangeable pods).

    Within an item as many pods as possible stay on the edge; the surplus is pending pods, then pods
    from the cloud, or goes to the cloud. Without sufficient cloud capacity nothing is yielded.
    """
    differences = changes.sum(axis=0)
    counts = problem.cloud_counts(differences)
    if counts is None:
        return
    for items in _vary_fetched(problem, differences, waiting=not problem.cloud.holds(counts)):
        yield from islice(_assign_places(problem, items, changes), _WAYS)


def _vary_fetched(
    problem: EdgeProblem, differences: Ints, *, waiting: bool
) -> Iterator[tuple[Item, ...]]:
    """Yield the items; if cloud capacity is waited for, also with other cloud pods first."""
    yield problem.items
    if not waiting:
        return
    others = (
        item.fetching(number) if number > 0 else (item,)
        for item, number in zip(problem.items, differences.tolist(), strict=True)
    )
    yield from islice(product(*(islice(each, _FETCHES) for each in others)), _FETCHES)


def _assign_places(
    problem: EdgeProblem, items: Sequence[Item], changes: Ints
) -> Iterator[tuple[Move, ...]]:
    names = [node.name for node in problem.nodes]
    ways = []
    for index, item in enumerate(items):
        column = changes[:, index].tolist()
        removed = [
            (pod, name)
            for name, number in zip(names, column, strict=True)
            if number < 0
            for pod in item.here[name][:-number]
        ]
        places = [name for name, number in zip(names, column, strict=True) for _ in range(number)]
        if removed or places:
            ways.append(list(islice(_assign_item(item, removed, places), _WAYS)))
    for way in product(*ways):
        inside = [move for stays, _ in way for move in stays]
        away = [place for _, leaves in way for place in leaves]
        targets = place_in_cloud(problem, [pod for pod, _ in away], inside)
        if targets is None:
            return
        source = dict(away)
        leaving = (Move(p, source[p], n, MoveKind.EDGE_TO_CLOUD) for p, n in targets.items())
        yield (*inside, *leaving)


def place_in_cloud(
    problem: EdgeProblem, pods: Sequence[Pod], vacating: Iterable[Move] = ()
) -> dict[Pod, NodeName] | None:
    """Return a cloud node for each of the pods leaving the edge; None without sufficient capacity.

    Available capacity is tried first, then capacity released by the migrations.
    """
    packing = problem.cloud.packing
    kind_of = {pod.uid: item.cloud_kind for item in problem.items for pod in item.on_edge}
    chosen: list[list[Pod]] = [[] for _ in packing.kinds]
    for pod in pods:
        kind = kind_of[pod.uid]
        if kind is None:
            return None
        chosen[kind].append(pod)
    counts = np.array([len(each) for each in chosen], dtype=np.int64)
    loads = problem.cloud.loads(counts)
    if loads is None and vacating:
        coming = (move.pod for move in vacating if move.kind is MoveKind.CLOUD_TO_EDGE)
        loads = problem.cloud.after_leaving(problem.cloud_room(coming)).loads(counts)
    return None if loads is None else dict(packing.targets(loads, chosen))


def _assign_item(
    item: Item, removed: Sequence[_Place], places: Sequence[NodeName]
) -> Iterator[tuple[list[Move], list[_Place]]]:
    """Yield assignments of one item's pods to nodes: migrations within or to the edge, and the pods
    that leave the edge.
    """
    if len(removed) <= len(places):
        for order in _distinct_choices(places, len(removed)):
            kept = [places[at] for at in order]
            rest = [place for at, place in enumerate(places) if at not in order]
            yield [*_pair_inside(removed, kept), *_pair_arrivals(item, rest)], []
    else:
        for order in _distinct_choices([name for _, name in removed], len(places)):
            chosen = [removed[at] for at in order]
            rest_away = [place for at, place in enumerate(removed) if at not in order]
            yield _pair_inside(chosen, places), rest_away


def _distinct_choices(names: Sequence[NodeName], number: int) -> Iterator[tuple[int, ...]]:
    """Yield ordered choices of `number` names, as tuples of indices; choices that read the same are
    yielded once.
    """
    seen = set()
    for order in permutations(range(len(names)), number):
        reading = tuple(names[at] for at in order)
        if reading not in seen:
            seen.add(reading)
            yield order


def _pair_inside(removed: Iterable[_Place], places: Iterable[NodeName]) -> list[Move]:
    return [
        Move(pod, source, target, MoveKind.EDGE_TO_EDGE)
        for (pod, source), target in zip(removed, places, strict=True)
    ]


def _pair_arrivals(item: Item, places: Sequence[NodeName]) -> list[Move]:
    first = min(len(item.waiting), len(places))
    placed = [
        Move(pod, None, target, None)
        for pod, target in zip(item.waiting[:first], places[:first], strict=True)
    ]
    fetched = item.outside[: len(places) - first]
    return placed + [
        Move(pod, pod.node_name, target, MoveKind.CLOUD_TO_EDGE)
        for pod, target in zip(fetched, places[first:], strict=True)
    ]


#: Maximum pairings under rules between pods: pods of an item are equivalent.
_RULED_WAYS = 3


def pair_moves(problem: EdgeProblem, changes: Ints) -> Moves | Impasse | None:
    """Return the migrations with the fewest stopovers that produce the pod count changes, or why
    rules between pods forbid them.

    None if the cloud cannot hold the pods going or stopping over there. After the deadline, no
    further pairing is tried.
    """
    if problem.rules is not None:
        ways = islice(iterate_transfers(problem, changes), _RULED_WAYS)
        return _pair_under_rules(problem.rules.feasibility, ways, problem.room)
    best: Moves | None = None
    for moves in iterate_transfers(problem, changes):
        for found in _add_stopovers(problem, moves):
            if best is None or count_stopovers(found) < count_stopovers(best):
                best = found
            break
        if (best is not None and not count_stopovers(best)) or problem.bounds.deadline.passed:
            break
    return best


def _pair_under_rules(
    feasibility: Feasibility, ways: Iterable[Moves], free: Mapping[NodeName, Resources]
) -> Moves | Impasse | None:
    best: Moves | None = None
    impasse: Impasse | None = None
    for moves in ways:
        order = order_migrations(feasibility, moves, free)
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


def _add_stopovers(problem: EdgeProblem, moves: Moves) -> Iterator[Moves]:
    """Yield the migrations with stopovers in the cloud where cycles require them and cloud capacity
    permits.
    """
    away = [move.pod for move in moves if move.kind is MoveKind.EDGE_TO_CLOUD]
    needs = find_needs(moves, problem.room)
    for chosen in break_cycles(moves, needs, problem.bounds.deadline):
        if not chosen:
            yield moves
            continue
        nodes = place_in_cloud(problem, [*away, *(move.pod for move in chosen)])
        if nodes is not None:
            yield tuple(
                attrs.evolve(move, stopover=nodes[move.pod])
                if move in chosen
                else attrs.evolve(move, target=nodes.get(move.pod, move.target))
                for move in moves
            )
