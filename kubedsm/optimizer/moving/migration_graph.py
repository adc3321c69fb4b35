"""Migration graph: which migrations wait for which, their order, their groups and their cycles.

A migration holds capacity on its target from its start, and on its source until its old pod is
gone. So it can start at once if its target has room, and otherwise waits for the migrations that
leave its target. Migrations connected by waiting, in either direction, are a group. Cycles are
broken by stopovers: some pods leave their sources first, for a third node. Suggestions choose the
fewest stopovers; packing, where cycles are many, adds stopovers greedily.

networkx takes 0.15 s and 24 MB to import. Only the planner process calls these functions, so they
import networkx themselves.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations, islice
from typing import Any

import attrs

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
    sum_gains,
)
from kubedsm.plugins.fit import shortages

#: By pod, the pods whose migrations come first.
Needs = dict[Uid, frozenset[Uid]]
#: Return the stopover of a pod; None if no node can take the pod.
FindStopover = Callable[[Move], NodeName | None]

_NONE: frozenset[Uid] = frozenset()
#: Sets of migrations tried as stopovers.
_CHOICES = 512
#: Stopovers of one packing plan.
_STOPOVERS = 8


@attrs.frozen(eq=False)
class Order:
    """Feasible migrations and their dependencies."""

    moves: Moves = ()
    #: migrations that must have left their sources
    needs: Needs = attrs.field(factory=dict)
    #: migrations that must be over, because of rules between pods
    waits: Needs = attrs.field(factory=dict)

    @property
    def joined(self) -> Needs:
        return {uid: needed | self.waits.get(uid, _NONE) for uid, needed in self.needs.items()}

    def legs(self, moves: Sequence[Move]) -> tuple[Leg, ...]:
        """Return the legs of some of the migrations in topological order, ties by name.

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

    stopping: migrations with a stopover, which leave their sources at once: none waits for them.
    """
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(needs)
    graph.add_edges_from(
        (other, uid) for uid, others in needs.items() for other in others if other not in stopping
    )
    return graph


def list_startable(needs: Needs, stopping: Container[Uid] = ()) -> set[Uid]:
    """Return the migrations that are in no cycle and wait for no cycle (Kahn's algorithm)."""
    import networkx as nx

    startable = set[Uid]()
    with suppress(nx.NetworkXUnfeasible):
        for generation in nx.topological_generations(_dependency_graph(needs, stopping)):
            startable.update(generation)
    return startable


def _list_cyclic(moves: Iterable[Move], needs: Needs, stopping: Container[Uid] = ()) -> list[Move]:
    """Return the migrations in cycles, the strongly connected components; smallest pods first."""
    import networkx as nx

    graph = _dependency_graph(needs, stopping)
    components = (part for part in nx.strongly_connected_components(graph) if len(part) > 1)
    cyclic = {uid for part in components for uid in part}
    return sorted(
        (move for move in moves if move.pod.uid in cyclic),
        key=lambda move: (move.pod.requests.cpu, move.pod.requests.memory),
    )


def break_cycles(moves: Sequence[Move], needs: Needs) -> Iterator[Moves]:
    """Yield sets of migrations whose stopovers break all cycles: the fewest, the smallest first.

    Only migrations within the edge stop over.
    """
    inside = [m for m in _list_cyclic(moves, needs) if m.kind is MoveKind.EDGE_TO_EDGE]
    inside.sort(key=lambda move: (move.pod.requests.cpu, move.pod.requests.memory, str(move.pod)))
    choices = (c for n in range(len(inside) + 1) for c in combinations(inside, n))
    for chosen in islice(choices, _CHOICES):
        if len(list_startable(needs, {move.pod.uid for move in chosen})) == len(needs):
            yield chosen


def break_cycles_greedily(
    moves: Sequence[Move], needs: Needs, find_stopover: FindStopover
) -> tuple[dict[Uid, NodeName], set[Uid]]:
    """Give the smallest cyclic pod a stopover until no cycle is left; return what is startable."""
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
    """Return which migrations must have freed their capacity before each may start.

    Free capacity goes to migrations inside the edge first, since others may wait for them to
    leave, and then to the smallest. Every other migration waits for all that leave its target. If
    that makes a cycle, each waits for no more than it must.
    """
    needs: Needs = {}
    leaving: dict[NodeName, set[Uid]] = {}
    coming: dict[NodeName, list[Move]] = {}
    room = dict(free)
    for move in moves:
        coming.setdefault(move.target, []).append(move)
        if move.source is not None:
            leaving.setdefault(move.source, set()).add(move.pod.uid)
    for target, arriving in coming.items():
        for move in sorted(arriving, key=_serving_key):
            if shortages(move.pod.requests, room[target]):
                needs[move.pod.uid] = frozenset(leaving.get(target, ()))
            else:
                room[target] -= move.pod.requests
                needs[move.pod.uid] = frozenset()
    if len(list_startable(needs)) == len(needs):
        return needs
    return {**needs, **_find_least_needs(moves, {u for u in needs if not needs[u]}, room, leaving)}


def _find_least_needs(
    moves: Sequence[Move],
    over: set[Uid],
    room: dict[NodeName, Resources],
    leaving: Mapping[NodeName, set[Uid]],
) -> Needs:
    """Return the needs if each migration starts as soon as its target has room.

    Of two with one target, the later waits for all that the earlier does, so that there is room for
    both in any order. Migrations that never start are left out.
    over: migrations without needs. room: capacity that these leave free.
    """
    needs: Needs = {}
    gone: set[Uid] = set()
    left = sorted((move for move in moves if move.pod.uid not in over), key=_serving_key)
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


def _serving_key(move: Move) -> tuple[bool, int, int, str, str]:
    requests = move.pod.requests
    inside = move.kind is MoveKind.EDGE_TO_EDGE
    return not inside, requests.cpu, requests.memory, move.pod.namespace, move.pod.name


def group_migrations(moves: Sequence[Move], needs: Needs, gains: Gains) -> list[Moves]:
    """Return the connected components, in the order of their first migrations.

    A component without benefit of its own, because what it gives up pays only with what another
    gains for the same workload, is joined to the other.
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
                if not is_worthwhile(sum_gains(gains, group), group)
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
    """Return the connected components of nodes, each given sequence being one connected path."""
    import networkx as nx

    graph = nx.Graph()
    for nodes in linked:
        nx.add_path(graph, nodes)
    return list(nx.connected_components(graph))
