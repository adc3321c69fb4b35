"""Placement of a batch whose users' edge sites are known: pods are divided among edge sites and
cloud.

The exact table (`match`) and the split among workloads work on columns (`site_columns`) as on
kinds. Above the exact-search limit, pods are placed by the greatest marginal gain relative to their
size. The result is proven if every workload has the score that unlimited capacity at each site
would give.
"""

import heapq
import math
from collections.abc import Container, Iterator, Mapping, Sequence

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, Share, Workload
from kubedsm.model.node_index import Column
from kubedsm.objective.fragmentation import Fragmentation, Ints
from kubedsm.objective.objective import (
    Objective,
    QosTargets,
)
from kubedsm.objective.replica_spread import has_default_spread
from kubedsm.optimizer.matching.best_fit import BestFit, kind_sizes
from kubedsm.optimizer.matching.match import (
    UNREACHABLE,
    Bounds,
    MatchTable,
    build_table,
    vector_sums,
)
from kubedsm.optimizer.matching.problem import PlacementProblem
from kubedsm.optimizer.placing.cloud import CloudRoom
from kubedsm.optimizer.placing.decision import Choice
from kubedsm.optimizer.placing.replica_spreading import ReplicaLadders, TierAssignment
from kubedsm.optimizer.placing.site_columns import Columns, Member, list_members
from kubedsm.optimizer.placing.split import Picks, Split, split_vectors
from kubedsm.optimizer.programming.in_order import NO_PROOF, Proof

#: digits of an addition to the near share
_DIGITS = 12
#: most columns for exact tables: see `build_table`
_MOST_COLUMNS = 32


def decide_by_site(
    sites: Column,
    edge: PlacementProblem,
    cloud: CloudRoom,
    shares: Mapping[Workload, Share],
    qos_targets: QosTargets,
    objective: Objective,
    fragmentation: Fragmentation,
    bounds: Bounds,
    replicas: ReplicaLadders | None = None,
) -> Choice:
    """Choose edge site or cloud, and the node, of each pod of a batch whose users' edge sites are
    known.

    The goals are those of `make_decision`, with near shares. Replica spread and fragmentation are
    not proven.
    """
    columns = Columns.of(edge, sites, qos_targets)
    members = list_members(columns, shares, qos_targets, objective)
    found = _choose_exactly(columns, cloud, members, fragmentation, bounds)
    if found is None:
        return _decide_greedily(columns, cloud, members, fragmentation, bounds, replicas)
    picks, loads = found
    in_cloud = cloud.place(columns.counts - columns.by_kind(loads.sum(axis=0)))
    chosen, others = columns.divide_pods(picks)
    parts = (columns.problem, loads, chosen), (cloud.problem, in_cloud, others)
    if replicas is None:
        on_edge, at_cloud = (problem.targets(of, pods) for problem, of, pods in parts)
    else:
        spread = replicas.spread.copy()
        tiers = [TierAssignment.of(problem, of, pods, spread) for problem, of, pods in parts]
        for tier in tiers:
            if tier.has_neighbours:
                tier.even_out(bounds.deadline)
        on_edge, at_cloud = (tier.targets for tier in tiers)
        loads = tiers[0].loads
    room = columns.problem.room_after(loads)
    fragmented = fragmentation.costs(edge.axes, edge.allocatable, room)
    proof = attrs.evolve(Proof(), spread=False, fragmentation=False)
    return Choice(on_edge, at_cloud, int(fragmented.sum()), proof)


def _choose_exactly(
    columns: Columns,
    cloud: CloudRoom,
    members: Sequence[Member],
    fragmentation: Fragmentation,
    bounds: Bounds,
) -> tuple[Picks, Ints] | None:
    """Return the best picks and loads by exact tables; None above the exact-search limit."""
    if cloud.problem.weights is None or not cloud.exact or len(columns.owners) > _MOST_COLUMNS:
        return None
    table = build_table(columns.problem, fragmentation, bounds)
    split = split_vectors(members, table.limits, bounds) if table else None
    if table is None or split is None:
        return None
    vector = _best_vector(columns, table, split, cloud, cloud.problem.weights)
    return split.picks(vector), table.loads(vector)


