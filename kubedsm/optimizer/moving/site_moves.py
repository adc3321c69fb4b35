"""Search for migrations that bring pods to the edge sites of their users.

A solver finds the migrations with the greatest benefit above their price, among all pods and edge
nodes, or in a large cluster in one neighbourhood after the other (large-neighbourhood search): the
workloads that could gain most, with nodes of the sites where replicas are missing. Every suggestion
increases QoS, so suggesting terminates. Capacity freed by a step is used by that step only: steps
are independent groups of migrations.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, Share, Tier, Uid, Workload
from kubedsm.model.node_index import Column, FreeCapacity
from kubedsm.objective.gains import LEAST_GAIN, Gain, Gains, leading_gain, net
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.edge_items import leaving_turn
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.migration_graph import Order, fit_together
from kubedsm.optimizer.moving.movable import is_ruled
from kubedsm.optimizer.moving.move_order import PAIR_STEPS, order_migrations
from kubedsm.optimizer.moving.site_programme import list_site_changes
from kubedsm.optimizer.moving.suggestion import (
    Cause,
    Move,
    MoveKind,
    Reason,
    count_disruptions,
    list_arrivals,
)
from kubedsm.optimizer.moving.within_tier import OneMore
from kubedsm.optimizer.placing.batch import site_at
from kubedsm.plugins.plugins import open_nodes

#: most edge nodes times workloads of a neighbourhood: the solver takes up to a second for more
_PAIRS = 1600
#: of a workload in a neighbourhood: pods that may leave, and nodes of the site
_LEAVERS, _NODES = 6, 8


@attrs.frozen(eq=False)
class Step:
    """Migrations that are executed together, with QoS gain by pod priority level."""

    order: Order
    gain: Gain


@attrs.frozen(eq=False)
class _Neighbourhood:
    """Pods that may migrate, and the edge nodes to which they may."""

    pods: Mapping[Uid, Pod]
    nodes: frozenset[NodeName]
    #: there are no other pods and nodes
    is_all: bool = False

    @property
    def size(self) -> int:
        """Number of nodes times workloads."""
        return len(self.nodes) * len({pod.workload for pod in self.pods.values()})

    def joined(self, other: "_Neighbourhood") -> "_Neighbourhood":
        return _Neighbourhood({**self.pods, **other.pods}, self.nodes | other.nodes)


@attrs.define(eq=False)
class SiteMoves:
    """Search for migrations towards users, in a cluster where the users' edge sites are known for
    some workloads.
    """

    one_more: OneMore
    gains: Gains
    #: gains in the unit of the price
    worths: Gains
    sites: Column
    bounds: Bounds
    #: shares after the steps so far
    shares: dict[Workload, Share] = attrs.field(init=False)
    #: free capacity with all arrivals so far, and without departures
    room: FreeCapacity = attrs.field(init=False)
    steps: list[Step] = attrs.field(factory=list, init=False)
    _moved: set[Uid] = attrs.field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self.shares = dict(self.gains.shares)
        self.room = self.one_more.room
        self._moved = {move.pod.uid for move in self.one_more.others}

    def search(self) -> list[Step]:
        """Return the groups of migrations to be carried out, the best of the first neighbourhood
        with worthwhile migrations; none without a solver.
        """
        for near in self._list_neighbourhoods() if self.bounds.solver is not None else ():
            self._solve(near)
            if self.steps or self.one_more.deadline.passed:
                break
        return self.steps

    @property
    def solves_all(self) -> bool:
        """True if a solver takes all pods and edge nodes in one programme."""
        return self.bounds.solver is not None and self._whole.is_all

    def net_of(self, moves: Collection[Move]) -> Gain:
        """Return the benefit of migrations after the steps so far, less their price, by level."""
        cost = round(self.one_more.limits.price * NANO) * count_disruptions(moves)
        return net(self._sum(self.worths, self._shares_after(moves)), cost)

    def _solve(self, near: _Neighbourhood) -> None:
        """Take the best migrations of a neighbourhood that the solver finds, group by group."""
        for groups in list_site_changes(self._edge_problem(near), self.sites):
            whole = [move for group in groups for move in group]
            # Some groups pay only with the others, or leave the headroom free only with them.
            joint = bool(self.one_more.limits.headroom) or (
                None in map(self._make_step, groups) and self._make_step(whole) is not None
            )
            for group in [whole] if joint else groups:
                ruled = self._moved and any(
                    is_ruled(self.one_more.snapshot, move.pod) for move in group
                )
                step = None if ruled else self._make_step(group)
                if step is not None:
                    self._take(step)
            if self.steps:
                return

    def _list_neighbourhoods(self) -> Iterator[_Neighbourhood]:
        """Yield all pods and edge nodes together, or if they are too many for the solver, parts:
        those of the workloads with the greatest benefit first.
        """
        if self._whole.is_all:
            yield self._whole
            return
        near = nothing = _Neighbourhood({}, frozenset())
        for workload in self._list_gaining():
            for around in self._list_around(workload):
                if near.pods and near.joined(around).size > _PAIRS:
                    yield near
                    near = nothing
                near = near.joined(around)
        yield near

    @cached_property
    def _whole(self) -> _Neighbourhood:
        """All pods and edge nodes; `is_all` unless they are too many for the solver."""
        edge = frozenset(self._site_of)
        pods = (pod for pods in self._movable.values() for pod in pods)
        whole = _Neighbourhood({pod.uid: pod for pod in pods}, edge)
        return attrs.evolve(whole, is_all=whole.size <= _PAIRS)

    @cached_property
    def _movable(self) -> dict[Workload, list[Pod]]:
        """Movable pods of each workload."""
        found: dict[Workload, list[Pod]] = {}
        for uid in self.one_more.snapshot.placed:
            pod = self.one_more.snapshot.pods[uid]
            fixed = uid in self._moved or self.one_more.movable(pod)
            if pod.workload in self.gains.shares and not fixed:
                found.setdefault(pod.workload, []).append(pod)
        return found

    @cached_property
    def _residents(self) -> dict[NodeName, list[Pod]]:
        """Movable pods of each edge node."""
        found: dict[NodeName, list[Pod]] = {name: [] for name in self._site_of}
        for pods in self._movable.values():
            for pod in pods:
                if (name := self.one_more.snapshot.placed[pod.uid]) in found:
                    found[name].append(pod)
        return found

    def _list_gaining(self) -> list[Workload]:
        """Return the workloads that would gain with one more pod near their users, or with pods
        apart; those with the greatest benefit first.
        """
        found: list[tuple[int, int, Workload]] = []
        for workload in self._movable:
            share, target = self.shares[workload], self.gains.qos_targets(workload)
            if target.demand is not None:
                reach, most = target.reach(share), target.demand.reachable(share.total)
                more = self.worths.of_near(workload, min(reach.near + 1 / share.total, most))
                if more > LEAST_GAIN * NANO or reach.unkept:
                    found.append((self.gains.level[workload], -more, workload))
        return [workload for *_, workload in sorted(found)]

    def _list_around(self, workload: Workload) -> Iterator[_Neighbourhood]:
        """Yield a neighbourhood for each site that lacks pods of the workload, the greatest lack
        first: pods of the workload that could leave, nodes of the site, and the pods there.
        """
        snapshot, share = self.one_more.snapshot, self.shares[workload]
        demand, there = self.gains.qos_targets(workload).demand, dict(share.sites or ())
        # Users may be anywhere: pods apart.
        parts = demand.part_of if demand is not None and demand.parts else None
        equal = 1 / max(len(self._nodes_by_site), 1)
        lack = {
            site: (equal if parts is None else parts.get(site, 0.0)) * share.total
            - there.get(site, 0)
            for site in self._nodes_by_site
        }

        def turn(pod: Pod) -> tuple[float, float, str, str]:
            """Pods of the cloud first, then of the sites with the greatest surplus."""
            site = self._site_of.get(snapshot.placed[pod.uid])
            return -math.inf if site is None else lack[site], *leaving_turn(pod)

        leaving = sorted(self._movable[workload], key=turn)[:_LEAVERS]
        sources = {snapshot.placed[pod.uid] for pod in leaving}
        accepting = open_nodes(leaving[0].pod_class, snapshot.index)
        standing = snapshot.census.standing.get(workload, {})
        for site in sorted(lack, key=lambda each: (-lack[each], each)):
            if lack[site] <= 0:
                break
            names = (n for n in self._nodes_by_site[site] if accepting[snapshot.index.positions[n]])
            best = sorted(names, key=lambda n: (standing.get(n, 0), -self.room.free[n].cpu, n))
            nodes = sources.union(best[:_NODES])
            residents = (pod for node in nodes for pod in self._residents.get(node, ()))
            pods = {pod.uid: pod for pod in (*leaving, *residents)}
            yield _Neighbourhood(pods, frozenset(nodes))

    @cached_property
    def _site_of(self) -> dict[NodeName, str]:
        """Site of each edge node; empty without a site."""
        snapshot = self.one_more.snapshot
        names = (node.name for node in snapshot.of_tier(Tier.EDGE))
        return {name: site_at(self.sites, snapshot.index.positions[name]) for name in names}

    @cached_property
    def _nodes_by_site(self) -> dict[str, list[NodeName]]:
        """Edge nodes of each site."""
        found: dict[str, list[NodeName]] = {}
        for name, site in self._site_of.items():
            found.setdefault(site, []).append(name)
        return found

    def _edge_problem(self, near: _Neighbourhood) -> EdgeProblem:
        """Return the migration problem of a neighbourhood, next to the migrations so far."""
        one_more = self.one_more

        def stays(pod: Pod) -> Reason | None:
            out = pod.uid not in near.pods or pod.uid in self._moved
            if out or (self._moved and is_ruled(self.one_more.snapshot, pod)):
                return Cause.BY_SITE.of()
            return one_more.movable(pod)

        limits = one_more.limits.without(self._list_earlier())
        free = one_more.snapshot.free
        filled = {n: room - free[n] for n, room in self.room.free.items() if room != free[n]}
        snapshot = one_more.snapshot.with_free(filled)
        problem = EdgeProblem.of(
            snapshot, stays, one_more.fragmentation, self.gains, limits, self.bounds
        )
        within = np.array([node.name in near.nodes for node in problem.nodes], dtype=np.bool_)
        items = (
            attrs.evolve(item, open_to=item.open_to & within, stranded=()) for item in problem.items
        )
        return attrs.evolve(
            problem, items=tuple(item for item in items if item.pods), worths=self.worths
        )

    def _take(self, step: Step) -> None:
        self.steps.append(step)
        self.shares |= self._shares_after(step.order.moves)
        self._moved.update(move.pod.uid for move in step.order.moves)
        self.room = self.room.after(list_arrivals(step.order.moves))

    def _make_step(self, moves: Sequence[Move]) -> Step | None:
        """Return the step of the migrations if limits and rules between pods permit it, and its
        benefit exceeds its price.
        """
        self.one_more.deadline.spend(PAIR_STEPS * len(moves) ** 2)
        order = order_migrations(self.one_more.feasibility, moves, self.room.free)
        if not isinstance(order, Order):
            return None
        if not self.one_more.limits.permit([*self._list_earlier(), *order.moves]):
            return None
        if not fit_together(order.moves, self.room.free):
            return None
        gained = self._sum(self.gains, self._shares_after(order.moves))
        least = min(leading_gain(self.net_of(order.moves)), leading_gain(gained))
        return Step(order, gained) if least > LEAST_GAIN * NANO else None

    def _list_earlier(self) -> list[Move]:
        """Return the migrations made anyway, and those of the steps so far."""
        return [*self.one_more.others, *(m for step in self.steps for m in step.order.moves)]

    def _shares_after(self, moves: Iterable[Move]) -> dict[Workload, Share]:
        """Return the shares of the migrated workloads after the migrations."""
        return shares_with(self.shares, moves, self.one_more.snapshot.index.positions, self.sites)

    def _sum(self, gains: Gains, after: Mapping[Workload, Share]) -> Gain:
        before = {workload: self.shares[workload] for workload in after}
        pairs = zip(gains.of_shares(after), gains.of_shares(before), strict=True)
        return tuple(then - now for then, now in pairs)


def shares_with(
    shares: Mapping[Workload, Share],
    moves: Iterable[Move],
    positions: Mapping[NodeName, int],
    sites: Column | None,
) -> dict[Workload, Share]:
    """Return the edge shares of the workloads that the migrations change, as after the migrations,
    by site if counted. Workloads without pods are left out.
    """
    after: dict[Workload, Share] = {}
    for move in moves:
        workload = move.pod.workload
        if workload not in shares:
            continue
        share = after.get(workload, shares[workload])
        leaves = move.kind in (MoveKind.EDGE_TO_EDGE, MoveKind.EDGE_TO_CLOUD)
        comes = move.kind in (MoveKind.EDGE_TO_EDGE, MoveKind.CLOUD_TO_EDGE, None)
        if leaves and move.source is not None:
            share = share.add(-1, site_at(sites, positions.get(move.source)))
        if comes:
            share = share.add(1, site_at(sites, positions.get(move.target)))
        after[workload] = share
    # Pods may be gone since the migrations were suggested.
    return {
        workload: share
        if share.sites is not None
        else Share(min(max(share.edge, 0), share.total), share.total)
        for workload, share in after.items()
    }
