"""Integer programme (MIP) that places a batch of pods too large for exact search, with bounds.

The lexicographic goals are those of `make_decision`: placed pods by turn, QoS by level, evenness
by level, preference penalties. Variables count the pods of each kind on each node. Additional
variables count edge pods by workload, and steps of QoS. A cloud that holds the whole batch is one
node of unlimited capacity.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.model import Workload
from kubedsm.model.node_index import Mask
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.objective import NANO, Objective
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import PlacementProblem, Turn
from kubedsm.optimizer.placing.cloud import CloudRoom
from kubedsm.optimizer.placing.heuristics import (
    Placement,
    best_by_heuristics,
    is_utmost,
    steepest_slopes,
)
from kubedsm.optimizer.placing.split import Demand, Picks
from kubedsm.optimizer.programming.in_order import (
    NO_PROOF,
    Certificate,
    Goal,
    Proof,
    maximise_in_order,
)
from kubedsm.optimizer.programming.programme import NO_VARIABLE, Programme, Rows, Status

#: Called with the rows and the N x S variables, to add rows and variables to them.
Also = Callable[[Rows, Ints], None]
#: Names of the goals.
PLACED, QOS, EVEN, LIKED = "pods placed", "QoS", "evenness", "preferences"
#: rounding error of identical gains
_ROUNDED = 2


@attrs.frozen(eq=False)
class IntegerChoice:
    """Integer programme for the placement of a batch, with its variables and goals."""

    programme: Programme
    goals: tuple[Goal, ...]
    #: N x S, variables: edge nodes, then cloud nodes, or one row for the cloud
    loads: Ints
    #: S, how many are placed of each kind
    placed: Ints
    #: variable of each workload's edge pods of a kind
    taken: Mapping[tuple[Workload, int], int]
    #: step variables of each workload, one a pod
    steps: Mapping[Workload, Ints]

    def hint(self, on_edge: Ints, in_cloud: Ints, picks: Picks) -> Ints:
        """Convert a known placement to variable values, as the solver's start solution."""
        values = np.zeros(len(self.programme.upper), dtype=np.int64)
        others = self.loads[len(on_edge) :]
        loads = in_cloud if len(others) == len(in_cloud) else in_cloud.sum(axis=0, keepdims=True)
        values[self.loads] = np.concatenate((on_edge, loads))
        values[self.placed] = values[self.loads].sum(axis=0)
        for pick, variable in self.taken.items():
            number, steps = picks.get(pick, 0), self.steps[pick[0]]
            values[variable] = number
            values[steps[int(values[steps].sum()) :][:number]] = 1
        return values

    def picks(self, values: Ints) -> Picks:
        """Convert the solver's variable values to numbers of edge pods by workload and group of
        interchangeable pods.
        """
        return {pick: int(values[at]) for pick, at in self.taken.items() if values[at]}


def build_programme(
    edge: PlacementProblem,
    cloud: PlacementProblem,
    members: Sequence[Demand],
    objective: Objective,
    also: Also | None = None,
    roomy: Ints | None = None,
) -> IntegerChoice:
    """Build the integer programme (MIP) of a batch from the placement problems of edge and cloud.

    Both problems have the same kinds; the members (workloads) own the pods of these kinds.
    roomy: pods of each kind that the cloud holds in any case; the cloud nodes are then irrelevant.
    """
    rows = Rows()
    on_edge = add_loads(rows, edge, edge.fitting)
    in_cloud = (
        add_loads(rows, cloud, cloud.fitting) if roomy is None else rows.variables(roomy[None])
    )
    loads = np.concatenate((on_edge, in_cloud))
    placed = rows.variables(edge.counts)
    pods = np.array([member.counts for member in members], dtype=np.int64, ndmin=2)
    taken = rows.sparse(pods)
    for kind in range(len(placed)):
        rows.add((loads[:, kind], 1), (placed[kind : kind + 1], -1), least=0, most=0)
        rows.add((on_edge[:, kind], 1), (taken[:, kind], -1), least=0, most=0)
    steps = tuple(_add_steps(rows, member.scores(objective)) for member in members)
    for member, of_member in enumerate(steps):
        rows.add((taken[member], 1), (of_member, -1), least=0, most=0)
    if also is not None:
        also(rows, loads)
    programme = rows.programme()
    size = len(programme.upper)
    least = cloud.penalties if roomy is None else cloud.least_penalties[None]
    disliked = _weight_vector(size, loads, -np.concatenate((edge.penalties, least)))
    goals = (
        *(
            Goal(PLACED, _weight_vector(size, placed, kinds), of=turn)
            for turn, kinds in list_turns(edge)
        ),
        *_qos_goals(members, steps, objective, size),
        Goal(LIKED, disliked),
    )
    names = [member.workload for member in members]
    owned = np.argwhere(taken != NO_VARIABLE).tolist()
    variables = {(names[at], kind): int(taken[at, kind]) for at, kind in owned}
    by_name = dict(zip(names, steps, strict=True))
    return IntegerChoice(programme, goals, loads, placed, variables, by_name)


