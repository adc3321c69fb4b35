"""Packing plans: which pods migrate, in which order, which are evicted, and which get a node.

A migrating pod is on two nodes for a while, so each migration needs free capacity in turn. Cycles
are broken by stopovers. Infeasible migrations are dropped, and pending pods get the free capacity.
"""

from collections.abc import Container, Mapping
from functools import partial

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import NodeName, Pod, Resources, Tier, Uid, serving_order
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.moving.migration_graph import Order, break_cycles_greedily, find_needs
from kubedsm.optimizer.moving.proposal import drop_rejected
from kubedsm.optimizer.moving.suggestion import Leg, Move, MoveKind, Moves
from kubedsm.optimizer.packing.problem import Problem

#: Placements that rules between pods rejected.
Refused = tuple[tuple[Pod, NodeName], ...]


@attrs.frozen(eq=False)
class Plan:
    """Plan: evicted pods go first, then the legs, then the awaited pods come."""

    moves: Moves = ()
    legs: tuple[Leg, ...] = ()
    awaited: Moves = ()
    evicted: tuple[Pod, ...] = ()
    refused: Refused = ()


def make_plan(problem: Problem, loads: Ints, *, gaps: bool) -> Plan:
    """Return the plan to these loads, as far as it is feasible.

    gaps: all pods that migrate leave before any comes.
    """
    moves, awaited, evicted = _assign_pods(problem, loads)
    if gaps:
        return Plan(moves, (), awaited, evicted)
    return _make_feasible(problem, moves, awaited, evicted)


def trim_plan(problem: Problem, plan: Plan, deadline: Deadline) -> Plan:
    """Return the plan without disruptions that make no room for an arrival, as time allows."""
    gone = (*plan.evicted, *(move.pod for move in plan.moves))
    room, needless = problem.room_after(count_loads_after(problem, plan)), set[Uid]()
    for pod in gone:
        row, asks = problem.row_of[pod.node_name or ""], problem.asks_of(pod)
        if (room[row] >= asks).all():
            room[row] -= asks
            needless.add(pod.uid)
    fewer = _drop_disruptions(problem, plan, needless)
    if fewer is not None:
        return fewer
    for uid in needless:
        if deadline.passed:
            break
        plan = _drop_disruptions(problem, plan, {uid}) or plan
    return plan


def _drop_disruptions(problem: Problem, plan: Plan, gone: Container[Uid]) -> Plan | None:
    """Return the plan without these disruptions; None if it needs them."""
    moves = tuple(move for move in plan.moves if move.pod.uid not in gone)
    evicted = tuple(pod for pod in plan.evicted if pod.uid not in gone)
    fewer = _make_feasible(problem, moves, plan.awaited, evicted)
    same = len(fewer.moves) == len(moves) and len(fewer.awaited) == len(plan.awaited)
    return fewer if same else None


def _make_feasible(
    problem: Problem, moves: Moves, awaited: Moves, evicted: tuple[Pod, ...]
) -> Plan:
    """Return the feasible part of the plan."""
    refused: Refused = ()
    free = dict(problem.snapshot.free)
    for pod in evicted:
        if pod.node_name is not None:
            free[pod.node_name] += pod.requests
    order = _order_startable(problem, moves, free)
    before = count_loads_after(problem, Plan(order.moves, evicted=evicted))
    came = _place_awaited(problem, awaited, problem.room_after(before))
    if problem.rules is not None:
        feasibility = problem.rules.feasibility
        for pod in evicted:
            feasibility = feasibility.without_pod(pod.uid)
        order, impasses = drop_rejected(feasibility, (*order.moves, *came), free)
        refused = tuple((each.move.pod, each.move.target) for each in impasses)
        came = tuple(move for move in order.moves if move.source is None)
    made = tuple(move for move in order.moves if move.source is not None)
    return Plan(made, order.legs(made), came, evicted, refused)


