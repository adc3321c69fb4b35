"""What is free on each node, as columns made when first asked for."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kubedsm.core.world.model import Resources

#: what every pod asks for, or may
BASIC_RESOURCES = ("cpu", "memory", "pods")
#: 64 bits hold no amount beyond this.
_LARGEST = 2**63 - 1


def _clipped(amount: int) -> int:
    return min(max(amount, -_LARGEST), _LARGEST)


def _amounts(free: Sequence[Resources], resource: str) -> list[int]:
    match resource:
        case "cpu":
            return [resources.cpu for resources in free]
        case "memory":
            return [resources.memory for resources in free]
        case "pods":
            return [resources.pods for resources in free]
    return [resources.amount(resource) for resources in free]


class Room:
    """Free resources by position of the node. It never changes: a change makes another."""

    def __init__(
        self, free: Iterable[Resources], columns: Mapping[str, NDArray[np.int64]] | None = None
    ) -> None:
        self._free = tuple(free)
        self._columns = dict(columns or {})
        # So that the first pod that is asked about need not wait for it.
        for resource in BASIC_RESOURCES:
            self._column(resource)

    def of(self, position: int) -> Resources:
        return self._free[position]

    def _column(self, resource: str) -> NDArray[np.int64]:
        """The free amount of that resource on each node."""
        column = self._columns.get(resource)
        if column is None:
            amounts = _amounts(self._free, resource)
            if amounts and not (-_LARGEST <= min(amounts) <= max(amounts) <= _LARGEST):
                amounts = [_clipped(amount) for amount in amounts]
            column = np.array(amounts, dtype=np.int64)
            self._columns[resource] = column
        return column

    def short(self, requests: Resources) -> NDArray[np.bool_]:
        """The nodes that have too little of something that is requested."""
        short = np.zeros(len(self._free), dtype=np.bool_)
        for resource, amount in requests.items():
            if amount:
                short |= self._column(resource) < amount
        return short

    def changed(self, position: int, free: Resources) -> Self:
        """The same, with so much free on one node."""
        columns = {resource: column.copy() for resource, column in self._columns.items()}
        amounts = dict(free.items())
        for resource, column in columns.items():
            column[position] = _clipped(amounts.get(resource, 0))
        return type(self)((*self._free[:position], free, *self._free[position + 1 :]), columns)
