"""Search by steepest ascent for migrations that bring pods to the edge sites of their users.

A step migrates one pod to a site where its workload gains. If the site is full, the step refills
one of its nodes (greedy knapsack): pods with the greatest benefit by size stay or come, and the
others leave for another node or the cloud. The step with the greatest benefit above its price comes
first; steps follow until no step has a benefit, or a limit is reached. Every step increases QoS, so
suggesting terminates. Capacity freed by a step is used by that step only: steps are independent
groups of migrations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, PodClass, Resources, Share, Tier, Uid, Workload
from kubedsm.model.node_index import Column, FreeCapacity, Mask
from kubedsm.objective.fragmentation import rows as amounts_of
from kubedsm.objective.gains import LEAST_GAIN, Gain, Gains, leading_gain, net
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import is_plain
from kubedsm.optimizer.moving.edge_items import leaving_turn
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.integer_changes import MOST_PAIRS
from kubedsm.optimizer.moving.migration_graph import Order
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
from kubedsm.plugins.fit import shortages
from kubedsm.plugins.plugins import fitting_nodes, open_nodes

#: nodes that are refilled in search of a step, and for each the most pods that come, and the
#: workloads that gain most there
_NODES, _ARRIVALS, _WORKLOADS = 40, 4, 20
#: nodes with capacity that are tried for one migration
_TRIED = 8
#: work of judging one pod for a node, of the gain of a workload's pod at one site, and of an
#: execution order
_OPTION_STEPS, _SITE_STEPS, _ORDER_STEPS = 10_000, 6_000, 1_000_000
#: size of a pod without requests, as a part of a node
_LEAST_SIZE = 1e-6

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


#: places with pods that could leave, by workload
_Leavers = Mapping[Workload, Sequence[tuple[_Place, list[Pod]]]]


@attrs.frozen(eq=False, slots=True)
class _Option:
    """Pod that may take capacity of a node: priority level and benefit per size, and the share of
    its workload then.
    """

    key: tuple[int, float]
    pod: Pod
    after: Share
    #: already on the node
    stays: bool


@attrs.define(eq=False)
class _Chosen:
    """Pods of one node after a step, with the shares of their workloads and the free capacity."""

    shares: dict[Workload, Share]
    room: Resources
    #: pods from elsewhere
    comes: list[Pod] = attrs.field(factory=list)
    #: pods that leave the node
    leaves: list[Pod] = attrs.field(factory=list)


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
    _masks: dict[_Place, Mask] = attrs.field(factory=dict, init=False)
    _targets: dict[Workload, list[_Target]] = attrs.field(factory=dict, init=False)
    _values: dict[tuple[Workload, Share], int] = attrs.field(factory=dict, init=False)

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

    def _take_solved(self) -> bool:
        """Take the best migrations that a solver finds, group by group; return False if it may have
        missed some.
        """
        for groups in self._list_solved():
            whole = [move for group in groups for move in group]
            # Some groups pay only with the others.
            joint = None in map(self._make_step, groups) and self._make_step(whole) is not None
            for group in [whole] if joint else groups:
                ruled = self._moved and any(self._is_ruled(move.pod) for move in group)
                step = None if ruled else self._make_step(group)
                if step is not None:
                    self._take(step)
            if self.steps or not groups:
                return True
        return False

    def _list_solved(self) -> Iterator[Sequence[Sequence[Move]]]:
        """Yield groups of migrations as `list_site_changes` does, if there are not too many nodes
        and workloads for a solver.
        """
        one_more = self.one_more
        snapshot, limits = one_more.snapshot, one_more.limits.without(one_more.others)
        pairs = len(snapshot.of_tier(Tier.EDGE)) * len(self._by_place)
        if self.bounds.solver is None or pairs > MOST_PAIRS or not limits.max_moves:
            return
        problem = EdgeProblem.of(
            snapshot, self._stay, one_more.fragmentation, self.gains, limits, self.bounds
        )
        items = (attrs.evolve(item, stranded=()) for item in problem.items)
        room = [self.room[node.name] for node in problem.nodes]
        yield from list_site_changes(
            attrs.evolve(
                problem,
                items=tuple(item for item in items if item.pods),
                free=amounts_of(room, problem.axes),
                worths=self.worths,
            ),
            self.sites,
        )

    def _stay(self, pod: Pod) -> Reason | None:
        """Return why the pod must stay, next to the migrations so far; None if it may migrate."""
        if pod.uid in self._moved or (self._moved and self._is_ruled(pod)):
            return Cause.BY_SITE.of()
        return self.one_more.movable(pod)

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
        best: Step | None = None
        full: dict[str, list[Workload]] = {}
        for target in sorted(self._list_targets(), key=lambda each: each.net, reverse=True):
            for sites in target.sites:
                most = self._net_at(target.workload, target.source, sites)
                least = (0,) * len(most) if best is None else best.net
                if most <= least or self.one_more.deadline.passed:
                    break
                step = self._direct(target, sites)
                if step is not None:
                    best = step if best is None else max(best, step, key=lambda each: each.net)
                    break
                for site in sites:
                    full.setdefault(site, []).append(target.workload)
        for step in self._refill_nodes(full):
            if best is None or step.net > best.net:
                best = step
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
            if pod is not None and not (self._moved and self._is_ruled(pod)):
                yield pod

    def _is_ruled(self, pod: Pod) -> bool:
        """Return True if rules between pods concern the pod: other migrations may change them."""
        return not is_plain(self.one_more.snapshot, [pod])

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

    def _open_at(self, pod: Pod, place: _Place) -> list[NodeName]:
        """Return the nodes of a place that accept the pod, capacity aside, fewest replicas first.

        Rules between pods are checked for the whole step.
        """
        index = self.one_more.snapshot.index
        return self._order_nodes(pod, open_nodes(pod.pod_class, index) & self._mask_at(place))

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

    def _refill_nodes(self, full: Mapping[str, Sequence[Workload]]) -> Iterator[Step]:
        """Yield the steps that refill a node of the full sites, with more and more arrivals of
        the workloads that gain there.
        """
        names = self.one_more.snapshot.index.names
        at = [
            (place, list(dict.fromkeys(workloads))[:_WORKLOADS])
            for site, workloads in full.items()
            for place in np.flatnonzero(self._mask_at(site)).tolist()
        ][:_NODES]
        known = {workload: self._list_leavers(workload) for _, those in at for workload in those}
        for place, workloads in at:
            node, leavers = names[place], {each: known[each] for each in workloads}
            swap = self._step_of(node, self._choose_pods(node, 1, leavers, swaps=True))
            if swap is not None:
                yield swap
            for most in range(1, _ARRIVALS + 1):
                chosen = self._choose_pods(node, most, leavers)
                if len(chosen.comes) < most or self.one_more.deadline.passed:
                    break
                step = self._step_of(node, chosen)
                if step is not None:
                    yield step

    def _choose_pods(
        self, node: NodeName, most: int, leavers: _Leavers, *, swaps: bool = False
    ) -> _Chosen:
        """Choose the pods of a node by benefit per size, at most `most` of them from elsewhere.

        swaps: pods may leave for the places from which others come; otherwise they go to the cloud.
        """
        site = self._site_of(node)
        chosen = _Chosen(dict(self.shares), self.room[node])
        here: dict[Workload, list[Pod]] = {}
        for pod in self._residents.get(node, ()):
            if pod.uid not in self._moved and not (self._moved and self._is_ruled(pod)):
                here.setdefault(pod.workload, []).append(pod)
                chosen.shares[pod.workload] = chosen.shares[pod.workload].add(-1, site)
                chosen.room += pod.requests
        while True:
            options = list(self._list_options(node, chosen, here, most, leavers, swaps=swaps))
            late = self.one_more.deadline.spend(_OPTION_STEPS * (len(here) + len(leavers)))
            if late or not options:
                break
            best = max(options, key=lambda each: each.key)
            chosen.shares[best.pod.workload] = best.after
            chosen.room -= best.pod.requests
            if best.stays:
                here[best.pod.workload].remove(best.pod)
            else:
                chosen.comes.append(best.pod)
        chosen.leaves += [pod for pods in here.values() for pod in pods]
        return chosen

    def _list_options(
        self,
        node: NodeName,
        chosen: _Chosen,
        here: Mapping[Workload, Sequence[Pod]],
        most: int,
        leavers: _Leavers,
        *,
        swaps: bool,
    ) -> Iterator[_Option]:
        """Yield a pod of each workload that may stay on the node, and one that may come, if it has
        a benefit. A pod that stays saves the price of a migration.
        """
        site, whole = self._site_of(node), self.one_more.snapshot.nodes[node].allocatable
        price = round(self.one_more.limits.price * NANO)
        first = (those[0][0] for those in leavers.values() if those)
        vacated = {place for place in first if place is not None and place != site}
        for workload in dict.fromkeys([*here, *leavers]):
            share = chosen.shares[workload]
            value, level = self._value(workload, share), -self.worths.level[workload]
            pods: list[tuple[Pod, Share, bool]] = [
                (pod, share.add(1, site), True) for pod in here.get(workload, ())[:1]
            ]
            if len(chosen.comes) < most:
                pods += [
                    (pod, (share if place is None else share.add(-1, place)).add(1, site), False)
                    for place, those in leavers.get(workload, ())
                    if place != site
                    for pod in those
                    if pod not in chosen.comes
                ][:1]
            for pod, after, stays in pods:
                gain = self._value(workload, after) - value + (price if stays else -price)
                if stays and swaps:
                    others = (self._value(workload, share.add(1, each)) for each in vacated)
                    gain -= max(others, default=value) - value
                if (
                    gain > 0
                    and self._is_open(pod, node)
                    and not shortages(pod.requests, chosen.room)
                ):
                    yield _Option((level, gain / _size(pod.requests, whole)), pod, after, stays)

    def _is_open(self, pod: Pod, node: NodeName) -> bool:
        """Return True if the node accepts the pod, capacity and rules between pods aside."""
        index = self.one_more.snapshot.index
        return bool(open_nodes(pod.pod_class, index)[index.positions[node]])

    def _list_leavers(self, workload: Workload) -> list[tuple[_Place, list[Pod]]]:
        """Return the places of the workload's movable pods with some pods of each, in order of the
        value that is left when a pod leaves.
        """
        share = self.shares[workload]

        def left(place: _Place) -> int:
            return self._value(workload, share if place is None else share.add(-1, place))

        places = {
            place: list(islice(self._pods_at(workload, place), _ARRIVALS))
            for place in self._by_place[workload]
        }
        return sorted(
            ((place, pods) for place, pods in places.items() if pods),
            key=lambda each: left(each[0]),
            reverse=True,
        )

    def _step_of(self, node: NodeName, chosen: _Chosen) -> Step | None:
        """Return the step of a node's arrivals and departures; None if a departure has no place."""
        moves = [self._move(pod, node) for pod in chosen.comes]
        room: dict[NodeName, Resources] = {}
        for move in moves:
            if move.source is not None:
                room[move.source] = (
                    room.get(move.source, self.room[move.source]) + move.pod.requests
                )
        for pod in chosen.leaves:
            to = self._place_for(pod, node, chosen.shares[pod.workload], room)
            if to is None:
                return None
            room[to] = room.get(to, self.room[to]) - pod.requests
            moves.append(self._move(pod, to))
        return self._make_step(moves)

    def _place_for(
        self, pod: Pod, node: NodeName, share: Share, room: Mapping[NodeName, Resources]
    ) -> NodeName | None:
        """Return the node with capacity where a pod that leaves its node has the greatest value.

        room: free capacity where the step changes it; an arrival frees its former node.
        """

        def value(place: _Place) -> int:
            return self._value(pod.workload, share if place is None else share.add(1, place))

        places: list[_Place] = [None, *(site or "" for site in self.sites.values)]
        for place in sorted(dict.fromkeys(places), key=value, reverse=True):
            for name in self._open_at(pod, place):
                free = room.get(name, self.room[name])
                if name != node and not shortages(pod.requests, free):
                    return name
        return None

    def _value(self, workload: Workload, share: Share) -> int:
        """Return the benefit of a share over the present one, in nano-pod-seconds."""
        key = workload, share
        if key not in self._values:
            self._values[key] = self.worths.of_share(workload, share)
        return self._values[key]

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

    def _site_of(self, node: NodeName) -> str:
        return site_at(self.sites, self.one_more.snapshot.index.positions[node])

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
        net = self._net(self._shares_after(order.moves), count_disruptions(order.moves))
        gained = self._sum(self.gains, self._shares_after(order.moves))
        if min(leading_gain(net), leading_gain(gained)) <= LEAST_GAIN * NANO:
            return None
        return Step(order, gained, net)

    def _is_within_limits(self, moves: Iterable[Move]) -> bool:
        before = (move for step in self.steps for move in step.order.moves)
        return self.one_more.limits.permit([*self.one_more.others, *before, *moves])

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


def _size(requests: Resources, whole: Resources) -> float:
    """Return the requests as a part of the allocatable resources: of CPU or memory, the greater."""
    parts = requests.cpu / max(1, whole.cpu), requests.memory / max(1, whole.memory)
    return max(*parts, _LEAST_SIZE)


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
