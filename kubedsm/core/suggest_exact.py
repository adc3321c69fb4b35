"""The best few moves there are: `suggest` in its exact form."""

from collections.abc import Mapping

import attrs

from kubedsm.core.best_changes import Solution, TooManyError, best_changes
from kubedsm.core.edge_problem import EdgeProblem
from kubedsm.core.gains import Gains
from kubedsm.core.match import Bounds
from kubedsm.core.model import NodeName, Resources
from kubedsm.core.pairing import Pairing, pair
from kubedsm.core.suggestion import SuggestLimits
from kubedsm.core.transfers import Proposal

#: Of solutions that cannot be carried out, that many are passed over.
_TRIES = 6
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
    ordered = sorted(problem.workloads, key=lambda w: (gains.to_promise(w), w))
    states = 0
    lacking = [w for w in ordered if w in supplied]
    for start in range(0, len(lacking), _LACKING):
        some = lacking[start : start + _LACKING]
        some += [w for w in reversed(ordered) if w not in some][:_SPARING]
        part = problem.only(some)
        most = limits.max_moves
        while most:
            try:
                found = _best(part, free, gains, attrs.evolve(limits, max_moves=most), bounds)
            except TooManyError:
                most = most * 3 // 4
                continue
            states += found.states
            if found.moves:
                return Proposal(found.moves, proven=False, states=states)
            break
    return Proposal(proven=False, states=states)


def _best(
    problem: EdgeProblem,
    free: Mapping[NodeName, Resources],
    gains: Gains,
    limits: SuggestLimits,
    bounds: Bounds,
) -> Proposal:
    """The first solution that can be carried out; of equal ones, one without cycles.

    A cycle that the cloud cannot break takes at least two moves within the edge. After some
    solutions with such cycles only those with a single move within the edge are looked at.
    """
    chosen: tuple[Solution, Pairing] | None = None
    states = passed_over = 0
    for solution in best_changes(problem, gains, limits, bounds):
        states = solution.states
        if chosen is not None and chosen[0].rank != solution.rank:
            break
        pairing = pair(problem, solution.changes, free)
        if pairing is None:
            passed_over += 1
            if passed_over == _TRIES:
                break
        elif chosen is None or not pairing.cycles:
            chosen = (solution, pairing)
        if chosen is not None and not chosen[1].cycles:
            break
    if chosen is None and passed_over and limits.max_edge_reorder > 1:
        simpler = _best(problem, free, gains, attrs.evolve(limits, max_edge_reorder=1), bounds)
        return attrs.evolve(simpler, proven=False, states=states + simpler.states)
    moves = () if chosen is None else chosen[1].moves
    return Proposal(moves, proven=not passed_over, states=states)
