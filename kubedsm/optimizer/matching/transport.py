"""Assignment of replicas to nodes by min-cost flow with convex spread costs (cycle cancelling).

A transportation problem: first each workload in turn fills the places with the fewest of its
replicas, then exchanges along negative cycles reduce the cost until none is left. With one zone the
result is optimal; with several, a cycle is judged as if it passed a zone once.
"""

from functools import cached_property

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.objective.fragmentation import Ints

_FAR = 2**40


@attrs.frozen(eq=False)
class Transport:
    """G groups and N places.

    One more pod of a group costs its number in the place and in the zone.
    """

    #: G x N, pods of each group in the place and in the zone before
    crowds: Ints
    #: N, numbers of zones
    zones: NDArray[np.intp]
    #: G: groups without spread cost
    indifferent: NDArray[np.bool_]

    @cached_property
    def _zoned(self) -> Ints:
        """N x Z: 1 for a place and its zone; zero if there is only one zone."""
        zones = np.unique(self.zones)
        zoned: Ints = ((self.zones[:, None] == zones) & (len(zones) > 1)).astype(np.int64)
        return zoned

    def _count_in_zones(self, shares: Ints) -> Ints:
        """Return for each place the number of pods in its zone, for each group."""
        in_zones: Ints = shares @ self._zoned @ self._zoned.T
        return in_zones

    def assign_places(self, sizes: Ints, slots: Ints) -> Ints:
        """Return G x N: the number of each group at each place, filling the slots."""
        shares = self._fill_greedily(sizes, slots)
        cost = self._total_cost(shares)
        while cost and (circled := self._cancel_cycle(shares)) is not None:
            less = self._total_cost(circled)
            if less >= cost:
                break
            shares, cost = circled, less
        return shares

    def _fill_greedily(self, sizes: Ints, slots: Ints) -> Ints:
        shares = np.zeros_like(self.crowds)
        left = slots.copy()
        # Ties go to the place with the most slots left; the first, for single pods.
        unit = int(slots.max()) + 1
        for group in np.lexsort((np.arange(len(sizes)), -sizes, self.indifferent)).tolist():
            rated = self._marginal_costs(shares, group) * unit - left * (sizes[group] > 1)
            rated = np.where(left > 0, rated, _FAR)
            for _ in range(int(sizes[group])):
                place = int(rated.argmin())
                shares[group, place] += 1
                left[place] -= 1
                if not self.indifferent[group]:
                    rated += unit * (self._zoned @ self._zoned[place])
                    rated[place] += unit
                rated[place] = rated[place] + 1 if left[place] > 0 else _FAR
        return shares

    def _marginal_costs(self, shares: Ints, group: int) -> Ints:
        """Return the cost of one more pod of the group in each place."""
        if self.indifferent[group]:
            return np.zeros_like(shares[group])
        company: Ints = self.crowds[group] + shares[group] + self._count_in_zones(shares[group])
        return company

    def _total_cost(self, shares: Ints) -> int:
        own = shares[~self.indifferent]
        joined = (own * self.crowds[~self.indifferent]).sum()
        beside = self._count_in_zones(own) - self._zoned.sum(axis=1)
        pairs = (own * (own - 1) + own * beside).sum() // 2
        return int(joined + pairs)

    def _cancel_cycle(self, shares: Ints) -> Ints | None:
        """Return the shares after an exchange along one negative cycle.

        None without a negative cycle.
        """
        shape = len(self.zones), len(self.zones)
        cheapest = np.full(shape, _FAR, dtype=np.int64)
        who = np.zeros(shape, dtype=np.int64)
        for group, share in enumerate(shares):
            there, company = np.flatnonzero(share), self._marginal_costs(shares, group)
            cost = company - company[there, None]
            if not self.indifferent[group]:
                # The pod itself no longer counts in the place it leaves, nor in a zone it leaves.
                zoned = self._zoned[there]
                cost = cost + 1 + zoned.sum(axis=1, keepdims=True) - zoned @ self._zoned.T
            who[there] = np.where(cost < cheapest[there], group, who[there])
            cheapest[there] = np.minimum(cost, cheapest[there])
        circle = _find_negative_cycle(cheapest)
        if circle is None:
            return None
        circled = shares.copy()
        for source, target in zip(circle, [*circle[1:], circle[0]], strict=True):
            circled[who[source, target], source] -= 1
            circled[who[source, target], target] += 1
        return circled


def _find_negative_cycle(costs: Ints) -> list[int] | None:
    """Return places along a negative cycle of the costs, N x N (Bellman-Ford).

    None if there is none.
    """
    number = len(costs)
    reached = np.zeros(number, dtype=np.int64)
    # From where each was reached; beyond the last place is the beginning.
    source = np.full(number + 1, number, dtype=np.int64)
    while True:
        through = reached[:, None] + costs
        nearer = through.min(axis=0)
        changed = nearer < reached
        if not changed.any():
            return None
        source[:-1] = np.where(changed, through.argmin(axis=0), source[:-1])
        reached = np.minimum(reached, nearer)
        far_back = source
        for _ in range(number.bit_length()):
            far_back = far_back[far_back]
        if (far_back[:-1] < number).any():
            break
    circle = [int(far_back[:-1].min())]
    while (before := int(source[circle[-1]])) != circle[0]:
        circle.append(before)
    return circle[::-1]
