"""Placement of a batch whose users' edge sites are known: pods are divided among edge sites and
cloud.

Columns are kinds whose nodes are at one site; all other edge nodes form a column together. The
exact table (`match`) and the split among workloads work on columns as on kinds. Above the
exact-search limit, pods are placed by the greatest marginal gain relative to their size. The
result is proven if every workload has the score that unlimited capacity at each site would give.
"""

import heapq
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.model import Pod, Share, Workload
from kubedsm.model.node_index import Codes, Column, Mask, Positions
from kubedsm.objective.fragmentation import Fragmentation, Ints
from kubedsm.objective.objective import (
    EVENNESS,
    Objective,
    QosTarget,
    QosTargets,
    score_unit,
)
from kubedsm.objective.site_demand import Reach, SiteDemand
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
from kubedsm.optimizer.placing.split import Picks, Split, split_vectors
from kubedsm.optimizer.programming.in_order import NO_PROOF, Proof

#: edge pods by site, sorted, without zeros
_Came = tuple[tuple[str, int], ...]


#: digits of an addition to the near share
_DIGITS = 12
#: most columns for exact tables: see `build_table`
_MOST_COLUMNS = 32


@attrs.frozen(eq=False)
class Columns:
    """Division of groups of interchangeable pods by edge site: a column for each group and site."""

    edge: PlacementProblem
    #: code of the site of each edge node
    codes: Codes
    #: kind of each column
    owners: tuple[int, ...]
    #: site of each column; empty: all other edge nodes
    sites: tuple[str, ...]
    #: codes of the column's nodes
    groups: tuple[tuple[int, ...], ...]
    _masks: dict[tuple[int, ...], Mask] = attrs.field(factory=dict)

    @classmethod
    def of(cls, edge: PlacementProblem, sites: Column, qos_targets: QosTargets) -> "Columns":
        """Divide the groups of interchangeable pods whose users' edge sites are known into one
        column per site.
        """
        codes = sites.codes[edge.rows.positions]
        owners: list[int] = []
        named: list[str] = []
        groups: list[tuple[int, ...]] = []
        for kind, of_kind in enumerate(edge.kinds):
            wanted = list_wanted_sites({pod.workload for pod in of_kind.pods}, qos_targets, sites)
            there = sorted({*codes[edge.feasible[:, kind]].tolist()})
            apart = [code for code in there if sites.values[code] in wanted]
            rest = tuple(code for code in there if code not in set(apart))
            for group in (*((code,) for code in apart), rest):
                owners.append(kind)
                named.append(sites.values[group[0]] if group is not rest else "")
                groups.append(group)
        return cls(edge, codes, tuple(owners), tuple(named), tuple(groups))

    @property
    def counts(self) -> Ints:
        """Number of pods of each group of interchangeable pods."""
        return self.edge.counts

    def mask(self, column: int) -> Mask:
        """Return the mask of edge nodes that belong to a column's edge site."""
        group = self.groups[column]
        if group not in self._masks:
            alone = len(group) == 1
            self._masks[group] = self.codes == group[0] if alone else np.isin(self.codes, group)
        return self._masks[group]

    def only(self, columns: Sequence[int]) -> "Columns":
        """Return the division restricted to the given columns (group of interchangeable pods at one
        edge site).
        """
        return attrs.evolve(
            self,
            owners=tuple(self.owners[column] for column in columns),
            sites=tuple(self.sites[column] for column in columns),
            groups=tuple(self.groups[column] for column in columns),
        )

    @cached_property
    def problem(self) -> PlacementProblem:
        """Placement problem of the edge with a group of interchangeable pods for each edge site."""
        which = np.array(self.owners, dtype=np.intp)
        masks = [self.mask(column) for column in range(len(which))]
        inside = np.array(masks, dtype=np.int64).reshape(len(which), len(self.codes)).T
        return attrs.evolve(self.edge.only(which), most=self.edge.most[:, which] * inside)

    def by_kind(self, vector: Ints) -> Ints:
        """Sum numbers of pods by edge site to one number for each group of interchangeable pods."""
        sums = np.zeros(len(self.counts), dtype=np.int64)
        np.add.at(sums, list(self.owners), vector)
        return sums

    def divide_pods(self, picks: Picks) -> tuple[list[list[Pod]], list[list[Pod]]]:
        """Return the pods picked for each edge site by group of interchangeable pods, and the
        remaining pods of each group.
        """
        chosen: list[list[Pod]] = [[] for _ in self.owners]
        others: list[list[Pod]] = []
        left: dict[tuple[Workload, int], list[list[int]]] = {}
        for (workload, column), number in sorted(picks.items(), key=lambda pick: pick[0][1]):
            left.setdefault((workload, self.owners[column]), []).append([column, number])
        for kind, of_kind in enumerate(self.edge.kinds):
            others.append([])
            for pod in of_kind.pods:
                wanted = left.get((pod.workload, kind))
                if not wanted:
                    others[kind].append(pod)
                    continue
                chosen[wanted[0][0]].append(pod)
                wanted[0][1] -= 1
                if not wanted[0][1]:
                    wanted.pop(0)
        return chosen, others


