"""Exact placement by dynamic programming over count vectors: Algorithm 8 (`match`) of the paper.

The lexicographic objective: most placed pods, then least preference penalty, then least charge,
then least fragmentation. The paper's programme runs over nodes and *sets* of pods, O(N 3^n).
Interchangeable pods form a kind, so a set becomes a vector of counts, with one table cell for
each vector. Every useful load of a node is one shift of the table and one minimum. Target nodes
are reconstructed by walking back through the layers.

Vectors are flattened in mixed radix. Digits that could overflow have additional cells, which are
cleared after each node.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import mul
from typing import NamedTuple

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import Node, NodeName, Pod, Resources
from kubedsm.model.node_index import NodeRows
from kubedsm.objective.fragmentation import SCALE, Fragmentation, Ints
from kubedsm.optimizer.matching.best_fit import best_fit_increasing
from kubedsm.optimizer.matching.problem import (
    PlacementProblem,
    Targets,
    group_equal_rows,
    group_kinds,
)
from kubedsm.optimizer.programming.programme import Solver

#: No sum of costs is greater; an addition to an UNREACHABLE cell stays within 64 bits.
_LARGEST_SUM = 2**60


@attrs.frozen(slots=True)
class Digits:
    """Place values that combine preference penalties, replica-spread cost and fragmentation in one
    placement cost.

    The fragmentation of all nodes together (SCALE per node) is less than one charge.
    """

    #: cost of one charge
    charge: int
    #: cost of one point of preference penalty: more than all charges together
    penalty: int
    #: dropped bits of each node's fragmentation
    lost: int

    @classmethod
    def of(cls, problem: PlacementProblem) -> "Digits":
        """Choose place values for combining the costs of a placement problem in one number, without
        overflow.

        Fragmentation loses only as many low-order bits as necessary for costs up to _LARGEST_SUM:
        none up to 2^28 pods times nodes times preference penalty without charges.
        """
        counts = problem.counts.tolist()
        worst = max((p for kind in problem.kinds for p in kind.penalties.values()), default=0)
        points = sum(counts) * worst + 1
        charges = problem.ladders.greatest(counts) + 1 if problem.ladders else 1
        lost = 0
        while points * charges > 1 and points * charges * _cost_unit(problem, lost) > _LARGEST_SUM:
            lost += 1
        return cls(_cost_unit(problem, lost), charges * _cost_unit(problem, lost), lost)

    def charges(self, cost: int) -> int:
        return cost % self.penalty // self.charge


def _cost_unit(problem: PlacementProblem, lost: int) -> int:
    return len(problem.free) * (SCALE >> lost) + 1


@attrs.frozen(eq=False)
class NodeLoads:
    """Useful combinations of pods for each non-empty node, in lexicographic order beginning with no
    pods.
    """

    #: node indices, ascending; all other nodes remain empty
    nodes: Ints
    #: offset of each node's first load, and the number of loads
    begins: Ints
    #: loads x kinds
    loads: Ints
    #: cost of each load on its node
    costs: Ints
    #: cost of all other nodes together
    elsewhere: int

    @property
    def caps(self) -> Ints:
        """Greatest pod count of each group of interchangeable pods in any considered load of a
        node, shape (useful nodes, groups).
        """
        if not len(self.nodes):
            return np.zeros((0, self.loads.shape[1]), dtype=np.int64)
        caps: Ints = np.maximum.reduceat(self.loads, self.begins[:-1], axis=0)
        return caps


def limit_loads(problem: PlacementProblem, digits: Digits) -> Ints:
    """Return the greatest useful number of pods of each group on each node within its capacity,
    shape (nodes, groups of interchangeable pods).

    The remaining pods leave one of any n nodes empty. Therefore no pod costs more, apart from
    fragmentation, than the first pod on the n-th cheapest of the nodes accepting the kind.
    """
    most = problem.fitting.copy()
    number, ladders = int(problem.counts.sum()), problem.ladders
    charging = ladders is not None or bool(problem.penalties.any())
    for kind in range(len(problem.kinds)):
        open_to = np.flatnonzero(most[:, kind])
        if charging and 0 < number <= len(open_to):
            nth = np.arange(most[:, kind].max())
            costs = digits.penalty * problem.penalties[:, [kind]] + 0 * nth
            if ladders:
                costs += digits.charge * ladders.steps[ladders.which[:, [kind]], nth]
            dearest = np.partition(costs[open_to, 0], number - 1)[number - 1]
            most[:, kind] = np.minimum(most[:, kind], (costs <= dearest).sum(axis=1))
    return most


def list_useful_loads(
    problem: PlacementProblem,
    most: Ints,
    fragmentation: Fragmentation | None,
    digits: Digits,
    most_loads: int,
    most_sorted: int,
) -> NodeLoads | None:
    """Return the combinations of pods for each node that no better combination dominates, as
    options of the dynamic programme.

    most: shape (nodes, kinds), at least the result of `limit_loads`. Dominance rule: of n pods,
    those outside a load occupy at most n - |load| nodes. A load that is avoided by the n - |load| +
    1 nodes where it adds the least cost leaves one of these nodes empty. Moving the load there
    costs no more, and leaves more pods to the first nodes. Therefore all other nodes can be ignored
    for this load. Return None with more than `most_loads` loads on distinct nodes, or `most_sorted`
    alternatives.
    """
    groups = _group_nodes(problem, most, fragmentation, digits, most_loads)
    if groups is None:
        return None
    sums = groups.loads.sum(axis=1)
    number = np.where(sums, int(problem.counts.sum()) + 1 - sums, len(problem.free))
    sizes = np.bincount(groups.of_nodes, minlength=len(groups.empty))
    copies = np.minimum(sizes[groups.of_loads], number)
    if int(copies.sum()) > most_sorted:
        return None
    load = np.arange(len(sums)).repeat(copies)
    members = groups.of_nodes.argsort(kind="stable")
    node = members[_concat_ranges((sizes.cumsum() - sizes)[groups.of_loads], copies)]
    beyond = groups.costs - groups.empty[groups.of_loads]
    code = (groups.loads @ place_values((most.max(axis=0, initial=0) + 1).tolist()))[load]
    order = np.lexsort((node, beyond[load], code))
    first = code[order].searchsorted(code[order])
    kept = order[np.arange(len(order)) - first < number[load[order]]]
    used = np.zeros(len(problem.free), dtype=np.bool_)
    used[node[kept][sums[load[kept]] > 0]] = True
    kept = kept[used[node[kept]]]
    kept = kept[np.lexsort((load[kept], node[kept]))]
    nodes = used.nonzero()[0]
    begins = node[kept].searchsorted([*nodes.tolist(), len(used)])
    elsewhere = int(groups.empty[groups.of_nodes[~used]].sum())
    load = load[kept]
    return NodeLoads(nodes, begins, groups.loads[load], groups.costs[load], elsewhere)


class _Groups(NamedTuple):
    """Groups of nodes with identical costs of identical loads, and the loads of each group."""

    #: group of each node
    of_nodes: Ints
    #: group of each load
    of_loads: Ints
    #: loads x kinds
    loads: Ints
    #: cost of each load
    costs: Ints
    #: cost of an empty node of each group
    empty: Ints


def _group_nodes(
    problem: PlacementProblem,
    most: Ints,
    fragmentation: Fragmentation | None,
    digits: Digits,
    most_loads: int,
) -> _Groups | None:
    first, look_of = group_equal_rows(problem.free, problem.allocatable, most)
    enumerated = _enumerate_loads(problem, first, most[first], most_loads)
    if enumerated is None:
        return None
    look, loads, room = enumerated
    costs = np.zeros(len(look), dtype=np.int64)
    if fragmentation is not None:
        size = problem.allocatable[first[look]]
        costs = fragmentation.costs(problem.axes, size, room) >> digits.lost
    ladders, penalties = problem.ladders, problem.penalties
    charging = [ladders.which] if ladders else []
    penalising = [penalties] if penalties.any() else []
    heads, group_of = group_equal_rows(look_of[:, None], *charging, *penalising)
    ends = look.searchsorted(np.arange(len(first)), side="right")[look_of[heads]]
    begins = look.searchsorted(look_of[heads])
    lengths = ends - begins
    group = np.arange(len(heads)).repeat(lengths)
    rows = _concat_ranges(begins, lengths)
    loads, costs, empty = loads[rows], costs[rows], costs[begins]
    if ladders:
        costs += digits.charge * ladders.of(heads[group], loads)
    if penalising:
        costs += digits.penalty * (loads * penalties[heads[group]]).sum(axis=1)
    return _Groups(group_of, group, loads, costs, empty)


def _enumerate_loads(
    problem: PlacementProblem, nodes: Ints, most: Ints, most_loads: int
) -> tuple[Ints, Ints, Ints] | None:
    """Enumerate every fitting load: its node index, pod counts, and remaining capacity.

    most: maximum pod counts of each node. Return None above `most_loads`. Loads are extended kind
    by kind within the available capacity, so no sum of resource requests can overflow.
    """
    owner, room = np.arange(len(nodes)), problem.free[nodes]
    loads = np.zeros((len(nodes), 0), dtype=np.int64)
    for kind, requests in enumerate(problem.requests):
        asked = requests.nonzero()[0]
        repeats = most[owner, kind]
        if kind and len(asked):  # the first kind has the whole node
            repeats = np.minimum(repeats, (room[:, asked] // requests[asked]).min(axis=1))
        repeats += 1
        if int(repeats.sum()) > most_loads:
            return None
        parent = np.arange(len(owner)).repeat(repeats)
        number = _concat_ranges(0, repeats)
        room = room[parent] - number[:, None] * requests
        loads = np.concatenate((loads[parent], number[:, None]), axis=1)
        owner = owner[parent]
    return owner, loads, room


def place_values(sizes: Sequence[int]) -> Ints:
    """Return the mixed-radix place value of each digit of a flat index; the last is 1."""
    return np.array([math.prod(sizes[at + 1 :]) for at in range(len(sizes))], dtype=np.int64)


def _concat_ranges(begins: Ints | int, lengths: Ints) -> Ints:
    """Concatenate integer ranges given by first numbers and lengths into one array."""
    before = lengths.cumsum() - lengths
    return np.arange(int(lengths.sum())) + (begins - before).repeat(lengths)


#: More than any sum of costs, and far enough from the end of 64 bits to add costs to.
UNREACHABLE = 2**61
#: an axis each; numpy 1.26 has no more
MOST_KINDS = 32
#: Cells of one numpy call: hides call overhead, fits the CPU cache.
_BLOCK = 2**14
#: Greatest layer that is computed in one numpy call for all loads.
_SHORT = 2**8
#: Cells computed in the time to sort one load.
_SORTED = 64
#: Steps of work for a load of a node, and for a cell.
_LOAD_STEPS, _CELL_STEPS = 3_000, 2


@attrs.frozen(slots=True)
class Bounds:
    """Limit of the exact placement search: permitted computation before a heuristic takes over."""

    #: cells of the table, all layers together; 8 bytes each
    states: int = 4_000_000
    #: cells touched: cells of a layer times the loads tried on its node, summed over nodes
    steps: int = 40_000_000
    #: distinct loads of all distinct nodes together
    loads: int = 50_000
    deadline: Deadline = NO_DEADLINE
    #: integer-programming solver above the exact-search limit; None: heuristics only
    solver: Solver | None = None

    def part(self, fraction: float) -> "Bounds":
        """Return the limit with the given fraction of the remaining computation."""
        return attrs.evolve(self, deadline=self.deadline.part(fraction))


@attrs.frozen(eq=False)
class MatchTable:
    """Dynamic-programming table: least cost of placing each combination of pod counts by group of
    interchangeable pods.

    `layers[i]` contains the cost for the first i nodes with useful loads.
    """

    problem: PlacementProblem
    #: greatest total count of each kind on all nodes
    limits: Ints
    #: digits of the flat index, one for each kind: sizes and place values
    sizes: tuple[int, ...]
    strides: Ints
    tried: NodeLoads
    layers: tuple[Ints, ...]
    digits: Digits

    def costs(self) -> Ints:
        """Return the least placement cost of each combination of pod counts by group of
        interchangeable pods, shape (limits + 1).

        Infeasible vectors have UNREACHABLE or more.
        """
        cells = np.full(math.prod(self.sizes), UNREACHABLE, dtype=np.int64)
        last = self.layers[-1]
        cells[: len(last)] = last
        return cells.reshape(self.sizes)[tuple(slice(n + 1) for n in self.limits.tolist())]

    def charges(self, vector: Ints) -> int:
        """Return the replica-spread cost contained in the least placement cost of a feasible
        combination of pod counts.
        """
        return self.digits.charges(int(self.layers[-1][int(vector @ self.strides)]))

    def loads(self, vector: Ints) -> Ints:
        """Reconstruct the least-cost placement of a feasible combination of pod counts, shape
        (nodes, groups of interchangeable pods).

        Among equal costs, the first nodes receive most pods.
        """
        placed = self.problem.nothing()
        at, tried = int(vector @ self.strides), self.tried
        offsets, begins = tried.loads @ self.strides, tried.begins.tolist()
        for index in range(len(tried.nodes) - 1, -1, -1):
            here, before = self.layers[index + 1], self.layers[index]
            part = slice(begins[index], begins[index + 1])
            loads, costs = tried.loads[part], tried.costs[part]
            if at < len(before) and before[at] + costs[0] == here[at]:
                continue
            # The first match: loads of greater place value than the vector come after it.
            source = at - offsets[part]
            same = before.take(source, mode="clip") + costs == here[at]
            chosen = int((same & (source < len(before))).argmax())
            placed[tried.nodes[index]] = loads[chosen]
            at = int(source[chosen])
        return placed


def build_table(
    problem: PlacementProblem, fragmentation: Fragmentation | None, bounds: Bounds
) -> MatchTable | None:
    """Compute the table of all feasible combinations of pod counts; return None above the
    exact-search limit.

    Without a fragmentation measure, placements have no cost.
    """
    if len(problem.kinds) > MOST_KINDS or bounds.deadline.passed:
        return None
    # The useful loads of all nodes hold no fewer pods than fit at all.
    limits = np.minimum(problem.fitting.sum(axis=0), problem.counts)
    if math.prod((limits + 1).tolist()) > bounds.states:
        return None
    digits = Digits.of(problem)
    most = limit_loads(problem, digits)
    tried = list_useful_loads(
        problem, most, fragmentation, digits, bounds.loads, bounds.steps // _SORTED
    )
    if tried is None or bounds.deadline.spend(len(tried.loads) * _SORTED * _CELL_STEPS):
        return None
    caps = tried.caps
    sums = caps.cumsum(axis=0)
    room = np.where(limits < caps.sum(axis=0), caps.max(axis=0, initial=0), 0)
    sizes = tuple((limits + 1 + room).tolist())
    strides, total = place_values(sizes), math.prod(sizes)
    if total > bounds.states:
        return None
    lengths = (np.minimum(sums, problem.counts) @ strides + 1).tolist()
    steps = sum(map(mul, lengths, (tried.begins[1:] - tried.begins[:-1]).tolist()))
    if 1 + sum(lengths) > bounds.states or steps > bounds.steps:
        return None
    outside = _overflow_cells(sizes, limits, total)
    layers = _compute_layers(tried, lengths, strides, outside, bounds.deadline)
    if layers is None:
        return None
    return MatchTable(problem, limits, sizes, strides, tried, layers, digits)


def _overflow_cells(sizes: tuple[int, ...], limits: Ints, total: int) -> Ints | None:
    """Return the flat cells with an overflowed mixed-radix digit; None without any overflow."""
    # Layers end before the first digit overflows.
    if all(size == limit + 1 for size, limit in zip(sizes[1:], limits[1:].tolist(), strict=True)):
        return None
    outside = np.ones(sizes, dtype=np.bool_)
    outside[tuple(slice(limit + 1) for limit in limits.tolist())] = False
    return outside.reshape(total).nonzero()[0]


def _compute_layers(
    tried: NodeLoads,
    lengths: Sequence[int],
    strides: Ints,
    outside: Ints | None,
    deadline: Deadline,
) -> tuple[Ints, ...] | None:
    """Compute the layers of the dynamic programme, node by node; return None after the deadline."""
    layer = np.full(1, tried.elsewhere, dtype=np.int64)
    layers = [layer]
    places = tried.loads @ strides
    offsets: list[int] = places.tolist()
    for (begin, end), length in zip(pairwise(tried.begins.tolist()), lengths, strict=True):
        if deadline.spend((end - begin) * (_LOAD_STEPS + _CELL_STEPS * len(layer))):
            return None
        if length <= _SHORT:
            padded = np.full(2 * length, UNREACHABLE, dtype=np.int64)
            padded[length : length + len(layer)] = layer
            sources = np.arange(length, 2 * length) - places[begin:end, None]
            following = np.minimum.reduce(padded[sources] + tried.costs[begin:end, None])
        else:
            following = np.full(length, UNREACHABLE, dtype=np.int64)
            at_once = max(1, _BLOCK // len(layer))
            for start in range(begin, end, at_once):
                block = slice(start, min(start + at_once, end))
                dearer = layer + tried.costs[block, None]
                for offset, moved in zip(offsets[block], dearer, strict=True):
                    target = following[offset : offset + len(layer)]
                    np.minimum(target, moved[: len(target)], out=target)
        if outside is not None:
            following[outside[: int(outside.searchsorted(length))]] = UNREACHABLE
        layer = following
        layers.append(layer)
    return tuple(layers)


def match(
    pods: Iterable[Pod],
    nodes: Iterable[Node],
    free: Mapping[NodeName, Resources],
    fragmentation: Fragmentation,
    bounds: Bounds | None = None,
) -> Targets:
    """Place the greatest number of pods, then with the least fragmentation (Algorithm 8).

    Above the exact-search limit the placement is best-fit increasing: it places 98% of the optimal
    number, whereas decreasing order places 76%.
    """
    rows = NodeRows.of(sorted(nodes, key=lambda node: node.name), free)
    problem = PlacementProblem.of(
        group_kinds(pods, rows), rows, (vector for vector, _ in fragmentation.mix)
    )
    table = build_table(problem, fragmentation, bounds or Bounds())
    if table is None:
        return problem.targets(best_fit_increasing(problem))
    return problem.targets(table.loads(_most_then_cheapest(table.costs())))


def _most_then_cheapest(costs: Ints) -> Ints:
    """Return the lexicographically first count vector with the most pods, then the least cost."""
    number = np.where(costs < UNREACHABLE, vector_sums(costs.shape), -1)
    best = np.where(number == number.max(), costs, UNREACHABLE)
    return np.array(np.unravel_index(int(best.argmin()), costs.shape), dtype=np.int64)


def vector_sums(shape: tuple[int, ...], weights: Sequence[int] | None = None) -> Ints:
    """Return the weighted number of pods for every combination of pod counts by group, as an array
    of the given shape.
    """
    sums = np.zeros((), dtype=np.int64)
    for size, weight in zip(shape, weights or [1] * len(shape), strict=True):
        sums = sums[..., None] + weight * np.arange(size)
    return sums
