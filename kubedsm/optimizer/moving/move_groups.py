"""Which moves wait for which, and which belong together.

A move holds room on its target from its start, and on its source until its old pod is gone. So
it can start at once if its target has room for it, and otherwise has to wait for the moves that
leave its target. Moves that wait for one another, in whichever direction, are a group. Where they
wait in a circle, some stop over in the cloud: only here it is said which, and how that is done.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice

import attrs

from kubedsm.model.model import NodeName, Resources, Uid, Workload
from kubedsm.objective.gains import LEAST_GAIN, Gain, Gains, leading
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.suggestion import Leg, Move, MoveKind, first_leg
from kubedsm.plugins.fit import shortages

Needs = dict[Uid, frozenset[Uid]]
Moves = tuple[Move, ...]

_WITHIN_A_TIER = frozenset({MoveKind.EDGE_TO_EDGE, MoveKind.CLOUD_TO_CLOUD})
_NONE: frozenset[Uid] = frozenset()
#: Choices of moves to stop over that are looked at.
_CHOICES = 512


@attrs.frozen(eq=False)
class Order:
    """Moves that can be carried out, and what each has to wait for."""

    moves: tuple[Move, ...] = ()
    #: the moves that must have left their sources
    needs: Needs = attrs.field(factory=dict)
    #: the moves that must be over, because of rules about other pods
    waits: Needs = attrs.field(factory=dict)

    @property
    def joined(self) -> Needs:
        return {uid: needed | self.waits.get(uid, _NONE) for uid, needed in self.needs.items()}

    def legs(self, moves: Sequence[Move]) -> tuple[Leg, ...]:
        """The legs of some of the moves, each after those that it needs; by name, if either may be.

        Moves are left out by groups, so that none needs room that nothing leaves.
        """
        by_uid = {move.pod.uid: move for move in moves if move.source is not None}
        legs: list[Leg] = []
        for uid, move in by_uid.items():
            needs = {first_leg(by_uid[other]) for other in self.needs[uid] & by_uid.keys()}
            waits = {str(by_uid[o].pod) for o in self.waits.get(uid, _NONE) & by_uid.keys()}
            legs += halves(move, frozenset(needs | waits))
        return in_order(legs)


def in_order(legs: Iterable[Leg]) -> tuple[Leg, ...]:
    """Each after those that it needs; by name, if either may be.

    Raises ValueError if some never have their turn.
    """
    left = {leg.name: leg for leg in legs}
    ordered: dict[str, Leg] = {}
    while left:
        ready = [name for name, leg in left.items() if leg.needs <= ordered.keys()]
        if not ready:
            raise ValueError(f"these wait for each other: {', '.join(left)}")
        ordered[min(ready)] = left.pop(min(ready))
    return tuple(ordered.values())


def halves(move: Move, needs: frozenset[str]) -> Iterator[Leg]:
    """The legs of a move whose last one has these needs."""
    if move.source is None:
        return
    if move.stopover is None:
        yield Leg(move, move.source, move.target, needs)
        return
    yield Leg(move, move.source, move.stopover)
    yield Leg(move, move.stopover, move.target, needs | {first_leg(move)})


def needs_of(moves: Sequence[Move], free: Mapping[NodeName, Resources]) -> Needs:
    """Which moves must have freed their room before each may start.

    The room a target has now is given to moves inside the edge first, since others may wait for
    them to leave, and then to the smallest; what is left without waits for all that leave it.
    Where moves would wait in a circle for that, each waits for no more than it must.
    """
    found: Needs = {}
    leaving: dict[NodeName, set[Uid]] = {}
    coming: dict[NodeName, list[Move]] = {}
    room = dict(free)
    for move in moves:
        coming.setdefault(move.target, []).append(move)
        if move.source is not None:
            leaving.setdefault(move.source, set()).add(move.pod.uid)
    for target, arriving in coming.items():
        for move in sorted(arriving, key=_turn):
            if shortages(move.pod.requests, room[target]):
                found[move.pod.uid] = frozenset(leaving.get(target, ()))
            else:
                room[target] -= move.pod.requests
                found[move.pod.uid] = frozenset()
    if len(startable(found)) == len(found):
        return found
    return {**found, **_least_needs(moves, {uid for uid in found if not found[uid]}, room, leaving)}


def _least_needs(
    moves: Sequence[Move],
    over: set[Uid],
    room: dict[NodeName, Resources],
    leaving: Mapping[NodeName, set[Uid]],
) -> Needs:
    """What the others wait for if each starts as soon as what left its target makes room for it.

    Of two with one target, the later waits for all that the earlier does, so that there is room for
    both in any order. Nothing is said of those that never start.
    `over`: the moves that need nothing; `room`: what is free beside all of these.
    """
    found: Needs = {}
    gone: set[Uid] = set()
    left = sorted((move for move in moves if move.pod.uid not in over), key=_turn)
    by_uid = {move.pod.uid: move for move in moves}
    while over != gone:
        for uid in over - gone:
            source = by_uid[uid].source
            if source is not None:
                room[source] += by_uid[uid].pod.requests
        gone = set(over)
        for move in left:
            target, uid = move.target, move.pod.uid
            if uid not in over and not shortages(move.pod.requests, room[target]):
                found[uid] = frozenset(leaving.get(target, set()) & gone)
                room[target] -= move.pod.requests
                over.add(uid)
    return found


def _turn(move: Move) -> tuple[bool, int, int, str, str]:
    requests = move.pod.requests
    inside = move.kind is MoveKind.EDGE_TO_EDGE
    return not inside, requests.cpu, requests.memory, move.pod.namespace, move.pod.name


def startable(needs: Needs, stopping: Container[Uid] = ()) -> set[Uid]:
    """The moves that come to their turn, if those that stop over leave their sources at once."""
    over: set[Uid] = set()
    gone = {uid for uid in needs if uid in stopping}
    while ready := [uid for uid in needs if uid not in over and needs[uid] <= gone]:
        over.update(ready)
        gone.update(ready)
    return over


def circles_broken(moves: Sequence[Move], needs: Needs) -> Iterator[tuple[Move, ...]]:
    """Which moves may stop over so that none waits for itself: the fewest, then the smallest pods.

    Of the moves within the edge, which alone others wait for and themselves wait for others.
    """
    stuck = needs.keys() - startable(needs)
    waited_for = {uid for each in stuck for uid in needs[each]} & stuck
    inside = [m for m in moves if m.pod.uid in waited_for and m.kind is MoveKind.EDGE_TO_EDGE]
    inside.sort(key=lambda move: (move.pod.requests.cpu, move.pod.requests.memory, str(move.pod)))
    choices = (c for n in range(len(inside) + 1) for c in combinations(inside, n))
    for chosen in islice(choices, _CHOICES):
        if len(startable(needs, {move.pod.uid for move in chosen})) == len(needs):
            yield chosen


def grouped(moves: Sequence[Move], needs: Needs, gains: Gains) -> list[Moves]:
    """The groups, in the order of their first moves.

    One that is worth nothing alone, because what it gives up only pays with what another group
    does for the same workload, is joined to that.
    """
    group = {move.pod.uid: at for at, move in enumerate(moves)}
    for uid, others in needs.items():
        for other in others:
            _join(group, group[uid], group[other])
    while True:
        parts = _parts(moves, group)
        weak = next(
            (
                (part, other)
                for part in parts
                if not worth(gains_of(gains, part), part)
                for other in parts
                if other is not part and _changed(part) & _changed(other)
            ),
            None,
        )
        if weak is None:
            return parts
        _join(group, group[weak[0][0].pod.uid], group[weak[1][0].pod.uid])


def _join(group: dict[Uid, int], one: int, other: int) -> None:
    for uid, at in group.items():
        if at == other:
            group[uid] = one


def _parts(moves: Sequence[Move], group: Mapping[Uid, int]) -> list[Moves]:
    parts: dict[int, list[Move]] = {}
    for move in moves:
        parts.setdefault(group[move.pod.uid], []).append(move)
    return [tuple(part) for part in parts.values()]


def _changed(part: Iterable[Move]) -> frozenset[Workload]:
    return frozenset(workload for workload, change in edge_changes(part).items() if change)


def edge_changes(moves: Iterable[Move]) -> dict[Workload, int]:
    """How many more pods each workload has on the edge after the moves."""
    changes: dict[Workload, int] = {}
    for move in moves:
        if move.kind not in _WITHIN_A_TIER:
            change = -1 if move.kind is MoveKind.EDGE_TO_CLOUD else 1
            changes[move.pod.workload] = changes.get(move.pod.workload, 0) + change
    return changes


def gains_of(gains: Gains, moves: Iterable[Move]) -> Gain:
    return gains.of_changes(edge_changes(moves))


def stopovers(moves: Iterable[Move]) -> int:
    return sum(move.stopover is not None for move in moves)


def legs_of(moves: Collection[Move]) -> int:
    """How many pods get another node, those counted twice that stop over on their way."""
    return len(moves) + stopovers(moves)


def moves_of(part: Iterable[Move]) -> int:
    """How many pods are moved; those that get their first node are not."""
    return sum(move.source is not None for move in part)


def disruptions(part: Collection[Move]) -> int:
    """How often a pod is moved, or the first half of a move: what has a price."""
    return moves_of(part) + stopovers(part)


def per_move(gain: Gain, part: Collection[Move]) -> tuple[float, ...]:
    """Points of QoS a disruption, by level."""
    number = max(1, disruptions(part))
    return tuple(amount / NANO / number for amount in gain)


def worth(gain: Gain, part: Collection[Move]) -> bool:
    return leading(per_move(gain, part)) > LEAST_GAIN
