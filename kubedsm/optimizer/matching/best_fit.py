"""Heuristic packing: best fit, and ejection chains that make room for more pods.

Best fit is the fallback of `match` above the exact-search limit. Pods come in order of increasing
size, since the number of placed pods counts.
"""

import math
from collections.abc import Iterable

import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Node, Resources
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.problem import Packing

_LEAST_CPU = 1
_LEAST_MEMORY = 2**20


def greatest_allocatable(nodes: Iterable[Node]) -> Resources:
    """Return M, the greatest allocatable CPU and memory of any node."""
    sizes = [node.allocatable for node in nodes]
    return Resources(
        cpu=max((size.cpu for size in sizes), default=0),
        memory=max((size.memory for size in sizes), default=0),
    )


def pod_size(requests: Resources, greatest: Resources) -> float:
    """Return sqrt(cpu/M_cpu * memory/M_memory), the size of a pod of at least 1 millicore and 1 Mi.

    greatest: M, the greatest allocatable amounts over the edge nodes.
    """
    cpu = max(requests.cpu, _LEAST_CPU) / max(greatest.cpu, _LEAST_CPU)
    memory = max(requests.memory, _LEAST_MEMORY) / max(greatest.memory, _LEAST_MEMORY)
    return math.sqrt(cpu * memory)


def kind_sizes(packing: Packing) -> list[float]:
    """Return the size of a pod of each kind, against the nodes of the packing."""
    cpu, memory = packing.allocatable[:, :2].max(axis=0, initial=0).tolist()
    greatest = Resources(cpu=cpu, memory=memory)
    return [pod_size(kind.requests, greatest) for kind in packing.kinds]


def order_by_size(packing: Packing, *, largest_first: bool = False) -> list[int]:
    """Return the kinds by priority, then by size."""
    sign = -1 if largest_first else 1
    ordered = sorted(
        (tuple(-each for each in kind.rank.turn), sign * size, index)
        for index, (kind, size) in enumerate(zip(packing.kinds, kind_sizes(packing), strict=True))
    )
    return [index for _, _, index in ordered]


