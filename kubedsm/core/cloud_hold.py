"""Whether the cloud can hold what leaves the edge, and where.

In the room that is free there now: what leaves the cloud in the same suggestion holds its room
until it is gone, so that nothing may count on it.
"""

import attrs
import numpy as np

from kubedsm.core.cloud import least_allocated
from kubedsm.core.fragmentation import Ints
from kubedsm.core.match import UNREACHABLE, Bounds, tabulate
from kubedsm.core.packing import Packing


class CloudHold:
    def __init__(self, packing: Packing, bounds: Bounds) -> None:
        """`packing`: every pod that might leave the edge, and the cloud nodes."""
        self.packing = packing
        self._bounds = bounds
        self._known: dict[bytes, Ints | None] = {}
        self._most: Ints | None = None
        #: False once it could not be told whether some pods can be held
        self.certain = True

    def promise(self, most: int) -> None:
        """Find out at once whether any so many pods of each kind can be held."""
        counts = np.minimum(self.packing.counts, most)
        if int(least_allocated(self.packing, counts).sum()) == int(counts.sum()):
            self._most = counts

    def holds(self, counts: Ints) -> bool:
        """Whether so many pods of each kind find room together."""
        if not counts.any():
            return True
        if self._most is not None and bool((counts <= self._most).all()):
            return True
        return self.loads(counts) is not None

    def loads(self, counts: Ints) -> Ints | None:
        """A placement of so many pods of each kind; None if there is none.

        Where least is allocated; packed exactly if that leaves pods out.
        """
        key = counts.tobytes()
        if key not in self._known:
            spread = least_allocated(self.packing, counts)
            complete = int(spread.sum()) == int(counts.sum())
            self._known[key] = spread if complete else self._packed(counts)
        return self._known[key]

    def _packed(self, counts: Ints) -> Ints | None:
        table = tabulate(attrs.evolve(self.packing, counts=counts), None, self._bounds)
        if table is None:
            self.certain = False
            return None
        whole = bool((table.limits == counts).all())
        if not whole or int(table.costs()[tuple(counts.tolist())]) >= UNREACHABLE:
            return None
        return table.loads(counts)