def list_wanted_sites(
    workloads: Iterable[Workload], qos_targets: QosTargets, sites: Column
) -> set[str | None]:
    """Return the sites at which pods of the workloads have different gains."""
    wanted: set[str | None] = set()
    for workload in workloads:
        demand = qos_targets(workload).demand
        if demand is not None:
            wanted.update(sites.values if demand.pairs or demand.kept else dict(demand.parts))
    return wanted - {None}


@attrs.frozen(eq=False)
class _Score:
    """Score less unevenness of a workload by the number of its batch pods at each site."""

    objective: Objective
    share: Share
    target: QosTarget
    #: units per point, and per squared share
    unit: float
    even: float
    _known: dict[_Came, int] = attrs.field(factory=dict, init=False)

    def of(self, came: _Came) -> int:
        if came not in self._known:
            self._known[came] = self._value(self.share.add_each(dict(came)))
        return self._known[came]

    @property
    def demand(self) -> SiteDemand | None:
        """Demand of the workload by site, if its edge pods are counted by site."""
        return None if self.share.sites is None else self.target.demand

    @cached_property
    def needed(self) -> int:
        """Number of edge pods that the loss of any one site must leave."""
        demand, total = self.target.demand, self.share.total
        return 0 if demand is None else demand.count_kept(self.target.count_wanted(total))

    def value_at(self, near: float, number: int, worst: int) -> int:
        """Return the value of a near share with `number` edge pods, at most `worst` of them at one
        site.
        """
        kept = self.demand is not None and bool(self.demand.kept)
        unkept = max(self.needed - number + worst, 0) if kept else 0
        return self._value_at(Reach(near, unkept), number)

    def wants_more(self, number: int) -> bool:
        """Return True if the cap on edge pods permits one more than `number`."""
        return self.target.most is None or number < self.target.most

    def bound(self, number: int, sites: Container[str]) -> int:
        """Return an upper bound on the value with up to `number` more pods, at any capacity."""
        demand, share = self.target.demand, self.share
        if self.target.most is not None:
            number = min(number, max(self.target.most - share.edge, 0))
        edge = share.edge + number
        if demand is None or share.sites is None or demand.pairs:
            return max(self._value(share), self._value_at(Reach(edge / max(share.total, 1)), edge))
        near = demand.best_near(share.sites, share.total, number, sites)
        return max(self._value(share), self._value_at(Reach(near), edge))

    def _value(self, share: Share) -> int:
        return self._value_at(self.target.reach(share), share.edge)

    def _value_at(self, reach: Reach, edge: int) -> int:
        qos, total, near = self.target.qos, self.share.total, reach.near
        if self.target.demand is None or self.share.sites is None:
            edges = np.array([edge], dtype=np.int64)
            score = int(self.objective.scores(edges, total, self.target, self.unit)[0])
        else:
            score = self.objective.score_near(reach, edge, total, self.target, self.unit)
        kept = self.objective.values_around
        if near > qos and kept(near, qos)[0] <= kept(qos, qos)[0]:
            near = qos  # pods without QoS gain do not count for evenness
        return score - round(self.even * self.target.weight * near**2)


