"""Best fit: each pod on the node where it leaves the least room.

The stand-in for `match` where its table would grow too large. In order of *increasing* size, since
what counts is how many pods are placed.
"""

import math
from collections.abc import Iterable

import numpy as np

from kubedsm.model.model import Node, Resources
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.problem import Packing

_LEAST_CPU = 1
_LEAST_MEMORY = 2**20


def greatest_allocatable(nodes: Iterable[Node]) -> Resources:
    """M, of each resource that makes a size."""
    sizes = [node.allocatable for node in nodes]
    return Resources(
        cpu=max((size.cpu for size in sizes), default=0),
        memory=max((size.memory for size in sizes), default=0),
    )


def size(requests: Resources, greatest: Resources) -> float:
    """How large a pod is: sqrt(cpu/M_cpu * memory/M_memory), of at least 1m and 1Mi.

    greatest: M, the greatest allocatable amounts over the edge nodes.
    """
    cpu = max(requests.cpu, _LEAST_CPU) / max(greatest.cpu, _LEAST_CPU)
    memory = max(requests.memory, _LEAST_MEMORY) / max(greatest.memory, _LEAST_MEMORY)
    return math.sqrt(cpu * memory)


def sizes(packing: Packing) -> list[float]:
    """The size of a pod of each kind, against the nodes of the packing."""
    cpu, memory = packing.allocatable[:, :2].max(axis=0, initial=0).tolist()
    greatest = Resources(cpu=cpu, memory=memory)
    return [size(kind.requests, greatest) for kind in packing.kinds]


def by_size(packing: Packing, *, largest_first: bool = False) -> list[int]:
    """The kinds, by priority and then by size."""
    sign = -1 if largest_first else 1
    ordered = sorted(
        (tuple(-each for each in kind.rank.turn), sign * size, index)
        for index, (kind, size) in enumerate(zip(packing.kinds, sizes(packing), strict=True))
    )
    return [index for _, _, index in ordered]


class BestFit:
    """The nodes' room while pods are put on them one by one."""

    def __init__(self, packing: Packing, loads: Ints | None = None) -> None:
        """`loads`: a placement to go on from."""
        self._packing = packing
        self.loads = packing.nothing() if loads is None else loads.copy()
        self._picky = bool(packing.penalties.any())
        self._room = packing.room_after(self.loads)
        self._scale = np.maximum(packing.allocatable[:, :2].max(axis=0, initial=1), 1)
        self._left = np.empty(len(self._room))
        # S x N
        self._fits = np.empty((len(packing.kinds), len(self._room)), dtype=np.bool_)
        self._look_at(slice(None))

    def place(self, kind: int) -> bool:
        """Put one more pod of that kind where it leaves least; False if it fits nowhere.

        Of the nodes that it likes best.
        """
        packing, fits = self._packing, self._fits[kind]
        if not fits.any():
            return False
        if self._picky:
            penalties = packing.penalties[:, kind]
            fits = fits & (penalties == penalties[fits].min())
        node = int(np.where(fits, self._left, np.inf).argmin())
        self._room[node] -= packing.requests[kind]
        self.loads[node, kind] += 1
        self._look_at(node)
        return True

    def _look_at(self, nodes: slice | int) -> None:
        """What fits there, and how much is left."""
        room, packing = self._room[nodes], self._packing
        self._left[nodes] = (room[..., :2] / self._scale).sum(axis=-1)
        fits = (room[..., None, :] >= packing.requests).all(axis=-1)
        self._fits[:, nodes] = (fits & (self.loads[nodes] < packing.most[nodes])).T


def best_fit_increasing(packing: Packing) -> Ints:
    """A placement, N x S, of as many pods as this order happens to find room for."""
    room = BestFit(packing)
    for kind in by_size(packing):
        for _ in range(int(packing.counts[kind])):
            if not room.place(kind):
                break
    return room.loads
