"""Whether the cloud can hold what leaves the edge, and where.

In the room that is free there now, or with that of pods which leave the cloud before.
"""

import attrs

from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds, tabulate
from kubedsm.optimizer.matching.problem import Packing
from kubedsm.optimizer.placing.cloud import least_allocated


class CloudHold:
    def __init__(self, packing: Packing, bounds: Bounds) -> None:
        """`packing`: the cloud nodes, and how many pods of each kind might leave the edge."""
        self.packing = packing
        self._bounds = bounds
        self._known: dict[bytes, Ints | None] = {}
        #: counts that can be held, and with them all that are no more; and the other way round
        self._enough: list[Ints] = []
        self._too_many: list[Ints] = []
        self._vacated: dict[bytes, CloudHold] = {}
        self._told = True

    @property
    def certain(self) -> bool:
        """False once it could not be told whether some pods can be held."""
        return self._told and all(hold.certain for hold in self._vacated.values())

    def takes(self, kind: int) -> bool:
        """Whether one pod of that kind finds room."""
        packing = self.packing
        requests = packing.requests[kind]
        fits = ((requests <= packing.free) | (requests == 0)).all(axis=1)
        return bool((fits & packing.feasible[:, kind]).any())

    def holds(self, counts: Ints) -> bool:
        """Whether so many pods of each kind find room together."""
        if any((counts <= known).all() for known in self._enough):
            return True
        if any((counts >= known).all() for known in self._too_many):
            return False
        held = self.loads(counts) is not None
        (self._enough if held else self._too_many).append(counts)
        return held

    def vacated(self, room: Ints) -> "CloudHold":
        """The cloud once pods with that much room, N x R, have left its nodes."""
        key = room.tobytes()
        if key not in self._vacated:
            free = self.packing.free + room
            self._vacated[key] = CloudHold(attrs.evolve(self.packing, free=free), self._bounds)
        return self._vacated[key]

    def loads(self, counts: Ints) -> Ints | None:
        """A placement of so many pods of each kind; None if there is none.

        Where least is allocated; packed exactly if that leaves pods out.
        """
        if not counts.any():
            return self.packing.nothing()
        key = counts.tobytes()
        if key not in self._known:
            spread = least_allocated(self.packing, counts)
            complete = int(spread.sum()) == int(counts.sum())
            self._known[key] = spread if complete else self._packed(counts)
        return self._known[key]

    def _packed(self, counts: Ints) -> Ints | None:
        table = tabulate(attrs.evolve(self.packing, counts=counts), None, self._bounds)
        if table is None:
            self._told = False
            return None
        whole = bool((table.limits == counts).all())
        if not whole or int(table.costs()[tuple(counts.tolist())]) >= UNREACHABLE:
            return None
        return table.loads(counts)