@attrs.frozen(eq=False)
class _Member:
    """Workload of the batch, with its pods by column."""

    workload: Workload
    #: pods of the owning kind, by column
    counts: Ints
    owners: tuple[int, ...]
    sites: tuple[str, ...]
    level: int
    score: _Score

    def kinds(self) -> list[int]:
        return [int(column) for column in np.flatnonzero(self.counts)]

    @property
    def number(self) -> int:
        """Number of the workload's pods in the batch."""
        first = dict(zip(self.owners[::-1], self.counts.tolist()[::-1], strict=True))
        return sum(first.values())

    def value(self, kinds: Sequence[int], taken: Sequence[int]) -> int:
        came: dict[str, int] = {}
        for column, number in zip(kinds, taken, strict=True):
            if number:
                site = self.sites[column]
                came[site] = came.get(site, 0) + number
        return self.score.of(tuple(sorted(came.items())))

    def takes(self, kinds: Sequence[int], most: Iterable[int]) -> Iterator[tuple[int, ...]]:
        greatest = [min(int(self.counts[k]), n) for k, n in zip(kinds, most, strict=True)]
        limit = dict(zip(self.owners, self.counts.tolist(), strict=True))
        owners = [self.owners[column] for column in kinds]
        for taken in product(*(range(n + 1) for n in greatest)):
            sums: dict[int, int] = {}
            for owner, number in zip(owners, taken, strict=True):
                sums[owner] = sums.get(owner, 0) + number
            if all(number <= limit[owner] for owner, number in sums.items()):
                yield taken


def _list_members(
    columns: Columns,
    shares: Mapping[Workload, Share],
    qos_targets: QosTargets,
    objective: Objective,
) -> list[_Member]:
    kinds = columns.edge.kinds
    pods: dict[Workload, Ints] = {}
    levels: dict[Workload, int] = {}
    for number, kind in enumerate(kinds):
        for pod in kind.pods:
            if pod.workload not in pods:
                pods[pod.workload] = np.zeros(len(kinds), dtype=np.int64)
                levels[pod.workload] = kind.rank.level
            pods[pod.workload][number] += 1
    targets = {workload: qos_targets(workload) for workload in sorted(pods)}
    weights = [target.weight for target in targets.values()]
    unit, even = score_unit(objective, weights), EVENNESS / (sum(weights) or 1.0)
    owners = np.array(columns.owners, dtype=np.intp)
    return [
        _Member(
            workload,
            pods[workload][owners],
            columns.owners,
            columns.sites,
            levels[workload],
            _Score(objective, shares.get(workload, Share()), target, unit, even),
        )
        for workload, target in targets.items()
    ]


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
    members = _list_members(columns, shares, qos_targets, objective)
    found = _choose_exactly(columns, cloud, members, fragmentation, bounds)
    proof = attrs.evolve(Proof(), spread=False, fragmentation=False)
    if found is None:
        columns, picks, loads = _pick_greedily(columns, members)
        proof = NO_PROOF
    else:
        picks, loads = found
    left = columns.counts - columns.by_kind(loads.sum(axis=0))
    in_cloud = cloud.place(left)
    if found is None and bool((in_cloud.sum(axis=0) == left).all()):
        best = _is_best(members, columns, picks)
        proof = attrs.evolve(NO_PROOF, placed=True, qos=best)
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
    return Choice(on_edge, at_cloud, int(fragmented.sum()), proof)


