"""Edge or cloud: Algorithm 3 (`makeDecision`) without migration, exact within the search limit.

QoS depends on the number of edge pods of each workload, and capacity on the number of each kind.
Therefore the selection is among count vectors. `match` provides the feasible vectors with their
fragmentation, and `split` the best QoS of distributing a vector among workloads. The paper
compares sums of resources, whereas here `match` must find a placement of the vector. With demand by
site, vectors count the pods of each kind and edge site (`site_columns`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import NodeName, Pod, Share, Tier, Uid, Workload
from kubedsm.model.node_index import Column
from kubedsm.objective.fragmentation import Fragmentation, Ints
from kubedsm.objective.objective import Objective, QosTargets
from kubedsm.objective.replica_spread import has_default_spread
from kubedsm.objective.site_shares import SiteLoss
from kubedsm.optimizer.matching.match import (
    MOST_KINDS,
    UNREACHABLE,
    Bounds,
    MatchTable,
    build_table,
    vector_sums,
)
from kubedsm.optimizer.matching.problem import PlacementProblem, Targets
from kubedsm.optimizer.placing.batch_mip import choose_by_solver
from kubedsm.optimizer.placing.by_site import GainPlacement, place_by_gain
from kubedsm.optimizer.placing.cloud import CloudRoom, SampledNodes
from kubedsm.optimizer.placing.heuristics import Placement, pick_greedily
from kubedsm.optimizer.placing.replica_spreading import (
    ReplicaLadders,
    TierAssignment,
    is_optimally_spread,
)
from kubedsm.optimizer.placing.site_columns import Columns, list_members
from kubedsm.optimizer.placing.split import Demand, Member, Split, list_demands, split_vectors
from kubedsm.optimizer.programming.in_order import NO_PROOF, Certificate, Proof
from kubedsm.plugins.plugin import Rejection


class Binding(NamedTuple):
    """Decided binding of a pending pod: pod, node, and tier of the node."""

    pod: Pod
    node: NodeName
    tier: Tier


@attrs.frozen(slots=True)
class Decision:
    """Placement decision on a batch: bindings, QoS scores before and after, and optimality proof.

    Scores are nano-units of QoS over the batch's workloads; `before` excludes the batch.
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


@attrs.frozen(eq=False)
class Choice:
    """Target nodes for the pods of a batch; all other pods are unschedulable."""

    targets: Targets
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
    sites: Column | None = None,
) -> Choice:
    """Choose edge or cloud and the node of each pod of a batch: Algorithm 3 without migration.

    Lexicographic objective: most placed pods by priority; greatest QoS by level; most even shares;
    least preference penalties; greatest replica spread; least fragmentation; first vector. Both
    problems have the same kinds, and both or neither have replica charges. Above the exact-search
    limit heuristics and a solver take over, and optimality certificates state the gaps.
    sites: site of each edge node, if workloads have demand by site. Then QoS is by near shares,
    a greedy choice takes over above the limit, and spread and fragmentation are not proven.
    """
    made: Placement | None = None
    if sites is None:
        columns = Columns.of_kinds(edge)
        demands = list_demands(edge, shares, qos_targets, objective)
        made = _choose_exactly(columns, cloud, demands, fragmentation, bounds)
        if made is None or not cloud.exact:
            first = made or _pick_first(edge, cloud, demands)
            made = choose_by_solver(edge, cloud, demands, objective, first, bounds)
    else:
        columns = Columns.by_site(edge, sites, qos_targets)
        members = list_members(columns, shares, qos_targets, objective)
        if cloud.exact:
            made = _choose_exactly(columns, cloud, members, fragmentation, bounds)
        if made is None:
            spread = None if replicas is None else replicas.spread
            placed = place_by_gain(columns, members, spread)
            return _decide_by_gain(edge, cloud, placed, bounds, replicas)
        made = attrs.evolve(made, proof=attrs.evolve(Proof(), spread=False, fragmentation=False))
    proof, parts = made.proof, divide_placement(columns, cloud.problem, made)
    if replicas is None:
        targets = [problem.targets(of, pods) for problem, of, pods in parts]
    else:
        spread = replicas.spread.copy()
        tiers = [TierAssignment.of(problem, of, pods, spread) for problem, of, pods in parts]
        ladders = made.charged, cloud.least_charged(made.in_cloud.sum(axis=0))
        proof = _spread_out(replicas, columns, tiers, ladders, proof, bounds.deadline)
        targets = [tier.targets for tier in tiers]
    return Choice((*targets[0], *targets[1]), proof, made.certificates)


