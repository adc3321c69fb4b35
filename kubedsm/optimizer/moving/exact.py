"""The best few moves there are: `suggest` in its exact form."""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import cycle, islice
from typing import Self

import attrs
import numpy as np

from kubedsm.model.model import Workload
from kubedsm.objective.gains import LEAST_GAIN, Gain, leading, net
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.best_changes import Solution, TooManyError, best_changes, most_gained
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.integer_changes import MOST_PAIRS, SolvedChanges
from kubedsm.optimizer.moving.move_order import Impasse
from kubedsm.optimizer.moving.pairing import pair
from kubedsm.optimizer.moving.proposal import Proposal, Question, allowed_of
from kubedsm.optimizer.moving.suggestion import Moves, count_legs, count_stopovers
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.optimizer.programming.programme import Status

#: Of solutions that cannot be carried out, that many are passed over.
_TRIES = 6
#: Refusals by rules about other pods, and states, after which no other way is looked for.
_REPAIRS, _REPAIR_STATES = 16, 60_000
#: Workloads that are looked at next when all are too many: those that lack most, and spare most.
_LACKING, _SPARING = 2, 1

#: Of the time for thinking, how much is spent on what comes without a solver.
_QUICKLY = 0.25

#: What says which changes are best, the best first. Raises TooManyError.
Finder = Callable[[Question], Iterator[Solution]]


def suggest_exact(question: Question) -> Proposal:
    """The best moves within the limits.

    Beyond the bounds of the DP only some workloads are looked at together, those farthest below
    their promises with those that can spare most; then what is moved for them with the next, as
    long as that is better; and a solver is asked about all of them, or as many as it can cope with.
    The better is taken, with what is proven of it.
    """
    try:
        found = _best(question, best_changes)
    except TooManyError:
        found = _beyond(question)
    return found if question.problem.cloud.certain else attrs.evolve(found, proven=False)


def _beyond(question: Question) -> Proposal:
    """The better of what is best of some workloads and what the solver finds, if there is one."""
    bounds, deadline = question.bounds, question.bounds.deadline
    quick = attrs.evolve(bounds, deadline=deadline.part(_QUICKLY if bounds.solver else 1.0))
    found = _best_of_some(attrs.evolve(question, bounds=quick))
    asked = None
    if bounds.solver is not None:
        asked = SolvedChanges(bounds.solver)
        part = _as_many_as_can_be_solved(question, found.moves)
        solved = _best(part, asked)
        proven = solved.proven and asked.proven and part is question
        solved = attrs.evolve(solved, proven=proven, states=found.states)
        found = max(solved, found, key=partial(_rank, question))
        asked = asked if part is question else None
    return attrs.evolve(found, certificate=_certificate(question, found, asked))


def _as_many_as_can_be_solved(question: Question, moves: Moves) -> Question:
    """All workloads; or those that are moved, and then those that lack most."""
    problem = question.problem
    most = MOST_PAIRS // max(1, len(problem.changeable))
    if len(problem.items) <= most:
        return question
    chosen = {move.pod.workload for move in moves}
    for some in _together(question):
        more = chosen.union(some)
        if sum(len(problem.items_by_workload[workload]) for workload in more) > most:
            break
        chosen = more
    return attrs.evolve(question, problem=problem.only(chosen))


def _certificate(question: Question, found: Proposal, asked: SolvedChanges | None) -> Certificate:
    """Return the value found, and the lowest bound: an unconfirmed one proves nothing."""
    bounds = [most_gained(question)]
    confirmed = True
    seconds, note = 0.0, ""
    if asked is not None and asked.certificate is not None:
        seconds, note = asked.certificate.seconds, asked.certificate.note
        if asked.certificate.bound is not None:
            bounds.append((asked.level, asked.certificate.bound))
            confirmed = asked.certificate.proven
    # Where nothing is to be gained at a level, it is proven at the next.
    level = max(level for level, _ in bounds)
    bound = min(most for at, most in bounds if at == level)
    value = question.net(found.moves)[level]
    reached = value >= (bound if confirmed else max(bound, bounds[0][1]))
    status = Status.OPTIMAL if found.proven or reached else Status.FEASIBLE
    goal = "pod-seconds gained" if question.price else "QoS gained"
    note = "" if status is Status.OPTIMAL else note
    return Certificate(goal, status, value, max(value, bound), seconds, unit=round(NANO), note=note)


