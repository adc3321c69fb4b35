"""Which moves wait for which, and which belong together.

A move holds room on its target from its start, and on its source until its old pod is gone. So
it can start at once if its target has room for it, and otherwise has to wait for the moves that
leave its target. Moves that wait for one another, in whichever direction, are a group.
"""

from collections.abc import Iterable, Mapping, Sequence

from kubedsm.core.goals.gains import LEAST_GAIN, Gain, Gains, leading
from kubedsm.core.goals.objective import NANO
from kubedsm.core.moving.suggestion import MoveKind
from kubedsm.core.moving.transfers import Transfer
from kubedsm.core.rules.fit import shortages
from kubedsm.core.world.model import NodeName, Resources, Uid, Workload

Needs = dict[Uid, frozenset[Uid]]
Group = tuple[Transfer, ...]


def needs_of(moves: Sequence[Transfer], free: Mapping[NodeName, Resources]) -> Needs:
    """Which moves must have freed their room before each may start.

    The room a target has now is given to moves inside the edge first, since others may wait for
    them to leave, and then to the smallest; who is left without waits for all that leave it.
    """
    found: Needs = {}
    leaving: dict[NodeName, set[Uid]] = {}
    coming: dict[NodeName, list[Transfer]] = {}
    for move in moves:
        coming.setdefault(move.target, []).append(move)
        if move.source is not None:
            leaving.setdefault(move.source, set()).add(move.pod.uid)
    for target, arriving in coming.items():
        room = free[target]
        for move in sorted(arriving, key=_turn):
            if shortages(move.pod.requests, room):
                found[move.pod.uid] = frozenset(leaving.get(target, ()))
            else:
                room -= move.pod.requests
                found[move.pod.uid] = frozenset()
    return found


def _turn(move: Transfer) -> tuple[bool, int, int, str, str]:
    requests = move.pod.requests
    inside = move.kind is MoveKind.EDGE_TO_EDGE
    return not inside, requests.cpu, requests.memory, move.pod.namespace, move.pod.name


def cycles(needs: Mapping[Uid, frozenset[Uid]]) -> list[frozenset[Uid]]:
    """The moves that cannot start before each other, cycle by cycle."""
    after = {uid: _reached(needs, uid) for uid in needs}
    found = {
        frozenset(other for other in after[uid] if uid in after.get(other, ()))
        for uid in needs
        if uid in after[uid]
    }
    return sorted(found, key=min)


def _reached(needs: Mapping[Uid, frozenset[Uid]], start: Uid) -> set[Uid]:
    seen: set[Uid] = set()
    ahead = list(needs[start])
    while ahead:
        uid = ahead.pop()
        if uid not in seen:
            seen.add(uid)
            ahead += needs.get(uid, ())
    return seen


def grouped(moves: Sequence[Transfer], needs: Needs, gains: Gains) -> list[Group]:
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


def _parts(moves: Sequence[Transfer], group: Mapping[Uid, int]) -> list[Group]:
    parts: dict[int, list[Transfer]] = {}
    for move in moves:
        parts.setdefault(group[move.pod.uid], []).append(move)
    return [tuple(part) for part in parts.values()]


def _changed(part: Iterable[Transfer]) -> frozenset[Workload]:
    return frozenset(workload for workload, change in edge_changes(part).items() if change)


def edge_changes(moves: Iterable[Transfer]) -> dict[Workload, int]:
    """How many more pods each workload has on the edge after the moves."""
    changes: dict[Workload, int] = {}
    for move in moves:
        if move.kind is not MoveKind.EDGE_TO_EDGE:
            change = -1 if move.kind is MoveKind.EDGE_TO_CLOUD else 1
            changes[move.pod.workload] = changes.get(move.pod.workload, 0) + change
    return changes


def gains_of(gains: Gains, moves: Iterable[Transfer]) -> Gain:
    return gains.of_changes(edge_changes(moves))


def moves_of(part: Iterable[Transfer]) -> int:
    """How many pods are moved; those that get their first node are not."""
    return sum(move.source is not None for move in part)


def per_move(gain: Gain, part: Iterable[Transfer]) -> tuple[float, ...]:
    """Points of QoS a move, by level."""
    moves = max(1, moves_of(part))
    return tuple(amount / NANO / moves for amount in gain)


def worth(gain: Gain, part: Iterable[Transfer]) -> bool:
    return leading(per_move(gain, part)) > LEAST_GAIN
