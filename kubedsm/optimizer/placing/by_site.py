"""Placement of a batch whose users' edge sites are known, above the exact-search limit.

Pods are placed by the greatest marginal gain relative to their size. The result is proven if every
workload has the score that unlimited capacity at each site would give.
"""

import heapq
import math
from collections.abc import Container, Iterator, Mapping, Sequence

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.matching.best_fit import BestFit, kind_sizes
from kubedsm.optimizer.matching.problem import Targets
from kubedsm.optimizer.placing.site_columns import Columns, SiteMember

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

    member: SiteMember
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
        self._parts = {} if demand is None else demand.part_of
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


@attrs.frozen(eq=False)
class GainPlacement:
    """Edge pods of a batch with their nodes, placed by marginal gain."""

    targets: Targets
    #: pods of each kind without an edge node
    others: Sequence[Sequence[Pod]]
    #: N x S
    loads: Ints
    #: no workload could have a better score at any capacity
    best: bool


def place_by_gain(
    columns: Columns, members: Sequence[SiteMember], spread: ReplicaSpread | None
) -> GainPlacement:
    """Place pods on the edge by priority, then by marginal gain relative to size.

    spread: replicas before the batch; None if spread does not count.
    """
    growths, loads = _place_greedily(columns, members, spread)
    edge = columns.edge
    places = {(g.member.workload, kind): g.nodes[kind] for g in growths for kind in g.nodes}
    targets: list[tuple[Pod, NodeName]] = []
    others: list[list[Pod]] = [[] for _ in edge.kinds]
    for kind, of_kind in enumerate(edge.kinds):
        for pod in of_kind.pods:
            nodes = places[pod.workload, kind]
            if nodes:
                targets.append((pod, edge.rows.index.names[edge.rows.positions[nodes.pop()]]))
            else:
                others[kind].append(pod)
    return GainPlacement(tuple(targets), others, loads, all(map(_is_best, growths)))


def _place_greedily(
    columns: Columns, members: Sequence[SiteMember], spread: ReplicaSpread | None
) -> tuple[list[_Growth], Ints]:
    """Place pods by priority, then by marginal gain relative to size, at the best site with room.

    Gains are updated after every pick. A column without room for a pod never has room again. Of the
    nodes of a column, those with the fewest replicas of the workload come first.
    """
    edge, nodes_of = columns.edge, columns.nodes or ()
    size, room, at = kind_sizes(edge), BestFit(edge), edge.rows.positions
    zones = edge.rows.index.zone.codes[at]
    growths = []
    for member in members:
        company = np.zeros(len(at), dtype=np.int64)
        if spread is not None:
            company = spread.by_node(member.workload, edge.rows.index)[at]
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
            nodes, company = nodes_of[column], growths[m].company
            node = room.place(columns.owners[column], nodes, company)
            if node is None:
                full.add(column)
            else:
                growths[m].place(column, node)
                company[node] += 1
                company[nodes[zones[nodes] == zones[node]]] += 1
        push(m)
    return growths, room.loads


def _is_best(growth: _Growth) -> bool:
    """Return True if the workload could not have a better score at any capacity."""
    member, score = growth.member, growth.member.score
    sites = {member.sites[column] for column in member.kinds()}
    return score.of(tuple(sorted(growth.came.items()))) >= score.bound(member.number, sites)
