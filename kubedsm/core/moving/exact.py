"""The best few moves there are: `suggest` in its exact form."""

from collections.abc import Mapping

import attrs

from kubedsm.core.goals.gains import Gains
from kubedsm.core.moving.best_changes import Solution, TooManyError, best_changes
from kubedsm.core.moving.edge_problem import EdgeProblem
from kubedsm.core.moving.move_groups import Moves, gains_of, stopovers
from kubedsm.core.moving.move_order import Impasse
from kubedsm.core.moving.pairing import pair
from kubedsm.core.moving.proposal import Proposal, allowed_of
from kubedsm.core.moving.suggestion import SuggestLimits
from kubedsm.core.packing.match import Bounds
from kubedsm.core.world.model import NodeName, Resources

#: Of solutions that cannot be carried out, that many are passed over.
_TRIES = 6
#: Refusals by rules about other pods, and states, after which no other way is looked for.
_REPAIRS, _REPAIR_STATES = 16, 60_000
#: Workloads looked at together when all are too many: those that lack most, that can spare most.
_LACKING, _SPARING = 4, 2


def suggest_exact(
    problem: EdgeProblem,
    free: Mapping[NodeName, Resources],
    gains: Gains,
    limits: SuggestLimits,
    bounds: Bounds,
) -> Proposal:
    """The best moves within the limits.

    Beyond the bounds only some workloads are looked at together, those farthest below their
    promises with those that can spare most, then the next, until there is something to do; and
    fewer moves, if that is still too much. What is found then is good, but not proven.
    """
    try:
        found = _best(problem, free, gains, limits, bounds)
    except TooManyError:
        found = _best_of_some(problem, free, gains, limits, bounds)
    return found if problem.cloud.certain else attrs.evolve(found, proven=False)


def _best_of_some(
    problem: EdgeProblem,
    free: Mapping[NodeName, Resources],
    gains: Gains,
    limits: SuggestLimits,
    bounds: Bounds,
) -> Proposal:
    supplied = {item.workload for item in problem.items if item.supply}
    ordered = sorted(problem.workloads, key=lambda w: (gains.urgency(w), w))
    states = 0
    lacking = [w for w in ordered if w in supplied]
    for start in range(0, len(lacking), _LACKING):
        if bounds.deadline.passed:
            break
        some = lacking[start : start + _LACKING]
        some += [w for w in reversed(ordered) if w not in some][:_SPARING]
        part = problem.only(some)
        most = limits.max_moves
        while most and not bounds.deadline.passed:
            try:
                found = _best(part, free, gains, attrs.evolve(limits, max_moves=most), bounds)
            except TooManyError:
                most = most * 3 // 4
                continue
            states += found.states
            if found.moves:
                return attrs.evolve(found, proven=False, states=states)
            break
    return Proposal(proven=False, states=states)


def _best(
    problem: EdgeProblem,
    free: Mapping[NodeName, Resources],
    gains: Gains,
    limits: SuggestLimits,
    bounds: Bounds,
) -> Proposal:
    """The best solution that the rules about other pods allow.

    Where they refuse one, no more pods of the kind are sent there than they allowed, and the best
    is looked for again. What they allow of a refused one may be better still.
    """
    found = _first(problem, free, gains, limits, bounds)
    refused: list[Impasse] = []
    states = found.states
    while found.refused and len(refused) < _REPAIRS and states < _REPAIR_STATES:
        if bounds.deadline.passed:
            break
        impasse = found.refused[0]
        refused.append(impasse)
        move = impasse.move
        problem = problem.at_most(move.pod, move.target, _allowed(problem, impasse))
        found = _first(problem, free, gains, limits, bounds)
        states += found.states
    if not refused or problem.rules is None:
        return found
    best, left_out = found.moves, [*refused, *found.refused]
    for impasse in left_out:
        order, _ = allowed_of(problem.rules.feasibility, impasse.moves, free)
        if gains_of(gains, order.moves) > gains_of(gains, best):
            best = order.moves
    return Proposal(best, proven=False, states=states, refused=tuple(left_out))


def _allowed(problem: EdgeProblem, impasse: Impasse) -> int:
    """How many pods like that one could go where it was refused."""
    alike = problem.items[problem.item_of(impasse.move.pod)].pods
    edge = {node.name for node in problem.nodes}
    where = impasse.move.target
    return sum(
        move.pod in alike and (move.target == where or not (where in edge or move.target in edge))
        for move in impasse.done
    )


def _first(
    problem: EdgeProblem,
    free: Mapping[NodeName, Resources],
    gains: Gains,
    limits: SuggestLimits,
    bounds: Bounds,
) -> Proposal:
    """The first solution that can be carried out; of equal ones, one without stopovers.

    Or the first one that rules about other pods refuse, if it comes before. It takes at least two
    moves within the edge to wait in a circle. After some solutions with circles that the cloud
    cannot break only those with a single move within the edge are looked at.
    """
    chosen: tuple[Solution, Moves] | None = None
    states = passed_over = 0
    for solution in best_changes(problem, gains, limits, bounds):
        states = solution.states
        if chosen is not None and chosen[0].rank != solution.rank:
            break
        moves = pair(problem, solution.changes, free)
        if moves is None:
            passed_over += 1
            if passed_over == _TRIES:
                break
        elif isinstance(moves, Impasse):
            if chosen is None:
                return Proposal(proven=False, states=states, refused=(moves,))
        elif chosen is None or not stopovers(moves):
            chosen = (solution, moves)
        if chosen is not None and not stopovers(chosen[1]):
            break
    if chosen is None and passed_over and limits.max_edge_reorder > 1:
        simpler = _first(problem, free, gains, attrs.evolve(limits, max_edge_reorder=1), bounds)
        return attrs.evolve(simpler, proven=False, states=states + simpler.states)
    found = () if chosen is None else chosen[1]
    return Proposal(found, proven=not passed_over, states=states)
