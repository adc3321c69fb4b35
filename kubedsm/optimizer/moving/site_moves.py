"""Migrations towards the users of workloads with demand by site, by steepest ascent.

A step migrates one pod to a site where its workload gains. If the site is full, the step also
migrates one pod away from there: to another node, to the cloud, or to the first pod's former node.
The step with the greatest benefit above its price comes first; steps follow until no step has a
benefit, or a limit is reached. Every step increases QoS, so suggesting terminates. Capacity freed
by a step is used by that step only: steps are independent groups of migrations.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, PodClass, Resources, Share, Tier, Uid, Workload
from kubedsm.model.node_index import Column, FreeCapacity, Mask
from kubedsm.objective.gains import LEAST_GAIN, Gain, Gains, leading_gain
from kubedsm.objective.objective import NANO, QosTarget
from kubedsm.optimizer.matching.problem import is_plain
from kubedsm.optimizer.moving.edge_items import leaving_turn
from kubedsm.optimizer.moving.migration_graph import Order
from kubedsm.optimizer.moving.move_order import order_migrations
from kubedsm.optimizer.moving.suggestion import Move, MoveKind, count_disruptions, count_legs
from kubedsm.optimizer.moving.within_tier import OneMore
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.fit import shortages
from kubedsm.plugins.plugins import fitting_nodes, open_nodes

#: nodes tried for a pod
_NODES = 8
#: best targets for which displacements are tried, and displacements of each
_TARGETS, _DISPLACED = 40, 60
#: work of the gain at one site of a workload's pod from one place, of a displacement, and of an
#: execution order
_SITE_STEPS, _TRIAL_STEPS, _ORDER_STEPS = 3_000, 100_000, 1_000_000

#: site of an edge node (empty: none), or None for the cloud
_Place = str | None


@attrs.frozen(eq=False)
class Step:
    """Migrations that belong together, with QoS gain, and benefit less price, by priority level."""

    moves: tuple[Move, ...]
    gain: Gain
    net: Gain
    order: Order


@attrs.frozen(eq=False)
class _Target:
    """Candidate: a pod of the workload goes from one place to one of several sites of equal
    gain.
    """

    workload: Workload
    source: _Place
    sites: tuple[str, ...]
    net: Gain
    #: sites of less gain, best first
    others: tuple[tuple[str, ...], ...]


@attrs.define(eq=False)
class SiteMoves:
    """Search for migrations of a cluster in which some workloads have demand by site."""

    one_more: OneMore
    gains: Gains
    #: gains in the unit of the price
    worths: Gains
    sites: Column
    #: shares after the steps so far
    shares: dict[Workload, Share] = attrs.field(init=False)
    #: free capacity with all arrivals so far, and without departures
    room: dict[NodeName, Resources] = attrs.field(init=False)
    steps: list[Step] = attrs.field(factory=list, init=False)
    _moved: set[Uid] = attrs.field(factory=set, init=False)
    _room: FreeCapacity = attrs.field(init=False)
    _masks: dict[_Place, Mask] = attrs.field(factory=dict, init=False)
    _targets: dict[Workload, list[_Target]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.shares = dict(self.gains.shares)
        self.room = dict(self.one_more.room)
        self._update_room(self.room)
        self._moved = {move.pod.uid for move in self.one_more.others}

    def search(self) -> list[Step]:
        """Return the steps to be carried out, best first."""
        while not self.one_more.deadline.passed and (step := self._best_step()) is not None:
            self.steps.append(step)
            self.shares |= self._shares_after(step.moves)
            for move in step.moves:
                self._targets.pop(move.pod.workload, None)
                self._moved.add(move.pod.uid)
                for name in {move.target, move.stopover or move.target}:
                    self.room[name] -= move.pod.requests
            self._update_room({move.target for move in step.moves})
        return self.steps

    def _update_room(self, changed: Iterable[NodeName]) -> None:
        known = self.one_more.snapshot.room if not self.steps else self._room
        self._room = known.now(self.room, changed)

    def _best_step(self) -> Step | None:
        best: Step | None = None
        displaced = 0
        number = itertools.count()
        queue = [(_descending(target.net), next(number), target) for target in self._list_targets()]
        heapq.heapify(queue)
        while queue and not self.one_more.deadline.passed:
            *_, target = heapq.heappop(queue)
            if best is not None and best.net >= target.net:
                break
            step = self._direct(target)
            if step is None and displaced < _TARGETS:
                displaced += 1
                step = self._displace(target)
            if step is not None and (best is None or step.net > best.net):
                best = step
            if step is None and (following := self._next_target(target)) is not None:
                heapq.heappush(queue, (_descending(following.net), next(number), following))
        return best

    def _list_targets(self) -> Iterator[_Target]:
        """Yield the best migration of one pod from each place of each workload, capacity aside.

        The targets of a workload change only with its own migrations.
        """
        # The other part is for the execution order of the best.
        deadline = self.one_more.deadline.part(0.5)
        for workload in self._most_needy:
            if workload not in self._targets:
                places = len(self._by_place[workload])
                if deadline.spend(_SITE_STEPS * places * len(self.sites.values)):
                    break
                self._targets[workload] = list(self._targets_of(workload))
            yield from self._targets[workload]

    @cached_property
    def _most_needy(self) -> list[Workload]:
        """Workloads with movable pods, those that could gain most first, by priority."""

        def key(workload: Workload) -> tuple[int, float, Workload]:
            share, target = self.shares[workload], self.gains.qos_targets(workload)
            reached, most = share.ratio, 1.0
            if target.demand is not None and share.sites is not None:
                reached = target.demand.near(share.sites, share.total)
                most = target.demand.reachable(share.total)
            missing = min(most, target.qos) - reached
            return self.gains.level[workload], -missing * target.weight, workload

        return sorted(self._by_place, key=key)

    def _targets_of(self, workload: Workload) -> Iterator[_Target]:
        names, objective = [site or "" for site in self.sites.values], self.gains.objective
        share, target = self.shares[workload], self.gains.qos_targets(workload)
        worth = objective.worth_of(share, target)
        for source in self._by_place[workload]:
            if source is not None and not _may_leave(share, target, source):
                continue
            before = share if source is None else share.add(-1, source)
            lost = objective.worth_of(before, target) - worth
            gains = objective.gains_by_site(before, target, names)
            alike: dict[int, list[str]] = {}
            for site, gain in zip(names, gains, strict=True):
                if site != source and gain + lost > LEAST_GAIN * NANO:
                    alike.setdefault(gain, []).append(site)
            others = tuple(tuple(alike[gain]) for gain in sorted(alike, reverse=True))
            first = self._next_target(_Target(workload, source, (), (), others))
            if first is not None:
                yield first

    def _next_target(self, target: _Target) -> _Target | None:
        """Return the target of the next sites; None if their benefit is no more than the price."""
        if not target.others:
            return None
        sites, *others = target.others
        share, source = self.shares[target.workload], target.source
        before = share if source is None else share.add(-1, source)
        net = self._net({target.workload: before.add(1, sites[0])}, 1)
        if leading_gain(net) <= LEAST_GAIN * NANO:
            return None
        return attrs.evolve(target, sites=sites, net=net, others=tuple(others))

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
                place = _site_at(self.sites, positions[name])
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
            if pod is not None and not (self._moved and self._is_ruled(pod)):
                yield pod

    def _is_ruled(self, pod: Pod) -> bool:
        """Return True if rules between pods concern the pod: other migrations may change them."""
        return not is_plain(self.one_more.snapshot, [pod])

    def _direct(self, target: _Target) -> Step | None:
        """Return the step to a node of the sites with capacity; None without one."""
        index = self.one_more.snapshot.index
        for pod in self._pods_at(target.workload, target.source):
            mask = fitting_nodes(pod.pod_class, index, self._room) & self._mask_of(target.sites)
            for node in self._order_nodes(pod, mask)[:_NODES]:
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

    def _mask_of(self, places: Sequence[_Place]) -> Mask:
        """Return the mask of the nodes at any of the places."""
        mask = self.one_more.snapshot.index.none()
        for place in places:
            mask |= self._mask_at(place)
        return mask

    def _mask_at(self, place: _Place) -> Mask:
        if place not in self._masks:
            index = self.one_more.snapshot.index
            mask = index.at(index.of_tier(Tier.CLOUD if place is None else Tier.EDGE))
            if place is not None:
                mask &= self.sites.codes == self.sites.values.index(place or None)
            self._masks[place] = mask
        return self._masks[place]

    def _displace(self, target: _Target) -> Step | None:
        """Return the best step that frees capacity at the full site by another migration."""
        best: Step | None = None
        tried = 0
        index = self.one_more.snapshot.index
        for pod in self._pods_at(target.workload, target.source):
            mask = open_nodes(pod.pod_class, index) & self._mask_of(target.sites)
            for node in self._order_nodes(pod, mask)[:_NODES]:
                for victim in self._victims_on(node, pod):
                    for to in self._places_for(victim, node, pod):
                        tried += 1
                        self.one_more.deadline.spend(_TRIAL_STEPS)
                        moves = [self._move(pod, node), self._move(victim, to)]
                        after = self._shares_after(moves)
                        net = self._net(after, 2)
                        worse = best is not None and best.net >= net
                        if worse or leading_gain(net) <= LEAST_GAIN * NANO:
                            continue
                        step = self._make_step(moves)
                        if step is not None and (best is None or step.net > best.net):
                            best = step
                    if tried >= _DISPLACED or self.one_more.deadline.passed:
                        return best
        return best

    def _victims_on(self, node: NodeName, pod: Pod) -> Iterator[Pod]:
        """Yield pods of other workloads on the node whose departure makes room, one of a class."""
        seen: set[tuple[Workload, PodClass]] = set()
        for victim in self._residents.get(node, ()):
            key = victim.workload, victim.pod_class
            if key in seen or victim.workload == pod.workload or victim.uid in self._moved:
                continue
            seen.add(key)
            if not shortages(pod.requests, self.room[node] + victim.requests):
                yield victim

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

    def _places_for(self, victim: Pod, node: NodeName, pod: Pod) -> Iterator[NodeName]:
        """Yield the nodes to which a victim could go, one of each place, by decreasing gain.

        The former node of the displacing pod counts as free for the victim.
        """
        source = self.one_more.snapshot.placed[pod.uid]
        places: list[_Place] = [*(site or "" for site in self.sites.values), None]
        share, target = self.shares[victim.workload], self.gains.qos_targets(victim.workload)
        here = _site_at(self.sites, self.one_more.snapshot.index.positions[node])

        def loss(place: _Place) -> int:
            after = share.add(-1, here)
            return -self.gains.objective.worth_of(
                after if place is None else after.add(1, place), target
            )

        index = self.one_more.snapshot.index
        fits = fitting_nodes(victim.pod_class, index, self._room)
        if not shortages(victim.requests, self.room[source] + pod.requests):
            at = index.positions[source]
            fits[at] = open_nodes(victim.pod_class, index)[at]
        fits[index.positions[node]] = False
        for place in sorted(dict.fromkeys(places), key=lambda each: (loss(each), each is None)):
            yield from self._order_nodes(victim, fits & self._mask_at(place))[:1]

    def _move(self, pod: Pod, target: NodeName) -> Move:
        nodes, source = self.one_more.snapshot.nodes, self.one_more.snapshot.placed[pod.uid]
        kind = MoveKind.between(nodes[source].tier or Tier.EDGE, nodes[target].tier or Tier.EDGE)
        return Move(pod, source, target, kind)

    def _make_step(self, moves: Sequence[Move]) -> Step | None:
        """Return the step of the migrations if limits and rules between pods permit it, and its
        benefit exceeds its price.
        """
        self.one_more.deadline.spend(_ORDER_STEPS)
        order = order_migrations(self._feasibility, moves, self.room)
        if not isinstance(order, Order) or not self._is_within_limits(order.moves):
            return None
        net = self._net(self._shares_after(order.moves), count_disruptions(order.moves))
        gained = self._sum(self.gains, self._shares_after(order.moves))
        if min(leading_gain(net), leading_gain(gained)) <= LEAST_GAIN * NANO:
            return None
        return Step(order.moves, gained, net, order)

    @cached_property
    def _feasibility(self) -> Feasibility:
        return Feasibility.of(self.one_more.snapshot)

    def _is_within_limits(self, moves: Iterable[Move]) -> bool:
        limits = self.one_more.limits
        every = [
            *self.one_more.others,
            *(move for step in self.steps for move in step.moves),
            *moves,
        ]
        kinds = [move.kind for move in every]
        return (
            count_legs(every) <= limits.max_moves
            and kinds.count(MoveKind.EDGE_TO_EDGE) <= limits.max_edge_reorder
            and kinds.count(MoveKind.CLOUD_TO_EDGE) <= limits.max_cloud_to_edge
        )

    def _shares_after(self, moves: Iterable[Move]) -> dict[Workload, Share]:
        """Return the shares of the migrated workloads after the migrations."""
        return shares_with(self.shares, moves, self.one_more.snapshot.index.positions, self.sites)

    def _net(self, after: Mapping[Workload, Share], legs: int) -> Gain:
        """Return the benefit of the changed shares less the price, by priority level."""
        worth = self._sum(self.worths, after)
        cost = round(self.one_more.limits.price * NANO) * legs
        at = next((level for level, amount in enumerate(worth) if amount), 0)
        return tuple(amount - cost * (level == at) for level, amount in enumerate(worth))

    def _sum(self, gains: Gains, after: Mapping[Workload, Share]) -> Gain:
        before = {workload: self.shares[workload] for workload in after}
        pairs = zip(gains.of_shares(after), gains.of_shares(before), strict=True)
        return tuple(then - now for then, now in pairs)


def _descending(net: Gain) -> Gain:
    return tuple(-amount for amount in net)


def _may_leave(share: Share, target: QosTarget, site: str) -> bool:
    """Return False if another site can certainly not gain what the site loses without a pod."""
    demand = target.demand
    if demand is None or share.sites is None:
        return False  # every edge node is alike
    there = dict(share.sites).get(site, 0)
    return bool(demand.pairs) or there > dict(demand.parts).get(site, 0.0) * share.total


def _site_at(sites: Column, position: int | None) -> str:
    """Return the site of a node; empty for an unknown node, or without a site."""
    return "" if position is None else sites.values[sites.codes[position]] or ""


def shares_with(
    shares: Mapping[Workload, Share],
    moves: Iterable[Move],
    positions: Mapping[NodeName, int],
    sites: Column,
) -> dict[Workload, Share]:
    """Return the shares of the workloads that the migrations change, by site if counted."""
    after: dict[Workload, Share] = {}
    for move in moves:
        workload = move.pod.workload
        share = after.get(workload, shares[workload])
        leaves = move.kind in (MoveKind.EDGE_TO_EDGE, MoveKind.EDGE_TO_CLOUD)
        comes = move.kind in (MoveKind.EDGE_TO_EDGE, MoveKind.CLOUD_TO_EDGE, None)
        if leaves and move.source is not None:
            share = share.add(-1, _site_at(sites, positions.get(move.source)))
        if comes:
            share = share.add(1, _site_at(sites, positions.get(move.target)))
        after[workload] = share
    return after
