"""Exact form of `suggest`, with large-neighbourhood search and MIP above the exact-search limit."""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import cycle, islice
from typing import Self

import attrs
import numpy as np

from kubedsm.model.model import Workload
from kubedsm.objective.gains import LEAST_GAIN, Gain, leading, net
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.best_changes import (
    Solution,
    TooManyError,
    bound_gain,
    iterate_best_changes,
)
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.integer_changes import MOST_PAIRS, SolvedChanges
from kubedsm.optimizer.moving.move_order import Impasse
from kubedsm.optimizer.moving.pairing import pair_moves
from kubedsm.optimizer.moving.proposal import Proposal, Question, drop_rejected
from kubedsm.optimizer.moving.suggestion import Moves, count_legs, count_stopovers
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.optimizer.programming.programme import Status

#: Infeasible solutions to skip.
_TRIES = 6
#: Rejections by rules between pods, and states, after which the search stops.
_REPAIRS, _REPAIR_STATES = 16, 60_000
#: Workloads added at a time: with the greatest shortfall, and with the most to spare.
_LACKING, _SPARING = 2, 1

#: Part of the time budget for the search without a solver.
_QUICKLY = 0.25

#: Yields changes, best first. Raises TooManyError.
Finder = Callable[[Question], Iterator[Solution]]


def suggest_exact(question: Question) -> Proposal:
    """Return the best migrations within the limits.

    Above the exact-search limit, subsets of workloads are optimised: those with the greatest
    shortfall and those that can spare most, then the next, while that improves. A solver gets all
    workloads, or as many as fit. The better result is returned with what is proven of it.
    """
    try:
        found = _repair_best(question, iterate_best_changes)
    except TooManyError:
        found = _search_neighbourhoods(question)
    return found if question.problem.cloud.certain else attrs.evolve(found, proven=False)


def _search_neighbourhoods(question: Question) -> Proposal:
    """Return the better result of the neighbourhood search and of the solver."""
    bounds, deadline = question.bounds, question.bounds.deadline
    quick = attrs.evolve(bounds, deadline=deadline.part(_QUICKLY if bounds.solver else 1.0))
    found = _improve_by_subsets(attrs.evolve(question, bounds=quick))
    asked = None
    if bounds.solver is not None:
        asked = SolvedChanges(bounds.solver)
        part = _as_many_as_can_be_solved(question, found.moves)
        solved = _repair_best(part, asked)
        proven = solved.proven and asked.proven and part is question
        solved = attrs.evolve(solved, proven=proven, states=found.states)
        found = max(solved, found, key=partial(_rank_proposal, question))
        asked = asked if part is question else None
    return attrs.evolve(found, certificate=_certify_value(question, found, asked))


def _as_many_as_can_be_solved(question: Question, moves: Moves) -> Question:
    """Return the question for all workloads, or for migrated and then most urgent ones."""
    problem = question.problem
    most = MOST_PAIRS // max(1, len(problem.changeable))
    if len(problem.items) <= most:
        return question
    chosen = {move.pod.workload for move in moves}
    for some in _list_subsets(question):
        more = chosen.union(some)
        if sum(len(problem.items_by_workload[workload]) for workload in more) > most:
            break
        chosen = more
    return attrs.evolve(question, problem=problem.only(chosen))


def _certify_value(question: Question, found: Proposal, asked: SolvedChanges | None) -> Certificate:
    """Return the value and the least upper bound; an unconfirmed bound proves nothing."""
    bounds = [bound_gain(question)]
    confirmed = True
    seconds, note = 0.0, ""
    if asked is not None and asked.certificate is not None:
        seconds, note = asked.certificate.seconds, asked.certificate.note
        if asked.certificate.bound is not None:
            bounds.append((asked.level, asked.certificate.bound))
            confirmed = asked.certificate.proven
    # Levels without possible gains are proven: the next one counts.
    level = max(level for level, _ in bounds)
    bound = min(most for at, most in bounds if at == level)
    value = question.net(found.moves)[level]
    reached = value >= (bound if confirmed else max(bound, bounds[0][1]))
    status = Status.OPTIMAL if found.proven or reached else Status.FEASIBLE
    goal = "pod-seconds gained" if question.price else "QoS gained"
    note = "" if status is Status.OPTIMAL else note
    return Certificate(goal, status, value, max(value, bound), seconds, unit=round(NANO), note=note)


def _improve_by_subsets(question: Question) -> Proposal:
    """Large-neighbourhood search over subsets of workloads."""
    best = Proposal(proven=False)
    states, improved = 0, True
    while improved:
        improved = False
        for some in _list_subsets(question):
            if question.bounds.deadline.passed:
                break
            moved = {move.pod.workload for move in best.moves}
            if moved.issuperset(some):
                continue
            found = _solve_subset(question, moved.union(some))
            states += found.states
            if _rank_proposal(question, found) > _rank_proposal(question, best):
                best, improved = found, True
    return attrs.evolve(best, proven=False, states=states)


def _rank_proposal(question: Question, found: Proposal) -> tuple[Gain, int]:
    return question.net(found.moves), -count_legs(found.moves)


def _list_subsets(question: Question) -> Iterator[list[Workload]]:
    """Yield subsets: workloads with the greatest shortfall, with some that can spare most."""
    problem, gains = question.problem, question.gains
    supplied = {item.workload for item in problem.items if item.supply}
    ordered = sorted(problem.workloads, key=lambda w: (gains.urgency_key(w), w))
    lacking = [w for w in ordered if w in supplied and question.may_gain(w)]
    sparing = cycle(reversed(ordered))
    for start in range(0, len(lacking), _LACKING):
        yield [*lacking[start : start + _LACKING], *islice(sparing, _SPARING)]


