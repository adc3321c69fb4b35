"""Which groups of moves are taken: those that are worth it."""

from collections.abc import Callable, Iterable

import attrs

from kubedsm.core.goals.fragmentation import SCALE
from kubedsm.core.goals.gains import LEAST_GAIN, Gain, Gains, leading
from kubedsm.core.moving.move_groups import (
    Moves,
    Order,
    edge_changes,
    gains_of,
    grouped,
    per_move,
    stopovers,
    worth,
)
from kubedsm.core.moving.suggestion import Move, SuggestLimits

#: What a group that changes no QoS must take from the fragmentation.
_LEAST_DEFRAGMENTED = SCALE // 100

#: The fragmentation of the edge once these moves are carried out.
FragmentationAfter = Callable[[Iterable[Move]], int]


@attrs.frozen
class Taken:
    groups: tuple[Moves, ...] = ()
    #: of each group: the QoS that would be lost without it, in points a move, at the highest
    #: priority at which any would
    gains: tuple[float, ...] = ()
    #: of all the moves that were proposed
    order: Order = attrs.field(factory=Order)
    #: groups not taken, and why
    left: tuple[tuple[Moves, str], ...] = ()

    @property
    def moves(self) -> list[Move]:
        return [
            attrs.evolve(move, group=number, gain=gain)
            for number, (group, gain) in enumerate(zip(self.groups, self.gains, strict=True))
            for move in group
        ]


def take_groups(
    order: Order,
    gains: Gains,
    limits: SuggestLimits,
    fragmentation_after: FragmentationAfter,
) -> Taken:
    """Leave groups out, the least worthwhile first, until all that remain are worth it.

    One at a time: what a group is worth depends on the others, for a promise is kept together.
    """
    kept = grouped(order.moves, order.joined, gains)
    left: list[tuple[Moves, str]] = []
    while kept:
        everything = [move for group in kept for move in group]
        whole = gains_of(gains, everything)
        marginal: list[tuple[tuple[float, ...], str]] = []
        for group in kept:
            others = [move for other in kept if other is not group for move in other]
            without = gains_of(gains, others)
            lost = tuple(all_ - less for all_, less in zip(whole, without, strict=True))
            gain = per_move(lost, group)
            if any(edge_changes(group).values()):
                objection = _gain_objection(leading(gain), gains_of(gains, group), group, limits)
            else:
                drop = fragmentation_after(others) - fragmentation_after(everything)
                objection = _order_objection(drop, group, limits)
            marginal.append((gain, objection))
        refused = [(gain, at) for at, (gain, objection) in enumerate(marginal) if objection]
        if not refused:
            worths = tuple(leading(gain) for gain, _ in marginal)
            return Taken(tuple(kept), worths, order, tuple(left))
        worst = min(refused)[1]
        left.append((kept.pop(worst), marginal[worst][1]))
    return Taken(left=tuple(left))


def _gain_objection(gain: float, alone: Gain, group: Moves, limits: SuggestLimits) -> str:
    if not worth(alone, group) or gain <= LEAST_GAIN:
        return "its group of moves gains no QoS"
    if gain < limits.min_gain:
        return f"its group gains {gain:.6f} a move, less than minGain {limits.min_gain:g}"
    return ""


def _order_objection(drop: int, group: Moves, limits: SuggestLimits) -> str:
    if not limits.defragment:
        return "its group changes no QoS, and defragment is off"
    if drop < _LEAST_DEFRAGMENTED:
        return "its group changes no QoS, and takes less than 1 % of a node from fragmentation"
    if stopovers(group):
        return "its group changes no QoS, and its moves need one another's room"
    return ""
