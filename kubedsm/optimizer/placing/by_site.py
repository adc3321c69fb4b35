"""Placement of a batch with demand by site: one column of the edge problem per kind and site.

Columns are kinds whose nodes are at one site; all other edge nodes form a column together. The
exact table (`match`) and the split among workloads work on columns as on kinds. Above the
exact-search limit, pods are placed by the greatest marginal gain relative to their size. The
result is proven if every workload has the score that unlimited capacity at each site would give.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.model import Pod, Share, Workload
from kubedsm.model.node_index import Column
from kubedsm.objective.fragmentation import Fragmentation, Ints
from kubedsm.objective.objective import (
    EVENNESS,
    Objective,
    QosTarget,
    QosTargets,
    score_unit,
)
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


@attrs.frozen(eq=False)
class Columns:
    """Edge problem with a column per kind and site."""

    problem: PlacementProblem
    #: kind of each column
    owners: tuple[int, ...]
    #: site of each column; empty: all other edge nodes
    sites: tuple[str, ...]
    #: number of pods of each kind
    counts: Ints

    @classmethod
    def of(cls, edge: PlacementProblem, sites: Column, qos_targets: QosTargets) -> "Columns":
        """Divide the kinds with demand by site into columns."""
        codes = sites.codes[edge.rows.positions]
        owners: list[int] = []
        named: list[str] = []
        masks: list[NDArray[np.bool_]] = []
        for kind, of_kind in enumerate(edge.kinds):
            rest = edge.feasible[:, kind].copy()
            wanted = _list_wanted({pod.workload for pod in of_kind.pods}, qos_targets, sites)
            for code in np.unique(codes[rest]).tolist() if wanted else ():
                if sites.values[code] in wanted:
                    owners.append(kind)
                    named.append(sites.values[code])
                    masks.append(rest & (codes == code))
                    rest &= codes != code
            owners.append(kind)
            named.append("")
            masks.append(rest)
        which = np.array(owners, dtype=np.intp)
        divided = attrs.evolve(
            edge.only(which), most=edge.most[:, which] * np.array(masks, dtype=np.int64).T
        )
        return cls(divided, tuple(owners), tuple(named), edge.counts)

    def by_kind(self, vector: Ints) -> Ints:
        """Sum a number of pods by column to a number by kind."""
        sums = np.zeros(len(self.counts), dtype=np.int64)
        np.add.at(sums, list(self.owners), vector)
        return sums

    def divide_pods(self, picks: Picks) -> tuple[list[list[Pod]], list[list[Pod]]]:
        """Return the pods picked for each column, and the remaining pods of each kind."""
        chosen: list[list[Pod]] = [[] for _ in self.owners]
        others: list[list[Pod]] = [[] for _ in self.counts]
        left = dict(picks)
        of_kind: dict[int, list[int]] = {}
        for column, kind in enumerate(self.owners):
            of_kind.setdefault(kind, []).append(column)
        for kind, columns in of_kind.items():
            for pod in self.problem.kinds[columns[0]].pods:
                for column in columns:
                    if left.get((pod.workload, column), 0):
                        left[pod.workload, column] -= 1
                        chosen[column].append(pod)
                        break
                else:
                    others[kind].append(pod)
        return chosen, others


def _list_wanted(
    workloads: Iterable[Workload], qos_targets: QosTargets, sites: Column
) -> set[str | None]:
    """Return the sites at which pods of the workloads have different gains."""
    wanted: set[str | None] = set()
    for workload in workloads:
        demand = qos_targets(workload).demand
        if demand is not None:
            wanted.update(sites.values if demand.pairs else dict(demand.parts))
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
            self._known[came] = self._value(self._after(came))
        return self._known[came]

    def gains(self, came: _Came, sites: Sequence[str]) -> list[int]:
        """Return the gain of one more pod at each of the sites."""
        before, share, demand = self.of(came), self._after(came), self.target.demand
        if demand is None or share.sites is None:
            return [self._value(share.add(1)) - before] * len(sites)
        near = demand.near_with_one_more(share.sites, share.total, sites)
        return [self._value_at(x, share.edge + 1) - before for x in near]

    def wants_more(self, came: _Came) -> bool:
        """Return True if the cap on edge pods permits one more."""
        return self.target.most is None or self._after(came).edge < self.target.most

    def bound(self, number: int, sites: Sequence[str]) -> int:
        """Return an upper bound on the value with up to `number` more pods, at any capacity."""
        demand, share = self.target.demand, self.share
        if demand is not None and demand.pairs and share.sites is not None and share.total:
            edge = share.edge + number
            return self._value_at(edge / share.total, edge)
        came: _Came = ()
        for _ in range(number):
            gains = self.gains(came, sites)
            best = max(range(len(sites)), key=gains.__getitem__, default=None)
            if best is None or gains[best] <= 0 or not self.wants_more(came):
                break
            came = add_pod(came, sites[best])
        return self.of(came)

    def _after(self, came: _Came) -> Share:
        share = self.share
        for site, number in came:
            share = share.add(number, site)
        return share

    def _value(self, share: Share) -> int:
        demand = self.target.demand
        if demand is None or share.sites is None:
            return self._value_at(share.ratio, share.edge)
        return self._value_at(demand.near(share.sites, share.total), share.edge)

    def _value_at(self, near: float, edge: int) -> int:
        qos, total = self.target.qos, self.share.total
        if self.target.demand is None or self.share.sites is None:
            edges = np.array([edge], dtype=np.int64)
            score = int(self.objective.scores(edges, total, self.target, self.unit)[0])
        else:
            score = self.objective.score_near(near, edge, total, self.target, self.unit)
        kept = self.objective.values_around
        if near > qos and kept(near, qos)[0] <= kept(qos, qos)[0]:
            near = qos  # pods without QoS gain do not count for evenness
        return score - round(self.even * self.target.weight * near**2)


def add_pod(came: _Came, site: str) -> _Came:
    """Return the edge pods by site with one more at the site."""
    counts = dict(came)
    counts[site] = counts.get(site, 0) + 1
    return tuple(sorted(counts.items()))


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
    kinds = columns.problem.kinds
    pods: dict[Workload, Ints] = {}
    levels: dict[Workload, int] = {}
    for column, kind in enumerate(kinds):
        for pod in kind.pods:
            if pod.workload not in pods:
                pods[pod.workload] = np.zeros(len(kinds), dtype=np.int64)
            pods[pod.workload][column] += 1
            levels[pod.workload] = kind.rank.level
    targets = {workload: qos_targets(workload) for workload in sorted(pods)}
    weights = [target.weight for target in targets.values()]
    unit, even = score_unit(objective, weights), EVENNESS / (sum(weights) or 1.0)
    return [
        _Member(
            workload,
            pods[workload],
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
    """Choose site or cloud, and the node, of each pod of a batch with demand by site.

    The goals are those of `make_decision`, with near shares. Replica spread and fragmentation are
    not proven.
    """
    columns = Columns.of(edge, sites, qos_targets)
    members = _list_members(columns, shares, qos_targets, objective)
    found = _choose_exactly(columns, cloud, members, fragmentation, bounds)
    if found is None:
        picks, loads = _pick_greedily(columns, members)
        proof = _prove(members, picks)
    else:
        (picks, loads), proof = found, attrs.evolve(Proof(), spread=False, fragmentation=False)
    in_cloud = cloud.place(columns.counts - columns.by_kind(loads.sum(axis=0)))
    left = columns.counts - columns.by_kind(loads.sum(axis=0)) - in_cloud.sum(axis=0)
    if found is None:
        placed = not left.any()
        proof = attrs.evolve(proof, placed=placed, qos=proof.qos and placed)
    chosen, others = columns.divide_pods(picks)
    parts = (columns.problem, loads, chosen), (cloud.problem, in_cloud, others)
    if replicas is None:
        on_edge, at_cloud = (problem.targets(of, pods) for problem, of, pods in parts)
    else:
        spread = replicas.spread.copy()
        tiers = [TierAssignment.of(problem, of, pods, spread) for problem, of, pods in parts]
        for tier in tiers:
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
    if cloud.problem.weights is None or not cloud.exact:
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


def _pick_greedily(columns: Columns, members: Sequence[_Member]) -> tuple[Picks, Ints]:
    """Place pods by priority, then by marginal gain relative to size, at the best site with room.

    Gains are updated after every pick. A column without room for a pod never has room again.
    """
    problem = columns.problem
    size, room = kind_sizes(problem), BestFit(problem)
    came: list[_Came] = [() for _ in members]
    left = [dict(zip(columns.owners, m.counts.tolist(), strict=True)) for m in members]
    picks: Picks = {}
    full: set[int] = set()
    heap: list[tuple[int, int, float, int, int, int]] = []

    def push(m: int) -> None:
        open_to = [c for c in members[m].kinds() if left[m][columns.owners[c]] and c not in full]
        gains = members[m].score.gains(came[m], [columns.sites[c] for c in open_to])
        for column, gain in zip(open_to, gains, strict=True):
            priority, overdue = problem.kinds[column].rank.turn
            entry = -priority, -overdue, -gain / size[column], m, column, sum(left[m].values())
            heapq.heappush(heap, entry)

    for m in range(len(members)):
        push(m)
    while heap:
        *_, m, column, then = heapq.heappop(heap)
        stale = then != sum(left[m].values()) or column in full
        if stale or not members[m].score.wants_more(came[m]):
            continue
        if not room.place(column):
            full.add(column)
            continue
        left[m][columns.owners[column]] -= 1
        came[m] = add_pod(came[m], columns.sites[column])
        pick = members[m].workload, column
        picks[pick] = picks.get(pick, 0) + 1
        push(m)
    return picks, room.loads


def _prove(members: Sequence[_Member], picks: Picks) -> Proof:
    """Return a proof of QoS if no workload could have a better score at any capacity."""
    for member in members:
        columns = member.kinds()
        reached = member.value(columns, [picks.get((member.workload, c), 0) for c in columns])
        sites = list(dict.fromkeys(member.sites[column] for column in columns))
        if reached < member.score.bound(member.number, sites):
            return NO_PROOF
    return attrs.evolve(NO_PROOF, qos=True)