def _solve_subset(question: Question, workloads: Collection[Workload]) -> Proposal:
    """Return the best result for the workloads; with fewer migrations above the limit."""
    problem = question.problem.only(workloads)
    most = question.limits.max_moves
    while most and not question.bounds.deadline.passed:
        limits = attrs.evolve(question.limits, max_moves=most)
        try:
            return _repair_best(
                attrs.evolve(question, problem=problem, limits=limits), iterate_best_changes
            )
        except TooManyError:
            most = most * 3 // 4
    return Proposal(proven=False)


def _repair_best(question: Question, changes: Finder) -> Proposal:
    """Return the best solution that rules between pods allow.

    If a migration is rejected, the pods of its item are capped on that node and the search repeats.
    Parts of a rejected solution may still be the best.
    """
    found = _first_feasible(question, changes)
    problem = question.problem
    refused: list[Impasse] = []
    states = found.states
    while found.refused and len(refused) < _REPAIRS and states < _REPAIR_STATES:
        if question.bounds.deadline.passed:
            break
        impasse = found.refused[0]
        refused.append(impasse)
        problem = _exclude_rejected(problem, impasse)
        found = _first_feasible(attrs.evolve(question, problem=problem), changes)
        states += found.states
    if not refused or problem.rules is None:
        return found
    best, left_out = found.moves, [*refused, *found.refused]
    for impasse in left_out:
        order, _ = drop_rejected(problem.rules.feasibility, impasse.moves, problem.room)
        possible = count_legs(order.moves) <= question.limits.max_moves
        if possible and question.net(order.moves) > question.net(best):
            best = order.moves
    return Proposal(best, proven=False, states=states, refused=tuple(left_out))


def _exclude_rejected(problem: EdgeProblem, impasse: Impasse) -> EdgeProblem:
    """Return the problem without the rejected migration."""
    move = impasse.move
    if not impasse.stays or move.source is None:
        return problem.at_most(move.pod, move.target, _count_allowed(problem, impasse))
    alike = problem.items[problem.item_of(move.pod)].pods
    left = sum(other.pod in alike and other.source == move.source for other in impasse.done)
    return problem.at_most_leaving(move.pod, move.source, left)


def _count_allowed(problem: EdgeProblem, impasse: Impasse) -> int:
    """Return how many pods like the rejected one can go to its target."""
    alike = problem.items[problem.item_of(impasse.move.pod)].pods
    edge = {node.name for node in problem.nodes}
    where = impasse.move.target
    return sum(
        move.pod in alike and (move.target == where or not (where in edge or move.target in edge))
        for move in impasse.done
    )


def _first_feasible(question: Question, changes: Finder) -> Proposal:
    """Return the best feasible solution after the price of all legs, ties with the fewest legs.

    Or the first solution that rules between pods reject, if it is better. After some solutions with
    unbreakable cycles or too many legs, only those with a single migration within the edge are
    tried: a cycle takes two.
    """
    problem, limits = question.problem, question.limits
    chosen: _Chosen | None = None
    states = passed_over = 0
    waited = False
    for solution in changes(question):
        states = solution.states
        if chosen is not None and not chosen.may_yield_to(solution):
            break
        moves = pair_moves(problem, solution.changes)
        if isinstance(moves, Impasse):
            if chosen is None:
                return Proposal(proven=False, states=states, refused=(moves,))
        elif moves is None or count_legs(moves) > limits.max_moves:
            passed_over += 1
            waited = waited or not _fits_cloud_now(problem, solution)
            if passed_over == _TRIES:
                break
        else:
            this = _Chosen.of(solution, moves, question.price)
            if this.pays and (chosen is None or this.rank > chosen.rank):
                chosen = this
            if chosen is not None and chosen.rank >= solution.rank:
                break
    simpler = (
        _simplify_question(question, waited=waited) if chosen is None and passed_over else None
    )
    if simpler is not None:
        other = _first_feasible(simpler, changes)
        return attrs.evolve(other, proven=False, states=states + other.states)
    found = () if chosen is None else chosen.moves
    return Proposal(found, proven=not passed_over, states=states)


def _simplify_question(question: Question, *, waited: bool) -> Question | None:
    """Return the question without the obstacle of skipped solutions.

    waited: whether some waited for capacity in the cloud.
    """
    if waited:
        return attrs.evolve(question, vacating=False)
    if question.limits.max_edge_reorder <= 1:
        return None
    single = attrs.evolve(question.limits, max_edge_reorder=1)
    return attrs.evolve(question, limits=single)


def _fits_cloud_now(problem: EdgeProblem, solution: Solution) -> bool:
    """Return whether the cloud has capacity now for the pods leaving the edge."""
    counts = problem.cloud_counts(np.maximum(-solution.changes.sum(axis=0), 0))
    return counts is not None and problem.cloud.holds(counts)


@attrs.frozen(eq=False)
class _Chosen:
    moves: Moves
    #: net worth, legs, spread and fragmentation added: greater is better
    rank: tuple[Gain, int, int, int]

    @classmethod
    def of(cls, solution: Solution, moves: Moves, price: int) -> Self:
        """Evaluate the migrations of a solution, stopovers paid."""
        left = net(solution.net, price * count_stopovers(moves))
        cost = (-solution.spread, -solution.fragmentation)
        return cls(moves, (left, -count_legs(moves), *cost))

    @property
    def pays(self) -> bool:
        return leading(self.rank[0]) > LEAST_GAIN * NANO

    def may_yield_to(self, other: Solution) -> bool:
        """Return whether a later solution may be better: legs are at least the migrations."""
        return other.rank > self.rank
