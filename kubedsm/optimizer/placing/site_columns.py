"""Edge sites of a batch as columns, and the score of a workload by its pods at each site.

Columns are kinds whose nodes are at one site; all other edge nodes form a column together.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from functools import cached_property

import attrs
import numpy as np

from kubedsm.model.model import Share, Workload
from kubedsm.model.node_index import Column, Positions
from kubedsm.objective.objective import EVENNESS, Objective, QosTarget, QosTargets, score_unit
from kubedsm.objective.site_demand import Reach, SiteDemand
from kubedsm.optimizer.matching.problem import PlacementProblem


@attrs.frozen(eq=False)
class SiteColumn:
    """Edge nodes at one site that accept a group of interchangeable pods (kind)."""

    kind: int
    #: empty: all other edge nodes
    site: str
    #: numbered as in the problem
    nodes: Positions


def list_columns(
    edge: PlacementProblem, sites: Column, qos_targets: QosTargets
) -> list[SiteColumn]:
    """Divide the nodes of each group of interchangeable pods into one column per site of the users
    of any workload of the batch.
    """
    codes, feasible = sites.codes[edge.rows.positions], edge.feasible
    workloads = {pod.workload for kind in edge.kinds for pod in kind.pods}
    wanted = list_wanted_sites(workloads, qos_targets, sites)
    apart = [code for code in sorted({*codes.tolist()}) if sites.values[code] in wanted]
    groups = [(sites.values[code] or "", np.flatnonzero(codes == code)) for code in apart]
    groups.append(("", np.flatnonzero(~np.isin(codes, apart))))
    return [
        SiteColumn(kind, site, nodes)
        for kind in range(len(edge.kinds))
        for site, nodes in groups
        if feasible[nodes, kind].any()
    ]


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
class Score:
    """Score less unevenness of a workload by the number of its batch pods at each site."""

    objective: Objective
    share: Share
    target: QosTarget
    #: units per point, and per squared share
    unit: float
    even: float

    def of(self, came: Mapping[str, int]) -> int:
        """Return the value with the given pods of the batch, by site."""
        return self._value(self.share.add_each(came))

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
class Member:
    """Workload of the batch, with the number of its pods in each group of interchangeable pods."""

    workload: Workload
    #: by kind
    pods: Mapping[int, int]
    score: Score


def list_members(
    edge: PlacementProblem,
    shares: Mapping[Workload, Share],
    qos_targets: QosTargets,
    objective: Objective,
) -> list[Member]:
    pods: dict[Workload, Counter[int]] = {}
    for number, kind in enumerate(edge.kinds):
        for pod in kind.pods:
            pods.setdefault(pod.workload, Counter())[number] += 1
    targets = {workload: qos_targets(workload) for workload in sorted(pods)}
    weights = [target.weight for target in targets.values()]
    unit, even = score_unit(objective, weights), EVENNESS / (sum(weights) or 1.0)
    return [
        Member(
            workload,
            pods[workload],
            Score(objective, shares.get(workload, Share()), target, unit, even),
        )
        for workload, target in targets.items()
    ]
