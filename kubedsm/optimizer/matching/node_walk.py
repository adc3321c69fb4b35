"""Shortest-path search that decides node by node: dynamic programming for the migration algorithms
`suggest` and `reorder_edge`.

A state is a vector of integers, such as differences of pod counts. On each node, one of several
options adds a vector to the state, with a cost. Only enumerated states are permitted, and callers
prune by enumerating fewer states. Vectors are identified by a mixed-radix code, whose digits are
sufficient for every option.
"""

import math
from collections.abc import Sequence

import attrs
import numpy as np

from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds, place_values

#: Largest lookup table of states; above, binary search.
_TABLE = 2**22
#: Pairs of option and state in one numpy call.
_BLOCK = 2**17
_LARGEST_CODE = 2**62
#: Steps of work for a node, and for a pair of option and state.
_NODE_STEPS, _PAIR_STEPS = 30_000, 20


@attrs.frozen(eq=False)
class Options:
    """Alternative changes of the pods on one node, as vectors with costs; no change is always an
    option.
    """

    #: changes x dimensions
    vectors: Ints
    #: cost of each change
    costs: Ints


class _Codes:
    """Lookup of states (vectors of total changes) by a mixed-radix integer code."""

    def __init__(self, states: Ints, options: Sequence[Options]) -> None:
        none = np.zeros(states.shape[1], dtype=np.int64)
        extents = np.vstack((none, *(option.vectors for option in options)))
        low, high = extents.min(axis=0), extents.max(axis=0)
        self._origin = states.min(axis=0) + low
        widths = (states.max(axis=0) + high - self._origin + 1).tolist()
        total = math.prod(widths)
        # Codes must be distinct, hence within 64 bits.
        self.fit = total < _LARGEST_CODE
        self.places = place_values(widths) if self.fit else none
        self.codes = (states - self._origin) @ self.places
        self._table: Ints | None = None
        if total <= _TABLE:
            self._table = np.full(total, -1, dtype=np.int64)
            self._table[self.codes] = np.arange(len(states))
        else:
            self._order = np.argsort(self.codes, kind="stable")
            self._sorted = self.codes[self._order]

    def find(self, codes: Ints) -> Ints:
        """Return the index of the state with each mixed-radix code; -1 for codes of no state."""
        if self._table is not None:
            return self._table[codes]
        at = np.minimum(np.searchsorted(self._sorted, codes), len(self._sorted) - 1)
        return np.where(self._sorted[at] == codes, self._order[at], -1)


@attrs.frozen(eq=False)
class Walk:
    """Result of the node-by-node shortest-path search: least cost of each pod count change after
    each node.

    `layers[n]` contains the least costs after the first n nodes.
    """

    states: Ints
    options: tuple[Options, ...]
    layers: tuple[Ints, ...]

    @property
    def costs(self) -> Ints:
        return self.layers[-1]

    def choices(self, state: int) -> list[Ints | None]:
        """Return the change of each node's pod counts on the least-cost path, as a vector; None if
        unchanged.
        """
        found: list[Ints | None] = []
        index = {vector.tobytes(): at for at, vector in enumerate(self.states)}
        for node in range(len(self.options) - 1, -1, -1):
            here, before = self.layers[node + 1][state], self.layers[node]
            choice = None
            if before[state] != here:
                option = self.options[node]
                for vector, cost in zip(option.vectors, option.costs.tolist(), strict=True):
                    source = index.get((self.states[state] - vector).tobytes())
                    if source is not None and before[source] + cost == here:
                        choice, state = vector, source
                        break
            found.append(choice)
        return found[::-1]


def walk_nodes(
    states: Ints, ceilings: Ints, options: Sequence[Options], bounds: Bounds
) -> Walk | None:
    """Compute the least cost of reaching each combination of pod count changes, node by node;
    return None above the exact-search limit.

    states: shape (states, dimensions), the zero vector included. ceilings: greatest acceptable cost
    of each state. Among equal costs, the path with the fewest changes on the last nodes is
    preferred.
    """
    codes = _Codes(states, options)
    if not codes.fit:
        return None
    layer = np.full(len(states), UNREACHABLE, dtype=np.int64)
    layer[np.flatnonzero(~states.any(axis=1))[0]] = 0
    layers = [layer]
    steps = bounds.steps
    for option in options:
        if not len(option.costs):
            layers.append(layer)
            continue
        alive = np.flatnonzero(layer < UNREACHABLE)
        pairs = len(alive) * len(option.costs)
        steps -= pairs
        if steps < 0 or bounds.deadline.spend(_NODE_STEPS + _PAIR_STEPS * pairs):
            return None
        layer = _relax_node(layer, alive, option, codes, ceilings)
        layers.append(layer)
    return Walk(states, tuple(options), tuple(layers))


def _relax_node(layer: Ints, alive: Ints, option: Options, codes: _Codes, ceilings: Ints) -> Ints:
    following = layer.copy()
    offsets = option.vectors @ codes.places
    at, reached = codes.codes[alive], layer[alive]
    at_once = max(1, _BLOCK // max(1, len(alive)))
    for start in range(0, len(offsets), at_once):
        block = slice(start, start + at_once)
        target = codes.find(at + offsets[block, None])
        cost = reached + option.costs[block, None]
        kept = target >= 0
        target, cost = target[kept], cost[kept]
        worth = cost <= ceilings[target]
        np.minimum.at(following, target[worth], cost[worth])
    return following
