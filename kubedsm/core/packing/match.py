"""Which pods of a batch fit on the nodes, and where: most pods first, then least fragmentation.

Algorithm 8 of the KubeDSM paper is a DP over nodes and *sets* of pods, O(N 3^n). Pods of a kind
are interchangeable, so a set is a vector of counts, and the same optimum comes from a table with
one cell a count vector: a node's transition is, for every load that fits on it, one shift of the
whole table and one minimum. Targets are found by walking back through the layers.

What pods prefer comes before what nodes charge for them, and that before fragmentation: a cost is a
number of three digits, the penalties of the pods on their nodes, below them the charges, and below
these the fragmentation, of all nodes together.

Vectors are flattened in mixed radix. A digit that could overflow has room for it, in cells that
are cleared after each node; walking back must look at the digits, since those may borrow.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import attrs
import numpy as np

from kubedsm.core.goals.fragmentation import SCALE, Fragmentation, Ints
from kubedsm.core.packing.best_fit import best_fit_increasing
from kubedsm.core.packing.ladders import alike
from kubedsm.core.packing.problem import Packing, Targets, kinds
from kubedsm.core.world.deadline import NO_DEADLINE, Deadline
from kubedsm.core.world.model import Node, NodeName, Pod, Resources
from kubedsm.core.world.node_rows import NodeRows

#: More than any sum of costs, and far enough from the end of 64 bits to add costs to.
UNREACHABLE = 2**61
#: No sum of costs is greater; an addition to something UNREACHABLE stays within 64 bits.
_LARGEST_SUM = 2**60
#: an axis each; numpy 1.26 has no more
_MOST_KINDS = 32
#: Cells computed by one numpy call: enough to hide its overhead, few enough to stay in the cache.
_BLOCK = 2**14


@attrs.frozen(slots=True)
class Bounds:
    """How much may be computed before a heuristic takes over."""

    #: cells of the table, all layers together; 8 bytes each
    states: int = 4_000_000
    #: cells touched: cells of a layer times the loads tried on its node, summed over nodes
    steps: int = 40_000_000
    #: distinct loads of all distinct nodes together
    loads: int = 50_000
    deadline: Deadline = NO_DEADLINE


@attrs.frozen(eq=False)
class _Options:
    """The loads that fit on a node, in lexicographic order, the empty one first."""

    #: K x S
    loads: Ints
    #: what the node costs with that load on it; K
    costs: Ints
    #: S, the greatest count of each kind
    caps: Ints


@attrs.frozen(eq=False)
class MatchTable:
    """The least cost of placing exactly these many pods of each kind, for every vector.

    Made by `tabulate`. `layers[i]` holds what the first i nodes can take.
    """

    packing: Packing
    #: S, the greatest count of each kind that all nodes together can take
    limits: Ints
    #: S, digits of the flat index: sizes and place values
    sizes: tuple[int, ...]
    strides: Ints
    options: tuple[_Options, ...]
    layers: tuple[Ints, ...]
    digits: "Digits"

    def costs(self) -> Ints:
        """One cell a vector, of shape limits + 1; UNREACHABLE or more where it does not fit."""
        cells = np.full(int(np.prod(self.sizes)), UNREACHABLE, dtype=np.int64)
        last = self.layers[-1]
        cells[: len(last)] = last
        return cells.reshape(self.sizes)[tuple(slice(n + 1) for n in self.limits.tolist())]

    def charges(self, vector: Ints) -> int:
        """What is charged for a vector that can be reached."""
        return self.digits.charges(int(self.layers[-1][int(vector @ self.strides)]))

    def loads(self, vector: Ints) -> Ints:
        """The placement, N x S, of a vector that can be reached.

        Of equally good ones the one that leaves the most to the first nodes.
        """
        placed = self.packing.nothing()
        left = vector
        for node in range(len(self.options) - 1, -1, -1):
            option = self.options[node]
            here, before = self.layers[node + 1], self.layers[node]
            at = int(left @ self.strides)
            source = at - option.loads @ self.strides
            possible = (option.loads <= left).all(axis=1) & (source < len(before))
            fitting = np.flatnonzero(possible)
            same = before[source[fitting]] + option.costs[fitting] == here[at]
            placed[node] = option.loads[fitting[int(same.argmax())]]
            left = left - placed[node]
        return placed


def tabulate(
    packing: Packing, fragmentation: Fragmentation | None, bounds: Bounds
) -> MatchTable | None:
    """The table of all reachable vectors, or None if it would exceed the bounds.

    Without a measure of fragmentation every placement costs nothing.
    """
    if len(packing.kinds) > _MOST_KINDS or bounds.deadline.passed:
        return None
    digits = Digits.of(packing)
    options = _options(packing, fragmentation, bounds, digits)
    if options is None:
        return None
    none = np.zeros((1, len(packing.kinds)), dtype=np.int64)
    sums = np.cumsum([none[0], *(option.caps for option in options)], axis=0)
    reach = np.minimum(sums, packing.counts)
    limits = reach[-1]
    greatest = np.max([none[0], *(option.caps for option in options)], axis=0)
    sizes = tuple((limits + 1 + np.where(sums[-1] > packing.counts, greatest, 0)).tolist())
    strides, total = [], 1
    for size in reversed(sizes):
        strides.append(total)
        total *= size
    if total > bounds.states:
        return None
    places = np.array(strides[::-1], dtype=np.int64)
    lengths = (reach @ places + 1).tolist()
    steps = sum(n * len(option.costs) for n, option in zip(lengths[1:], options, strict=True))
    if sum(lengths) > bounds.states or steps > bounds.steps:
        return None
    outside = _outside(sizes, limits, total)
    layers = _layers(options, lengths, places, outside, bounds.deadline)
    if layers is None:
        return None
    return MatchTable(packing, limits, sizes, places, options, layers, digits)


@attrs.frozen(slots=True)
class Digits:
    """What there is in a cost beside fragmentation; all of that, SCALE a node, is less than one."""

    #: what one charge costs
    charge: int
    #: what one point of penalty costs: more than all charges there can be
    penalty: int
    #: bits of each node's fragmentation that are dropped
    lost: int

    @classmethod
    def of(cls, packing: Packing) -> "Digits":
        """No more bits are dropped than have to be for no cost to exceed _LARGEST_SUM.

        That is none up to 2^28 pods times nodes times penalty, where nothing is charged.
        """
        counts = packing.counts.tolist()
        worst = max((p for kind in packing.kinds for p in kind.penalties.values()), default=0)
        points = sum(counts) * worst + 1
        charges = packing.ladders.greatest(counts) + 1 if packing.ladders else 1
        lost = 0
        while points * charges > 1 and points * charges * _unit(packing, lost) > _LARGEST_SUM:
            lost += 1
        return cls(_unit(packing, lost), charges * _unit(packing, lost), lost)

    def charges(self, cost: int) -> int:
        return cost % self.penalty // self.charge


def _unit(packing: Packing, lost: int) -> int:
    return len(packing.nodes) * (SCALE >> lost) + 1


def _outside(sizes: tuple[int, ...], limits: Ints, total: int) -> Ints | None:
    """The flat cells where some digit has overflowed, if any can."""
    if all(size == limit + 1 for size, limit in zip(sizes, limits.tolist(), strict=True)):
        return None
    outside = np.ones(sizes, dtype=np.bool_)
    outside[tuple(slice(limit + 1) for limit in limits.tolist())] = False
    return np.flatnonzero(outside.reshape(total))


def _layers(
    options: Sequence[_Options],
    lengths: Sequence[int],
    places: Ints,
    outside: Ints | None,
    deadline: Deadline,
) -> tuple[Ints, ...] | None:
    """None once the deadline has passed."""
    layer = np.zeros(1, dtype=np.int64)
    layers = [layer]
    for option, length in zip(options, lengths[1:], strict=True):
        if deadline.passed:
            return None
        following = np.full(length, UNREACHABLE, dtype=np.int64)
        offsets = (option.loads @ places).tolist()
        at_once = max(1, _BLOCK // len(layer))
        for start in range(0, len(offsets), at_once):
            block = slice(start, start + at_once)
            dearer = layer + option.costs[block, None]
            for offset, moved in zip(offsets[block], dearer, strict=True):
                target = following[offset : offset + len(layer)]
                np.minimum(target, moved[: len(target)], out=target)
        if outside is not None:
            following[outside[: int(np.searchsorted(outside, length))]] = UNREACHABLE
        layer = following
        layers.append(layer)
    return tuple(layers)


def _options(
    packing: Packing, fragmentation: Fragmentation | None, bounds: Bounds, digits: Digits
) -> tuple[_Options, ...] | None:
    """The options of every node; nodes that are alike share theirs."""
    first, which = alike(packing.free, packing.allocatable, packing.most)
    enumerated = _enumerate(packing, first, bounds.loads)
    if enumerated is None:
        return None
    owner, loads, room = enumerated
    if fragmentation is None:
        costs = np.zeros(len(owner), dtype=np.int64)
    else:
        costs = fragmentation.costs(packing.axes, packing.allocatable[owner], room) >> digits.lost
    ends = np.searchsorted(owner, first, side="right").tolist()
    parts = [slice(start, end) for start, end in pairwise([0, *ends])]
    ladders, penalties = packing.ladders, packing.penalties
    shown = [which[:, None], penalties] if penalties.any() else [which[:, None]]
    apart, looks = alike(*shown, *([ladders.which] if ladders else []))
    distinct = []
    for node in apart.tolist():
        part = parts[which[node]]
        own, cost = loads[part], costs[part]
        if ladders:
            cost = cost + digits.charge * ladders.of(node, own)
        if penalties.any():
            cost = cost + digits.penalty * (own @ penalties[node])
        distinct.append(_Options(own, cost, own.max(axis=0)))
    return tuple(distinct[index] for index in looks.tolist())


def _enumerate(packing: Packing, nodes: Ints, most: int) -> tuple[Ints, Ints, Ints] | None:
    """Every load that fits on these nodes: its node, its counts, the room it leaves.

    None if there are more than `most`. Grows the loads kind by kind out of the room that is left,
    so that no sum of requests is ever formed that could overflow.
    """
    owner, room = nodes, packing.free[nodes]
    loads = np.zeros((len(nodes), 0), dtype=np.int64)
    for kind, count in enumerate(packing.counts.tolist()):
        requests = packing.requests[kind]
        asked = np.flatnonzero(requests)
        fitting = np.full(len(owner), count, dtype=np.int64)
        if len(asked):
            fitting = np.minimum(fitting, (room[:, asked] // requests[asked]).min(axis=1))
        repeats = np.minimum(fitting, packing.most[owner, kind]) + 1
        ends = repeats.cumsum()
        total = int(ends[-1]) if len(ends) else 0
        if total > most:
            return None
        parent = np.repeat(np.arange(len(owner)), repeats)
        number = np.arange(total) - (ends - repeats)[parent]
        room = room[parent] - number[:, None] * requests
        loads = np.column_stack((loads[parent], number))
        owner = owner[parent]
    return owner, loads, room


@attrs.frozen(eq=False)
class Match:
    """Where the pods go that could be placed."""

    targets: Targets
    #: of all the nodes together, 2^-32 of a node's fragmentation each
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
    """Place as many of the pods as possible, then with the least fragmentation.

    Pods that could not be placed are missing from the targets. Beyond the bounds the placement is
    best-fit increasing (0.98 of the optimal number where decreasing order reaches 0.76), and not
    proven.
    """
    rows = NodeRows.of(sorted(nodes, key=lambda node: node.name), free)
    packing = Packing.of(kinds(pods, rows), rows, (vector for vector, _ in fragmentation.mix))
    table = tabulate(packing, fragmentation, bounds or Bounds())
    if table is None:
        loads = best_fit_increasing(packing)
        room = packing.room_after(loads)
        cost = int(fragmentation.costs(packing.axes, packing.allocatable, room).sum())
        return Match(packing.targets(loads), cost, proven=False)
    costs = table.costs()
    best = _most_then_cheapest(costs)
    return Match(packing.targets(table.loads(best)), int(costs[tuple(best)]), proven=True)


def _most_then_cheapest(costs: Ints) -> Ints:
    """The first vector, in lexicographic order, of those with most pods and then least cost."""
    number = np.where(costs < UNREACHABLE, vector_sums(costs.shape), -1)
    best = np.where(number == number.max(), costs, UNREACHABLE)
    return np.array(np.unravel_index(int(best.argmin()), costs.shape), dtype=np.int64)


def vector_sums(shape: tuple[int, ...], weights: Sequence[int] | None = None) -> Ints:
    """The number of pods in each vector of a box, each counting what its kind weighs."""
    sums = np.zeros((), dtype=np.int64)
    for size, weight in zip(shape, weights or [1] * len(shape), strict=True):
        sums = sums[..., None] + weight * np.arange(size)
    return sums
