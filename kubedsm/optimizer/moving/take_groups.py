"""Which groups of moves are taken: those that are worth it."""

from collections.abc import Callable, Iterable

import attrs

from kubedsm.model.model import Workload
from kubedsm.objective.fragmentation import SCALE
from kubedsm.objective.gains import LEAST_GAIN, Gain, leading
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.migration_graph import Order, group_migrations
from kubedsm.optimizer.moving.proposal import Question
from kubedsm.optimizer.moving.suggestion import (
    Cause,
    Move,
    Moves,
    Reason,
    SuggestLimits,
    count_edge_changes,
    count_stopovers,
    gain_per_disruption,
    is_worthwhile,
    sum_gains,
)

#: What a group that changes no QoS must take from the fragmentation.
_LEAST_DEFRAGMENTED = SCALE // 100

#: What these moves add to the fragmentation of the edge.
FragmentationAdded = Callable[[Iterable[Move]], int]
#: The workloads that one node's death would take whole then.
AtRiskAfter = Callable[[Iterable[Move]], frozenset[Workload]]


@attrs.frozen
class Taken:
    groups: tuple[Moves, ...] = ()
    #: of each group: the QoS that would be lost without it, in points a move, at the highest
    #: priority at which any would
    gains: tuple[float, ...] = ()
    #: of all the moves that were proposed
    order: Order = attrs.field(factory=Order)
    #: groups not taken, and why
    left: tuple[tuple[Moves, Reason], ...] = ()

    @property
    def moves(self) -> list[Move]:
        return [
            attrs.evolve(move, group=number, gain=gain)
            for number, (group, gain) in enumerate(zip(self.groups, self.gains, strict=True))
            for move in group
        ]


def take_groups(
    order: Order,
    question: Question,
    fragmentation_added: FragmentationAdded,
    at_risk_after: AtRiskAfter,
    *,
    together: bool = False,
) -> Taken:
    """Leave groups out, the least worthwhile first, until all that remain are worth it.

    One at a time: what a group is worth depends on the others, for a promise is kept together.
    `together`: all moves are one group.
    """
    gains, worths = question.gains, question.worths
    kept = [order.moves] if together else group_migrations(order.moves, order.joined, gains)
    left: list[tuple[Moves, Reason]] = []
    while kept:
        everything = [move for group in kept for move in group]
        whole, all_worth = sum_gains(gains, everything), sum_gains(worths, everything)
        marginal: list[tuple[float, ...]] = []
        refused: list[tuple[tuple[float, ...], int, Reason]] = []
        for at, group in enumerate(kept):
            others = [move for other in kept if other is not group for move in other]
            gain = gain_per_disruption(_lost(whole, sum_gains(gains, others)), group)
            if any(count_edge_changes(group).values()):
                worth_of = _lost(all_worth, sum_gains(worths, others))
                alone = sum_gains(gains, group)
                reason = _too_little_gain(leading(gain), alone, worth_of, group, question)
            else:
                drop = fragmentation_added(others) - fragmentation_added(everything)
                reason = _no_order(drop, group, question.limits)
                if reason is None and at_risk_after(everything) - at_risk_after(others):
                    reason = Cause.LEAVES_ON_ONE_NODE.of()
            marginal.append(gain)
            if reason is not None:
                refused.append((gain, at, reason))
        if not refused:
            each = tuple(map(leading, marginal))
            return Taken(tuple(kept), each, order, tuple(left))
        _, worst, reason = min(refused)
        left.append((kept.pop(worst), reason))
    return Taken(left=tuple(left))


def _lost(whole: Gain, without: Gain) -> Gain:
    return tuple(all_ - less for all_, less in zip(whole, without, strict=True))


def _too_little_gain(
    gain: float, alone: Gain, lost: Gain, group: Moves, question: Question
) -> Reason | None:
    if not is_worthwhile(alone, group) or gain <= LEAST_GAIN:
        return Cause.NO_GAIN.of()
    cost = question.cost(group)
    if question.price and leading(lost) <= cost:
        return Cause.BELOW_ITS_PRICE.of(leading(lost) / NANO, cost / NANO)
    return None


def _no_order(drop: int, group: Moves, limits: SuggestLimits) -> Reason | None:
    if not limits.defragment:
        return Cause.NOT_DEFRAGMENTING.of()
    if drop < _LEAST_DEFRAGMENTED:
        return Cause.TOO_LITTLE_DEFRAGMENTED.of()
    if count_stopovers(group):
        return Cause.NEEDS_A_STOPOVER.of()
    return None
