"""What is free on each node, as columns made when first asked for."""

from collections.abc import Iterable, Mapping
from typing import Self

from kubedsm.model.model import NodeName, Resources
from kubedsm.model.node_index import Ints, Mask, NodeIndex, clipped, column_of


class Room:
    """Free resources by position of the node. It never changes: a change makes another.

    Making another costs copies of the columns, not a look at every node.
    """

    def __init__(
        self,
        nodes: NodeIndex,
        free: Mapping[NodeName, Resources],
        columns: Mapping[str, Ints] | None = None,
        otherwise: Mapping[int, Resources] | None = None,
    ) -> None:
        """free: of these nodes, but where it says otherwise; nobody may change it any more."""
        self._nodes = nodes
        self._free = free
        self._columns = dict(columns or {})
        self._otherwise = otherwise or {}

    def of(self, position: int) -> Resources:
        if position in self._otherwise:
            return self._otherwise[position]
        return self._free[self._nodes.names[position]]

    def column(self, resource: str) -> Ints:
        """The free amount of that resource on each node."""
        column = self._columns.get(resource)
        if column is None:
            column = column_of(map(self.of, range(len(self._nodes))), resource)
            self._columns[resource] = column
        return column

    def short(self, requests: Resources) -> Mask:
        """The nodes that have too little of something that is requested."""
        short = self._nodes.none()
        for resource, amount in requests.items():
            if amount:
                short |= self.column(resource) < amount
        return short

    def changed(self, position: int, free: Resources) -> Self:
        """The same, with so much free on one node."""
        columns = self._with({position: free})
        return type(self)(self._nodes, self._free, columns, {**self._otherwise, position: free})

    def now(self, free: Mapping[NodeName, Resources], changed: Iterable[NodeName]) -> Self:
        """The same nodes with what is free there now; it differs on those that changed at most."""
        positions = self._nodes.positions
        columns = self._with({positions[name]: free[name] for name in changed})
        return type(self)(self._nodes, free, columns)

    def _with(self, free: Mapping[int, Resources]) -> dict[str, Ints]:
        columns = {resource: column.copy() for resource, column in self._columns.items()}
        for position, of_node in free.items():
            amounts = dict(of_node.items())
            for resource, column in columns.items():
                column[position] = clipped(amounts.get(resource, 0))
        return columns
