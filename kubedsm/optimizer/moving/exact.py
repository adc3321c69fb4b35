"""Search for the best migrations by several algorithms: exact (dynamic programme),
large-neighbourhood search, and MIP.

An engine takes a problem and yields changes of the edge, best first. The portfolio pairs each
change with pods, repairs the problem where rules between pods reject migrations, and returns the
best migrations with their certificate of optimality.
"""

from collections.abc import Callable, Iterator
from itertools import cycle, islice

import attrs

from kubedsm.model.model import Workload
from kubedsm.objective.gains import LEAST_GAIN, Gain, leading_gain, net
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.best_changes import (
    Solution,
    TooManyError,
    bound_gain,
    iterate_best_changes,
)
from kubedsm.optimizer.moving.edge_problem import EdgeProblem, Proposal
from kubedsm.optimizer.moving.integer_changes import SolvedChanges
from kubedsm.optimizer.moving.move_order import Impasse
from kubedsm.optimizer.moving.pairing import pair_moves
from kubedsm.optimizer.moving.suggestion import count_legs, count_stopovers
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.optimizer.programming.programme import Status

#: Infeasible solutions to skip.
_TRIES = 6
#: Limit of the repair search: rejections by rules between pods.
_REPAIRS = 16
#: Workloads added at a time: with the greatest shortfall, and with the most to spare.
_LACKING, _SPARING = 2, 1
#: Subsets in a row without improvement that end a round: the most urgent workloads come first.
_FRUITLESS = 32
#: Part of the time budget for the search without a solver.
_QUICKLY = 0.25

#: Yields changes, best first. Raises TooManyError.
Engine = Callable[[EdgeProblem], Iterator[Solution]]


def suggest_exact(problem: EdgeProblem) -> Proposal:
    """Return the best migrations to, from and within the edge, within the limits on migrations and
    time.

    Above the exact-search limit, subsets of workloads are optimised repeatedly: workloads with the
    greatest shortfall, combined with workloads far above their target. A solver gets all
    workloads, unless there are too many. The better result is returned with its certificate.
    """
    try:
        found = _repair_best(problem, iterate_best_changes)
    except TooManyError:
        found = _search_and_solve(problem)
    return found if problem.cloud.certain else attrs.evolve(found, proven=False)


def _search_and_solve(problem: EdgeProblem) -> Proposal:
    """Return the better migrations of two engines: large-neighbourhood search and the
    integer-programming solver.
    """
    engine = SolvedChanges.of(problem)
    if engine is None:
        found = _search_neighbourhoods(problem)
        return _certify_value(problem, found, None)
    quick = attrs.evolve(problem, bounds=problem.bounds.part(_QUICKLY))
    found = _search_neighbourhoods(quick)
    solved = _repair_best(problem, engine)
    solved = attrs.evolve(solved, proven=solved.proven and engine.proven)
    found = max(solved, found, key=lambda each: _rank_proposal(problem, each))
    return _certify_value(problem, found, engine)


def _certify_value(problem: EdgeProblem, found: Proposal, engine: SolvedChanges | None) -> Proposal:
    """Add the value and the least upper bound; an unconfirmed bound proves nothing."""
    bounds = [bound_gain(problem)]
    confirmed = True
    seconds, note = 0.0, ""
    if engine is not None and engine.certificate is not None:
        seconds, note = engine.certificate.seconds, engine.certificate.note
        if engine.certificate.bound is not None:
            bounds.append((engine.level, engine.certificate.bound))
            confirmed = engine.certificate.proven
    # Priority levels without possible gains are proven: the next level counts.
    level = max(level for level, _ in bounds)
    bound = min(most for at, most in bounds if at == level)
    value = problem.net(found.moves)[level]
    reached = value >= (bound if confirmed else max(bound, bounds[0][1]))
    status = Status.OPTIMAL if found.proven or reached else Status.FEASIBLE
    goal = "pod-seconds gained" if problem.price else "QoS gained"
    note = "" if status is Status.OPTIMAL else note
    bound, unit = max(value, bound), round(NANO)
    certificate = Certificate(goal, status, value, bound, seconds, unit=unit, note=note)
    return attrs.evolve(found, certificate=certificate, level=level)


def _search_neighbourhoods(problem: EdgeProblem) -> Proposal:
    """Improve the migrations by large-neighbourhood search: solve subsets of workloads exactly
    until none improves the result, or several in a row do not.
    """
    best = Proposal(proven=False)
    improved, subsets = True, _list_subsets(problem)
    while improved:
        improved, fruitless = False, 0
        for some in subsets:
            if fruitless == _FRUITLESS or problem.bounds.deadline.passed:
                break
            moved = {move.pod.workload for move in best.moves}
            if moved.issuperset(some):
                continue
            found = _solve_subset(problem.only(moved.union(some)), problem.net(best.moves))
            if _rank_proposal(problem, found) > _rank_proposal(problem, best):
                best, improved, fruitless = found, True, 0
            else:
                fruitless += 1
    return attrs.evolve(best, proven=False)


