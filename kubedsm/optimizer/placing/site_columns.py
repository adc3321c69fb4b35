"""Columns of a batch's placement problem, and the score of a workload by its pods at each site.

Without demand by site, columns are the kinds. Otherwise they are kinds whose nodes are at one site;
all other edge nodes form a column together.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property

import attrs
import numpy as np

from kubedsm.model.model import Pod, Share, Workload
from kubedsm.model.node_index import Column, Mask, Positions
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.objective import (
    EVENNESS,
    Objective,
    QosTarget,
    QosTargets,
    score_unit,
)
from kubedsm.objective.site_demand import Reach, SiteDemand
from kubedsm.optimizer.matching.match import place_values, vector_sums
from kubedsm.optimizer.matching.problem import PlacementProblem
from kubedsm.optimizer.placing.split import Member, Picks, count_pods

#: edge pods by site, sorted, without zeros
Came = tuple[tuple[str, int], ...]


@attrs.frozen(eq=False)
class Columns:
    """Edge of a batch in columns: a column for each group of interchangeable pods, or with demand
    by site for each group and edge site.
    """

    edge: PlacementProblem
    #: kind of each column
    owners: tuple[int, ...]
    #: site of each column; empty: all other edge nodes
    sites: tuple[str, ...]
    #: nodes of each column, numbered as in the problem; None: each column has all nodes
    nodes: tuple[Positions, ...] | None = None

    @classmethod
    def of_kinds(cls, edge: PlacementProblem) -> "Columns":
        """Return one column for each group of interchangeable pods."""
        return cls(edge, tuple(range(len(edge.kinds))), ("",) * len(edge.kinds))

    @classmethod
    def by_site(cls, edge: PlacementProblem, sites: Column, qos_targets: QosTargets) -> "Columns":
        """Divide the groups of interchangeable pods whose users' edge sites are known into one
        column per site.
        """
        codes = sites.codes[edge.rows.positions]
        owners: list[int] = []
        named: list[str] = []
        nodes: list[Positions] = []
        known: dict[tuple[int, ...], Positions] = {}
        for kind, of_kind in enumerate(edge.kinds):
            wanted = list_wanted_sites({pod.workload for pod in of_kind.pods}, qos_targets, sites)
            there = sorted({*codes[edge.feasible[:, kind]].tolist()})
            apart = [code for code in there if sites.values[code] in wanted]
            rest = tuple(code for code in there if sites.values[code] not in wanted)
            for group in (*((code,) for code in apart), rest):
                if group not in known:
                    known[group] = np.flatnonzero(np.isin(codes, group))
                owners.append(kind)
                named.append(sites.values[group[0]] if group is not rest else "")
                nodes.append(known[group])
        return cls(edge, tuple(owners), tuple(named), tuple(nodes))

    @cached_property
    def problem(self) -> PlacementProblem:
        """Placement problem of the edge with the columns as groups of interchangeable pods."""
        if self.nodes is None:
            return self.edge
        which = np.array(self.owners, dtype=np.intp)
        inside = np.zeros((len(self.edge.free), len(which)), dtype=np.int64)
        for column, nodes in enumerate(self.nodes):
            inside[nodes, column] = 1
        return attrs.evolve(self.edge.only(which), most=self.edge.most[:, which] * inside)

    def by_kind(self, vector: Ints) -> Ints:
        """Sum numbers of pods by column to one number for each group of interchangeable pods."""
        sums = np.zeros(len(self.edge.counts), dtype=np.int64)
        np.add.at(sums, list(self.owners), vector)
        return sums

    def vectors_by_kind(self, limits: Ints) -> tuple[Ints, Ints | None, Mask | bool]:
        """Return the limits of count vectors by group; for each count vector by column within the
        given limits, the flat index of its vector by group (None: its own), and whether the groups
        have the pods.
        """
        if self.nodes is None:
            return limits, None, True
        most = np.minimum(self.edge.counts, self.by_kind(limits))
        shape = tuple((limits + 1).tolist())
        index, possible = np.zeros(shape, dtype=np.int64), np.ones(shape, dtype=np.bool_)
        strides = place_values((most + 1).tolist()).tolist()
        # Vectors may be millions: only one kind's sums at a time.
        for kind, (n, stride) in enumerate(zip(most.tolist(), strides, strict=True)):
            of = vector_sums(shape, [int(owner == kind) for owner in self.owners])
            possible &= of <= n
            index += stride * np.minimum(of, n)
        return most, index, possible

    def divide_pods(self, picks: Picks) -> tuple[list[list[Pod]], list[list[Pod]]]:
        """Return the pods picked for each column, and the remaining pods of each group of
        interchangeable pods.
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
            wanted.update(sites.values if demand.pairs or demand.kept else demand.part_of)
    return wanted - {None}


@attrs.frozen(eq=False)
class Score:
    """Score less unevenness of a workload by the number of its batch pods at each site."""

    objective: Objective
    share: Share
    target: QosTarget
    #: units per point, and per squared share
    unit: float
    even: float
    _known: dict[Came, int] = attrs.field(factory=dict, init=False)

    def of(self, came: Came) -> int:
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
class SiteMember(Member):
    """Workload of a batch whose QoS depends on its number of edge pods at each site."""

    #: site of each column
    sites: tuple[str, ...]
    score: Score

    @property
    def number(self) -> int:
        """Number of the workload's pods in the batch."""
        return sum(dict(zip(self.owners, self.counts.tolist(), strict=True)).values())

    def value(self, kinds: Sequence[int], taken: Sequence[int]) -> int:
        came: dict[str, int] = {}
        for column, number in zip(kinds, taken, strict=True):
            if number:
                site = self.sites[column]
                came[site] = came.get(site, 0) + number
        return self.score.of(tuple(sorted(came.items())))


def list_members(
    columns: Columns,
    shares: Mapping[Workload, Share],
    qos_targets: QosTargets,
    objective: Objective,
) -> list[SiteMember]:
    """Return the workloads of a batch with their QoS by edge site, in name order."""
    kinds = columns.edge.kinds
    pods = count_pods(kinds)
    targets = {workload: qos_targets(workload) for workload in pods}
    weights = [target.weight for target in targets.values()]
    unit, even = score_unit(objective, weights), EVENNESS / (sum(weights) or 1.0)
    owners = np.array(columns.owners, dtype=np.intp)
    return [
        SiteMember(
            workload,
            pods[workload][owners],
            columns.owners,
            kinds[int(pods[workload].argmax())].rank.level,
            columns.sites,
            Score(objective, shares.get(workload, Share()), target, unit, even),
        )
        for workload, target in targets.items()
    ]