def count_loads_after(problem: Problem, plan: Plan) -> Ints:
    """Return the loads after the plan."""
    loads = problem.old.copy()
    rows = problem.row_of
    for move in (*plan.moves, *plan.awaited):
        loads[rows[move.target], problem.kind_of[move.pod.uid]] += 1
    for pod, source in [(p, p.node_name) for p in plan.evicted] + [
        (move.pod, move.source) for move in plan.moves
    ]:
        if source is not None:
            loads[rows[source], problem.kind_of[pod.uid]] -= 1
    return loads


def _assign_pods(problem: Problem, loads: Ints) -> tuple[Moves, Moves, tuple[Pod, ...]]:
    """Return the pods that migrate, the pending pods that come, and the pods without a place."""
    moves: list[Move] = []
    awaited: list[Move] = []
    evicted: list[Pod] = []
    tier_of = {node.name: node.tier for node in problem.packing.nodes}
    changes = loads - problem.old
    room = problem.packing.free - problem.old @ problem.packing.requests
    moving = problem.kept(loads) - np.minimum(loads, problem.old).sum(axis=0)
    for kind in np.flatnonzero((changes != 0).any(axis=0)).tolist():
        column, number = changes[:, kind], int(moving[kind])
        leaving = [
            pod
            for row in np.flatnonzero(column < 0).tolist()
            for pod in problem.running[kind][row][int(column[row]) :]
        ]
        places = np.repeat(np.arange(len(column)), np.maximum(column, 0)).tolist()
        # A migrating pod needs capacity next to its old one: roomiest nodes first.
        places.sort(key=lambda row: (-int(room[row].min()), row))
        names = [problem.names[row] for row in places]
        for pod, name in zip(leaving[:number], names, strict=False):
            source = pod.node_name
            if source is not None:
                way = MoveKind.between(tier_of[source] or Tier.CLOUD, tier_of[name] or Tier.CLOUD)
                moves.append(Move(pod, source, name, way))
        evicted += leaving[number:]
        coming = zip(problem.waiting[kind], names[number:], strict=False)
        awaited += [Move(pod, None, name, None) for pod, name in coming]
    return tuple(moves), tuple(awaited), tuple(evicted)


def _order_startable(problem: Problem, moves: Moves, free: Mapping[NodeName, Resources]) -> Order:
    """Return the migrations that can be carried out, some of them with a stopover."""
    while True:
        needs = find_needs(moves, free)
        spare = problem.rows_of(free)
        for move in moves:
            spare[problem.row_of[move.target]] -= problem.asks_of(move.pod)
        find_stopover = partial(_reserve_stopover, problem, spare)
        stopovers, startable = break_cycles_greedily(moves, needs, find_stopover)
        if len(startable) == len(moves):
            ordered = (attrs.evolve(m, stopover=stopovers.get(m.pod.uid)) for m in moves)
            return Order(tuple(ordered), needs)
        moves = tuple(move for move in moves if move.pod.uid in startable)


def _reserve_stopover(problem: Problem, spare: Ints, move: Move) -> NodeName | None:
    """Take the capacity of a stopover from the node with the most spare capacity; return the node.

    spare: N x R, free next to all pods that come.
    """
    fitting = problem.fitting(move.pod, spare)
    fitting = [row for row in fitting if problem.names[row] not in (move.source, move.target)]
    if not fitting:
        return None
    row = max(fitting, key=lambda row: (spare[row].min(), -row))
    spare[row] -= problem.asks_of(move.pod)
    return problem.names[row]


def _place_awaited(problem: Problem, awaited: Moves, room: Ints) -> Moves:
    """Place pending pods in the free capacity, intended pods on intended nodes first."""
    meant = {move.pod.uid: problem.row_of[move.target] for move in awaited}
    waiting = [pod for of_kind in problem.waiting for pod in of_kind]
    waiting.sort(
        key=lambda pod: (-pod.pod_class.priority, pod.uid not in meant, *serving_order(pod))
    )
    found: list[Move] = []
    for pod in waiting:
        fitting = problem.fitting(pod, room)
        if not fitting:
            continue
        row = meant.get(pod.uid)
        if row not in fitting:
            row = min(fitting, key=lambda at: (int(room[at].min()), at))
        found.append(Move(pod, None, problem.names[row], None))
        room[row] -= problem.asks_of(pod)
    return tuple(found)
