"""Selection of migration groups (migrations that depend on each other) by benefit."""

from collections.abc import Collection, Iterable

import attrs

from kubedsm.model.model import Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import SCALE
from kubedsm.objective.gains import LEAST_GAIN, Gain, Gains, leading_gain
from kubedsm.objective.objective import NANO
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.moving import paper
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.migration_graph import Order, group_migrations
from kubedsm.optimizer.moving.move_order import drop_rejected
from kubedsm.optimizer.moving.pairing import pair_moves
from kubedsm.optimizer.moving.suggestion import (
    Cause,
    Move,
    MoveKind,
    Moves,
    NotTaken,
    Reason,
    count_edge_changes,
    count_stopovers,
    gain_per_disruption,
    is_worthwhile,
    list_steps,
    sum_gains,
)

#: Least reduction of fragmentation by a group without QoS gain.
_LEAST_DEFRAGMENTED = SCALE // 100


@attrs.frozen
class Selection:
    """Migrations selected to be carried out next, with their groups (migrations that depend on
    each other) and QoS gains.
    """

    moves: Moves = ()
    #: order of all proposed migrations
    order: Order = attrs.field(factory=Order)
    #: pods of dropped groups, with reasons
    dropped: tuple[NotTaken, ...] = ()
    #: remaining migrations of a plan
    rest: Moves = ()


def select_groups(problem: EdgeProblem, order: Order) -> Selection:
    """Select groups of dependent migrations by benefit; if none is beneficial, try migrations that
    reduce fragmentation.
    """
    selected = _select_allowed(problem, order)
    limits = problem.limits
    if selected.moves or not limits.defragment:
        return selected
    for most in range(min(limits.max_edge_reorder, limits.max_moves), 0, -1):
        if problem.bounds.deadline.passed:
            break
        reordered = paper.reorder_edge(problem, problem.free, problem.present, most)
        inside = None if reordered is None else pair_moves(problem, reordered)
        if isinstance(inside, Order):
            tidied = _select_allowed(problem, inside)
            if tidied.moves:
                return tidied
    return selected


def _select_allowed(problem: EdgeProblem, order: Order) -> Selection:
    """Select the worthwhile migration groups, in an order that rules between pods permit."""
    selected = _drop_worthless(problem, order)
    if problem.rules is None or not (selected.dropped and selected.moves):
        return selected
    # Remaining migrations may be infeasible without the dropped migrations.
    order, refused = drop_rejected(problem.rules.feasibility, selected.moves, problem.snapshot.free)
    left_out = (NotTaken(left.move.pod, left.reason) for left in refused)
    following = _select_allowed(problem, order)
    return attrs.evolve(following, dropped=(*selected.dropped, *left_out, *following.dropped))


def _drop_worthless(problem: EdgeProblem, order: Order) -> Selection:
    """Drop groups, the least worthwhile first, until all remaining are worthwhile.

    Groups are dropped individually: the benefit of a group depends on the others.
    """
    kept = [order.moves] if order.moves else []
    if not _exceeds_headroom(problem, order.moves):
        kept = group_migrations(order.moves, order.joined, problem.gains)
    dropped: list[NotTaken] = []
    while kept:
        everything = [move for group in kept for move in group]
        found: list[tuple[tuple[float, ...], int, Reason | None]] = []
        for at, group in enumerate(kept):
            others = [move for other in kept if other is not group for move in other]
            gain = gain_per_disruption(_gain_lost(problem.gains, everything, others), group)
            if any(count_edge_changes(group).values()):
                reason = _reject_gain(problem, gain, group, everything, others)
            else:
                reason = _reject_defragmenting(problem, group, everything, others)
            found.append((gain, at, reason))
        refused = [each for each in found if each[2] is not None]
        if not refused:
            moves = (
                attrs.evolve(move, group=at, gain=leading_gain(gain))
                for gain, at, _ in found
                for move in kept[at]
            )
            return Selection(tuple(moves), order, tuple(dropped))
        _, worst, reason = min(refused)
        if reason is not None:
            dropped += [NotTaken(move.pod, reason) for move in kept[worst]]
        del kept[worst]
    return Selection(dropped=tuple(dropped))


def _exceeds_headroom(problem: EdgeProblem, moves: Iterable[Move]) -> bool:
    """Return True if the pods migrating to the edge, without those leaving, would use the reserved
    headroom of the edge.

    All migrations are a single group then.
    """
    if not problem.limits.headroom:
        return False
    coming = [m.pod.requests for m in moves if m.kind is MoveKind.CLOUD_TO_EDGE]
    brought = sum(each.cpu for each in coming), sum(each.memory for each in coming)
    return any(amount > most for amount, most in zip(brought, problem.to_fill, strict=False))


def _gain_lost(gains: Gains, moves: Iterable[Move], others: Iterable[Move]) -> Gain:
    """Return the QoS gain lost without the given migrations: the gain of everything less the gain
    of the others.
    """
    return tuple(
        whole - without
        for whole, without in zip(sum_gains(gains, moves), sum_gains(gains, others), strict=True)
    )


def _reject_gain(
    problem: EdgeProblem,
    gain: Iterable[float],
    group: Moves,
    everything: Iterable[Move],
    others: Iterable[Move],
) -> Reason | None:
    """Return why the benefit of a group does not exceed its cost; None if worthwhile."""
    if leading_gain(gain) <= LEAST_GAIN or not is_worthwhile(problem.gains, group):
        return Cause.NO_GAIN.of()
    if problem.price:
        cost, benefit = (
            problem.cost(group),
            leading_gain(_gain_lost(problem.worths, everything, others)),
        )
        if benefit <= cost:
            return Cause.BELOW_ITS_PRICE.of(benefit / NANO, cost / NANO)
    return None


def _reject_defragmenting(
    problem: EdgeProblem,
    group: Moves,
    everything: Collection[Move],
    others: Collection[Move],
) -> Reason | None:
    """Return the reason why a group of defragmenting migrations is not worthwhile; None if
    worthwhile.
    """
    if not problem.limits.defragment:
        return Cause.NOT_DEFRAGMENTING.of()
    without, fragmented = (
        problem.fragmentation.added_by(list_steps(moves), problem.edge)
        for moves in (others, everything)
    )
    if without - fragmented < _LEAST_DEFRAGMENTED:
        return Cause.TOO_LITTLE_DEFRAGMENTED.of()
    if count_stopovers(group):
        return Cause.NEEDS_A_STOPOVER.of()
    workloads = {move.pod.workload for move in everything}
    before, after = (_spread_cost(problem.snapshot, workloads, of) for of in (others, everything))
    if problem.limits.spread and after > before:
        return Cause.CROWDS_REPLICAS.of()
    return None


def _spread_cost(snapshot: Snapshot, workloads: Iterable[Workload], moves: Collection[Move]) -> int:
    """Return the pairs of replicas that share a node or a zone after the migrations."""
    spread = ReplicaSpread.of(snapshot, workloads)
    for pod, node, by in list_steps(moves):
        spread.put(pod.workload, node, by)
    return spread.cost