def divide_placement(
    columns: Columns, cloud: PlacementProblem, placement: Placement
) -> tuple[tuple[PlacementProblem, Ints, list[list[Pod]]], ...]:
    """Return the problem, the pod counts by node, and the pods by group of edge and of cloud."""
    chosen, others = columns.divide_pods(placement.picks)
    taken = placement.in_cloud.sum(axis=0).tolist()
    # Pods that fill the edge are not picked.
    for column, kind in enumerate(columns.owners):
        chosen[column] += others[kind][taken[kind] :]
    return (columns.problem, placement.on_edge, chosen), (cloud, placement.in_cloud, others)


def _decide_by_gain(
    edge: PlacementProblem,
    cloud: CloudRoom,
    placed: GainPlacement,
    bounds: Bounds,
    replicas: ReplicaLadders | None,
) -> Choice:
    """Place the remaining pods in the cloud, next to the pods that are placed by marginal gain."""
    left = edge.counts - placed.loads.sum(axis=0)
    loads, proof = cloud.place(left), NO_PROOF
    if bool((loads.sum(axis=0) == left).all()):
        proof = attrs.evolve(NO_PROOF, placed=True, qos=placed.best)
    if replicas is None or not loads.any():
        in_cloud = cloud.problem.targets(loads, placed.others)
    else:
        spread = replicas.spread.copy()
        for pod, node in placed.targets:
            if has_default_spread(pod):
                spread.put(pod.workload, node)
        tier = TierAssignment.of(cloud.problem, loads, placed.others, spread)
        if tier.has_neighbours:
            tier.even_out(bounds.deadline)
        in_cloud = tier.targets
    return Choice((*placed.targets, *in_cloud), proof)


def _choose_exactly(
    columns: Columns,
    cloud: CloudRoom,
    members: Sequence[Member],
    fragmentation: Fragmentation,
    bounds: Bounds,
) -> Placement | None:
    """Choose how many pods of each column go to the edge by exact tables; None above the limit."""
    if columns.edge.weights is None or len(columns.owners) > MOST_KINDS:
        return None
    table = build_table(columns.problem, fragmentation, bounds)
    split = split_vectors(members, table.limits, bounds) if table else None
    if table is None or split is None:
        return None
    vector = _best_vector(columns, table, split, cloud, columns.edge.weights)
    loads = table.loads(vector)
    in_cloud = cloud.place(columns.edge.counts - columns.by_kind(vector))
    return Placement(split.picks(vector), loads, in_cloud, Proof(), charged=table.charges(vector))


#: More than the cost of any vector.
_DEAREST = 2**63 - 1


def _best_vector(
    columns: Columns, table: MatchTable, split: Split, cloud: CloudRoom, weights: Sequence[int]
) -> Ints:
    costs = table.costs()
    limits, index, possible = columns.vectors_by_kind(table.limits)

    def by_column(values: Ints) -> Ints:
        return values if index is None else values.take(index)

    worth = vector_sums(costs.shape, [weights[kind] for kind in columns.owners])
    worth += by_column(cloud.capacity(limits))
    placed = np.where(possible & (costs < UNREACHABLE), worth, -1)
    best = split.best(placed == placed.max())
    if int(best.sum()) > 1:
        costs = costs + table.digits.penalty * by_column(cloud.least_penalties(limits))
        costs += table.digits.charge * by_column(cloud.least_charges(limits))
    cheapest = int(np.where(best, costs, _DEAREST).argmin())
    return np.array(np.unravel_index(cheapest, costs.shape), dtype=np.int64)


def _pick_first(edge: PlacementProblem, cloud: CloudRoom, members: Sequence[Demand]) -> Placement:
    picks, loads = pick_greedily(edge, members)
    return Placement(picks, loads, cloud.place(edge.counts - loads.sum(axis=0)))


def _spread_out(
    replicas: ReplicaLadders,
    columns: Columns,
    tiers: Sequence[TierAssignment],
    ladders: Sequence[int],
    proof: Proof,
    deadline: Deadline,
) -> Proof:
    """Improve the replica spread of both tiers by local search; return the updated proof.

    ladders: lower bound on the charges of each tier, if the placement is proven optimal.
    """
    if columns.nodes is not None:
        for tier in tiers:
            if tier.has_neighbours:
                tier.even_out(deadline)
        return proof
    if not proof.placed:
        placed: Ints = np.sum([tier.loads.sum(axis=0) for tier in tiers], axis=0)
        for tier in tiers:
            tier.even_out(deadline, np.flatnonzero(placed < columns.edge.counts).tolist())
        return proof
    even, seen = is_optimally_spread(replicas, tiers, ladders)
    moves = 0 if even else sum(tier.even_out(deadline) for tier in tiers)
    if moves:
        even, _ = is_optimally_spread(replicas, tiers, ladders)
        seen = False
    seen = seen and proof.fragmentation
    return Proof(proof.placed, proof.qos, proof.preferences, even, seen)
