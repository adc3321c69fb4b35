"""What makes a cost in `match`: penalties, below them charges, below these fragmentation.

A cost is one number of three digits, of all nodes together.
"""

import attrs

from kubedsm.objective.fragmentation import SCALE
from kubedsm.optimizer.matching.problem import Packing

#: No sum of costs is greater; an addition to something UNREACHABLE stays within 64 bits.
_LARGEST_SUM = 2**60


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
    return len(packing.free) * (SCALE >> lost) + 1
