"""Of placements that are worth the same, the one that treats workloads most alike.

Where QoS is equal, so is the weighted sum of the shares below the promises, and that of those
beyond; so the least weighted sum of their squares is the least weighted variance. A workload that
weighs 2 counts like two that weigh 1. A share is what its users notice, and so it is shares that
are made equal, whatever was promised; nobody gets more than was promised before all have that.

What adds no QoS is not looked at, so that nothing goes to the edge, or stays away, for this alone.

It is part of the score: each share lowers it by so little that a difference in QoS of more than
a thousand-millionth of what the most important workload's is worth is never outdone.
"""

from collections.abc import Sequence

import attrs
import numpy as np

from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.objective import Objective, Promise

#: Units of the greatest score that one workload can have, and that all can have together.
_FINEST, _GREATEST_SUM = 2.0**52, 2.0**60
#: Units by which all unevenness together lowers a sum of scores: of up to 256 workloads 2^-30 of
#: the greatest score.
EVENNESS = 2**22


@attrs.frozen(eq=False)
class Prospect:
    """What can become of a workload."""

    #: numbers of pods on the edge, one more each
    edge: Ints
    total: int
    promise: Promise


def even_scores(objective: Objective, prospects: Sequence[Prospect]) -> list[Ints]:
    """The QoS of each of them for each of its numbers of pods, lowered by its unevenness.

    In units that are the same for all of them, and much finer than those of `Objective.score`:
    rounded to whole units, sums that are equal differ by at most one unit a workload.
    """
    scores, uneven = scores_and_unevenness(objective, prospects)
    return [of_score - of_uneven for of_score, of_uneven in zip(scores, uneven, strict=True)]


def scores_and_unevenness(
    objective: Objective, prospects: Sequence[Prospect]
) -> tuple[list[Ints], list[Ints]]:
    """What `even_scores` subtracts from what; all unevenness together is EVENNESS at most."""
    greatest = objective.most * max((p.promise.weight for p in prospects), default=0.0)
    unit = min(_FINEST, _GREATEST_SUM / max(1, len(prospects))) / (greatest or 1.0)
    scores = [objective.scores(p.edge, p.total, p.promise, unit) for p in prospects]
    uneven = []
    for prospect, of_prospect in zip(prospects, scores, strict=True):
        squares = np.square(prospect.edge / max(1, prospect.total))
        rising = np.where(np.diff(of_prospect) > 0, np.diff(squares), 0.0)
        uneven.append(prospect.promise.weight * np.append(0.0, rising.cumsum()))
    least = EVENNESS / (sum(float(sums[-1]) for sums in uneven) or 1.0)
    return scores, [np.rint(least * sums).astype(np.int64) for sums in uneven]