def _best_vector(
    columns: Columns, table: MatchTable, split: Split, cloud: CloudRoom, weights: Sequence[int]
) -> Ints:
    costs = table.costs()
    owners = columns.owners
    on_edge = [
        vector_sums(costs.shape, [int(owner == kind) for owner in owners])
        for kind in range(len(columns.counts))
    ]
    limits = np.minimum(columns.counts, columns.by_kind(table.limits))
    possible = costs < UNREACHABLE
    for number, most in zip(on_edge, limits.tolist(), strict=True):
        possible &= number <= most
    index = tuple(np.minimum(n, most) for n, most in zip(on_edge, limits.tolist(), strict=True))
    worth = vector_sums(costs.shape, [weights[owner] for owner in owners])
    placed = np.where(possible, worth + cloud.capacity(limits)[index], -1)
    best = split.best(placed == placed.max())
    if int(best.sum()) > 1:
        costs = costs + table.digits.penalty * cloud.least_penalties(limits)[index]
        costs += table.digits.charge * cloud.least_charges(limits)[index]
    cheapest = int(np.where(best, costs, np.iinfo(np.int64).max).argmin())
    return np.array(np.unravel_index(cheapest, costs.shape), dtype=np.int64)


#: column with an upper bound on what one more pod there adds to the near share, in pods, and on the
#: demand per replica then; both negative: of several, the least is the best
_Rated = tuple[float, float, int]


