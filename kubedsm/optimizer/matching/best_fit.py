"""Heuristic placement: bestFit of the KubeDSM paper, and ejection chains that place further pods.

Best fit is the fallback of `match` above the exact-search limit. Pods are placed in order of
increasing size, because the objective counts placed pods.
"""

import math

import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Resources
from kubedsm.model.node_index import Mask, Positions
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.problem import PlacementProblem

_LEAST_CPU = 1
_LEAST_MEMORY = 2**20


def greatest_allocatable(allocatable: Ints) -> Resources:
    """Return the greatest allocatable CPU and the greatest allocatable memory of any node.

    allocatable: nodes x resources.
    """
    cpu, memory = allocatable[:, :2].max(axis=0, initial=0).tolist()
    return Resources(cpu=cpu, memory=memory)


def pod_size(requests: Resources, greatest: Resources) -> float:
    """Return the normalised pod size sqrt(cpu/M_cpu * memory/M_memory) for resource requests.

    Requests count as at least 1 millicore and 1 Mi. greatest: M, the greatest allocatable amounts
    over the edge nodes.
    """
    cpu = max(requests.cpu, _LEAST_CPU) / max(greatest.cpu, _LEAST_CPU)
    memory = max(requests.memory, _LEAST_MEMORY) / max(greatest.memory, _LEAST_MEMORY)
    return math.sqrt(cpu * memory)


def kind_sizes(problem: PlacementProblem) -> list[float]:
    """Return the normalised pod size of each group of interchangeable pods, relative to the largest
    node of the problem.
    """
    greatest = greatest_allocatable(problem.allocatable)
    return [pod_size(kind.requests, greatest) for kind in problem.kinds]


def order_by_size(problem: PlacementProblem, *, largest_first: bool = False) -> list[int]:
    """Return the groups of interchangeable pods in placement order: descending priority, then
    increasing size.
    """
    sign = -1 if largest_first else 1
    ordered = sorted(
        (tuple(-each for each in kind.rank.turn), sign * size, index)
        for index, (kind, size) in enumerate(zip(problem.kinds, kind_sizes(problem), strict=True))
    )
    return [index for _, _, index in ordered]


class BestFit:
    """Placement under construction by the best-fit heuristic: each pod goes to the fullest node
    with the least preference penalty.

    Pod counts and available capacity of each node are updated for every placed pod.
    """

    def __init__(self, problem: PlacementProblem, loads: Ints | None = None) -> None:
        """Initialise the incremental placement from loads (nodes x kinds), or without any pods."""
        self.problem = problem
        self.loads = problem.nothing() if loads is None else loads.copy()
        self.room = problem.room_after(self.loads)
        #: kinds x nodes: True where the node accepts another pod of the kind
        self.fits = np.empty((len(problem.kinds), len(self.room)), dtype=np.bool_)
        self._scale = np.maximum(problem.allocatable[:, :2].max(axis=0, initial=1), 1)
        self._free_share = np.empty(len(self.room))
        self._update(slice(None))

    def put(self, kind: int, node: int, number: int = 1) -> None:
        self.loads[node, kind] += number
        self.room[node] -= number * self.problem.requests[kind]
        self._update(node)

    def fullest(self, nodes: Mask) -> int:
        """Return the candidate node with the least available CPU and memory: the best fit."""
        return int(np.where(nodes, self._free_share, np.inf).argmin())

    def place(
        self, kind: int, nodes: Positions | None = None, company: Ints | None = None
    ) -> int | None:
        """Place another pod of the given group of interchangeable pods on the best-fitting node;
        return the node, or None if none fits.

        nodes: candidates; None: all. company: spread cost on each node; among nodes of equal
        penalty, the least comes first.
        """
        fits, penalties = self.fits[kind], self.problem.penalties[:, kind]
        if not fits.any():
            return None
        if nodes is None and not penalties.any():
            # The usual case is faster without indices.
            node = self.fullest(fits)
        else:
            open_to = fits.nonzero()[0] if nodes is None else nodes[fits[nodes]]
            if not len(open_to):
                return None
            for costs in (penalties, company):
                if costs is not None:
                    of_nodes = costs[open_to]
                    open_to = open_to[of_nodes == of_nodes.min()]
            node = int(open_to[self._free_share[open_to].argmin()])
        self.put(kind, node)
        return node

    def _update(self, nodes: slice | int) -> None:
        room, problem = self.room[nodes], self.problem
        self._free_share[nodes] = (room[..., :2] / self._scale).sum(axis=-1)
        fits = (room[..., None, :] >= problem.requests).all(axis=-1)
        self.fits[:, nodes] = (fits & (self.loads[nodes] < problem.most[nodes])).T