def _rank_proposal(problem: EdgeProblem, found: Proposal) -> tuple[Gain, int]:
    return problem.net(found.moves), -count_legs(found.moves)


def _list_subsets(problem: EdgeProblem) -> list[list[Workload]]:
    """Return subsets: workloads with the greatest shortfall, and with the greatest surplus."""
    supplied = {item.workload for item in problem.items if item.supply}
    ordered = sorted(problem.items_by_workload, key=lambda w: (problem.gains.urgency_key(w), w))
    lacking = [w for w in ordered if w in supplied and problem.may_gain(w)]
    sparing = cycle(reversed(ordered))
    return [
        [*lacking[start : start + _LACKING], *islice(sparing, _SPARING)]
        for start in range(0, len(lacking), _LACKING)
    ]


def _solve_subset(problem: EdgeProblem, known: Gain) -> Proposal:
    """Return the best result for a few workloads, if it may exceed the known net benefit; with
    fewer migrations above the limit.
    """
    most = problem.limits.max_moves
    while most and not problem.bounds.deadline.passed:
        smaller = attrs.evolve(problem, limits=attrs.evolve(problem.limits, max_moves=most))
        level, bound = bound_gain(smaller)
        if known[: level + 1] > (*(0,) * level, bound):
            break
        try:
            return _repair_best(smaller, iterate_best_changes)
        except TooManyError:
            most = most * 3 // 4
    return Proposal(proven=False)


def _repair_best(problem: EdgeProblem, engine: Engine) -> Proposal:
    """Return the engine's best migrations that have an execution order under the rules between pods
    (affinity, spread, ports).

    After a rejected migration, the pods of the item are capped on the node and the search repeats.
    """
    found = find_first_feasible(problem, engine)
    refused: list[Impasse] = []
    repaired = problem
    while found.refused and len(refused) < _REPAIRS and not problem.bounds.deadline.passed:
        refused.append(found.refused[0])
        repaired = _exclude_rejected(repaired, found.refused[0])
        found = find_first_feasible(repaired, engine)
    if not refused:
        return found
    return attrs.evolve(found, proven=False, refused=(*refused, *found.refused))


def _exclude_rejected(problem: EdgeProblem, impasse: Impasse) -> EdgeProblem:
    """Return the problem with equivalent migrations capped at the number before the rejection.

    Pods are counted on the source for a forbidden departure, else on the target. A target outside
    the edge represents the cloud.
    """
    move, item = impasse.move, problem.item_of(impasse.move.pod)
    alike = [other for other in impasse.done if other.pod.uid in item.pods]
    if impasse.stays and move.source is not None:
        left = sum(other.source == move.source for other in alike)
        return problem.replace_item(item, item.leaving(move.source, left))
    if move.target not in problem.rows:
        away = sum(other.target not in problem.rows for other in alike)
        return problem.replace_item(item, attrs.evolve(item, away=away))
    came = sum(other.target == move.target for other in alike)
    at_most = {**item.at_most, move.target: came}
    return problem.replace_item(item, attrs.evolve(item, at_most=at_most))


def find_first_feasible(problem: EdgeProblem, engine: Engine) -> Proposal:
    """Return the feasible migrations with the greatest benefit after the price of all migration
    steps, ties by the fewest steps.

    A better solution rejected by rules between pods is returned as refused. The search ends after
    several solutions with unbreakable cycles or excessive legs.
    """
    best: Solution | None = None
    chosen = Proposal()
    passed_over = 0
    for solution in engine(problem):
        if best is not None and best.rank >= solution.rank:
            break
        order = pair_moves(problem, solution.changes)
        if isinstance(order, Impasse):
            if best is None:
                return Proposal(proven=False, refused=(order,))
        elif order is None or count_legs(order.moves) > problem.limits.max_moves:
            passed_over += 1
            if passed_over == _TRIES:
                break
        else:
            left = net(solution.net, problem.price * count_stopovers(order.moves))
            this = attrs.evolve(solution, net=left, moves=count_legs(order.moves))
            pays = leading_gain(left) > LEAST_GAIN * NANO
            if pays and (best is None or this.rank > best.rank):
                best, chosen = this, Proposal(order)
            if best is not None and best.rank >= solution.rank:
                break
    # After the deadline, fewer stopovers may remain undiscovered.
    certain = not count_stopovers(chosen.moves) or not problem.bounds.deadline.passed
    return attrs.evolve(chosen, proven=certain and not passed_over)