@attrs.define(eq=False)
class _Growth:
    """Workload of the batch while its pods are placed one by one.

    The columns of each kind are in a heap. What one more pod adds shrinks with every replica, so
    entries are upper bounds, which are made exact only at the top of the heap (lazy greedy).
    """

    member: Member
    #: spread cost of one more replica on each edge node
    company: Ints
    #: pods placed so far, by site
    came: dict[str, int] = attrs.field(factory=dict, init=False)
    #: nodes of these pods, by kind
    nodes: dict[int, list[int]] = attrs.field(init=False)
    #: pods of the batch, by kind
    _number_of: dict[int, int] = attrs.field(init=False)
    #: replicas by site, and their number
    _there: dict[str, int] = attrs.field(init=False)
    _number: int = attrs.field(init=False)
    #: with resilience, most replicas at one site; otherwise 0
    _worst: int = attrs.field(default=0, init=False)
    #: demand served by the own site, in pods
    _own: float = attrs.field(default=0.0, init=False)
    #: near share and value with the pods placed so far
    _near: float = attrs.field(init=False)
    _value: int = attrs.field(init=False)
    #: by site: what one more pod there adds to the near share, or an upper bound; in pods
    _more: dict[str, float] = attrs.field(factory=dict, init=False)
    #: by site: number of replicas for which `_more` is exact; only with latencies of pairs
    _exact: dict[str, int] = attrs.field(factory=dict, init=False)
    #: near share and value with one more pod at a column that was yielded
    _next: dict[int, tuple[float, int]] = attrs.field(factory=dict, init=False)
    #: columns of each kind
    _queues: dict[int, list[_Rated]] = attrs.field(init=False)
    _parts: Mapping[str, float] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        member, demand, share = self.member, self.member.score.demand, self.member.score.share
        self._there, self._number = dict(share.sites or ()), share.edge
        self._parts = {} if demand is None else dict(demand.parts)
        if demand is not None:
            self._own, self._number, left = demand.left_at(self._there, share.total)
            self._more = {} if demand.pairs else left
            self._worst = max(self._there.values(), default=0) if demand.kept else 0
        columns = member.kinds()
        self._number_of = {member.owners[c]: int(member.counts[c]) for c in columns}
        self.nodes = {kind: [] for kind in self._number_of}
        self._queues = {kind: [] for kind in self.nodes}
        for column in columns:
            self._queues[member.owners[column]].append((-math.inf, -math.inf, column))
        self._near = self._near_with(None)
        self._value = member.score.value_at(self._near, self._number, self._worst)

    def place(self, column: int, node: int) -> None:
        """Count a pod of the workload on a node of the column."""
        site, demand = self.member.sites[column], self.member.score.demand
        self.nodes[self.member.owners[column]].append(node)
        self.came[site] = self.came.get(site, 0) + 1
        if demand is not None and not demand.pairs:
            self._own += min(self._more.get(site, 0.0), 1.0)
            self._more[site] = max(self._more.get(site, 0.0) - 1.0, 0.0)
        self._there[site] = self._there.get(site, 0) + 1
        if demand is not None and demand.kept:
            self._worst = max(self._worst, self._there[site])
        self._number += 1
        self._near, self._value = self._next[column]

    def _near_with(self, site: str | None) -> float:
        """Return the near share, if one more pod is at the site."""
        demand, share = self.member.score.demand, self.member.score.share
        number = self._number + (site is not None)
        if demand is None:
            return number / max(share.total, 1)
        if not demand.pairs:
            more = 0.0 if site is None else min(self._more.get(site, 0.0), 1.0)
            return demand.near_of(self._own + more, number, share.total)
        there = self._there
        if site is not None:
            there = {**there, site: there.get(site, 0) + 1}
        return demand.near(there.items(), share.total)

    def next_columns(self, full: Container[int]) -> Iterator[tuple[int, int]]:
        """Yield the best column of each kind with pods that wait, and the gain of a pod there."""
        score = self.member.score
        if not score.wants_more(self._number):
            return
        for kind, queue in self._queues.items():
            found = []
            if len(self.nodes[kind]) < self._number_of[kind]:
                for _, urgency, column in self._list_best(queue, full):
                    site = self.member.sites[column]
                    near = self._near_with(site)
                    worst = self._worst and max(self._worst, self._there.get(site, 0) + 1)
                    value = score.value_at(near, self._number + 1, worst)
                    self._next[column] = near, value
                    found.append((self._value - value, urgency, column))
            if found:
                lost, _, column = min(found)
                yield column, -lost

    def _list_best(self, queue: list[_Rated], full: Container[int]) -> list[_Rated]:
        """Return the column of the queue where one more pod adds most to the near share; of equal
        ones, that with most demand per replica. If a pod there would not add to those that the loss
        of any site leaves, return the best of the columns where it would, too.
        """
        best: list[_Rated] = []
        aside: list[_Rated] = []
        while queue:
            column = queue[0][-1]
            spared = self._there.get(self.member.sites[column], 0) < self._worst
            if column in full:
                heapq.heappop(queue)
            elif best and not spared:
                aside.append(heapq.heappop(queue))
            elif (rated := self._rate(column)) != queue[0]:
                heapq.heapreplace(queue, rated)
            else:
                best.append(rated)
                if spared or not self._worst:
                    break
                aside.append(heapq.heappop(queue))
        for rated in aside:
            heapq.heappush(queue, rated)
        return best

    def _rate(self, column: int) -> _Rated:
        """Return the column with its exact bounds."""
        site, score = self.member.sites[column], self.member.score
        total = score.share.total
        has_pairs = score.demand is not None and bool(score.demand.pairs)
        if has_pairs and self._exact.get(site) != self._number:
            self._more[site] = round((self._near_with(site) - self._near) * total, _DIGITS)
            self._exact[site] = self._number
        wanted = self._parts.get(site, 0.0) * total if self._parts else 1.0
        more = min(self._more.get(site, 0.0), 1.0)
        return -more, -wanted / (self._there.get(site, 0) + 1), column