def best_fit_increasing(
    problem: PlacementProblem, loads: Ints | None = None, elsewhere: Ints | None = None
) -> Ints:
    """Place pods by the best-fit heuristic in order of increasing size; return pod counts, shape
    (nodes, groups of interchangeable pods).

    loads: pods that are placed already. elsewhere: other pods, placed on nodes of another problem.
    """
    room = BestFit(problem, loads)
    left = problem.counts - room.loads.sum(axis=0)
    if elsewhere is not None:
        left -= elsewhere.sum(axis=0)
    for kind in order_by_size(problem):
        for _ in range(int(left[kind])):
            if room.place(kind) is None:
                break
    return room.loads


_NOWHERE = -1
#: Steps of work for a trial, and for a cell of the placement.
_TRIAL_STEPS, _CELL_STEPS = 60_000, 10


def add_by_ejection_chains(
    problem: PlacementProblem, loads: Ints, chain: int, tries: int, deadline: Deadline
) -> Ints:
    """Place further pods by ejection chains, which relocate placed pods; return pod counts, shape
    (nodes, groups of interchangeable pods).

    In a chain, a placed pod displaces another pod. The displaced pod goes to another node, where it
    may displace a further pod; the last pod of the chain finds available capacity. A pod of lower
    priority may also become unplaced for a pod of higher priority.
    chain: maximum number of displaced pods, at least 1.
    tries: trial displacements of pods that displace others.
    """
    making = _EjectionSearch(problem, loads, tries, deadline)
    order = order_by_size(problem)
    again = True
    while again:
        again = False
        for kind in order:
            while making.left[kind] and making.bring(kind, chain):
                again = True
    return making.loads


class _EjectionSearch(BestFit):
    """Depth-limited search for ejection chains: displace placed pods to other nodes until an
    unplaced pod fits.
    """

    def __init__(
        self, problem: PlacementProblem, loads: Ints, tries: int, deadline: Deadline
    ) -> None:
        super().__init__(problem, loads)
        self.left = problem.counts - loads.sum(axis=0)
        self._tries, self._deadline = tries, deadline
        self._steps = _TRIAL_STEPS + _CELL_STEPS * loads.size
        self._turns = [kind.rank.turn for kind in problem.kinds]
        self._size = np.array(kind_sizes(problem))

    def bring(self, kind: int, chain: int) -> bool:
        """Place another pod of the kind by an ejection chain; return True on success.

        Return False, without changing the placement, if no chain is found.
        """
        if self._deadline.spend(self._steps):
            return False
        if not (self._put_somewhere(kind, chain, _NOWHERE) or self._drive_out(kind)):
            return False
        self.left[kind] -= 1
        return True

    def _put_somewhere(self, kind: int, chain: int, avoided: int) -> bool:
        """Place one pod by a chain of at most `chain` displacements; return False if impossible.

        avoided: the node that the pod was just displaced from.
        """
        fits = self.fits[kind].copy()
        if avoided != _NOWHERE:
            fits[avoided] = False
        if fits.any():
            self.put(kind, self.fullest(fits))
            return True
        if not chain:
            return False
        nodes, others = self._in_the_way(kind, avoided)
        elsewhere = self.fits.sum(axis=1)[others] > self.fits[others, nodes]
        if elsewhere.any():
            first = int(elsewhere.argmax())
            node, other = int(nodes[first]), int(others[first])
            self._exchange_pods(kind, other, node)
            return self._put_somewhere(other, 0, node)
        if chain == 1:
            return False
        for node, other in zip(nodes.tolist(), others.tolist(), strict=True):
            if self._tries <= 0 or self._deadline.spend(self._steps):
                return False
            self._tries -= 1
            self._exchange_pods(kind, other, node)
            if self._put_somewhere(other, chain - 1, node):
                return True
            self._exchange_pods(other, kind, node)
        return False

    def _drive_out(self, kind: int) -> bool:
        """Place another pod by displacing a pod of lower priority, which remains unplaced."""
        for node, other in zip(*map(np.ndarray.tolist, self._in_the_way(kind)), strict=True):
            if self._turns[other] < self._turns[kind]:
                self._exchange_pods(kind, other, node)
                self.left[other] += 1
                return True
        return False

    def _exchange_pods(self, kind: int, other: int, node: int) -> None:
        """Remove a placed pod of kind `other` from the node, and place a pod of `kind` there
        instead.
        """
        self.put(other, node, -1)
        self.put(kind, node)

    def _in_the_way(self, kind: int, avoided: int = _NOWHERE) -> tuple[Ints, Ints]:
        """Return nodes that could accept the pod after displacing one pod, and the displaced kinds.

        The smallest displaced pods come first.
        """
        problem = self.problem
        nodes, others = np.nonzero(self.loads)
        room = self.room[nodes] + problem.requests[others]
        enough = (room >= problem.requests[kind]).all(axis=1)
        enough &= (self.loads[:, kind] < problem.most[:, kind])[nodes]
        enough &= (others != kind) & (nodes != avoided)
        nodes, others = nodes[enough], others[enough]
        order = self._size[others].argsort(kind="stable")
        return nodes[order], others[order]
