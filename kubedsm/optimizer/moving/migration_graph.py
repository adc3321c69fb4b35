"""Migration graph: dependencies between migrations, topological order, groups and cycles.

A migration occupies capacity on the target from the start, and on the source until the old pod is
deleted. With sufficient capacity on the target it starts immediately, and otherwise waits for the
migrations leaving the target. Connected components of the dependencies are groups. Cycles are
broken by stopovers: some pods leave their sources first, for a third node. Suggestions choose the
fewest stopovers; packing, where cycles are many, adds stopovers greedily.

networkx takes 0.15 s and 24 MB to import. Only the planner process calls functions with
networkx, and imports the library at the first call.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import attrs

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import NodeName, Resources, Uid, Workload
from kubedsm.objective.gains import Gains
from kubedsm.optimizer.moving.suggestion import (
    Leg,
    Move,
    MoveKind,
    Moves,
    count_edge_changes,
    first_leg,
    is_worthwhile,
    order_legs,
    split_into_legs,
)
from kubedsm.plugins.fit import shortages

#: By pod, the pods whose migrations come first.
Needs = dict[Uid, frozenset[Uid]]
#: Return the stopover of a pod; None if no node can take the pod.
FindStopover = Callable[[Move], NodeName | None]

_NONE: frozenset[Uid] = frozenset()
#: Sets of migrations tried as stopovers.
_CHOICES = 512
#: Steps of work for a migration in a set.
_CHOICE_STEPS = 20_000
#: Maximum stopovers of a packing plan.
_STOPOVERS = 8


@attrs.frozen(eq=False)
class Order:
    """Execution order of migrations: feasible migrations, and the migrations that each has to wait
    for.
    """

    moves: Moves = ()
    #: prerequisites: migrations with completed departure
    needs: Needs = attrs.field(factory=dict)
    #: prerequisites due to rules between pods: completed migrations
    waits: Needs = attrs.field(factory=dict)

    @property
    def joined(self) -> Needs:
        return {uid: needed | self.waits.get(uid, _NONE) for uid, needed in self.needs.items()}

    def legs(self, moves: Sequence[Move]) -> tuple[Leg, ...]:
        """Return the steps of some of the migrations in topological order, ties by name.

        Migrations are left out by groups, so no leg needs capacity that no leg frees.
        """
        by_uid = {move.pod.uid: move for move in moves if move.source is not None}
        legs: list[Leg] = []
        for uid, move in by_uid.items():
            needs = {first_leg(by_uid[other]) for other in self.needs[uid] & by_uid.keys()}
            waits = {str(by_uid[o].pod) for o in self.waits.get(uid, _NONE) & by_uid.keys()}
            legs += split_into_legs(move, frozenset(needs | waits))
        return order_legs(legs)


def _dependency_graph(needs: Mapping[Any, Iterable[Any]], stopping: Container[Uid] = ()) -> Any:
    """Return the directed graph with an edge from every needed migration to the waiting one.

    stopping: migrations with a stopover: their departure is immediate, without dependants.
    """
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(needs)
    graph.add_edges_from(
        (other, uid) for uid, others in needs.items() for other in others if other not in stopping
    )
    return graph


def list_startable(needs: Needs, stopping: Container[Uid] = ()) -> set[Uid]:
    """Return the migrations that do not wait in a cycle for each other, by topological generations
    (Kahn's algorithm).
    """
    import networkx as nx

    startable = set[Uid]()
    with suppress(nx.NetworkXUnfeasible):
        for generation in nx.topological_generations(_dependency_graph(needs, stopping)):
            startable.update(generation)
    return startable


def _find_cycles(needs: Needs, stopping: Container[Uid] = ()) -> list[set[Uid]]:
    """Return the sets of migrations that wait in cycles for each other: the strongly connected
    components.
    """
    import networkx as nx

    graph = _dependency_graph(needs, stopping)
    return [part for part in nx.strongly_connected_components(graph) if len(part) > 1]


def _list_cyclic(moves: Iterable[Move], needs: Needs, stopping: Container[Uid] = ()) -> list[Move]:
    """Return the migrations in cycles, smallest pods first."""
    cyclic = set[Uid]().union(*_find_cycles(needs, stopping))
    return sorted(
        (move for move in moves if move.pod.uid in cyclic),
        key=lambda move: (move.pod.requests.cpu, move.pod.requests.memory),
    )


def break_cycles(
    moves: Sequence[Move], needs: Needs, deadline: Deadline = NO_DEADLINE
) -> Iterator[Moves]:
    """Yield sets of migrations that break all dependency cycles by a stopover in the cloud: the
    fewest, the smallest first.

    Only migrations within the edge stop over. After the deadline no further set is tried. Separate
    cycles need a stopover each: sets that leave more cycles than stopovers are not completed.
    """
    inside = [m for m in _list_cyclic(moves, needs) if m.kind is MoveKind.EDGE_TO_EDGE]
    inside.sort(key=lambda move: (move.pod.requests.cpu, move.pod.requests.memory, str(move.pod)))
    tries, single = _CHOICES, len(_find_cycles(needs)) <= 1

    def complete(chosen: Moves, number: int, rest: Moves, *, single: bool) -> Iterator[Moves]:
        """Yield the sets of the chosen migrations and a number of others of the rest.

        single: there is one cycle at most, so only whole sets are tried.
        """
        nonlocal tries
        if not (single and number):
            if not tries:
                return
            cycles = _find_cycles(needs, {move.pod.uid for move in chosen})
            if not (number or cycles):
                yield chosen
            tries = 0 if deadline.spend(_CHOICE_STEPS * len(moves)) else tries - 1
            left = {move.pod.uid for move in rest}
            if len(cycles) > number or any(left.isdisjoint(cycle) for cycle in cycles):
                return
            single = len(cycles) <= 1
        for at, move in enumerate(rest[: len(rest) - number + 1] if number else ()):
            yield from complete((*chosen, move), number - 1, rest[at + 1 :], single=single)

    for number in range(len(inside) + 1):
        yield from complete((), number, tuple(inside), single=single)


def break_cycles_greedily(
    moves: Sequence[Move], needs: Needs, find_stopover: FindStopover
) -> tuple[dict[Uid, NodeName], set[Uid]]:
    """Give the smallest pods in dependency cycles a stopover in the cloud; return the stopovers and
    the migrations that can then start.
    """
    stopovers: dict[Uid, NodeName] = {}
    while len(stopovers) < _STOPOVERS:
        for move in _list_cyclic(moves, needs, stopovers):
            node = None if move.pod.uid in stopovers else find_stopover(move)
            if node is not None:
                stopovers[move.pod.uid] = node
                break
        else:
            break
    return stopovers, list_startable(needs, stopovers)


def find_needs(moves: Sequence[Move], free: Mapping[NodeName, Resources]) -> Needs:
    """Return, for each migration, the other migrations whose departing pods must first release the
    capacity.

    Available capacity is assigned to migrations inside the edge first, whose departures release
    capacity: first to those from nodes short of capacity, then to the smallest. Every other
    migration waits for all departures from the target. In case of a cycle, dependencies are reduced
    to the necessary departures.
    """
    needs: Needs = {}
    leaving: dict[NodeName, set[Uid]] = {}
    room = dict(free)
    for move in moves:
        room[move.target] -= move.pod.requests
        if move.source is not None:
            leaving.setdefault(move.source, set()).add(move.pod.uid)
    targets = {move.target for move in moves}
    short = {name for name in targets if min(dict(room[name].items()).values()) < 0}
    moves = sorted(moves, key=partial(_serving_key, short))
    room = dict(free)
    for move in moves:
        if shortages(move.pod.requests, room[move.target]):
            needs[move.pod.uid] = frozenset(leaving.get(move.target, ()))
        else:
            room[move.target] -= move.pod.requests
            needs[move.pod.uid] = frozenset()
    if len(list_startable(needs)) == len(needs):
        return needs
    return {**needs, **_find_least_needs(moves, {u for u in needs if not needs[u]}, room, leaving)}


def fit_together(moves: Collection[Move], free: Mapping[NodeName, Resources]) -> bool:
    """Return True if the targets have capacity for all arrivals, once all departures are over."""
    room = dict(free)
    for move in moves:
        if move.source is not None:
            room[move.source] += move.pod.requests
    for move in moves:
        if shortages(move.pod.requests, room[move.target]):
            return False
        room[move.target] -= move.pod.requests
    return True


def _find_least_needs(
    moves: Sequence[Move],
    over: set[Uid],
    room: dict[NodeName, Resources],
    leaving: Mapping[NodeName, set[Uid]],
) -> Needs:
    """Return the prerequisites for migrations starting as early as capacity permits.

    Of two migrations with a common target, the later waits for all prerequisites of the earlier:
    capacity is sufficient in any order. Migrations without a possible start are dropped.
    moves: in the order in which they get capacity. over: migrations without prerequisites. room:
    remaining capacity.
    """
    needs: Needs = {}
    gone: set[Uid] = set()
    left = [move for move in moves if move.pod.uid not in over]
    by_uid = {move.pod.uid: move for move in moves}
    while over != gone:
        for uid in over - gone:
            source = by_uid[uid].source
            if source is not None:
                room[source] += by_uid[uid].pod.requests
        gone = set(over)
        for move in left:
            target, uid = move.target, move.pod.uid
            if uid not in over and not shortages(move.pod.requests, room[target]):
                needs[uid] = frozenset(leaving.get(target, set()) & gone)
                room[target] -= move.pod.requests
                over.add(uid)
    return needs


def _serving_key(short: Container[NodeName], move: Move) -> tuple[bool, bool, int, int, str, str]:
    """Sort key of migrations in the order in which they get capacity."""
    pod, inside = move.pod, move.kind is MoveKind.EDGE_TO_EDGE
    awaited = inside and move.source in short
    return not inside, not awaited, pod.requests.cpu, pod.requests.memory, pod.namespace, pod.name


def group_migrations(moves: Sequence[Move], needs: Needs, gains: Gains) -> list[Moves]:
    """Return groups of migrations that depend on each other (connected components), ordered by
    first migration.

    A component without individual benefit, whose departures are compensated by another component
    for the same workload, is joined to the other component.
    """
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(move.pod.uid for move in moves)
    graph.add_edges_from((uid, other) for uid, others in needs.items() for other in others)
    while True:
        components = list(nx.connected_components(graph))
        groups = [tuple(m for m in moves if m.pod.uid in component) for component in components]
        weak = next(
            (
                (group, other)
                for group in groups
                if not is_worthwhile(gains, group)
                for other in groups
                if other is not group and _list_changed(group) & _list_changed(other)
            ),
            None,
        )
        if weak is None:
            return groups
        graph.add_edge(weak[0][0].pod.uid, weak[1][0].pod.uid)


def _list_changed(moves: Iterable[Move]) -> frozenset[Workload]:
    return frozenset(workload for workload, change in count_edge_changes(moves).items() if change)


def connect_nodes(linked: Iterable[Sequence[NodeName]]) -> list[set[NodeName]]:
    """Return the connected components of a graph, given as paths of connected nodes."""
    import networkx as nx

    graph = nx.Graph()
    for nodes in linked:
        nx.add_path(graph, nodes)
    return list(nx.connected_components(graph))