def _choose_exactly(
    columns: Columns,
    cloud: CloudRoom,
    members: Sequence[_Member],
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


@attrs.define(eq=False)
class _Growth:
    """Workload of the batch while its pods are placed one by one."""

    member: _Member
    #: pods not placed yet, by kind
    waiting: dict[int, int] = attrs.field(init=False)
    came: dict[str, int] = attrs.field(factory=dict, init=False)
    #: replicas by site, and their number
    _there: dict[str, int] = attrs.field(init=False)
    _number: int = attrs.field(init=False)
    #: demand served by the own site, in pods
    _own: float = attrs.field(init=False)
    #: near share and value with the pods placed so far
    _near: float = attrs.field(init=False)
    _value: int = attrs.field(init=False)
    #: by column: what one more pod there adds to the near share, or an upper bound; in pods
    _more: NDArray[np.float64] = attrs.field(init=False)
    #: number of replicas for which `_more` is exact, by column; only with latencies of pairs
    _exact: Ints = attrs.field(init=False)
    #: by column: replicas at the site, and its users' demand in pods
    _crowd: Ints = attrs.field(init=False)
    _wanted: NDArray[np.float64] = attrs.field(init=False)
    #: near share and value with one more pod at a column that was yielded
    _next: dict[int, tuple[float, int]] = attrs.field(factory=dict, init=False)
    #: columns of each kind, and of each site
    _of_kind: dict[int, Positions] = attrs.field(init=False)
    _at_site: dict[str, list[int]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        columns, demand = self.member.kinds(), self.member.score.demand
        owners, sites, share = self.member.owners, self.member.sites, self.member.score.share
        self.waiting = {owners[column]: int(self.member.counts[column]) for column in columns}
        self._there, self._number, self._own = dict(share.sites or ()), share.edge, 0.0
        left: Mapping[str, float] = {}
        if demand is not None:
            self._own, self._number, left = demand.left_at(self._there, share.total)
        self._more, self._crowd = np.zeros(len(owners)), np.zeros(len(owners), dtype=np.int64)
        self._exact, self._wanted = np.full(len(owners), -1), np.ones(len(owners))
        parts = dict(demand.parts) if demand is not None else {}
        of_kind: dict[int, list[int]] = {}
        self._at_site = {}
        for column in columns:
            self._more[column] = np.inf if self._has_pairs else left.get(sites[column], 0.0)
            self._crowd[column] = self._there.get(sites[column], 0)
            self._wanted[column] = parts.get(sites[column], 0.0) * share.total if parts else 1.0
            of_kind.setdefault(owners[column], []).append(column)
            self._at_site.setdefault(sites[column], []).append(column)
        self._of_kind = {kind: np.array(at, dtype=np.intp) for kind, at in of_kind.items()}
        self._near = self._near_with(None)
        self._value = self.member.score.value_at(self._near, self._number, self._worst())

    @property
    def _has_pairs(self) -> bool:
        demand = self.member.score.demand
        return demand is not None and bool(demand.pairs)

    def place(self, column: int) -> None:
        """Count a pod of the workload at the site of the column."""
        site = self.member.sites[column]
        self.waiting[self.member.owners[column]] -= 1
        self.came[site] = self.came.get(site, 0) + 1
        if not self._has_pairs:
            self._own += min(float(self._more[column]), 1.0)
            alike = self._at_site[site]
            self._more[alike] = np.maximum(self._more[alike] - 1.0, 0.0)
        self._there[site] = self._there.get(site, 0) + 1
        self._crowd[self._at_site[site]] += 1
        self._number += 1
        self._near, self._value = self._next[column]

    def _worst(self, column: int | None = None) -> int:
        """Return the most replicas at one site, if one more pod is at the site of the column."""
        demand = self.member.score.demand
        if demand is None or not demand.kept:
            return 0
        most = max(self._there.values(), default=0)
        return most if column is None else max(most, int(self._crowd[column]) + 1)

    def _near_with(self, column: int | None) -> float:
        """Return the near share, if one more pod is at the site of the column."""
        demand, share = self.member.score.demand, self.member.score.share
        number = self._number + (column is not None)
        if demand is None:
            return number / max(share.total, 1)
        if not demand.pairs:
            more = 0.0 if column is None else min(float(self._more[column]), 1.0)
            return demand.near_of(self._own + more, number, share.total)
        if column is None:
            return demand.near(self._there.items(), share.total)
        site = self.member.sites[column]
        there = {**self._there, site: self._there.get(site, 0) + 1}
        return demand.near(there.items(), share.total)

    def next_columns(self, full: Mask) -> Iterator[tuple[int, int]]:
        """Yield the best column of each kind with pods that wait, and the gain of a pod there."""
        score = self.member.score
        if not score.wants_more(self._number):
            return
        for kind, columns in self._of_kind.items():
            open_to = columns[~full[columns]]
            if not self.waiting[kind] or not len(open_to):
                continue
            found = []
            for group in self._split_by_crowd(open_to):
                column = self._greatest(group)
                near, worst = self._near_with(column), self._worst(column)
                value = score.value_at(near, self._number + 1, worst)
                self._next[column] = near, value
                found.append((self._value - value, -self._urgency(column), column))
            lost, _, column = min(found)
            yield column, -lost

    def _split_by_crowd(self, columns: Positions) -> Iterator[Positions]:
        """Yield the columns where one more pod adds to those that the loss of any site leaves, and
        the others; without resilience all together.
        """
        worst = self._worst()
        fewest = self._crowd[columns] < worst
        for group in (columns[fewest], columns[~fewest]) if worst else (columns,):
            if len(group):
                yield group

    def _urgency(self, columns: Positions | int) -> NDArray[np.float64]:
        """Return the demand per replica at the columns' sites, if one more pod is there."""
        urgency: NDArray[np.float64] = self._wanted[columns] / (self._crowd[columns] + 1)
        return urgency

    def _greatest(self, columns: Positions) -> int:
        """Return the column where one more pod adds most to the near share; of equal ones, that
        with most demand per replica.

        With latencies of pairs of sites, upper bounds are made exact only as needed (lazy greedy):
        the addition shrinks with the number of replicas.
        """
        while True:
            more = np.minimum(self._more[columns], 1.0)
            best = columns[more == more.max()]
            column = int(best[self._urgency(best).argmax()])
            if not self._has_pairs or self._exact[column] == self._number:
                return column
            total = self.member.score.share.total
            self._more[column] = round((self._near_with(column) - self._near) * total, _DIGITS)
            self._exact[column] = self._number


def _pick_greedily(columns: Columns, members: Sequence[_Member]) -> tuple[Columns, Picks, Ints]:
    """Place pods by priority, then by marginal gain relative to size, at the best site with room.

    Return the columns used, the picks, and the loads by column. Gains are updated after every
    pick. A column without room for a pod never has room again.
    """
    edge = columns.edge
    size, room = kind_sizes(edge), BestFit(edge)
    growths = [_Growth(member) for member in members]
    used: dict[tuple[int, int], Ints] = {}
    full = np.zeros(len(columns.owners), dtype=np.bool_)
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
        if not full[column]:
            came = used.get((m, column))
            node = room.place_within(columns.owners[column], columns.mask(column), came)
            if node is None:
                full[column] = True
            else:
                growths[m].place(column)
                if came is None:
                    came = used[m, column] = np.zeros(len(edge.free), dtype=np.int64)
                came[node] += 1
        push(m)
    kept = sorted({column for _, column in used})
    at = {column: number for number, column in enumerate(kept)}
    picks: Picks = {}
    loads = np.zeros((len(edge.free), len(kept)), dtype=np.int64)
    for (m, column), nodes in used.items():
        picks[members[m].workload, at[column]] = int(nodes.sum())
        loads[:, at[column]] += nodes
    return columns.only(kept), picks, loads


def _is_best(members: Sequence[_Member], columns: Columns, picks: Picks) -> bool:
    """Return True if no workload could have a better score at any capacity."""
    came: dict[Workload, dict[str, int]] = {}
    for (workload, column), number in picks.items():
        sites = came.setdefault(workload, {})
        sites[columns.sites[column]] = sites.get(columns.sites[column], 0) + number
    return all(
        member.score.of(tuple(sorted(came.get(member.workload, {}).items())))
        >= member.score.bound(member.number, {member.sites[c] for c in member.kinds()})
        for member in members
    )
