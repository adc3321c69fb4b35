"""Loads worth trying on each node, and their costs: the dominance rule of `match`.

Of n pods, those outside a load are on at most n - |load| nodes. So a load that is on none of the n
- |load| + 1 nodes where it adds the least cost leaves one of them empty: there it costs no more,
and leaves more to the first nodes. Other nodes can be ignored for that load.

A cost is one number of three digits: penalties, then charges, then fragmentation, of all nodes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import attrs
import numpy as np

from kubedsm.objective.fragmentation import SCALE, Fragmentation, Ints
from kubedsm.optimizer.matching.problem import Packing, group_equal_rows

#: No sum of costs is greater; an addition to something UNREACHABLE stays within 64 bits.
_LARGEST_SUM = 2**60


@attrs.frozen(slots=True)
class Digits:
    """Place values of a cost; all fragmentation together, SCALE a node, is less than one charge."""

    #: cost of one charge
    charge: int
    #: cost of one penalty point: more than all charges together
    penalty: int
    #: dropped bits of each node's fragmentation
    lost: int

    @classmethod
    def of(cls, packing: Packing) -> "Digits":
        """Drop no more bits than necessary for no cost to exceed _LARGEST_SUM.

        No bit is dropped up to 2^28 pods times nodes times penalty without charges.
        """
        counts = packing.counts.tolist()
        worst = max((p for kind in packing.kinds for p in kind.penalties.values()), default=0)
        points = sum(counts) * worst + 1
        charges = packing.ladders.greatest(counts) + 1 if packing.ladders else 1
        lost = 0
        while points * charges > 1 and points * charges * _cost_unit(packing, lost) > _LARGEST_SUM:
            lost += 1
        return cls(_cost_unit(packing, lost), charges * _cost_unit(packing, lost), lost)

    def charges(self, cost: int) -> int:
        return cost % self.penalty // self.charge


def _cost_unit(packing: Packing, lost: int) -> int:
    return len(packing.free) * (SCALE >> lost) + 1


@attrs.frozen(eq=False)
class NodeLoads:
    """Loads worth trying on U nodes, in lexicographic order, the empty one first."""

    #: U, ascending; other nodes stay empty
    nodes: Ints
    #: U + 1, offsets of each node's loads
    begins: Ints
    #: K x S
    loads: Ints
    #: K, cost of the node with the load
    costs: Ints
    #: cost of all other nodes together
    elsewhere: int

    @property
    def caps(self) -> Ints:
        """U x S, the greatest count of each kind."""
        if not len(self.nodes):
            return np.zeros((0, self.loads.shape[1]), dtype=np.int64)
        caps: Ints = np.maximum.reduceat(self.loads, self.begins[:-1], axis=0)
        return caps


def limit_loads(packing: Packing, digits: Digits) -> Ints:
    """Return N x S: most pods of each kind that are worth having on each node, as far as they fit.

    The other pods leave one of any n nodes empty. So no pod costs more, fragmentation aside, than
    the first one on the n-th cheapest of the nodes that accept it.
    """
    most = packing.fitting
    number, ladders = int(packing.counts.sum()), packing.ladders
    charging = ladders is not None or bool(packing.penalties.any())
    for kind in range(len(packing.kinds)):
        open_to = np.flatnonzero(most[:, kind])
        if charging and 0 < number <= len(open_to):
            nth = np.arange(most[:, kind].max())
            costs = digits.penalty * packing.penalties[:, [kind]] + 0 * nth
            if ladders:
                costs += digits.charge * ladders.steps[ladders.which[:, [kind]], nth]
            dearest = np.partition(costs[open_to, 0], number - 1)[number - 1]
            most[:, kind] = np.minimum(most[:, kind], (costs <= dearest).sum(axis=1))
    return most


def list_useful_loads(
    packing: Packing,
    most: Ints,
    fragmentation: Fragmentation | None,
    digits: Digits,
    most_loads: int,
    most_sorted: int,
) -> NodeLoads | None:
    """Return the loads that are not dominated; `most` is at least that of `limit_loads`.

    None if there are more than `most_loads` on distinct nodes, or `most_sorted` to choose from.
    """
    groups = _group_nodes(packing, most, fragmentation, digits, most_loads)
    if groups is None:
        return None
    sums = groups.loads.sum(axis=1)
    number = np.where(sums, int(packing.counts.sum()) + 1 - sums, len(packing.free))
    sizes = np.bincount(groups.of_nodes, minlength=len(groups.empty))
    copies = np.minimum(sizes[groups.of_loads], number)
    if int(copies.sum()) > most_sorted:
        return None
    load = np.repeat(np.arange(len(sums)), copies)
    members = np.argsort(groups.of_nodes, kind="stable")
    node = members[_concat_ranges((sizes.cumsum() - sizes)[groups.of_loads], copies)]
    beyond = groups.costs - groups.empty[groups.of_loads]
    code = groups.loads @ place_values((most.max(axis=0, initial=0) + 1).tolist())
    order = np.lexsort((node, beyond[load], code[load]))
    first = np.searchsorted(code[load][order], code[load][order])
    kept = order[np.arange(len(order)) - first < number[load][order]]
    used = np.zeros(len(packing.free), dtype=np.bool_)
    used[node[kept][sums[load[kept]] > 0]] = True
    kept = kept[used[node[kept]]]
    kept = kept[np.lexsort((load[kept], node[kept]))]
    nodes = np.flatnonzero(used)
    begins = np.searchsorted(node[kept], [*nodes.tolist(), len(used)])
    elsewhere = int(groups.empty[groups.of_nodes[~used]].sum())
    load = load[kept]
    return NodeLoads(nodes, begins, groups.loads[load], groups.costs[load], elsewhere)


class _Groups(NamedTuple):
    """Groups of nodes with equal costs of equal loads, and these loads in lexicographic order."""

    #: N, the group of each node
    of_nodes: Ints
    #: K, the group of each load
    of_loads: Ints
    #: K x S
    loads: Ints
    #: K
    costs: Ints
    #: cost of an empty node of each group
    empty: Ints


def _group_nodes(
    packing: Packing,
    most: Ints,
    fragmentation: Fragmentation | None,
    digits: Digits,
    most_loads: int,
) -> _Groups | None:
    first, look_of = group_equal_rows(packing.free, packing.allocatable, most)
    enumerated = _enumerate_loads(packing, first, most[first], most_loads)
    if enumerated is None:
        return None
    look, loads, room = enumerated
    costs = np.zeros(len(look), dtype=np.int64)
    if fragmentation is not None:
        size = packing.allocatable[first[look]]
        costs = fragmentation.costs(packing.axes, size, room) >> digits.lost
    ladders, penalties = packing.ladders, packing.penalties
    charging = [ladders.which] if ladders else []
    heads, group_of = group_equal_rows(
        look_of[:, None], *charging, *([penalties] if penalties.any() else [])
    )
    begins = np.searchsorted(look, np.arange(len(first) + 1))
    lengths = np.diff(begins)[look_of[heads]]
    group = np.repeat(np.arange(len(heads)), lengths)
    rows = _concat_ranges(begins[look_of[heads]], lengths)
    loads, costs, empty = loads[rows], costs[rows], costs[begins[look_of[heads]]]
    if ladders:
        costs += digits.charge * ladders.of(heads[group], loads)
    if penalties.any():
        costs += digits.penalty * (loads * penalties[heads[group]]).sum(axis=1)
    return _Groups(group_of, group, loads, costs, empty)


def _enumerate_loads(
    packing: Packing, nodes: Ints, most: Ints, most_loads: int
) -> tuple[Ints, Ints, Ints] | None:
    """Return every load that fits: the index of its node, its counts, and the capacity it leaves.

    most: of each node. None if there are more than `most_loads`. Loads grow kind by kind out of the
    free capacity, so no sum of requests can overflow.
    """
    owner, room = np.arange(len(nodes)), packing.free[nodes]
    loads = np.zeros((len(nodes), 0), dtype=np.int64)
    for kind, requests in enumerate(packing.requests):
        asked = np.flatnonzero(requests)
        repeats = most[owner, kind]
        if len(asked):
            repeats = np.minimum(repeats, (room[:, asked] // requests[asked]).min(axis=1))
        repeats += 1
        if int(repeats.sum()) > most_loads:
            return None
        parent = np.repeat(np.arange(len(owner)), repeats)
        number = _concat_ranges(np.zeros_like(repeats), repeats)
        room = room[parent] - number[:, None] * requests
        loads = np.column_stack((loads[parent], number))
        owner = owner[parent]
    return owner, loads, room


def place_values(sizes: Sequence[int]) -> Ints:
    """Return the place value of each digit of a flat index; that of the last is 1."""
    return np.array([math.prod(sizes[at + 1 :]) for at in range(len(sizes))], dtype=np.int64)


def _concat_ranges(begins: Ints, lengths: Ints) -> Ints:
    """Return the concatenated ranges that start at `begins` and have these lengths."""
    before = lengths.cumsum() - lengths
    return np.arange(int(lengths.sum())) + np.repeat(begins - before, lengths)
