"""Target placements that take several rounds of migrations to reach, one group of dependent
migrations at a time.

If no migrations within the limits are worthwhile, a solver searches the best placement with any
number of migrations. Each suggestion is then the next group of the plan within the limits: the
plan as a whole pays, the price counted, but a single group may not. Without a solver, under rules
between pods, with stopovers, or with headroom, there are no plans.
"""

from collections.abc import Iterable, Mapping

import attrs

from kubedsm.model.model import NodeName, Tier, Uid
from kubedsm.objective.gains import LEAST_GAIN, leading_gain
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.exact import find_first_feasible
from kubedsm.optimizer.moving.group_selection import Selection
from kubedsm.optimizer.moving.integer_changes import SolvedChanges
from kubedsm.optimizer.moving.migration_graph import (
    Needs,
    Order,
    find_needs,
    fit_together,
    list_startable,
)
from kubedsm.optimizer.moving.suggestion import (
    Move,
    MoveKind,
    Moves,
    SuggestLimits,
    count_stopovers,
    gain_per_disruption,
    is_worthwhile,
    sum_gains,
)

#: Migrations of a plan.
_MOST = 48

#: Targets of the remaining migrations of a plan.
Towards = Mapping[Uid, NodeName]


def find_next_group(problem: EdgeProblem, towards: Towards) -> Selection | None:
    """Return the next migrations towards a target placement planned before, or towards a new one.

    None without a plan that pays. towards: empty to search a new plan.
    """
    if problem.rules is not None or problem.limits.headroom:
        return None
    moves = _list_remaining(problem, towards) if towards else _search_plan(problem)
    needs = find_needs(moves, problem.snapshot.free)
    startable = len(list_startable(needs)) == len(needs) == len(moves)
    # Others may have taken the capacity that earlier groups freed.
    if not (startable and fit_together(moves, problem.snapshot.free) and _pays(problem, moves)):
        return None
    chosen = _select_next(problem, moves, needs)
    gain = leading_gain(gain_per_disruption(sum_gains(problem.gains, moves), moves))
    group = [attrs.evolve(m, gain=gain, plan=len(moves)) for m in moves if m.pod.uid in chosen]
    rest = tuple(move for move in moves if move.pod.uid not in chosen)
    return Selection(tuple(group), Order(moves, needs), rest=rest) if group else None


def _pays(problem: EdgeProblem, moves: Moves) -> bool:
    worthwhile = is_worthwhile(problem.gains, moves)
    return worthwhile and leading_gain(problem.net(moves)) > LEAST_GAIN * NANO


def _search_plan(problem: EdgeProblem) -> Moves:
    """Return the migrations to the best placement found by the solver; empty without a plan."""
    engine = SolvedChanges.of(problem)
    if engine is None:
        return ()
    # Capacity for pending pods is made at any price, by migrations within the limits.
    items = tuple(attrs.evolve(item, stranded=()) for item in problem.items)
    wide = attrs.evolve(problem, items=items, limits=_widen(problem.limits))
    moves = find_first_feasible(wide, engine).moves
    return () if count_stopovers(moves) else moves


def _widen(limits: SuggestLimits) -> SuggestLimits:
    """Return the limits of a plan; forbidden kinds of migrations remain forbidden."""
    return attrs.evolve(
        limits,
        max_moves=_MOST,
        max_cloud_to_edge=_MOST if limits.max_cloud_to_edge else 0,
        max_edge_reorder=_MOST if limits.max_edge_reorder else 0,
    )


def _list_remaining(problem: EdgeProblem, towards: Towards) -> Moves:
    """Return the remaining migrations of a plan; empty if a pod or its target is gone."""
    items = {uid: item for item in problem.items for uid in item.pods & towards.keys()}
    moves: list[Move] = []
    for uid, target in towards.items():
        item = items.get(uid)
        row = problem.rows.get(target)
        known = item is not None and target in problem.snapshot.free
        if item is None or not known or (row is not None and not item.open_to[row]):
            return ()
        pods = (*item.on_edge, *item.in_cloud, *item.stranded)
        pod = next(pod for pod in pods if pod.uid == uid)
        if pod.node_name is None:
            return ()
        tiers = [
            Tier.EDGE if name in problem.rows else Tier.CLOUD for name in (pod.node_name, target)
        ]
        if pod.node_name != target:
            moves.append(Move(pod, pod.node_name, target, MoveKind.between(*tiers)))
    return tuple(moves)


def _select_next(problem: EdgeProblem, moves: Moves, needs: Needs) -> set[Uid]:
    """Select migrations within the limits, with their prerequisites, of the greatest gain.

    Migrations are added one at a time with all prerequisites, as long as the limits permit.
    """
    by_uid = {move.pod.uid: move for move in moves}
    chosen: set[Uid] = set()
    while True:
        larger = (chosen | _close(uid, needs) for uid in by_uid.keys() - chosen)
        allowed = [each for each in larger if problem.limits.permit(_pick(by_uid, each))]
        if not allowed:
            return chosen
        chosen = max(
            allowed,
            key=lambda each: (
                sum_gains(problem.gains, _pick(by_uid, each)),
                -len(each),
                sorted(each),
            ),
        )


def _pick(by_uid: Mapping[Uid, Move], chosen: Iterable[Uid]) -> list[Move]:
    return [by_uid[uid] for uid in chosen]


def _close(uid: Uid, needs: Needs) -> set[Uid]:
    """Return the migration with all direct and indirect prerequisites."""
    closed, left = {uid}, [uid]
    while left:
        more = needs[left.pop()] - closed
        closed |= more
        left += more
    return closed