def _best_of_some(question: Question) -> Proposal:
    """What is best of some workloads, then of those that it moves and some others, and so on."""
    best = Proposal(proven=False)
    states, improved = 0, True
    while improved:
        improved = False
        for some in _together(question):
            if question.bounds.deadline.passed:
                break
            moved = {move.pod.workload for move in best.moves}
            if moved.issuperset(some):
                continue
            found = _best_in(question, moved.union(some))
            states += found.states
            if _rank(question, found) > _rank(question, best):
                best, improved = found, True
    return attrs.evolve(best, proven=False, states=states)


def _rank(question: Question, found: Proposal) -> tuple[Gain, int]:
    return question.net(found.moves), -count_legs(found.moves)


def _together(question: Question) -> Iterator[list[Workload]]:
    """Some that lack most, with some of those that can spare most; then the next."""
    problem, gains = question.problem, question.gains
    supplied = {item.workload for item in problem.items if item.supply}
    ordered = sorted(problem.workloads, key=lambda w: (gains.urgency(w), w))
    lacking = [w for w in ordered if w in supplied and question.may_gain(w)]
    sparing = cycle(reversed(ordered))
    for start in range(0, len(lacking), _LACKING):
        yield [*lacking[start : start + _LACKING], *islice(sparing, _SPARING)]


def _best_in(question: Question, workloads: Collection[Workload]) -> Proposal:
    """The best of these workloads alone; of fewer moves if there are too many."""
    problem = question.problem.only(workloads)
    most = question.limits.max_moves
    while most and not question.bounds.deadline.passed:
        limits = attrs.evolve(question.limits, max_moves=most)
        try:
            return _best(attrs.evolve(question, problem=problem, limits=limits), best_changes)
        except TooManyError:
            most = most * 3 // 4
    return Proposal(proven=False)


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
        possible = count_legs(order.moves) <= question.limits.max_moves
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
        elif moves is None or count_legs(moves) > limits.max_moves:
            passed_over += 1
            waited = waited or not _held_now(problem, solution)
            if passed_over == _TRIES:
                break
        else:
            this = _Chosen.of(solution, moves, question.price)
            if this.pays and (chosen is None or this.rank > chosen.rank):
                chosen = this
            if chosen is not None and chosen.rank >= solution.rank:
                break
    simpler = _simpler(question, waited=waited) if chosen is None and passed_over else None
    if simpler is not None:
        other = _first(simpler, changes)
        return attrs.evolve(other, proven=False, states=states + other.states)
    found = () if chosen is None else chosen.moves
    return Proposal(found, proven=not passed_over, states=states)


def _simpler(question: Question, *, waited: bool) -> Question | None:
    """The same without what was in the way of solutions that were passed over.

    waited: whether some of those waited for room in the cloud.
    """
    if waited:
        return attrs.evolve(question, vacating=False)
    if question.limits.max_edge_reorder <= 1:
        return None
    single = attrs.evolve(question.limits, max_edge_reorder=1)
    return attrs.evolve(question, limits=single)


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
        left = net(solution.net, price * count_stopovers(moves))
        cost = (-solution.spread, -solution.fragmentation)
        return cls(moves, (left, -count_legs(moves), *cost))

    @property
    def pays(self) -> bool:
        return leading(self.rank[0]) > LEAST_GAIN * NANO

    def may_yield_to(self, other: Solution) -> bool:
        """Whether one that comes later could be better: legs are as many as moves, or more."""
        return other.rank > self.rank
