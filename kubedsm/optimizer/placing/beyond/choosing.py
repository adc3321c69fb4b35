"""What is chosen of a batch beyond the bounds of the tables, and how sure that is.

Heuristics place it, each in its way, and the best of that is where the solver begins, if there is
one. Of what neither proves it is said what it came to, and what it could have come to at most.
"""

from collections.abc import Iterable, Sequence

import attrs

from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.objective import Objective
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import Packing
from kubedsm.optimizer.placing.beyond import relaxed
from kubedsm.optimizer.placing.beyond.by_heuristics import Placement, best_by_heuristics
from kubedsm.optimizer.placing.beyond.integer_choice import (
    EVEN,
    LIKED,
    PLACED,
    QOS,
    IntegerChoice,
    integer_choice,
)
from kubedsm.optimizer.placing.cloud import CloudRoom
from kubedsm.optimizer.placing.proof import NO_PROOF, Proof
from kubedsm.optimizer.placing.split import Demand
from kubedsm.optimizer.programming.in_order import Certificate, maximised_in_order


@attrs.frozen(eq=False)
class Chosen:
    placement: Placement
    proof: Proof
    #: of what is not proven; how even the shares are is in units that would tell nobody anything
    certificates: tuple[Certificate, ...] = ()
    #: what the edge charges for it at least
    charged: int = 0


def chosen_beyond(
    edge: Packing,
    cloud: CloudRoom,
    members: Sequence[Demand],
    objective: Objective,
    first: Placement,
    bounds: Bounds,
) -> Chosen:
    """As good a choice as can be had; `first` is one that was found quickly."""
    placement = best_by_heuristics(edge, cloud.packing, members, first, bounds.deadline)
    posed = integer_choice(edge, cloud.packing, members, objective, roomy=cloud.endless)
    limits = relaxed.bounds(edge, cloud.packing, members, objective)
    goals = [attrs.evolve(goal, most=limits.get((goal.name, goal.of))) for goal in posed.goals]
    hint = posed.hint(placement.on_edge, placement.in_cloud, placement.picks)
    found = maximised_in_order(posed.programme, goals, bounds.solver, bounds.deadline, hint)
    if found.values is not None and bounds.solver is not None:
        placement = _read(posed, found.values, cloud, len(edge.free))
    told = tuple(c for c in found.certificates if c.goal != EVEN and not c.proven)
    return Chosen(placement, proof_of(found.certificates), told)


def _read(posed: IntegerChoice, values: Ints, cloud: CloudRoom, nodes: int) -> Placement:
    """What the values mean, `nodes` at the edge; the cloud's pods spread out, if they can be."""
    on_edge, in_cloud = values[posed.loads[:nodes]], values[posed.loads[nodes:]]
    spread, disliked = cloud.place(in_cloud.sum(axis=0)), cloud.packing.penalties
    if cloud.endless is not None or (
        spread.sum() == in_cloud.sum() and (spread * disliked).sum() <= (in_cloud * disliked).sum()
    ):
        in_cloud = spread
    return Placement(posed.picks(values), on_edge, in_cloud)


def proof_of(certificates: Iterable[Certificate]) -> Proof:
    """What of it has been proven; preferences come after evenness."""
    doubtful = {certificate.goal for certificate in certificates if not certificate.proven}
    return attrs.evolve(
        NO_PROOF,
        placed=PLACED not in doubtful,
        qos=QOS not in doubtful,
        preferences=not doubtful & {EVEN, LIKED},
    )
