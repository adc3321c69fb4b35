"""Exact placement by dynamic programming over count vectors: Algorithm 8 (`match`) of the paper.

Most pods first, then least penalty, then least charge, then least fragmentation. The paper's DP
runs over nodes and *sets* of pods, O(N 3^n). Interchangeable pods are a kind, so a set is a vector
of counts, and a table has one cell a vector: every load that is worth trying on a node is one shift
of the table and one minimum. Targets are found by walking back through the layers.

Vectors are flattened in mixed radix. A digit that could overflow has spare cells, which are cleared
after each node.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import mul

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import Node, NodeName, Pod, Resources
from kubedsm.model.node_index import NodeRows
from kubedsm.objective.fragmentation import Fragmentation, Ints
from kubedsm.optimizer.matching.best_fit import best_fit_increasing
from kubedsm.optimizer.matching.node_loads import (
    Digits,
    NodeLoads,
    limit_loads,
    list_useful_loads,
    place_values,
)
from kubedsm.optimizer.matching.problem import Packing, Targets, group_kinds
from kubedsm.optimizer.programming.programme import Solver

#: More than any sum of costs, and far enough from the end of 64 bits to add costs to.
UNREACHABLE = 2**61
#: an axis each; numpy 1.26 has no more
_MOST_KINDS = 32
#: Cells of one numpy call: hides call overhead, fits the CPU cache.
_BLOCK = 2**14
#: Cells computed in the time to sort one load.
_SORTED = 64


@attrs.frozen(slots=True)
class Bounds:
    """Exact-search limit: how much may be computed before a heuristic takes over."""

    #: cells of the table, all layers together; 8 bytes each
    states: int = 4_000_000
    #: cells touched: cells of a layer times the loads tried on its node, summed over nodes
    steps: int = 40_000_000
    #: distinct loads of all distinct nodes together
    loads: int = 50_000
    deadline: Deadline = NO_DEADLINE
    #: solves what is above these limits; None: no solver
    solver: Solver | None = None


@attrs.frozen(eq=False)
class MatchTable:
    """Least cost of placing exactly these numbers of pods of each kind, for every vector.

    `layers[i]` has the cost for the first i nodes with loads to be tried.
    """

    packing: Packing
    #: S, the greatest count of each kind that all nodes together can take
    limits: Ints
    #: S, digits of the flat index: sizes and place values
    sizes: tuple[int, ...]
    strides: Ints
    tried: NodeLoads
    layers: tuple[Ints, ...]
    digits: Digits

    def costs(self) -> Ints:
        """Return one cell a vector, of shape limits + 1.

        UNREACHABLE or more for vectors that do not fit.
        """
        cells = np.full(int(np.prod(self.sizes)), UNREACHABLE, dtype=np.int64)
        last = self.layers[-1]
        cells[: len(last)] = last
        return cells.reshape(self.sizes)[tuple(slice(n + 1) for n in self.limits.tolist())]

    def charges(self, vector: Ints) -> int:
        """Return the charge of a reachable vector."""
        return self.digits.charges(int(self.layers[-1][int(vector @ self.strides)]))

    def loads(self, vector: Ints) -> Ints:
        """Return the placement, N x S, of a reachable vector.

        Ties leave most pods to the first nodes.
        """
        placed = self.packing.nothing()
        left, tried = vector, self.tried
        for index in range(len(tried.nodes) - 1, -1, -1):
            here, before = self.layers[index + 1], self.layers[index]
            part = slice(*tried.begins[index : index + 2])
            loads, costs = tried.loads[part], tried.costs[part]
            at = int(left @ self.strides)
            if at < len(before) and before[at] + costs[0] == here[at]:
                continue
            source = at - loads @ self.strides
            fitting = np.flatnonzero((loads <= left).all(axis=1) & (source < len(before)))
            same = before[source[fitting]] + costs[fitting] == here[at]
            load = loads[fitting[int(same.argmax())]]
            placed[tried.nodes[index]] = load
            left = left - load
        return placed


def build_table(
    packing: Packing, fragmentation: Fragmentation | None, bounds: Bounds
) -> MatchTable | None:
    """Return the table of all reachable vectors; None above the exact-search limit.

    Without a fragmentation measure every placement costs nothing.
    """
    if len(packing.kinds) > _MOST_KINDS or bounds.deadline.passed:
        return None
    digits = Digits.of(packing)
    most = limit_loads(packing, digits)
    limits = np.minimum(most.sum(axis=0), packing.counts)
    if math.prod((limits + 1).tolist()) > bounds.states:
        return None
    tried = list_useful_loads(
        packing, most, fragmentation, digits, bounds.loads, bounds.steps // _SORTED
    )
    if tried is None:
        return None
    sums = tried.caps.cumsum(axis=0)
    room = np.where(limits < tried.caps.sum(axis=0), tried.caps.max(axis=0, initial=0), 0)
    sizes = tuple((limits + 1 + room).tolist())
    strides, total = place_values(sizes), math.prod(sizes)
    if total > bounds.states:
        return None
    lengths = (np.minimum(sums, packing.counts) @ strides + 1).tolist()
    steps = sum(map(mul, lengths, np.diff(tried.begins).tolist()))
    if 1 + sum(lengths) > bounds.states or steps > bounds.steps:
        return None
    outside = _overflow_cells(sizes, limits, total)
    layers = _compute_layers(tried, lengths, strides, outside, bounds.deadline)
    if layers is None:
        return None
    return MatchTable(packing, limits, sizes, strides, tried, layers, digits)


def _overflow_cells(sizes: tuple[int, ...], limits: Ints, total: int) -> Ints | None:
    """Return the flat cells in which some digit has overflowed; None if no digit can overflow."""
    if all(size == limit + 1 for size, limit in zip(sizes, limits.tolist(), strict=True)):
        return None
    outside = np.ones(sizes, dtype=np.bool_)
    outside[tuple(slice(limit + 1) for limit in limits.tolist())] = False
    return np.flatnonzero(outside.reshape(total))


def _compute_layers(
    tried: NodeLoads,
    lengths: Sequence[int],
    strides: Ints,
    outside: Ints | None,
    deadline: Deadline,
) -> tuple[Ints, ...] | None:
    """Return the layers of the table; None after the deadline."""
    layer = np.full(1, tried.elsewhere, dtype=np.int64)
    layers = [layer]
    offsets: list[int] = (tried.loads @ strides).tolist()
    for (begin, end), length in zip(pairwise(tried.begins.tolist()), lengths, strict=True):
        if deadline.passed:
            return None
        following = np.full(length, UNREACHABLE, dtype=np.int64)
        at_once = max(1, _BLOCK // len(layer))
        for start in range(begin, end, at_once):
            block = slice(start, min(start + at_once, end))
            dearer = layer + tried.costs[block, None]
            for offset, moved in zip(offsets[block], dearer, strict=True):
                target = following[offset : offset + len(layer)]
                np.minimum(target, moved[: len(target)], out=target)
        if outside is not None:
            following[outside[: int(np.searchsorted(outside, length))]] = UNREACHABLE
        layer = following
        layers.append(layer)
    return tuple(layers)


@attrs.frozen(eq=False)
class Match:
    """Targets of the pods that could be placed."""

    targets: Targets
    #: fragmentation of all nodes, in units of 2^-32 node
    cost: int
    #: no placement has more pods, or as many at less cost
    proven: bool


def match(
    pods: Iterable[Pod],
    nodes: Iterable[Node],
    free: Mapping[NodeName, Resources],
    fragmentation: Fragmentation,
    bounds: Bounds | None = None,
) -> Match:
    """Place as many of the pods as possible, then with the least fragmentation (Algorithm 8).

    Above the exact-search limit the placement is best-fit increasing, and not proven: it places
    0.98 of the optimal number, where decreasing order places 0.76.
    """
    rows = NodeRows.of(sorted(nodes, key=lambda node: node.name), free)
    packing = Packing.of(group_kinds(pods, rows), rows, (vector for vector, _ in fragmentation.mix))
    table = build_table(packing, fragmentation, bounds or Bounds())
    if table is None:
        loads = best_fit_increasing(packing)
        room = packing.room_after(loads)
        cost = int(fragmentation.costs(packing.axes, packing.allocatable, room).sum())
        return Match(packing.targets(loads), cost, proven=False)
    costs = table.costs()
    best = _most_then_cheapest(costs)
    return Match(packing.targets(table.loads(best)), int(costs[tuple(best)]), proven=True)


def _most_then_cheapest(costs: Ints) -> Ints:
    """Return the lexicographically first vector with most pods and then least cost."""
    number = np.where(costs < UNREACHABLE, vector_sums(costs.shape), -1)
    best = np.where(number == number.max(), costs, UNREACHABLE)
    return np.array(np.unravel_index(int(best.argmin()), costs.shape), dtype=np.int64)


def vector_sums(shape: tuple[int, ...], weights: Sequence[int] | None = None) -> Ints:
    """Return the weighted number of pods of each vector of a box."""
    sums = np.zeros((), dtype=np.int64)
    for size, weight in zip(shape, weights or [1] * len(shape), strict=True):
        sums = sums[..., None] + weight * np.arange(size)
    return sums