class BestFit:
    """Free capacity of the nodes while pods are placed one by one."""

    def __init__(self, packing: Packing, loads: Ints | None = None) -> None:
        """Start from these loads, or from an empty placement."""
        self._packing = packing
        self.loads = packing.nothing() if loads is None else loads.copy()
        self._picky = bool(packing.penalties.any())
        self._room = packing.room_after(self.loads)
        self._scale = np.maximum(packing.allocatable[:, :2].max(axis=0, initial=1), 1)
        self._left = np.empty(len(self._room))
        # S x N
        self._fits = np.empty((len(packing.kinds), len(self._room)), dtype=np.bool_)
        self._update_fits(slice(None))

    def place(self, kind: int) -> bool:
        """Place one more pod of the kind where it leaves least capacity; return False if none fits.

        Only nodes with the least penalty are considered.
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
        self._update_fits(node)
        return True

    def _update_fits(self, nodes: slice | int) -> None:
        """Update where pods fit, and how much capacity is left."""
        room, packing = self._room[nodes], self._packing
        self._left[nodes] = (room[..., :2] / self._scale).sum(axis=-1)
        fits = (room[..., None, :] >= packing.requests).all(axis=-1)
        self._fits[:, nodes] = (fits & (self.loads[nodes] < packing.most[nodes])).T


def best_fit_increasing(packing: Packing) -> Ints:
    """Return a placement, N x S, by best fit in order of increasing size."""
    room = BestFit(packing)
    for kind in order_by_size(packing):
        for _ in range(int(packing.counts[kind])):
            if not room.place(kind):
                break
    return room.loads


_NOWHERE = -1


def add_by_ejection_chains(
    packing: Packing, loads: Ints, chain: int, tries: int, deadline: Deadline
) -> Ints:
    """Return the placement, N x S, with more pods placed by ejection chains.

    In a chain a pod comes to a node, and another pod leaves for another node, where it may displace
    one more; the last finds room. A pod may also stay out for one of a greater turn.

    chain: most displaced pods, at least 1. tries: trial displacements of pods that displace others.
    """
    making = _EjectionSearch(packing, loads, tries, deadline)
    order = order_by_size(packing)
    again = True
    while again:
        again = False
        for kind in order:
            while making.left[kind] and making.bring(kind, chain):
                again = True
    return making.loads


class _EjectionSearch:
    """Nodes and loads during the search for ejection chains."""

    def __init__(self, packing: Packing, loads: Ints, tries: int, deadline: Deadline) -> None:
        self.packing, self.loads = packing, loads.copy()
        self.room = packing.room_after(loads)
        self.left = packing.counts - loads.sum(axis=0)
        self._tries, self._deadline = tries, deadline
        self._turns = [kind.rank.turn for kind in packing.kinds]
        self._size = np.array(kind_sizes(packing))
        self._scale = np.maximum(packing.allocatable[:, :2].max(axis=0, initial=1), 1)
        #: N x S, whether the node accepts one more
        self._fits = np.empty(loads.shape, dtype=np.bool_)
        self._update_fits(slice(None))

    def bring(self, kind: int, chain: int) -> bool:
        """Place one more pod of the kind.

        Return False, with nothing changed, if that is impossible.
        """
        if self._deadline.passed:
            return False
        if not (self._put_somewhere(kind, chain, _NOWHERE) or self._drive_out(kind)):
            return False
        self.left[kind] -= 1
        return True

    def _put_somewhere(self, kind: int, chain: int, avoided: int) -> bool:
        """Place the pod by a chain of at most `chain` displacements.

        Avoided: the node it just left.
        """
        fitting = np.flatnonzero(self._fits[:, kind])
        fitting = fitting[fitting != avoided]
        if len(fitting):
            left = (self.room[fitting, :2] / self._scale).sum(axis=1)
            self._place_pods(kind, int(fitting[left.argmin()]))
            return True
        if not chain:
            return False
        nodes, others = self._in_the_way(kind, avoided)
        elsewhere = self._fits.sum(axis=0)[others] > self._fits[nodes, others]
        if elsewhere.any():
            first = int(elsewhere.argmax())
            node, other = int(nodes[first]), int(others[first])
            self._exchange_pods(kind, other, node)
            return self._put_somewhere(other, 0, node)
        if chain == 1:
            return False
        for node, other in zip(nodes.tolist(), others.tolist(), strict=True):
            if self._tries <= 0 or self._deadline.passed:
                return False
            self._tries -= 1
            self._exchange_pods(kind, other, node)
            if self._put_somewhere(other, chain - 1, node):
                return True
            self._exchange_pods(other, kind, node)
        return False

    def _drive_out(self, kind: int) -> bool:
        """Place one more pod by leaving out a pod of a lesser turn."""
        for node, other in zip(*map(np.ndarray.tolist, self._in_the_way(kind)), strict=True):
            if self._turns[other] < self._turns[kind]:
                self._exchange_pods(kind, other, node)
                self.left[other] += 1
                return True
        return False

    def _place_pods(self, kind: int, node: int, number: int = 1) -> None:
        self.loads[node, kind] += number
        self.room[node] -= number * self.packing.requests[kind]
        self._update_fits(node)

    def _exchange_pods(self, kind: int, other: int, node: int) -> None:
        """Replace one pod of a kind by one of another."""
        self._place_pods(other, node, -1)
        self._place_pods(kind, node)

    def _update_fits(self, nodes: slice | int) -> None:
        packing = self.packing
        enough = (self.room[nodes][..., None, :] >= packing.requests).all(axis=-1)
        self._fits[nodes] = enough & (self.loads[nodes] < packing.most[nodes])

    def _in_the_way(self, kind: int, avoided: int = _NOWHERE) -> tuple[Ints, Ints]:
        """Return the nodes that accept the pod without one pod of another kind, and these kinds.

        The smallest displaced pods come first.
        """
        packing = self.packing
        nodes, others = np.nonzero(self.loads)
        room = self.room[nodes] + packing.requests[others]
        enough = (room >= packing.requests[kind]).all(axis=1)
        enough &= (self.loads[:, kind] < packing.most[:, kind])[nodes]
        enough &= (others != kind) & (nodes != avoided)
        nodes, others = nodes[enough], others[enough]
        order = self._size[others].argsort(kind="stable")
        return nodes[order], others[order]
