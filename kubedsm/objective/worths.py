"""What changes of the edge are worth, beside what moves cost: pod-seconds at the edge.

A move disrupts a pod now, for a gain that lasts as long as its workload stays as it is. Gains are
in points of the objective, of which one of n pods makes 1/n, so that a price in points would keep
the pods of large workloads in the cloud. Hence points are counted as pods of the average workload:
all promised pods together are worth what keeping all promises is, but for what keeping one in full
is worth beside (gamma).

Where moves have a price, what a workload has beyond its promise is a loss when it goes, and no gain
when it comes: nothing is moved for it.

Of two that are alike the one with the lower share comes first: a pod is worth the less the more of
its workload are on the edge, by so little that it decides only where all else is equal.
"""

from collections.abc import Mapping

import attrs
import numpy as np

from kubedsm.model.model import Share, Workload
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.gains import Gain, Gains, leads
from kubedsm.objective.lasting import Lasting
from kubedsm.objective.objective import NANO

#: By which part of itself a pod is worth less as the last of its workload than as the first. Far
#: more than what comes of rounding gains, far less than what one pod is to another's workload.
_EVENNESS = 1e-4


class Worths(Gains):
    """Gains in nano-pod-seconds."""

    def __init__(
        self, gains: Gains, lasting: Lasting, waiting: Mapping[Workload, int] | None = None
    ) -> None:
        """`waiting`: pods for which room is to be made; they count beyond the promise, too."""
        super().__init__(gains.shares, gains.promises, gains.objective, gains.priorities)
        self._lasting = lasting
        self._waiting = waiting or {}
        even = attrs.evolve(self.objective, gamma=0.0)
        pods = points = 0
        for workload, share in self.shares.items():
            promise = self.promises(workload)
            promised = promise.wanted(share.total)
            pods += promised
            points += even.gain(Share(0, share.total), promise, promised)
        self._pods_a_point = pods * NANO / points if points else 0.0

    def of_workload(self, workload: Workload, change: int) -> int:
        share = self.shares[workload]
        if change > 0:
            promised = self.promises(workload).wanted(share.total)
            change = min(change, max(promised - share.edge, self._waiting.get(workload, 0), 0))
        points = float(super().of_workload(workload, change))
        # The mean share on the way, so that of equal sums the one of more even shares is more.
        points *= 1 - _EVENNESS * (2 * share.edge + change) / (2 * share.total)
        return round(points * self._pods_a_point * self._lasting(workload))


def less_price(worths: Ints, cost: Ints) -> Ints:
    """What is left of what changes are worth, X x L, when they cost that, X.

    The price is paid where the gain leads, as what is gained there comes first.
    """
    left = worths.copy()
    left[np.arange(len(worths)), leads(worths)] -= cost
    return left


def net(worth: Gain, cost: int) -> Gain:
    """`less_price` of one."""
    at = next((level for level, amount in enumerate(worth) if amount), 0)
    return tuple(amount - cost * (level == at) for level, amount in enumerate(worth))
