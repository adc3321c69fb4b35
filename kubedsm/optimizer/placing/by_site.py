"""Placement of a batch whose users' edge sites are known: pods are divided among edge sites and
cloud.

Pods are placed by the greatest marginal gain relative to their size, in columns of nodes at one
site (`site_columns`). The result is proven if every workload has the score that unlimited capacity
at each site would give.
"""

import heapq
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, Share, Workload
from kubedsm.model.node_index import Column
from kubedsm.objective.fragmentation import Fragmentation, Ints
from kubedsm.objective.objective import Objective, QosTargets
from kubedsm.objective.replica_spread import has_default_spread
from kubedsm.optimizer.matching.best_fit import BestFit, kind_sizes
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import PlacementProblem
from kubedsm.optimizer.placing.cloud import CloudRoom
from kubedsm.optimizer.placing.decision import Choice
from kubedsm.optimizer.placing.replica_spreading import ReplicaLadders, TierAssignment
from kubedsm.optimizer.placing.site_columns import (
    Member,
    SiteColumn,
    list_columns,
    list_members,
)
from kubedsm.optimizer.programming.in_order import NO_PROOF

#: digits of an addition to the near share
_DIGITS = 12
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
    columns: Sequence[SiteColumn]
    #: spread cost of one more replica on each edge node
    company: Ints
    #: by site: demand of the batch in pods, if the workload has none; other sites come first
    wanted: Mapping[str, float]
    #: pods placed so far, by site
    came: dict[str, int] = attrs.field(factory=dict, init=False)
    #: nodes of these pods, by kind
    nodes: dict[int, list[int]] = attrs.field(init=False)
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
        self.nodes = {kind: [] for kind in member.pods}
        self._queues = {kind: [] for kind in member.pods}
        for column, of_column in enumerate(self.columns):
            if of_column.kind in member.pods:
                self._queues[of_column.kind].append((-math.inf, -math.inf, column))
        self._near = self._near_with(None)
        self._value = member.score.value_at(self._near, self._number, self._worst)

    def place(self, column: int, node: int) -> None:
        """Count a pod of the workload on a node of the column."""
        site, demand = self.columns[column].site, self.member.score.demand
        self.nodes[self.columns[column].kind].append(node)
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
            if len(self.nodes[kind]) < self.member.pods[kind]:
                for _, urgency, column in self._list_best(queue, full):
                    site = self.columns[column].site
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
            spared = self._there.get(self.columns[column].site, 0) < self._worst
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
        site, score = self.columns[column].site, self.member.score
        total = score.share.total
        has_pairs = score.demand is not None and bool(score.demand.pairs)
        if has_pairs and self._exact.get(site) != self._number:
            self._more[site] = round((self._near_with(site) - self._near) * total, _DIGITS)
            self._exact[site] = self._number
        wanted = self._parts.get(site, 0.0) * total if self._parts else 1.0
        more = min(self._more.get(site, 0.0), 1.0)
        urgency = wanted / (self._there.get(site, 0) + 1) - self.wanted.get(site, 0.0)
        return -more, -urgency, column


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
    columns = list_columns(edge, sites, qos_targets)
    members = list_members(edge, shares, qos_targets, objective)
    growths, room = _place_greedily(edge, columns, members, replicas)
    left = edge.counts - room.loads.sum(axis=0)
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
    edge: PlacementProblem,
    columns: Sequence[SiteColumn],
    members: Sequence[Member],
    replicas: ReplicaLadders | None,
) -> tuple[list[_Growth], BestFit]:
    """Place pods by priority, then by marginal gain relative to size, at the best site with room.

    Gains are updated after every pick. A column without room for a pod never has room again. Of the
    nodes of a column, those with the fewest replicas of the workload come first.
    """
    size, room, at = kind_sizes(edge), BestFit(edge), edge.rows.positions
    zones = edge.rows.index.zone.codes[at]
    growths, wanted = [], _sum_demand(members)
    for member in members:
        company = np.zeros(len(at), dtype=np.int64)
        if replicas is not None:
            company = replicas.spread.by_node(member.workload, edge.rows.index)[at]
        growths.append(_Growth(member, columns, company, {} if member.score.demand else wanted))
    full: set[int] = set()
    heap: list[tuple[int, int, float, int, int]] = []

    def push(m: int) -> None:
        """Queue the best next pod of the workload."""
        entries = []
        for column, gain in growths[m].next_columns(full):
            kind = columns[column].kind
            priority, overdue = edge.kinds[kind].rank.turn
            gain_by_size = gain / size[kind]
            entries.append((-priority, -overdue, -gain_by_size, m, column))
        if entries:
            heapq.heappush(heap, min(entries))

    for m in range(len(members)):
        push(m)
    while heap:
        *_, m, column = heapq.heappop(heap)
        if column not in full:
            nodes, company = columns[column].nodes, growths[m].company
            node = room.place_within(columns[column].kind, nodes, company)
            if node is None:
                full.add(column)
            else:
                growths[m].place(column, node)
                company[node] += 1
                company[nodes[zones[nodes] == zones[node]]] += 1
        push(m)
    return growths, room


def _sum_demand(members: Iterable[Member]) -> dict[str, float]:
    """Return the demand at each site in pods, over the workloads of the batch."""
    wanted: dict[str, float] = {}
    for member in members:
        demand, total = member.score.demand, member.score.share.total
        for site, part in () if demand is None else demand.parts:
            wanted[site] = wanted.get(site, 0.0) + part * total
    return wanted


def _is_best(growth: _Growth) -> bool:
    """Return True if the workload could not have a better score at any capacity."""
    member, score = growth.member, growth.member.score
    sites = {column.site for column in growth.columns if column.kind in member.pods}
    return score.of(growth.came) >= score.bound(sum(member.pods.values()), sites)
