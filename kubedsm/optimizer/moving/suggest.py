"""Suggester: migrations to the edge, to the cloud, and within the edge.

`exact` finds the best suggestion within the limits; `paper` is Algorithms 2 and 4-6 of the KubeDSM
paper. Both propose feasible migrations in groups; each group is selected by its benefit.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import attrs

from kubedsm.model.model import (
    NodeName,
    Pod,
    Resources,
    Tier,
    Workload,
    shares_after,
)
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.gains import Gains
from kubedsm.objective.lasting import Lasting, assume_prior
from kubedsm.objective.load import LoadGoal
from kubedsm.objective.objective import Objective, QosTargets, quality
from kubedsm.objective.qos_targets import is_capped, without_caps
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving import paper
from kubedsm.optimizer.moving.edge_problem import EdgeProblem, Proposal
from kubedsm.optimizer.moving.exact import suggest_exact
from kubedsm.optimizer.moving.group_selection import Outcome, Taken, explain_rest, select_groups
from kubedsm.optimizer.moving.migration_graph import Order, find_needs
from kubedsm.optimizer.moving.movable import Movable, default_movable, reject_capped
from kubedsm.optimizer.moving.move_order import drop_rejected
from kubedsm.optimizer.moving.pairing import pair_moves
from kubedsm.optimizer.moving.suggestion import (
    Cause,
    ClusterScore,
    Move,
    MoveKind,
    Moves,
    NotTaken,
    Reason,
    Suggestion,
    SuggestLimits,
    count_edge_changes,
    sum_gains,
)
from kubedsm.optimizer.moving.within_tier import (
    Beside,
    Rebalancing,
    balance_load,
    find_concentrated,
)
from kubedsm.optimizer.placing.batch import edge_fragmentation
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.optimizer.programming.programme import Status

#: Exact-search limit of a suggestion: a few tenths of a second.
SUGGEST_BOUNDS = Bounds(states=2_000_000, steps=20_000_000, loads=40_000)


def _accept_any(_: Pod) -> None:
    return None


def suggest(
    snapshot: Snapshot,
    qos_targets: QosTargets,
    objective: Objective,
    limits: SuggestLimits,
    *,
    algorithm: Literal["exact", "paper"] = "exact",
    measure: Measure = Measure.UNUSABLE,
    bounds: Bounds = SUGGEST_BOUNDS,
    movable: Movable = _accept_any,
    lasting: Lasting = assume_prior,
    load: LoadGoal | None = None,
) -> Suggestion:
    """Return the migrations that are worth their disruption.

    movable: the reason why a pod must not be migrated, or None; `default_movable` applies always.
    Other pods only hold capacity. Pending pods count in the totals of their workloads; capacity may
    be made for those that fit nowhere.

    Suggesting terminates, because each suggestion leads to a strictly greater QoS; or, at equal
    QoS, to strictly fewer workloads on one node (with spread), or to no more of these and strictly
    less fragmentation (with defragment). QoS compares by the highest priority that changes. Without
    any of these, a migration may balance load. After the deadline the best so far is returned,
    unproven.
    """
    forbidden = default_movable(snapshot)

    def reason_to_stay(pod: Pod) -> Reason | None:
        return forbidden(pod) or movable(pod)

    gains = Gains.of(snapshot, qos_targets, objective)
    wished = gains
    if any(is_capped(qos_targets, workload) for workload in gains.shares):
        wished = Gains.of(snapshot, without_caps(qos_targets), objective)
    fragmentation = Fragmentation(measure, request_mix(snapshot))
    before = ClusterScore(
        quality(gains.shares, qos_targets, objective),
        gains.shares,
        edge_fragmentation(fragmentation, snapshot.in_turn(Tier.EDGE)),
    )
    exact = algorithm == "exact"
    if not exact:
        limits = attrs.evolve(limits, price=0.0, spread=False)
    found = Suggestion(before=before, after=before, proven=exact)
    if wished.possible or limits.defragment:
        stays = reject_capped(snapshot, qos_targets, reason_to_stay)
        problem = EdgeProblem.of(snapshot, stays, fragmentation, gains, limits, bounds, lasting)
        found = _propose_moves(snapshot, problem, before, stays, wished, exact=exact)
    if exact and limits.spread:
        beside = Beside(snapshot, limits, (*found.moves, *found.awaited))
        rebalancing = Rebalancing(beside, reason_to_stay, fragmentation, bounds.deadline)
        found = _spread_workloads(found, rebalancing, gains, qos_targets, lasting)
    if exact and load is not None and not (found.moves or found.awaited):
        alone = Beside(snapshot, limits)
        move = balance_load(alone, load, reason_to_stay, fragmentation, bounds.deadline)
        found = found if move is None else _add_migration(found, move, snapshot, fragmentation)
    return found


def _spread_workloads(
    found: Suggestion,
    rebalancing: Rebalancing,
    gains: Gains,
    qos_targets: QosTargets,
    lasting: Lasting,
) -> Suggestion:
    """Add one migration so that one workload less is on a single node, if that pays."""
    left: list[NotTaken] = []
    beside = rebalancing.beside
    price = beside.limits.price
    for move in rebalancing.possible(gains, qos_targets):
        # Its benefit: one edge pod while the workload stays unchanged.
        worth = lasting(move.pod.workload)
        if not price or worth > price:
            return _add_migration(found, move, beside.snapshot, rebalancing.fragmentation)
        left.append(NotTaken(move.pod, Cause.BELOW_ITS_PRICE.of(worth, price)))
    return attrs.evolve(found, rejected=(*found.rejected, *left[:1]))


def _propose_moves(
    snapshot: Snapshot,
    problem: EdgeProblem,
    before: ClusterScore,
    reason_to_stay: Movable,
    wished: Gains,
    *,
    exact: bool,
) -> Suggestion:
    """Return the migrations that pay; wished: gains without caps of slower edges."""
    found = suggest_exact(problem) if exact else paper.suggest(problem)
    taken = _select_groups(snapshot, problem, found.moves)
    moves = taken.moves
    free = _free_after(snapshot.free, moves)
    outcome = Outcome(snapshot, problem, found, taken, exact, free)
    return Suggestion(
        before=before,
        after=ClusterScore(
            before.qos + sum(sum_gains(problem.gains, moves)),
            shares_after(before.shares, count_edge_changes(moves)),
            before.fragmentation + problem.fragmentation_added(moves),
        ),
        moves=tuple(move for move in moves if move.source is not None),
        legs=taken.order.legs(moves),
        awaited=tuple(move for move in moves if move.source is None),
        rejected=explain_rest(outcome, wished, reason_to_stay),
        proven=found.proven,
        certificate=_certify_moves(problem, found, tuple(moves)),
        states=found.states,
    )


def _certify_moves(problem: EdgeProblem, found: Proposal, moves: Moves) -> Certificate | None:
    """Return the certificate for the highest priority that could gain."""
    if found.certificate is None:
        return None
    level = min(problem.gains.level[workload] for workload in problem.workloads)
    value = problem.net(moves)[level]
    proven = found.certificate.proven and value == found.certificate.bound
    status = Status.OPTIMAL if proven else Status.FEASIBLE
    return attrs.evolve(found.certificate, value=value, status=status)


def _add_migration(
    found: Suggestion, move: Move, snapshot: Snapshot, fragmentation: Fragmentation
) -> Suggestion:
    """Add a migration without dependencies, as its own group."""
    groups = {other.group for other in (*found.moves, *found.awaited)}
    move = attrs.evolve(move, group=max(groups, default=-1) + 1)
    moves = (*found.moves, move)
    free = _free_after(snapshot.free, (*moves, *found.awaited))
    fragmented = fragmentation.of(snapshot.of_tier(Tier.EDGE), free)
    return attrs.evolve(
        found,
        after=attrs.evolve(found.after, fragmentation=fragmented),
        moves=moves,
        legs=(*found.legs, *Order((move,), {move.pod.uid: frozenset()}).legs([move])),
    )


def _select_groups(snapshot: Snapshot, problem: EdgeProblem, moves: Moves) -> Taken:
    """Select groups; if none is selected, try migrations that only defragment."""
    limits, free = problem.limits, problem.room

    def at_risk_after(moves: Iterable[Move]) -> frozenset[Workload]:
        moved = {move.pod.uid: move.target for move in moves}
        return frozenset(find_concentrated(snapshot, moved) if limits.spread else ())

    def take(moves: Moves) -> Taken:
        if problem.rules is not None:
            order, refused = drop_rejected(problem.rules.feasibility, moves, free)
        else:
            order, refused = Order(moves, find_needs(moves, free)), ()
        together = _exceeds_headroom(problem, order.moves)
        taken = select_groups(order, problem, at_risk_after, together=together)
        left = (*taken.left, *(((refusal.move,), refusal.reason) for refusal in refused))
        if problem.rules is not None and taken.left and taken.groups:
            # Rules may allow some of these only together with dropped migrations.
            taken = take(tuple(taken.moves))
            left += taken.left
        return attrs.evolve(taken, left=left)

    taken = take(moves)
    if taken.groups or not limits.defragment or problem.bounds.deadline.passed:
        return taken
    most = min(limits.max_edge_reorder, limits.max_moves)
    tidied = (take(_defragment(problem, number)) for number in range(most, 0, -1))
    return next((each for each in tidied if each.groups), taken)


def _exceeds_headroom(problem: EdgeProblem, moves: Moves) -> bool:
    """Return whether the migrations to the edge alone would use up the headroom."""
    if not problem.limits.headroom:
        return False
    to_fill = problem.to_fill.tolist()
    coming = [m.pod.requests for m in moves if m.kind is MoveKind.CLOUD_TO_EDGE]
    brought = (sum(requests.cpu for requests in coming), sum(r.memory for r in coming))
    return any(amount > most for amount, most in zip(brought, to_fill, strict=False))


def _defragment(problem: EdgeProblem, most: int) -> Moves:
    reordered = paper.reorder_edge(problem, problem.free, problem.present, most)
    moves = None if reordered is None else pair_moves(problem, reordered)
    return moves if isinstance(moves, tuple) else ()


def _free_after(
    free: Mapping[NodeName, Resources], moves: Iterable[Move]
) -> dict[NodeName, Resources]:
    after = dict(free)
    for move in moves:
        after[move.target] -= move.pod.requests
        if move.source is not None:
            after[move.source] += move.pod.requests
    return after