def add_loads(rows: Rows, problem: PlacementProblem, upper: Ints) -> Ints:
    """Add integer variables for the pod counts (nodes x groups of interchangeable pods), with rows
    for the node capacity.

    upper: maximum number of pods of each kind on each node.
    """
    variables = rows.variables(upper)
    for resource, asked in enumerate(problem.requests.T):
        wanted = np.flatnonzero(asked)
        tight = np.flatnonzero(upper @ asked > problem.free[:, resource])
        coefficients = np.broadcast_to(asked[wanted], (len(tight), len(wanted)))
        rows.add_each(variables[np.ix_(tight, wanted)], coefficients, problem.free[tight, resource])
    return variables


def _add_steps(rows: Rows, scores: Ints) -> Ints:
    """Add a QoS variable for each additional edge pod, ordered if gains are not concave."""
    steps = rows.variables(np.ones(len(scores) - 1, dtype=np.int64))
    if (np.diff(scores, 2) > _ROUNDED).any():
        rows.add_chain(steps)
    return steps


def turn_called(turn: Turn) -> str:
    priority, overdue = turn
    return f"priority {priority}, overdue {overdue}" if overdue else f"priority {priority}"


def list_turns(problem: PlacementProblem) -> Iterator[tuple[str, Mask]]:
    """Enumerate the groups of pods in scheduling order (priority, overdue count) as goals of the
    integer programme, first group first.
    """
    turns = [kind.rank.turn for kind in problem.kinds]
    for turn in sorted(set(turns), reverse=True):
        yield turn_called(turn), np.array([each == turn for each in turns], dtype=np.bool_)


def level_called(level: int) -> str:
    return f"priority {level}"


def list_levels(members: Sequence[Demand]) -> Iterator[tuple[str, list[int]]]:
    """Enumerate the priority levels with goal name and workloads, highest level first."""
    for level in sorted({member.level for member in members}, reverse=True):
        of_level = [at for at, member in enumerate(members) if member.level == level]
        yield level_called(level), of_level


def _qos_goals(
    members: Sequence[Demand], steps: Sequence[Ints], objective: Objective, size: int
) -> Iterator[Goal]:
    scores = [member.scores(objective) for member in members]
    uneven = [-member.uneven for member in members]
    for name, values, unit in ((QOS, scores, int(NANO)), (EVEN, uneven, 1)):
        for called, of_level in list_levels(members):
            weights = np.zeros(size, dtype=np.int64)
            for at in of_level:
                weights[steps[at]] = np.diff(values[at])
            yield Goal(name, weights, slack=len(of_level), of=called, unit=unit)


def _weight_vector(size: int, variables: Ints, weights: Ints | Mask) -> Ints:
    every = np.zeros(size, dtype=np.int64)
    every[variables] = weights
    return every


#: error of float sums
_FLOAT_ERROR = 0.01


def upper_bounds(
    edge: PlacementProblem, cloud: PlacementProblem, members: Sequence[Demand], objective: Objective
) -> dict[tuple[str, str], int]:
    """Return upper bounds on placed pods by scheduling order and QoS by priority level (fractional
    knapsack relaxation).

    The relaxation combines all nodes accepting a kind, splits pods, and considers only the scarcest
    resource.
    """
    most: dict[tuple[str, str], int] = {}
    whole = PlacementProblem.of(edge.kinds, edge.rows + cloud.rows)
    takes = np.minimum(whole.fitting.sum(axis=0), whole.counts)
    for called, of_turn in list_turns(edge):
        kinds = np.repeat(np.flatnonzero(of_turn), takes[of_turn])
        room = _capacity_of(whole, of_turn)
        most[PLACED, called] = _knapsack_bound(np.ones(len(kinds)), whole.requests[kinds], room)
    takes = np.minimum(edge.fitting.sum(axis=0), edge.counts)
    for called, of_level in list_levels(members):
        gains, requests = [np.zeros(0)], [edge.requests[:0]]
        concerned = np.zeros(len(takes), dtype=np.bool_)
        for member in (members[at] for at in of_level):
            has = member.counts > 0
            concerned |= has
            number = int(np.minimum(member.counts, takes).sum())
            # A pod with negative gain stays off the edge.
            ways = np.array(steepest_slopes(member.scores(objective)[: number + 1].tolist()))
            gains.append(np.maximum(ways, 0.0))
            requests.append(np.tile(edge.requests[has].min(axis=0), (number, 1)))
        room = _capacity_of(edge, concerned)
        most[QOS, called] = _knapsack_bound(np.concatenate(gains), np.concatenate(requests), room)
    return most


