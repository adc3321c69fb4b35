"""In which order moves go: free before fill, and no circle of moves that wait for each other.

A circle is broken through the cloud: one of its pods goes there first, and on to its target when
the others have made room. Both legs are moves.
"""

from collections.abc import Callable, Mapping, Sequence

import attrs
import networkx as nx

from plans.migration import MoveOrder


@attrs.frozen(slots=True)
class Ordered:
    orders: tuple[MoveOrder, ...]
    #: why nothing is done, if a circle cannot be broken
    impossible: str = ""


def ordered(
    orders: Sequence[MoveOrder],
    size: Mapping[str, float],
    detour: Callable[[MoveOrder], str | None],
) -> Ordered:
    """Break the circles of a group of moves: orders that can all be carried out, or the reason.

    `size` is of each move's pod; `detour` names the cloud node that could hold it for a while,
    and is asked for the smallest pod of a circle first.
    """
    by_id = {order.id: order for order in orders}
    while circle := _circle(by_id):
        for order in sorted(circle, key=lambda o: (size[o.id], o.id)):
            stopover = detour(order)
            if stopover is not None and not order.second_leg_of:
                by_id |= _through(order, stopover, by_id)
                break
        else:
            names = ", ".join(order.id for order in circle)
            return Ordered((), f"moves wait for each other, and the cloud holds none: {names}")
    graph = _graph(by_id)
    return Ordered(tuple(by_id[name] for name in nx.lexicographical_topological_sort(graph)))


def stages(orders: Sequence[MoveOrder]) -> list[list[str]]:
    """The moves that may go at once, then those that need them, and so on."""
    graph = _graph({order.id: order for order in orders})
    return [sorted(generation) for generation in nx.topological_generations(graph)]


def _graph(by_id: Mapping[str, MoveOrder]) -> "nx.DiGraph[str]":
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(by_id)
    for order in by_id.values():
        graph.add_edges_from((needed, order.id) for needed in order.needs if needed in by_id)
        if order.second_leg_of:
            graph.add_edge(order.second_leg_of, order.id)
    return graph


def _circle(by_id: Mapping[str, MoveOrder]) -> list[MoveOrder]:
    try:
        return [by_id[source] for source, _ in nx.find_cycle(_graph(by_id))]
    except nx.NetworkXNoCycle:
        return []


def _through(
    order: MoveOrder, stopover: str, by_id: Mapping[str, MoveOrder]
) -> dict[str, MoveOrder]:
    """Both legs; moves that waited for the move's room wait for the first of them."""
    first = attrs.evolve(order, id=f"{order.id}-out", target=stopover, needs=frozenset())
    second = attrs.evolve(order, pod="", second_leg_of=first.id)
    renamed = {
        other.id: attrs.evolve(
            other,
            needs=frozenset(first.id if name == order.id else name for name in other.needs),
        )
        for other in by_id.values()
        if order.id in other.needs
    }
    return {**renamed, first.id: first, order.id: second}
