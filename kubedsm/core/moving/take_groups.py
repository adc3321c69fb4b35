"""Which groups of moves are taken: those that are worth it."""

from collections.abc import Callable, Iterable, Sequence

import attrs

from kubedsm.core.goals.fragmentation import SCALE
from kubedsm.core.goals.gains import LEAST_GAIN, Gain, Gains, leading
from kubedsm.core.moving.move_groups import (
    Group,
    Needs,
    cycles,
    edge_changes,
    gains_of,
    grouped,
    per_move,
    worth,
)
from kubedsm.core.moving.suggestion import SuggestLimits
from kubedsm.core.moving.transfers import Transfer
from kubedsm.core.world.model import Uid

#: What a group that changes no QoS must take from the fragmentation.
_LEAST_DEFRAGMENTED = SCALE // 100

#: The fragmentation of the edge once these moves are carried out.
FragmentationAfter = Callable[[Iterable[Transfer]], int]


@attrs.frozen
class Taken:
    groups: tuple[Group, ...] = ()
    #: of each group: the QoS that would be lost without it, in points a move, at the highest
    #: priority at which any would
    gains: tuple[float, ...] = ()
    #: of all the moves that were proposed
    needs: Needs = attrs.field(factory=dict)
    #: groups not taken, and why
    left: tuple[tuple[Group, str], ...] = ()

    @property
    def moves(self) -> list[Transfer]:
        return [move for group in self.groups for move in group]


def take_groups(
    moves: Sequence[Transfer],
    needs: Needs,
    gains: Gains,
    limits: SuggestLimits,
    fragmentation_after: FragmentationAfter,
) -> Taken:
    """Leave groups out, the least worthwhile first, until all that remain are worth it.

    One at a time: what a group is worth depends on the others, for a promise is kept together.
    """
    circular = {uid for cycle in cycles(needs) for uid in cycle}
    kept = grouped(moves, needs, gains)
    left: list[tuple[Group, str]] = []
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
                objection = _order_objection(drop, group, circular, limits)
            marginal.append((gain, objection))
        refused = [(gain, at) for at, (gain, objection) in enumerate(marginal) if objection]
        if not refused:
            worths = tuple(leading(gain) for gain, _ in marginal)
            return Taken(tuple(kept), worths, needs, tuple(left))
        worst = min(refused)[1]
        left.append((kept.pop(worst), marginal[worst][1]))
    return Taken(left=tuple(left))


def _gain_objection(gain: float, alone: Gain, group: Group, limits: SuggestLimits) -> str:
    if not worth(alone, group) or gain <= LEAST_GAIN:
        return "its group of moves gains no QoS"
    if gain < limits.min_gain:
        return f"its group gains {gain:.6f} a move, less than minGain {limits.min_gain:g}"
    return ""


def _order_objection(drop: int, group: Group, circular: set[Uid], limits: SuggestLimits) -> str:
    if not limits.defragment:
        return "its group changes no QoS, and defragment is off"
    if drop < _LEAST_DEFRAGMENTED:
        return "its group changes no QoS, and takes less than 1 % of a node from fragmentation"
    if any(move.pod.uid in circular for move in group):
        return "its group changes no QoS, and its moves need one another's room"
    return ""
