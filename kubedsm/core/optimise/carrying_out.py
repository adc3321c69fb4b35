"""A placement as a plan: which pods move, in which order, which go, and which get their first node.

A pod that moves is on two nodes for a while, and no pod is ever missing: so only that is a plan
which finds room for each move in turn. Moves that wait for one another in a circle are let out by
one that stops over where there is room. What cannot be carried out all the same is left as it is,
and then those that wait have what room there is.
"""

from collections.abc import Iterable, Mapping

import attrs
import numpy as np

from kubedsm.core.goals.fragmentation import Ints
from kubedsm.core.moving.move_groups import Moves, Order, needs_of, startable
from kubedsm.core.moving.proposal import allowed_of
from kubedsm.core.moving.suggestion import Leg, Move, MoveKind
from kubedsm.core.optimise.problem import Problem
from kubedsm.core.rules.fit import shortages
from kubedsm.core.world.model import NodeName, Pod, Resources, Tier, Uid
from kubedsm.core.world.serving_order import serving_order

_KINDS = {
    (Tier.EDGE, Tier.EDGE): MoveKind.EDGE_TO_EDGE,
    (Tier.EDGE, Tier.CLOUD): MoveKind.EDGE_TO_CLOUD,
    (Tier.CLOUD, Tier.EDGE): MoveKind.CLOUD_TO_EDGE,
    (Tier.CLOUD, Tier.CLOUD): MoveKind.CLOUD_TO_CLOUD,
}
#: What the rules about other pods did not allow where it was tried.
Refused = tuple[tuple[Pod, NodeName], ...]
_Room = dict[NodeName, Resources]


@attrs.frozen(eq=False)
class Plan:
    """What is done: first the pods evicted go, then the legs, at last the awaited pods come."""

    moves: Moves = ()
    legs: tuple[Leg, ...] = ()
    awaited: Moves = ()
    evicted: tuple[Pod, ...] = ()
    refused: Refused = ()


def plan_of(problem: Problem, loads: Ints, *, gaps: bool) -> Plan:
    """What leads to these loads, or as far in their direction as it can be carried out.

    gaps: pods that move may be missing for a while: all of them leave before any comes.
    """
    moves, awaited, evicted = _transfers(problem, loads)
    if gaps:
        return Plan(moves, (), awaited, evicted)
    return _carried_out(problem, moves, awaited, evicted)


def trimmed(problem: Problem, plan: Plan) -> Plan:
    """The same without what makes no room for anything that comes."""
    for pod in (*plan.evicted, *(move.pod for move in plan.moves)):
        left = loads_after(problem, plan)
        row, kind = problem.names.index(pod.node_name), problem.kind_of[pod.uid]
        left[row, kind] += 1
        if (left[row] @ problem.packing.requests > problem.packing.free[row]).any():
            continue
        moves = tuple(move for move in plan.moves if move.pod.uid != pod.uid)
        evicted = tuple(other for other in plan.evicted if other.uid != pod.uid)
        fewer = _carried_out(problem, moves, plan.awaited, evicted)
        if len(fewer.moves) == len(moves) and len(fewer.awaited) == len(plan.awaited):
            plan = fewer
    return plan


def _carried_out(problem: Problem, moves: Moves, awaited: Moves, evicted: tuple[Pod, ...]) -> Plan:
    """As far as it can be."""
    refused: Refused = ()
    free = dict(problem.snapshot.free)
    for pod in evicted:
        if pod.node_name is not None:
            free[pod.node_name] += pod.requests
    order = _startable(problem, moves, free)
    came = _placed(problem, awaited, _after(free, order.moves))
    if problem.rules is not None:
        feasibility = problem.rules.feasibility
        for pod in evicted:
            feasibility = feasibility.without_pod(pod.uid)
        order, impasses = allowed_of(feasibility, (*order.moves, *came), free)
        refused = tuple((each.move.pod, each.move.target) for each in impasses)
        came = tuple(move for move in order.moves if move.source is None)
    made = tuple(move for move in order.moves if move.source is not None)
    return Plan(made, order.legs(made), came, evicted, refused)


def loads_after(problem: Problem, plan: Plan) -> Ints:
    """Where the pods are once the plan is carried out."""
    loads = problem.old.copy()
    rows = {name: row for row, name in enumerate(problem.names)}
    for move in (*plan.moves, *plan.awaited):
        loads[rows[move.target], problem.kind_of[move.pod.uid]] += 1
    for pod, source in [(p, p.node_name) for p in plan.evicted] + [
        (move.pod, move.source) for move in plan.moves
    ]:
        if source is not None:
            loads[rows[source], problem.kind_of[pod.uid]] -= 1
    return loads