def _capacity_of(problem: PlacementProblem, kinds: Mask) -> Ints:
    """Return the available capacity of each resource on nodes accepting any of the kinds."""
    room: Ints = problem.free[problem.feasible[:, kinds].any(axis=1)].sum(axis=0)
    return room


def _knapsack_bound(gains: NDArray[np.float64], requests: Ints, room: Ints) -> int:
    """Return an upper bound on the total gain of pods within the capacity (fractional knapsack).

    Gains, sizes (pods x resources) and capacity (resources) are arrays.
    """
    least = float(gains.sum())
    for asked, free in zip(requests.T.astype(np.float64), room.tolist(), strict=True):
        dear = np.flatnonzero(asked)
        best = dear[np.argsort(-gains[dear] / asked[dear], kind="stable")]
        sums = np.concatenate(([0.0], asked[best].cumsum()))
        worth = np.concatenate(([0.0], gains[best].cumsum()))
        found = float(np.interp(free, sums, worth)) + float(gains[asked == 0].sum())
        least = min(least, found)
    return int(least + _FLOAT_ERROR)


def choose_by_solver(
    edge: PlacementProblem,
    cloud: CloudRoom,
    members: Sequence[Demand],
    objective: Objective,
    first: Placement,
    bounds: Bounds,
) -> Placement:
    """Return the best placement found by heuristics and the integer-programming solver.

    first: a quickly constructed placement to start from.
    """
    placement = best_by_heuristics(edge, cloud.problem, members, first, bounds.deadline)
    if is_utmost(edge, cloud.problem, members, placement):
        proof = attrs.evolve(NO_PROOF, placed=True, qos=True, preferences=True)
        return attrs.evolve(placement, proof=proof, charged=0)
    posed = build_programme(
        edge, cloud.problem, members, objective, roomy=cloud.taken if cloud.endless else None
    )
    hint = posed.hint(placement.on_edge, placement.in_cloud, placement.picks)
    limits = upper_bounds(edge, cloud.problem, members, objective)
    goals = [attrs.evolve(goal, most=limits.get((goal.name, goal.of))) for goal in posed.goals]
    found = maximise_in_order(posed.programme, goals, bounds.solver, bounds.deadline, hint)
    if found.values is not None and bounds.solver is not None:
        placement = _read_placement(posed, found.values, cloud, len(edge.free))
    told = tuple(c for c in found.certificates if c.goal != EVEN and not c.proven)
    proof = derive_proof(found.certificates)
    return attrs.evolve(placement, proof=proof, certificates=told, charged=0)


def _read_placement(posed: IntegerChoice, values: Ints, cloud: CloudRoom, nodes: int) -> Placement:
    """Convert solver values to a placement; cloud pods are spread over nodes if possible."""
    on_edge, in_cloud = values[posed.loads[:nodes]], values[posed.loads[nodes:]]
    spread, disliked = cloud.place(in_cloud.sum(axis=0)), cloud.problem.penalties
    if cloud.endless or (
        spread.sum() == in_cloud.sum() and (spread * disliked).sum() <= (in_cloud * disliked).sum()
    ):
        in_cloud = spread
    return Placement(posed.picks(values), on_edge, in_cloud)


def derive_proof(certificates: Iterable[Certificate]) -> Proof:
    """Return the optimality proof of a placement that its certificates imply; preference penalties
    rank after evenness.
    """
    doubtful = {certificate.goal for certificate in certificates if not certificate.proven}
    return attrs.evolve(
        NO_PROOF,
        placed=PLACED not in doubtful,
        qos=QOS not in doubtful,
        preferences=not doubtful & {EVEN, LIKED},
    )


#: Amounts by goal and qualifier, in order.
Amounts = Mapping[tuple[str, str], int]


def list_shortfalls(
    reached: Amounts, best: Amounts, certificates: Iterable[Certificate]
) -> Iterator[Certificate]:
    """Enumerate optimality certificates for the goals whose value is below the upper bound.

    certificates: unproven goals of `best`.
    """
    unproven = {(each.goal, each.of): each for each in certificates}
    several = {name: sum(name == each for each, _ in reached) > 1 for name in (PLACED, QOS)}
    for (name, of), value in reached.items():
        known, bound, note = unproven.get((name, of)), best[name, of], ""
        if known is not None:
            note = known.note
            if known.bound is not None and known.value is not None:
                bound += known.bound - known.value
        if value < bound:
            whose, unit = of if several[name] else "", int(NANO) if name == QOS else 1
            yield Certificate(name, Status.FEASIBLE, value, bound, of=whose, unit=unit, note=note)
        if value < best[name, of]:
            return
