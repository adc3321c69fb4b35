"""Assigns individual pods to planned changes of edge pod counts, as migrations with the fewest
stopovers in the cloud.
"""

from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, Resources
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.moving.edge_items import Item
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.migration_graph import Order, break_cycles, find_needs
from kubedsm.optimizer.moving.move_order import PAIR_STEPS, Impasse, order_migrations
from kubedsm.optimizer.moving.suggestion import Move, MoveKind, Moves

#: Pod and node.
_Place = tuple[Pod, NodeName]


def assign_pods(problem: EdgeProblem, changes: Ints) -> Moves | None:
    """Return migrations that produce the pod count changes, shape (nodes, groups of interchangeable
    pods); None without sufficient cloud capacity.

    Within an item as many pods as possible stay on the edge; the surplus is pending pods, then pods
    from the cloud, or goes to the cloud. Departures from nodes short of capacity wait for the
    fewest others: they go to the cloud, or to nodes with free capacity.
    """
    if problem.cloud_counts(changes.sum(axis=0)) is None:
        return None
    names = [node.name for node in problem.nodes]
    left = problem.free - np.maximum(changes, 0) @ problem.requests
    short = {name: min(row) < 0 for name, row in zip(names, left.tolist(), strict=True)}
    inside: list[Move] = []
    away: list[_Place] = []
    for item, column in zip(problem.items, changes.T.tolist(), strict=True):
        removed = [
            (pod, name)
            for name, number in zip(names, column, strict=True)
            if number < 0
            for pod in item.here[name][:-number]
        ]
        places = [name for name, number in zip(names, column, strict=True) for _ in range(number)]
        staying = min(len(removed), len(places))
        places.sort(key=short.__getitem__)
        removed.sort(key=lambda place: short[place[1]])
        removed[:staying] = sorted(removed[:staying], key=lambda place: not short[place[1]])
        inside += _pair_inside(removed[:staying], places[:staying])
        inside += _pair_arrivals(item, places[staying:])
        away += removed[staying:]
    targets = place_in_cloud(problem, [pod for pod, _ in away], inside)
    if targets is None:
        return None
    source = dict(away)
    leaving = (Move(p, source[p], n, MoveKind.EDGE_TO_CLOUD) for p, n in targets.items())
    return (*inside, *leaving)


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


def pair_moves(problem: EdgeProblem, changes: Ints) -> Order | Impasse | None:
    """Return the migrations with the fewest stopovers that produce the pod count changes, in a
    feasible order, or why rules between pods forbid them.

    None if the cloud cannot hold the pods going or stopping over there.
    """
    moves = assign_pods(problem, changes)
    if moves is None:
        return None
    if problem.rules is None:
        return _add_stopovers(problem, moves)
    problem.bounds.deadline.spend(PAIR_STEPS * len(moves) ** 2)
    order = order_migrations(problem.rules.feasibility, moves, problem.snapshot.free)
    # Where room in the cloud is waited for, other moves may do without.
    stuck = isinstance(order, Impasse) and order.stuck
    return None if stuck and _waits_for_the_cloud(moves, problem.snapshot.free) else order


def _waits_for_the_cloud(moves: Moves, free: Mapping[NodeName, Resources]) -> bool:
    needs = find_needs(moves, free)
    return any(move.kind is MoveKind.EDGE_TO_CLOUD and needs[move.pod.uid] for move in moves)


def _add_stopovers(problem: EdgeProblem, moves: Moves) -> Order | None:
    """Return the migrations with stopovers in the cloud where cycles require them; None without
    sufficient cloud capacity.
    """
    away = [move.pod for move in moves if move.kind is MoveKind.EDGE_TO_CLOUD]
    needs = find_needs(moves, problem.snapshot.free)
    for chosen in break_cycles(moves, needs, problem.bounds.deadline):
        if not chosen:
            return Order(moves, needs)
        nodes = place_in_cloud(problem, [*away, *(move.pod for move in chosen)])
        if nodes is not None:
            moves = tuple(
                attrs.evolve(move, stopover=nodes[move.pod])
                if move in chosen
                else attrs.evolve(move, target=nodes.get(move.pod, move.target))
                for move in moves
            )
            return Order(moves, find_needs(moves, problem.snapshot.free))
    return None
