"""Moves as they are asked for, and what of them holds on the cluster as it is now."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import attrs

from kubedsm.config.settings import Configuration
from kubedsm.kube.wire.move_request import RequestedMove
from kubedsm.model.model import NodeName, Uid
from kubedsm.model.sites import Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.moving.movable import Movable, default_movable
from kubedsm.optimizer.moving.suggestion import (
    Cause,
    Leg,
    Move,
    MoveKind,
    Suggestion,
    split_into_legs,
)
from kubedsm.optimizer.placing.batch import rejection_elsewhere
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.planner.pack_request import score_of
from kubedsm.planner.suggest_request import kept_by, reason_to_stay


def asked_by(suggestion: Suggestion) -> tuple[RequestedMove, ...]:
    """What is asked for by whoever wants that carried out."""
    last = {leg.move.pod.uid: leg for leg in suggestion.legs if leg.target == leg.move.target}
    return tuple(
        RequestedMove(
            pod=str(move.pod),
            uid=move.pod.uid,
            source=move.source or "",
            target=move.target,
            stopover=move.stopover or "",
            needs=tuple(sorted(last[move.pod.uid].needs)),
            group=move.group,
            gain=move.gain,
            rebalances=move.rebalances,
            load_scores=move.load_scores,
        )
        for move in suggestion.moves
    )


@attrs.frozen(slots=True)
class Holding:
    """Those that may be begun, and why not the others, by the uids of their pods."""

    legs: tuple[Leg, ...]
    refused: Mapping[str, str]

    def suggestion(self, snapshot: Snapshot, policy: KubeDSM) -> Suggestion:
        moves = tuple({leg.move.pod.uid: leg.move for leg in self.legs}.values())
        after = snapshot.with_placed({move.pod.uid: move.target for move in moves})
        return Suggestion(
            before=score_of(snapshot, policy),
            after=score_of(after, policy),
            moves=moves,
            legs=self.legs,
            proven=False,
        )


def holding(
    asked: Sequence[RequestedMove], snapshot: Snapshot, configuration: Configuration, away: Away
) -> Holding:
    """What of it holds. Whether there still is room, and it is worth it, is asked as each begins.

    Of moves that are to be made together none holds if one does not.
    """
    forbidden, kept = default_movable(snapshot), kept_by(away)
    refused: dict[str, str] = {}
    moves: dict[str, Move] = {}
    for each in asked:
        found = _move(
            each,
            snapshot,
            away,
            lambda pod: forbidden(pod) or kept(pod) or reason_to_stay(pod, configuration),
        )
        if isinstance(found, str) or each.uid in moves:
            refused[each.uid] = found if isinstance(found, str) else "it is asked for twice"
        else:
            moves[each.uid] = found
    broken = {each.group: each for each in asked if each.uid in refused}
    for each in asked:
        if each.group in broken and each.uid not in refused:
            refused[each.uid] = f"it goes with {broken[each.group].pod}, which is not moved"
    legs: list[Leg] = []
    for group in {each.group: None for each in asked if each.uid not in refused}:
        mine = [each for each in asked if each.group == group]
        try:
            legs += _order_legs(
                leg
                for each in mine
                for leg in split_into_legs(moves[each.uid], frozenset(each.needs))
            )
        except ValueError as error:
            refused |= {each.uid: str(error) for each in mine}
    return Holding(tuple(legs), refused)


def _order_legs(legs: Iterable[Leg]) -> Iterator[Leg]:
    """Yield requested legs in lexicographical topological order.

    Raise ValueError for a cycle, or for a need that is no leg of the request. By graphlib: the
    event loop's process does not import networkx.
    """
    by_name = {leg.name: leg for leg in legs}
    sorter = TopologicalSorter({name: leg.needs for name, leg in by_name.items()})
    try:
        sorter.prepare()
        known = all(leg.needs <= by_name.keys() for leg in by_name.values())
    except CycleError:
        known = False
    if not known:
        raise ValueError(f"legs wait for each other, or for no leg: {', '.join(by_name)}")
    ready = set[str]()
    while sorter:
        ready.update(sorter.get_ready())
        name = min(ready)
        ready.remove(name)
        yield by_name[name]
        sorter.done(name)


def _move(each: RequestedMove, snapshot: Snapshot, away: Away, movable: Movable) -> Move | str:
    """What is asked for, as it would be decided now; or why it does not hold."""
    pod = snapshot.pods.get(Uid(each.uid))
    if pod is None or str(pod) != each.pod:
        return "the pod is gone"
    if pod.node_name != each.source:
        return f"it is on {pod.node_name or 'no node'} now, not on {each.source}"
    if why := movable(pod):
        return str(why)
    stops = [NodeName(name) for name in (each.stopover, each.target) if name]
    for name in stops:
        if name not in snapshot.nodes:
            return f"node {name} is gone"
        if name in away.nodes:
            return str(Cause.SITE_AWAY.of())
    if not each.needs:
        rejected = rejection_elsewhere(snapshot, pod, snapshot.nodes[stops[0]])
        if rejected is not None:
            return f"{stops[0]}: {', '.join(rejected.reasons)}"
    source, target = snapshot.nodes[NodeName(each.source)], snapshot.nodes[stops[-1]]
    if source.tier is None or target.tier is None:
        return str(Cause.ON_NO_TIER.of())
    return Move(
        pod,
        source.name,
        target.name,
        MoveKind.between(source.tier, target.tier),
        stopover=stops[0] if len(stops) > 1 else None,
        group=each.group,
        gain=each.gain,
        rebalances=each.rebalances,
        load_scores=each.load_scores,
    )
