"""Edge or cloud: Algorithm 3 (`makeDecision`) without migration, exact within the search limit.

QoS depends on the number of edge pods of each workload, and capacity on the number of each kind.
Therefore the selection is among count vectors. `match` provides the feasible vectors with their
fragmentation, and `split` the best QoS of distributing a vector among workloads. The paper
compares sums of resources, whereas here `match` must find a placement of the vector.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import NodeName, Pod, Resources, Share, Tier, Uid, Workload
from kubedsm.objective.fragmentation import Fragmentation, Ints
from kubedsm.objective.objective import Objective, QosTargets
from kubedsm.objective.site_shares import SiteLoss
from kubedsm.optimizer.matching.best_fit import BestFit
from kubedsm.optimizer.matching.match import (
    UNREACHABLE,
    Bounds,
    MatchTable,
    build_table,
    vector_sums,
)
from kubedsm.optimizer.matching.problem import PlacementProblem, Targets
from kubedsm.optimizer.placing.batch_mip import Chosen, choose_by_solver
from kubedsm.optimizer.placing.cloud import CloudRoom, SampledNodes
from kubedsm.optimizer.placing.heuristics import Placement, pick_greedily
from kubedsm.optimizer.placing.replica_spreading import (
    ReplicaLadders,
    TierAssignment,
    is_optimally_spread,
)
from kubedsm.optimizer.placing.split import Demand, Picks, Split, list_demands, split_vectors
from kubedsm.optimizer.programming.in_order import Certificate, Proof
from kubedsm.plugins.plugin import Rejection


class Binding(NamedTuple):
    """Decided binding of a pending pod: pod, node, and tier of the node."""

    pod: Pod
    node: NodeName
    tier: Tier


def room_after(
    free: Mapping[NodeName, Resources], bindings: Iterable[Binding]
) -> dict[NodeName, Resources]:
    """Return the available capacity of each node after the bindings."""
    left = dict(free)
    for binding in bindings:
        left[binding.node] -= binding.pod.requests
    return left


@attrs.frozen(slots=True)
class Decision:
    """Placement decision on a batch: bindings, QoS scores before and after, and optimality proof.

    Scores are nano-units of QoS over the batch's workloads; `before` excludes the batch.
    Fragmentation is the total of all edge nodes after the bindings, in units of 2^-32 node.
    """

    #: in serving order; with constraints between pods, in an order
    #: in which each pod keeps the constraints as it comes
    bindings: tuple[Binding, ...] = ()
    #: rejections by every node of pods fitting nowhere, with the capacity left then
    unplaced: Mapping[Uid, Mapping[NodeName, Rejection]] = attrs.field(factory=dict)
    #: undecided pods, for the next batch
    late: tuple[Pod, ...] = ()
    score_before: int = 0
    score_after: int = 0
    fragmentation: int = 0
    #: goals that are proven optimal
    proof: Proof = attrs.field(factory=Proof)
    #: value and upper bound of unproven goals: pods placed,
    #: and the QoS that the batch adds, in nano-units
    certificates: tuple[Certificate, ...] = ()
    shares_before: Mapping[Workload, Share] = attrs.field(factory=dict)
    shares_after: Mapping[Workload, Share] = attrs.field(factory=dict)
    #: of the batch's workloads with resilience
    worst_losses: tuple[SiteLoss, ...] = ()
    #: constraints between pods do not matter
    plain: bool = False
    #: sampled cloud nodes; None: all
    looked_at: SampledNodes | None = None
    #: the time limit passed before the work limit
    out_of_time: bool = False

    @property
    def proven(self) -> bool:
        """True if the placement decision is proven optimal in every goal."""
        return self.proof.whole


@attrs.frozen(eq=False)
class Choice:
    """Target nodes on the edge and in the cloud for the pods of a batch; all other pods are
    unschedulable.
    """

    edge: Targets
    cloud: Targets
    #: of all edge nodes together
    fragmentation: int
    proof: Proof
    #: certificates of unproven goals
    certificates: tuple[Certificate, ...] = ()
    #: sampled cloud nodes; None: all
    looked_at: SampledNodes | None = None

    @property
    def proven(self) -> bool:
        """True if the numbers of placed pods, QoS and preference penalties are proven optimal."""
        return self.proof.placed and self.proof.qos and self.proof.preferences


def make_decision(
    edge: PlacementProblem,
    cloud: CloudRoom,
    shares: Mapping[Workload, Share],
    qos_targets: QosTargets,
    objective: Objective,
    fragmentation: Fragmentation,
    bounds: Bounds,
    replicas: ReplicaLadders | None = None,
) -> Choice:
    """Choose edge or cloud and the node of each pod of a batch: Algorithm 3 without migration.

    Lexicographic objective: most placed pods by priority; greatest QoS by level; most even shares;
    least preference penalties; greatest replica spread; least fragmentation; first vector. Both
    problems have the same kinds, and both or neither have replica charges. Above the exact- search
    limit heuristics and a solver take over, and optimality certificates state the gaps.
    """
    members = list_demands(edge, shares, qos_targets, objective)
    made = choose_counts(
        edge, cloud, members, bounds, objective=objective, fragmentation=fragmentation
    )
    picks, loads, cloud_loads = attrs.astuple(made.placement, recurse=False)
    chosen, others = split_by_pick(edge, picks)
    taken = cloud_loads.sum(axis=0).tolist()
    for kind, pods in enumerate(others):
        chosen[kind] += pods[taken[kind] :]
    proof, parts = made.proof, ((edge, loads, chosen), (cloud.problem, cloud_loads, others))
    if replicas is None:
        on_edge, in_cloud = (problem.targets(of, pods) for problem, of, pods in parts)
    else:
        spread = replicas.spread.copy()
        tiers = [TierAssignment.of(problem, of, pods, spread) for problem, of, pods in parts]
        ladders = made.charged, cloud.least_charged(cloud_loads.sum(axis=0))
        proof = _spread_out(replicas, tiers, ladders, proof, bounds.deadline)
        on_edge, in_cloud = (tier.targets for tier in tiers)
        loads = tiers[0].loads
    fragmented = fragmentation.costs(edge.axes, edge.allocatable, edge.room_after(loads))
    return Choice(on_edge, in_cloud, int(fragmented.sum()), proof, made.certificates)


def choose_counts(
    edge: PlacementProblem,
    cloud: CloudRoom,
    members: Sequence[Demand],
    bounds: Bounds,
    *,
    objective: Objective,
    fragmentation: Fragmentation,
) -> Chosen:
    """Choose how many pods of each group go to the edge and the cloud: by exact tables, or by
    heuristics and the solver.
    """
    table = build_table(edge, fragmentation, bounds) if edge.weights is not None else None
    split = split_vectors(members, table.limits, bounds) if table else None
    charged = 0
    if table is None or split is None:
        room = BestFit(edge)
        picks, loads = pick_greedily(edge, members, room), room.loads
    else:
        vector = _best_vector(table, split, cloud)
        picks, loads, charged = split.picks(vector), table.loads(vector), table.charges(vector)
    placement = Placement(picks, loads, cloud.place(edge.counts - loads.sum(axis=0)))
    if table is None or split is None or not cloud.exact:
        return choose_by_solver(edge, cloud, members, objective, placement, bounds)
    return Chosen(placement, Proof(), charged=charged)


def _spread_out(
    replicas: ReplicaLadders,
    tiers: Sequence[TierAssignment],
    ladders: Sequence[int],
    proof: Proof,
    deadline: Deadline,
) -> Proof:
    """Improve the replica spread of both tiers by local search; return the updated proof.

    ladders: lower bound on the charges of each tier, if the placement is proven optimal.
    """
    counts = tiers[0].problem.counts
    if not proof.placed:
        placed: Ints = np.sum([tier.loads.sum(axis=0) for tier in tiers], axis=0)
        for tier in tiers:
            tier.even_out(deadline, np.flatnonzero(placed < counts).tolist())
        return proof
    even, seen = is_optimally_spread(replicas, tiers, ladders)
    moves = 0 if even else sum(tier.even_out(deadline) for tier in tiers)
    if moves:
        even, _ = is_optimally_spread(replicas, tiers, ladders)
        seen = False
    return attrs.evolve(proof, spread=even, fragmentation=seen and proof.fragmentation)


def _best_vector(table: MatchTable, split: Split, cloud: CloudRoom) -> Ints:
    costs = table.costs()
    worth = vector_sums(costs.shape, table.problem.weights) + cloud.capacity(table.limits)
    placed = np.where(costs < UNREACHABLE, worth, -1)
    best = split.best(placed == placed.max())
    if int(best.sum()) > 1:
        costs = costs + table.digits.penalty * cloud.least_penalties(table.limits)
        costs += table.digits.charge * cloud.least_charges(table.limits)
    cheapest = int(np.where(best, costs, np.iinfo(np.int64).max).argmin())
    return np.array(np.unravel_index(cheapest, costs.shape), dtype=np.int64)


def split_by_pick(
    problem: PlacementProblem, picks: Picks
) -> tuple[list[list[Pod]], list[list[Pod]]]:
    """Divide each group of interchangeable pods into the pods picked for the edge and the remaining
    pods.
    """
    chosen: list[list[Pod]] = []
    others: list[list[Pod]] = []
    left = dict(picks)
    for index, kind in enumerate(problem.kinds):
        sides: tuple[list[Pod], list[Pod]] = [], []
        for pod in kind.pods:
            pick = (pod.workload, index)
            wanted = left.get(pick, 0)
            left[pick] = wanted - 1
            sides[wanted <= 0].append(pod)
        chosen.append(sides[0])
        others.append(sides[1])
    return chosen, others
