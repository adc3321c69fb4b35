"""What is free on each node, as columns made when first asked for."""

from collections.abc import Iterable, Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kubedsm.core.model import Resources

#: 64 bits hold no amount beyond this.
_LARGEST = 2**63 - 1


def _clipped(amount: int) -> int:
    return min(max(amount, -_LARGEST), _LARGEST)


class Room:
    """Free resources by position of the node. It never changes: a change makes another."""

    def __init__(
        self, free: Iterable[Resources], columns: Mapping[str, NDArray[np.int64]] | None = None
    ) -> None:
        self._free = tuple(free)
        self._columns = dict(columns or {})

    def of(self, position: int) -> Resources:
        return self._free[position]

    def column(self, resource: str) -> NDArray[np.int64]:
        """The free amount of that resource on each node."""
        column = self._columns.get(resource)
        if column is None:
            amounts = (_clipped(free.amount(resource)) for free in self._free)
            column = np.fromiter(amounts, np.int64, len(self._free))
            self._columns[resource] = column
        return column

    def changed(self, position: int, free: Resources) -> Self:
        """The same, with so much free on one node."""
        columns = {resource: column.copy() for resource, column in self._columns.items()}
        for resource, column in columns.items():
            column[position] = _clipped(free.amount(resource))
        return type(self)((*self._free[:position], free, *self._free[position + 1 :]), columns)