def _decide_greedily(
    columns: Columns,
    cloud: CloudRoom,
    members: Sequence[Member],
    fragmentation: Fragmentation,
    bounds: Bounds,
    replicas: ReplicaLadders | None,
) -> Choice:
    """Decide as `decide_by_site`, above the exact-search limit."""
    edge = columns.edge
    growths, room = _place_greedily(columns, members, replicas)
    left = columns.counts - room.loads.sum(axis=0)
    in_cloud = cloud.place(left)
    proof = NO_PROOF
    if bool((in_cloud.sum(axis=0) == left).all()):
        proof = attrs.evolve(NO_PROOF, placed=True, qos=all(map(_is_best, growths)))
    places = {(g.member.workload, kind): g.nodes[kind] for g in growths for kind in g.nodes}
    spread = None if replicas is None or not in_cloud.any() else replicas.spread.copy()
    on_edge: list[tuple[Pod, NodeName]] = []
    others: list[list[Pod]] = []
    for kind, of_kind in enumerate(edge.kinds):
        others.append([])
        for pod in of_kind.pods:
            nodes = places[pod.workload, kind]
            if not nodes:
                others[kind].append(pod)
                continue
            node: NodeName = edge.rows.index.names[edge.rows.positions[nodes.pop()]]
            on_edge.append((pod, node))
            if spread is not None and has_default_spread(pod):
                spread.put(pod.workload, node)
    if spread is None:
        at_cloud = cloud.problem.targets(in_cloud, others)
    else:
        tier = TierAssignment.of(cloud.problem, in_cloud, others, spread)
        if tier.has_neighbours:
            tier.even_out(bounds.deadline)
        at_cloud = tier.targets
    fragmented = fragmentation.costs(edge.axes, edge.allocatable, room.room)
    return Choice(tuple(on_edge), at_cloud, int(fragmented.sum()), proof)


def _place_greedily(
    columns: Columns, members: Sequence[Member], replicas: ReplicaLadders | None
) -> tuple[list[_Growth], BestFit]:
    """Place pods by priority, then by marginal gain relative to size, at the best site with room.

    Gains are updated after every pick. A column without room for a pod never has room again. Of the
    nodes of a column, those with the fewest replicas of the workload come first.
    """
    edge = columns.edge
    size, room, at = kind_sizes(edge), BestFit(edge), edge.rows.positions
    zones = edge.rows.index.zone.codes[at]
    growths = []
    for member in members:
        company = np.zeros(len(at), dtype=np.int64)
        if replicas is not None:
            company = replicas.spread.by_node(member.workload, edge.rows.index)[at]
        growths.append(_Growth(member, company))
    full: set[int] = set()
    heap: list[tuple[int, int, float, int, int]] = []

    def push(m: int) -> None:
        """Queue the best next pod of the workload."""
        entries = []
        for column, gain in growths[m].next_columns(full):
            priority, overdue = edge.kinds[columns.owners[column]].rank.turn
            gain_by_size = gain / size[columns.owners[column]]
            entries.append((-priority, -overdue, -gain_by_size, m, column))
        if entries:
            heapq.heappush(heap, min(entries))

    for m in range(len(members)):
        push(m)
    while heap:
        *_, m, column = heapq.heappop(heap)
        if column not in full:
            nodes, company = columns.nodes(column), growths[m].company
            node = room.place_within(columns.owners[column], nodes, company)
            if node is None:
                full.add(column)
            else:
                growths[m].place(column, node)
                company[node] += 1
                company[nodes[zones[nodes] == zones[node]]] += 1
        push(m)
    return growths, room


def _is_best(growth: _Growth) -> bool:
    """Return True if the workload could not have a better score at any capacity."""
    member, score = growth.member, growth.member.score
    sites = {member.sites[column] for column in member.kinds()}
    return score.of(tuple(sorted(growth.came.items()))) >= score.bound(member.number, sites)
