"""Search for migrations that bring pods to the edge sites of their users.

A solver finds the migrations with the greatest benefit above their price, among all pods and edge
nodes, or in a large cluster in one neighbourhood after the other (large-neighbourhood search): the
workloads that would gain most, with the nodes where they gain. If it finds none in time, single
migrations to free capacity follow by steepest ascent. Every step increases QoS, so suggesting
terminates. Capacity freed by a step is used by that step only: steps are independent groups of
migrations.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, PodClass, Resources, Share, Tier, Uid, Workload
from kubedsm.model.node_index import Column, FreeCapacity, Mask
from kubedsm.objective.gains import LEAST_GAIN, Gain, Gains, leading_gain, net
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.edge_items import leaving_turn
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.migration_graph import Order, fit_together
from kubedsm.optimizer.moving.movable import is_ruled
from kubedsm.optimizer.moving.move_order import order_migrations
from kubedsm.optimizer.moving.site_programme import list_site_changes
from kubedsm.optimizer.moving.suggestion import (
    Cause,
    Move,
    MoveKind,
    Reason,
    count_disruptions,
)
from kubedsm.optimizer.moving.within_tier import OneMore
from kubedsm.optimizer.placing.batch import site_at
from kubedsm.plugins.plugins import fitting_nodes, open_nodes

#: most edge nodes times workloads of a neighbourhood: the solver takes up to a second for more
_PAIRS = 800
#: pods that may leave each place of a workload in a neighbourhood
_LEAVERS = 4
#: nodes with capacity that are tried for one migration, and nodes of one site in a neighbourhood
_TRIED = 8
#: work of the gain of a workload's pod at one site, and of an execution order
_SITE_STEPS, _ORDER_STEPS = 6_000, 1_000_000

#: site of an edge node (empty: none), or None for the cloud
_Place = str | None


@attrs.frozen(eq=False)
class Step:
    """Migrations that are executed together, with QoS gain, and benefit less the price of
    migrations, by pod priority level.
    """

    order: Order
    gain: Gain
    net: Gain


@attrs.frozen(eq=False)
class _Target:
    """Candidate: a pod of the workload goes from one place to another site."""

    workload: Workload
    source: _Place
    #: sites of equal gain, those of the greatest gain first
    sites: tuple[tuple[str, ...], ...]
    #: benefit at the first sites
    net: Gain


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
    room: dict[NodeName, Resources] = attrs.field(init=False)
    steps: list[Step] = attrs.field(factory=list, init=False)
    _moved: set[Uid] = attrs.field(factory=set, init=False)
    _room: FreeCapacity = attrs.field(init=False)
    _masks: dict[str, Mask] = attrs.field(factory=dict, init=False)
    _targets: dict[Workload, list[_Target]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.shares = dict(self.gains.shares)
        self.room = dict(self.one_more.room)
        self._update_room(self.room)
        self._moved = {move.pod.uid for move in self.one_more.others}

    def search(self) -> list[Step]:
        """Return the groups of migrations to be carried out: the best together by an integer
        programme, or else those of the ascent, best first.
        """
        ascends = not self._take_solved()
        while ascends and not self.one_more.deadline.passed:
            step = self._best_step()
            if step is None:
                break
            self._take(step)
        return self.steps

    def search_at_once(self) -> list[Step]:
        """Return the best groups of migrations together, if a solver takes all pods and edge nodes
        in one programme; none otherwise.
        """
        if self.solves_all:
            self._solve(self._whole)
        return self.steps

    @property
    def solves_all(self) -> bool:
        """True if a solver takes all pods and edge nodes in one programme."""
        return self.bounds.solver is not None and self._whole.is_all

    def net_of(self, moves: Collection[Move]) -> Gain:
        """Return the benefit of migrations after the steps so far, less their price, by level."""
        return self._net(self._shares_after(moves), count_disruptions(moves))

    def _take_solved(self) -> bool:
        """Take the best migrations that a solver finds, group by group; return False if it may have
        missed some.
        """
        complete = False
        for near in self._list_neighbourhoods() if self.bounds.solver is not None else ():
            complete = self._solve(near) and near.is_all
            if self.steps or self.one_more.deadline.passed:
                break
        return complete or bool(self.steps)

    def _solve(self, near: _Neighbourhood) -> bool:
        """Take the best migrations of a neighbourhood; return False if the solver may have missed
        some.
        """
        for groups in list_site_changes(self._edge_problem(near), self.sites):
            whole = [move for group in groups for move in group]
            # Some groups pay only with the others.
            joint = None in map(self._make_step, groups) and self._make_step(whole) is not None
            for group in [whole] if joint else groups:
                ruled = self._moved and any(
                    is_ruled(self.one_more.snapshot, move.pod) for move in group
                )
                step = None if ruled else self._make_step(group)
                if step is not None:
                    self._take(step)
            if self.steps or not groups:
                return True
        return False

    def _list_neighbourhoods(self) -> Iterator[_Neighbourhood]:
        """Yield all pods and edge nodes together, or if they are too many for the solver, parts:
        those of the migrations with the greatest benefit first.
        """
        if self._whole.is_all:
            yield self._whole
            return
        near = nothing = _Neighbourhood({}, frozenset())
        for target in sorted(self._list_targets(), key=lambda each: each.net, reverse=True):
            around = self._find_neighbours(target)
            if near.pods and near.joined(around).size > _PAIRS:
                yield near
                near = nothing
            near = near.joined(around)
        yield near

    @cached_property
    def _whole(self) -> _Neighbourhood:
        """All pods and edge nodes; `is_all` unless they are too many for the solver."""
        snapshot = self.one_more.snapshot
        edge = frozenset(node.name for node in snapshot.of_tier(Tier.EDGE))
        pods = (snapshot.pods[uid] for uid in snapshot.placed)
        ours = {pod.uid: pod for pod in pods if pod.workload in self._by_place}
        whole = _Neighbourhood(ours, edge)
        return attrs.evolve(whole, is_all=whole.size <= _PAIRS)

    def _find_neighbours(self, target: _Target) -> _Neighbourhood:
        """Return the pods that may leave for the target, the nodes there, and their pods."""
        leaving = list(islice(self._pods_at(target.workload, target.source), _LEAVERS))
        nodes = {self.one_more.snapshot.placed[pod.uid] for pod in leaving}
        for pod in leaving[:1]:
            accepting = open_nodes(pod.pod_class, self.one_more.snapshot.index)
            mask = accepting & self._mask_of(target.sites[0])
            nodes.update(self._order_nodes(pod, mask)[:_TRIED])
        residents = (pod for node in nodes for pod in self._residents.get(node, ()))
        return _Neighbourhood({pod.uid: pod for pod in (*leaving, *residents)}, frozenset(nodes))

    def _edge_problem(self, near: _Neighbourhood) -> EdgeProblem:
        """Return the migration problem of a neighbourhood, next to the migrations so far."""
        one_more = self.one_more
        before = [*one_more.others, *(move for step in self.steps for move in step.order.moves)]

        def stays(pod: Pod) -> Reason | None:
            out = pod.uid not in near.pods or pod.uid in self._moved
            if out or (self._moved and is_ruled(self.one_more.snapshot, pod)):
                return Cause.BY_SITE.of()
            return one_more.movable(pod)

        limits = one_more.limits.without(before)
        free = one_more.snapshot.free
        filled = {n: room - free[n] for n, room in self.room.items() if room != free[n]}
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
        filled: set[NodeName] = set()
        for move in step.order.moves:
            self._targets.pop(move.pod.workload, None)
            self._moved.add(move.pod.uid)
            for name in {move.target, move.stopover or move.target}:
                self.room[name] -= move.pod.requests
                filled.add(name)
        self._update_room(filled)

    def _update_room(self, changed: Iterable[NodeName]) -> None:
        known = self.one_more.snapshot.room if not self.steps else self._room
        self._room = known.now(self.room, changed)

    def _best_step(self) -> Step | None:
        """Return the migration to free capacity with the greatest benefit; None without one."""
        best: Step | None = None
        for target in sorted(self._list_targets(), key=lambda each: each.net, reverse=True):
            if best is not None and target.net <= best.net:
                break
            for sites in target.sites:
                most = self._net_at(target.workload, target.source, sites)
                least = (0,) * len(most) if best is None else best.net
                if most <= least or self.one_more.deadline.passed:
                    break
                step = self._direct(target, sites)
                if step is not None:
                    best = step if best is None else max(best, step, key=lambda each: each.net)
                    break
        return best

    def _list_targets(self) -> Iterator[_Target]:
        """Yield the best migration of one pod from each place of each workload, capacity aside.

        The targets of a workload change only with its own migrations.
        """
        # The other part is for the execution order of the best.
        deadline = self.one_more.deadline.part(0.5)
        for workload in sorted(self._by_place, key=lambda w: (self.gains.urgency_key(w), w)):
            if workload not in self._targets:
                places = len(self._by_place[workload])
                if deadline.spend(_SITE_STEPS * places * len(self.sites.values)):
                    break
                self._targets[workload] = list(self._targets_of(workload))
            yield from self._targets[workload]

    def _targets_of(self, workload: Workload) -> Iterator[_Target]:
        names, objective = [site or "" for site in self.sites.values], self.gains.objective
        share, target = self.shares[workload], self.gains.qos_targets(workload)
        worth = objective.worth_of(share, target)
        for source in self._by_place[workload]:
            if next(self._pods_at(workload, source), None) is None:
                continue
            before = share if source is None else share.add(-1, source)
            lost = objective.worth_of(before, target) - worth
            gains = objective.gains_by_site(before, target, names)
            alike: dict[int, list[str]] = {}
            for site, gain in zip(names, gains, strict=True):
                if site != source and gain + lost > LEAST_GAIN * NANO:
                    alike.setdefault(gain, []).append(site)
            sites = tuple(tuple(alike[gain]) for gain in sorted(alike, reverse=True))
            if sites:
                net = self._net_at(workload, source, sites[0])
                if leading_gain(net) > LEAST_GAIN * NANO:
                    yield _Target(workload, source, sites, net)

    def _net_at(self, workload: Workload, source: _Place, sites: Sequence[str]) -> Gain:
        """Return the benefit of a migration to any of the sites, less its price."""
        share = self.shares[workload]
        before = share if source is None else share.add(-1, source)
        return self._net({workload: before.add(1, sites[0])}, 1)

    @cached_property
    def _by_place(self) -> dict[Workload, dict[_Place, dict[PodClass, list[Pod]]]]:
        """Movable pods of each workload, by place and class, in leaving order."""
        snapshot, positions = self.one_more.snapshot, self.one_more.snapshot.index.positions
        found: dict[Workload, dict[_Place, dict[PodClass, list[Pod]]]] = {}
        for uid, name in snapshot.placed.items():
            pod = snapshot.pods[uid]
            if (
                pod.workload not in self.gains.shares
                or uid in self._moved
                or self.one_more.movable(pod)
            ):
                continue
            place: _Place = None
            if snapshot.nodes[name].tier is Tier.EDGE:
                place = site_at(self.sites, positions[name])
            by_place = found.setdefault(pod.workload, {})
            by_place.setdefault(place, {}).setdefault(pod.pod_class, []).append(pod)
        for by_place in found.values():
            for by_class in by_place.values():
                for pods in by_class.values():
                    pods.sort(key=leaving_turn)
        return found

    def _pods_at(self, workload: Workload, place: _Place) -> Iterator[Pod]:
        """Yield a pod of each class of the workload at the place, not migrated yet."""
        for pods in self._by_place[workload].get(place, {}).values():
            pod = next((each for each in pods if each.uid not in self._moved), None)
            if pod is not None and not (self._moved and is_ruled(self.one_more.snapshot, pod)):
                yield pod

    def _direct(self, target: _Target, sites: Sequence[str]) -> Step | None:
        """Return the step to a node of the sites with capacity; None without one."""
        index = self.one_more.snapshot.index
        for pod in self._pods_at(target.workload, target.source):
            mask = fitting_nodes(pod.pod_class, index, self._room) & self._mask_of(sites)
            for node in self._order_nodes(pod, mask)[:_TRIED]:
                step = self._make_step([self._move(pod, node)])
                if step is not None:
                    return step
        return None

    def _order_nodes(self, pod: Pod, mask: Mask) -> list[NodeName]:
        """Return the nodes of the mask, those with the fewest replicas of the pod's workload first,
        without the pod's own.
        """
        snapshot = self.one_more.snapshot
        standing, source = snapshot.census.standing.get(pod.workload, {}), snapshot.placed[pod.uid]
        names = [snapshot.index.names[position] for position in np.flatnonzero(mask).tolist()]
        return sorted(
            (name for name in names if name != source),
            key=lambda name: (standing.get(name, 0), -self.room[name].cpu, name),
        )

    def _mask_of(self, sites: Sequence[str]) -> Mask:
        """Return the mask of the edge nodes at any of the sites."""
        mask = self.one_more.snapshot.index.none()
        for site in sites:
            mask |= self._mask_at(site)
        return mask

    def _mask_at(self, site: str) -> Mask:
        if site not in self._masks:
            index = self.one_more.snapshot.index
            here = self.sites.codes == self.sites.values.index(site or None)
            self._masks[site] = here & index.at(index.of_tier(Tier.EDGE))
        return self._masks[site]

    @cached_property
    def _residents(self) -> dict[NodeName, list[Pod]]:
        """Movable edge pods by node, in leaving order."""
        found: dict[NodeName, list[Pod]] = {}
        for by_place in self._by_place.values():
            for place, by_class in by_place.items():
                for pods in by_class.values() if place is not None else ():
                    for pod in pods:
                        found.setdefault(self.one_more.snapshot.placed[pod.uid], []).append(pod)
        return found

    def _move(self, pod: Pod, target: NodeName) -> Move:
        nodes, source = self.one_more.snapshot.nodes, self.one_more.snapshot.placed[pod.uid]
        kind = MoveKind.between(nodes[source].tier or Tier.EDGE, nodes[target].tier or Tier.EDGE)
        return Move(pod, source, target, kind)

    def _make_step(self, moves: Sequence[Move]) -> Step | None:
        """Return the step of the migrations if limits and rules between pods permit it, and its
        benefit exceeds its price.
        """
        self.one_more.deadline.spend(_ORDER_STEPS)
        order = order_migrations(self.one_more.feasibility, moves, self.room)
        if not isinstance(order, Order) or not self._is_within_limits(order.moves):
            return None
        if not (fit_together(order.moves, self.room) and self._leaves_headroom(order.moves)):
            return None
        net = self.net_of(order.moves)
        gained = self._sum(self.gains, self._shares_after(order.moves))
        if min(leading_gain(net), leading_gain(gained)) <= LEAST_GAIN * NANO:
            return None
        return Step(order, gained, net)

    def _is_within_limits(self, moves: Iterable[Move]) -> bool:
        before = (move for step in self.steps for move in step.order.moves)
        return self.one_more.limits.permit([*self.one_more.others, *before, *moves])

    def _leaves_headroom(self, moves: Iterable[Move]) -> bool:
        """Return True if pods that come to the edge leave its headroom free."""
        part = self.one_more.limits.headroom
        edge = self.one_more.snapshot.of_tier(Tier.EDGE) if part else ()
        for axis in ("cpu", "memory") if part else ():
            free = sum(max(self.room[node.name].amount(axis), 0) for node in edge)
            size = sum(node.allocatable.amount(axis) for node in edge)
            brought = sum(
                ((move.kind is MoveKind.CLOUD_TO_EDGE) - (move.kind is MoveKind.EDGE_TO_CLOUD))
                * move.pod.requests.amount(axis)
                for move in moves
            )
            if brought > max(free - round(size * part), 0):
                return False
        return True

    def _shares_after(self, moves: Iterable[Move]) -> dict[Workload, Share]:
        """Return the shares of the migrated workloads after the migrations."""
        return shares_with(self.shares, moves, self.one_more.snapshot.index.positions, self.sites)

    def _net(self, after: Mapping[Workload, Share], legs: int) -> Gain:
        """Return the benefit of the changed shares less the price, by priority level."""
        cost = round(self.one_more.limits.price * NANO) * legs
        return net(self._sum(self.worths, after), cost)

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
