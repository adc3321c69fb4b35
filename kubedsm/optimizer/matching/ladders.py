"""What nodes charge for the pods of a kind: for each next one as much as for the last, or more."""

from collections.abc import Iterable
from functools import cached_property

import attrs
import numpy as np

from kubedsm.objective.fragmentation import Ints


@attrs.frozen(eq=False)
class Ladders:
    """Of N nodes and S kinds; nodes that charge alike share one of the D ladders of P steps."""

    #: N x S, which ladder it is
    which: Ints
    #: D x P, what the next pod costs when so many have come; never less than the one before
    steps: Ints

    @cached_property
    def totals(self) -> Ints:
        """D x (P + 1), what so many pods cost together."""
        totals = np.zeros((len(self.steps), self.steps.shape[1] + 1), dtype=np.int64)
        totals[:, 1:] = self.steps.cumsum(axis=1)
        return totals

    def of(self, nodes: Ints, loads: Ints) -> Ints:
        """What each of these loads, K x S, costs on its node."""
        costs: Ints = self.totals[self.which[nodes], loads].sum(axis=1)
        return costs

    def least(self, kind: int, nodes: Ints, count: int) -> Ints:
        """What 0, 1, ... count pods of a kind cost at least on some of these nodes, room aside."""
        distinct, times = np.unique(self.which[nodes, kind], return_counts=True)
        return least_totals(self.steps[distinct], times, count)

    def greatest(self, counts: Iterable[int]) -> int:
        """So many pods of each kind cost no more, on these nodes or others of the same ladders."""
        return sum(
            int(self.steps[:, count - 1].max(initial=0)) * count for count in counts if count
        )


def least_totals(steps: Ints, times: Ints, count: int) -> Ints:
    """What 0, 1, ... count pods cost at least on nodes with these ladders, each there so often."""
    steps = steps[:, :count]
    order = np.argsort(steps, axis=None, kind="stable")
    repeats = np.repeat(np.minimum(times, count), steps.shape[1])[order]
    enough = int(np.searchsorted(repeats.cumsum(), count)) + 1
    cheapest = np.repeat(steps.ravel()[order[:enough]], repeats[:enough])[:count]
    return np.concatenate(([0], cheapest.cumsum()))


def alike(*looks: Ints) -> tuple[Ints, Ints]:
    """The first node of each look, and for all nodes which of these it looks like; N x any each."""
    listed = np.ascontiguousarray(np.hstack(looks))
    if not listed.size:
        return np.arange(min(len(listed), 1)), np.zeros(len(listed), dtype=np.int64)
    whole = listed.view(np.dtype((np.void, listed.itemsize * listed.shape[1])))
    seen: dict[object, int] = {}
    which = [seen.setdefault(look, len(seen)) for look in whole.ravel().tolist()]
    first = np.full(len(seen), len(which), dtype=np.int64)
    np.minimum.at(first, which, np.arange(len(which)))
    return first, np.array(which, dtype=np.int64)
