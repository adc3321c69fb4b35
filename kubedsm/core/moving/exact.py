"""The best few moves there are: `suggest` in its exact form."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Self

import attrs
import numpy as np

from kubedsm.core.goals.gains import LEAST_GAIN, Gain, leading
from kubedsm.core.goals.objective import NANO
from kubedsm.core.goals.worths import net
from kubedsm.core.moving.best_changes import Solution, TooManyError, best_changes
from kubedsm.core.moving.edge_problem import EdgeProblem
from kubedsm.core.moving.move_groups import Moves, legs_of, stopovers
from kubedsm.core.moving.move_order import Impasse
from kubedsm.core.moving.pairing import pair
from kubedsm.core.moving.proposal import Proposal, Question, allowed_of
from kubedsm.core.moving.solved_changes import SolvedChanges

#: Of solutions that cannot be carried out, that many are passed over.
_TRIES = 6
#: Refusals by rules about other pods, and states, after which no other way is looked for.
_REPAIRS, _REPAIR_STATES = 16, 60_000
#: Workloads looked at together when all are too many: those that lack most, that can spare most.
_LACKING, _SPARING = 4, 2

#: Of the time for thinking, how much is spent on what comes without a solver.
_QUICKLY = 0.25

#: What says which changes are best, the best first. Raises TooManyError.
Finder = Callable[[Question], Iterator[Solution]]


def suggest_exact(question: Question) -> Proposal:
    """The best moves within the limits.

    Beyond the bounds only some workloads are looked at together, those farthest below their
    promises with those that can spare most, then the next, until there is something to do; and
    fewer moves, if that is still too much. What is found then is good, but not proven.
    """
    try:
        found = _best(question, best_changes)
    except TooManyError:
        found = _beyond(question)
    return found if question.problem.cloud.certain else attrs.evolve(found, proven=False)


def _beyond(question: Question) -> Proposal:
    """The better of what is best of some workloads and what the solver finds, if there is one."""
    deadline = question.bounds.deadline
    quick = attrs.evolve(question.bounds, deadline=deadline.part(_QUICKLY))
    found = _best_of_some(attrs.evolve(question, bounds=quick))
    if question.bounds.solver is None:
        return found
    asked = SolvedChanges(question.bounds.solver)
    try:
        solved = _best(question, asked)
    except TooManyError:
        return found
    proven = solved.proven and asked.proven
    better = max(solved, found, key=lambda each: (question.net(each.moves), -legs_of(each.moves)))
    return attrs.evolve(better, proven=proven and better is solved, certificate=asked.certificate)


def _best_of_some(question: Question) -> Proposal:
    problem, gains, bounds = question.problem, question.gains, question.bounds
    supplied = {item.workload for item in problem.items if item.supply}
    ordered = sorted(problem.workloads, key=lambda w: (gains.urgency(w), w))
    states = 0
    lacking = [w for w in ordered if w in supplied]
    for start in range(0, len(lacking), _LACKING):
        if bounds.deadline.passed:
            break
        some = lacking[start : start + _LACKING]
        some += list(islice((w for w in reversed(ordered) if w not in some), _SPARING))
        if not any(map(question.may_gain, some)):
            continue
        part = attrs.evolve(question, problem=problem.only(some))
        most = part.limits.max_moves
        while most and not bounds.deadline.passed:
            try:
                fewer = attrs.evolve(part.limits, max_moves=most)
                found = _best(attrs.evolve(part, limits=fewer), best_changes)
            except TooManyError:
                most = most * 3 // 4
                continue
            states += found.states
            if found.moves:
                return attrs.evolve(found, proven=False, states=states)
            break
    return Proposal(proven=False, states=states)


def _best(question: Question, changes: Finder) -> Proposal:
    """The best solution that the rules about other pods allow.

    Where they refuse one, no more pods of the kind are sent there than they allowed, and the best
    is looked for again. What they allow of a refused one may be better still.
    """
    found = _first(question, changes)
    problem = question.problem
    refused: list[Impasse] = []
    states = found.states
    while found.refused and len(refused) < _REPAIRS and states < _REPAIR_STATES:
        if question.bounds.deadline.passed:
            break
        impasse = found.refused[0]
        refused.append(impasse)
        problem = _narrowed(problem, impasse)
        found = _first(attrs.evolve(question, problem=problem), changes)
        states += found.states
    if not refused or problem.rules is None:
        return found
    best, left_out = found.moves, [*refused, *found.refused]
    for impasse in left_out:
        order, _ = allowed_of(problem.rules.feasibility, impasse.moves, problem.room)
        possible = legs_of(order.moves) <= question.limits.max_moves
        if possible and question.net(order.moves) > question.net(best):
            best = order.moves
    return Proposal(best, proven=False, states=states, refused=tuple(left_out))


def _narrowed(problem: EdgeProblem, impasse: Impasse) -> EdgeProblem:
    """The same without what was refused."""
    move = impasse.move
    if not impasse.stays or move.source is None:
        return problem.at_most(move.pod, move.target, _allowed(problem, impasse))
    alike = problem.items[problem.item_of(move.pod)].pods
    left = sum(other.pod in alike and other.source == move.source for other in impasse.done)
    return problem.at_most_leaving(move.pod, move.source, left)


def _allowed(problem: EdgeProblem, impasse: Impasse) -> int:
    """How many pods like that one could go where it was refused."""
    alike = problem.items[problem.item_of(impasse.move.pod)].pods
    edge = {node.name for node in problem.nodes}
    where = impasse.move.target
    return sum(
        move.pod in alike and (move.target == where or not (where in edge or move.target in edge))
        for move in impasse.done
    )


def _first(question: Question, changes: Finder) -> Proposal:
    """The best solution that can be carried out, when all its legs are paid; with the fewest legs.

    Or the first one that rules about other pods refuse, if it comes before. It takes at least two
    moves within the edge to wait in a circle. After some solutions with circles that the cloud
    cannot break, or only with too many legs, only those with a single move within the edge are
    looked at.
    """
    problem, limits = question.problem, question.limits
    chosen: _Chosen | None = None
    states = passed_over = 0
    waited = False
    for solution in changes(question):
        states = solution.states
        if chosen is not None and not chosen.may_yield_to(solution):
            break
        moves = pair(problem, solution.changes)
        if isinstance(moves, Impasse):
            if chosen is None:
                return Proposal(proven=False, states=states, refused=(moves,))
        elif moves is None or legs_of(moves) > limits.max_moves:
            passed_over += 1
            waited = waited or not _held_now(problem, solution)
            if passed_over == _TRIES:
                break
        else:
            other = _Chosen.of(solution, moves, question.price)
            if other.pays and (chosen is None or other.rank > chosen.rank):
                chosen = other
            if chosen is not None and chosen.rank >= solution.rank:
                break
    if chosen is None and waited:
        held = _first(attrs.evolve(question, vacating=False), changes)
        return attrs.evolve(held, proven=False, states=states + held.states)
    if chosen is None and passed_over and limits.max_edge_reorder > 1:
        single = attrs.evolve(limits, max_edge_reorder=1)
        simpler = _first(attrs.evolve(question, limits=single), changes)
        return attrs.evolve(simpler, proven=False, states=states + simpler.states)
    found = () if chosen is None else chosen.moves
    return Proposal(found, proven=not passed_over, states=states)


def _held_now(problem: EdgeProblem, solution: Solution) -> bool:
    """Whether the cloud has the room already for what leaves the edge."""
    counts = problem.cloud_counts(np.maximum(-solution.changes.sum(axis=0), 0))
    return counts is not None and problem.cloud.holds(counts)


@attrs.frozen(eq=False)
class _Chosen:
    moves: Moves
    #: net worth, legs, spread and fragmentation added: greater is better
    rank: tuple[Gain, int, int, int]

    @classmethod
    def of(cls, solution: Solution, moves: Moves, price: int) -> Self:
        """What the moves by which the solution is reached come to, stops on the way paid."""
        left = net(solution.net, price * stopovers(moves))
        cost = (-solution.spread, -solution.fragmentation)
        return cls(moves, (left, -legs_of(moves), *cost))

    @property
    def pays(self) -> bool:
        return leading(self.rank[0]) > LEAST_GAIN * NANO

    def may_yield_to(self, other: Solution) -> bool:
        """Whether one that comes later could be better: legs are as many as moves, or more."""
        return other.rank > self.rank