def _transfers(problem: Problem, loads: Ints) -> tuple[Moves, Moves, tuple[Pod, ...]]:
    """Which pods move, which of those that wait come, and which have no place any more."""
    moves: list[Move] = []
    awaited: list[Move] = []
    evicted: list[Pod] = []
    tier_of = {node.name: node.tier for node in problem.packing.nodes}
    changes = loads - problem.old
    room = problem.packing.free - problem.old @ problem.packing.requests
    moving = problem.kept(loads) - np.minimum(loads, problem.old).sum(axis=0)
    for kind, (column, number) in enumerate(zip(changes.T.tolist(), moving.tolist(), strict=True)):
        leaving = [
            pod
            for row, change in enumerate(column)
            if change < 0
            for pod in problem.running[kind][row][change:]
        ]
        places = [row for row, change in enumerate(column) for _ in range(max(0, change))]
        # A pod that moves needs its new room beside its old one: it goes where most is free.
        places.sort(key=lambda row: (-int(room[row].min()), row))
        names = [problem.names[row] for row in places]
        for pod, name in zip(leaving[:number], names, strict=False):
            source = pod.node_name
            if source is not None:
                way = _KINDS[tier_of[source] or Tier.CLOUD, tier_of[name] or Tier.CLOUD]
                moves.append(Move(pod, source, name, way))
        evicted += leaving[number:]
        coming = zip(problem.waiting[kind], names[number:], strict=False)
        awaited += [Move(pod, None, name, None) for pod, name in coming]
    return tuple(moves), tuple(awaited), tuple(evicted)


def _startable(problem: Problem, moves: Moves, free: Mapping[NodeName, Resources]) -> Order:
    """Those of the moves that can be carried out, some of them with a stopover."""
    while True:
        needs = needs_of(moves, free)
        stopping = _stopovers(problem, moves, needs, free)
        done = startable(needs, stopping)
        if len(done) == len(moves):
            placed = tuple(
                attrs.evolve(move, stopover=stopping.get(move.pod.uid)) for move in moves
            )
            return Order(placed, needs)
        moves = tuple(move for move in moves if move.pod.uid in done)


def _stopovers(
    problem: Problem,
    moves: Moves,
    needs: Mapping[Uid, frozenset[Uid]],
    free: Mapping[NodeName, Resources],
) -> dict[Uid, NodeName]:
    """Where moves that wait in a circle may stop over, beside all that comes there."""
    found: dict[Uid, NodeName] = {}
    spare = dict(free)
    for move in moves:
        spare[move.target] -= move.pod.requests
    while True:
        done = startable(dict(needs), found)
        stuck = [move for move in moves if move.pod.uid not in done]
        wanted = {uid for move in stuck for uid in needs[move.pod.uid]}
        stuck = [m for m in stuck if m.pod.uid in wanted and m.pod.uid not in found]
        for move in sorted(stuck, key=lambda m: (m.pod.requests.cpu, m.pod.requests.memory)):
            node = _stopover(problem, move, spare)
            if node is not None:
                found[move.pod.uid] = node
                spare[node] -= move.pod.requests
                break
        else:
            return found


def _stopover(problem: Problem, move: Move, spare: Mapping[NodeName, Resources]) -> NodeName | None:
    open_to = problem.open_to(move.pod)
    fitting = [
        name
        for name in open_to
        if name not in {move.source, move.target} and not shortages(move.pod.requests, spare[name])
    ]
    return max(fitting, key=lambda name: (spare[name].cpu, name), default=None)


def _after(free: Mapping[NodeName, Resources], moves: Iterable[Move]) -> _Room:
    after = dict(free)
    for move in moves:
        after[move.target] -= move.pod.requests
        if move.source is not None:
            after[move.source] += move.pod.requests
    return after


def _placed(problem: Problem, awaited: Moves, room: _Room) -> Moves:
    """Pods that wait, where there is room for them: those and there first that were meant."""
    meant = {move.pod.uid: move.target for move in awaited}
    waiting = [pod for of_kind in problem.waiting for pod in of_kind]
    waiting.sort(
        key=lambda pod: (-pod.pod_class.priority, pod.uid not in meant, *serving_order(pod))
    )
    found: list[Move] = []
    for pod in waiting:
        names = [name for name in problem.open_to(pod) if not shortages(pod.requests, room[name])]
        if not names:
            continue
        target = meant.get(pod.uid)
        if target not in names:
            target = min(names, key=lambda name: (room[name].cpu, room[name].memory, name))
        found.append(Move(pod, None, target, None))
        room[target] -= pod.requests
    return tuple(found)
