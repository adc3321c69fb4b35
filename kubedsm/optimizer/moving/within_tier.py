"""Migrations within a tier, without changed edge shares: to preferred nodes, spreading workloads,
balancing load.

Preferred node affinity: a pod is migrated to a node with a greater weight of satisfied terms, if no
other preference of the pod outweighs that, and the benefit exceeds the price.
Spreading: if pods of a workload share a node and another node of the tier holds fewer replicas, a
pod is migrated, provided that the benefit exceeds the price: a node failure must end as few of the
replicas as possible. Balancing: the load-aware
paper's descheduler. From the most uneven node, the pod with the greatest score improvement is
migrated, provided a higher combined score of both nodes; therefore balancing terminates. The gain
must hold in two consecutive samples, and nodes with recently changed pods are left out.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Self

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.measured import only_in
from kubedsm.model.model import NodeName, Pod, PodClass, Tier, Workload
from kubedsm.model.node_index import Column, FreeCapacity, Mask, NodeRows, zone_of
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation
from kubedsm.objective.gains import Gains
from kubedsm.objective.lasting import Lasting
from kubedsm.objective.load import Floats, LoadGoal, Loads, evenness
from kubedsm.objective.replica_spread import ReplicaSpread, has_default_spread
from kubedsm.optimizer.moving.edge_items import leaving_turn
from kubedsm.optimizer.moving.migration_graph import Order
from kubedsm.optimizer.moving.movable import Movable, is_ruled
from kubedsm.optimizer.moving.move_order import order_migrations
from kubedsm.optimizer.moving.suggestion import (
    Move,
    MoveKind,
    SuggestLimits,
    list_arrivals,
    list_steps,
)
from kubedsm.optimizer.placing.cloud import scores_with
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.node_affinity import sum_preferences
from kubedsm.plugins.plugins import fitting_nodes

#: Steps of work for a pod or node with possible migrations, and for a node of the cluster.
_POD_STEPS, _TARGET_STEPS = 300_000, 500


@attrs.frozen(slots=False, eq=False)
class OneMore:
    """Checks whether one more migration within a tier is feasible, in addition to the migrations
    already suggested.
    """

    snapshot: Snapshot
    limits: SuggestLimits
    movable: Movable
    fragmentation: Fragmentation
    deadline: Deadline
    #: migrations made anyway, first nodes of pending pods included
    others: Collection[Move] = ()
    #: site of each edge node, and workloads with demand by site, which stay at their sites
    sites: Column | None = None
    sited: Container[Workload] = ()

    def is_allowed(self, tier: Tier) -> bool:
        """Return True if the migration limits allow one more migration within the tier."""
        left = self.limits.without(self.others)
        return left.max_moves > 0 and (tier is not Tier.EDGE or left.max_edge_reorder > 0)

    def list_targets(self, pod: Pod, *, preferred: bool = False) -> list[NodeName]:
        """Return the other nodes of the tier that accept the pod without a greater preference
        penalty, or (preferred) with a lesser one.
        """
        source = self.snapshot.nodes[self.snapshot.placed[pod.uid]]
        if source.tier is None or not self.is_allowed(source.tier):
            return []
        if self.others and is_ruled(self.snapshot, pod):
            return []  # the other migrations may change feasibility
        index, without = self.snapshot.index, self.feasibility.without_pod(pod.uid)
        here = index.positions[source.name]
        open_to = without.taking(pod) & ~self.room.short(pod.requests)
        if self.sites is not None and pod.workload in self.sited:
            open_to &= self.sites.codes == self.sites.codes[here]
        open_to[here] = False
        at = self.snapshot.in_turn(source.tier).only(open_to).positions
        penalties = without.penalties_at(pod, np.concatenate(([here], at)))
        found = at[penalties[1:] <= penalties[0] - int(preferred)]
        return [index.names[position] for position in found.tolist()]

    def is_out_of_time(self) -> bool:
        """Count the computation for one more pod or node; return True after the deadline."""
        return self.deadline.spend(_POD_STEPS + _TARGET_STEPS * len(self.snapshot.nodes))

    def keeps_rules(self, move: Move) -> bool:
        """Return True if the migration violates no affinity or spread rule of other pods."""
        return isinstance(order_migrations(self.feasibility, [move], self.room.free), Order)

    @cached_property
    def feasibility(self) -> Feasibility:
        """Feasibility of nodes for the snapshot's pods, before any migration."""
        return Feasibility.of(self.snapshot)

    @cached_property
    def room(self) -> FreeCapacity:
        """Free capacity of nodes with all migrating pods counted at their targets and stopovers,
        and also still at their sources.
        """
        return self.snapshot.room.after(list_arrivals(self.others))


def find_crowded(snapshot: Snapshot) -> dict[Workload, list[Pod]]:
    """Return the workloads with several Ready pods of which any share a node, with the running
    pods. Pods on nodes that no longer exist do not count.
    """
    zones = snapshot.index.zones
    suspects = {
        workload
        for workload, on_node in snapshot.census.standing.items()
        if any(number > 1 and node in zones for node, number in on_node.items())
    }
    pods: dict[Workload, list[Pod]] = {}
    for pod in snapshot.pods.values() if suspects else ():
        is_running = pod.workload in suspects and snapshot.placed.get(pod.uid) in zones
        if is_running and snapshot.is_replica(pod):
            pods.setdefault(pod.workload, []).append(pod)
    return {
        workload: members
        for workload, members in pods.items()
        if sum(pod.ready for pod in members) > 1
    }


def spread_benefit(
    spread: ReplicaSpread, workload: Workload, source: NodeName, target: NodeName
) -> float:
    """Return the benefit of a migration for replica spread, in pods at the edge; 0 without benefit.

    The part of the replicas that a failure of the source node ends, times the part of the other
    replicas whose node the pod leaves. The benefit is 1 if all replicas are on the source node.
    """
    on_node, in_zone, zones = spread.on_node[workload], spread.in_zone[workload], spread.zones
    total, here = sum(on_node.values()), on_node[source]
    fewer, apart = here - 1 - on_node[target], 0
    if zones[source] != zones[target]:
        apart = in_zone[zones[source]] - 1 - in_zone[zones[target]]
    if fewer <= 0 or fewer + apart <= 0:
        return 0.0
    return here / total * fewer / (total - 1)


def still_rebalances(snapshot: Snapshot, move: Move) -> bool:
    """Return True if the migration still separates replicas of the pod's workload, or brings the
    pod to a node that it prefers.
    """
    if move.preferred:
        return _is_preferred(snapshot, move)
    spread, source = ReplicaSpread.of(snapshot, [move.pod.workload]), move.source
    known = source is not None and {source, move.target} <= spread.zones.keys()
    if not known or source is None or move.pod.workload not in spread.on_node:
        return False
    return spread_benefit(spread, move.pod.workload, source, move.target) > 0


def list_spreading(
    one_more: OneMore, gains: Gains, lasting: Lasting
) -> Iterator[tuple[Move, float]]:
    """Yield one migration for each workload that separates replicas sharing a node, with benefit in
    pod-seconds, most important workload first.

    Benefits of at most the price are yielded without a search for permitted targets.
    """
    crowded = find_crowded(one_more.snapshot) if one_more.is_allowed(Tier.CLOUD) else {}
    for move in one_more.others:
        crowded.pop(move.pod.workload, None)
    spread = ReplicaSpread.of(one_more.snapshot, crowded)
    crowds = (
        _Crowd(workload, pods, spread.on_node[workload]) for workload, pods in crowded.items()
    )

    def separate(pod: Pod, target: NodeName) -> float:
        source = one_more.snapshot.placed[pod.uid]
        return spread_benefit(spread, pod.workload, source, target)

    def turn(crowd: _Crowd) -> tuple[int, bool, float, float, int, Workload]:
        level, weight = gains.level[crowd.workload], gains.qos_targets(crowd.workload).weight
        return level, crowd.part < 1, -weight, -crowd.part, -len(crowd.pods), crowd.workload

    spreadable = (c for c in crowds if c.part == 1 or has_default_spread(c.pods[0]))
    for crowd in sorted(spreadable, key=turn):
        # The benefit equals edge pods while the workload remains unchanged.
        seconds = lasting(crowd.workload)
        leaving = crowd.list_leaving(one_more.movable)
        yield from _find_migration(one_more, spread, leaving, seconds, separate)


def _find_migration(
    one_more: OneMore,
    spread: ReplicaSpread,
    pods: Iterable[tuple[Pod, float]],
    seconds: float,
    benefit: Callable[[Pod, NodeName], float],
    *,
    preferred: bool = False,
) -> Iterator[tuple[Move, float]]:
    """Yield the best migration of a workload's pods, at most one, with its benefit; without a
    target if the benefit is at most the price.

    pods: movable, with the greatest possible benefit of each. benefit: of a migration to a node, in
    pods at the edge.
    """
    price = one_more.limits.price
    for pod, most in pods:
        source = one_more.snapshot.placed[pod.uid]
        if one_more.is_out_of_time():
            return
        if price and most * seconds <= price:
            yield Move(pod, source, source, None), most * seconds
            return
        targets = {
            name: gain
            for name in one_more.list_targets(pod, preferred=preferred)
            if (gain := benefit(pod, name)) > 0
        }
        for move in _rank_targets(one_more, spread, pod, targets):
            tidy = not preferred or _keeps_fragmentation(one_more, move)
            if tidy and one_more.keeps_rules(move):
                yield attrs.evolve(move, preferred=preferred), targets[move.target] * seconds
                return


@attrs.frozen(eq=False)
class _Crowd:
    """Running pods of a workload of which some share a node, and the replicas on each node."""

    workload: Workload
    pods: Sequence[Pod]
    on_node: Mapping[NodeName, int]

    @property
    def part(self) -> float:
        """Greatest part of the replicas on a node."""
        return max(self.on_node.values()) / sum(self.on_node.values())

    def list_leaving(self, movable: Movable) -> Iterator[tuple[Pod, float]]:
        """Yield movable pods, with the greatest possible benefit in pods at the edge.

        Nodes with most replicas come first; of each class on a node, the youngest pod: in a
        rollout the others leave soon.
        """
        total = sum(self.on_node.values())
        for node, here in sorted(self.on_node.items(), key=lambda entry: (-entry[1], entry[0])):
            if here > 1:
                there = [p for p in self.pods if p.node_name == node and not movable(p)]
                pods = {pod.pod_class: pod for pod in sorted(there, key=_youngest_first)[::-1]}
                for pod in sorted(pods.values(), key=_youngest_first):
                    yield pod, here / total * (here - 1) / (total - 1)


def _youngest_first(pod: Pod) -> tuple[float, str, str]:
    return -pod.created, pod.namespace, pod.name


def _rank_targets(
    one_more: OneMore, spread: ReplicaSpread, pod: Pod, targets: Mapping[NodeName, float]
) -> Iterator[Move]:
    """Yield the migrations of a pod to the targets by decreasing value, then fewest replicas on the
    node, then in the zone, then least cost.
    """
    snapshot = one_more.snapshot
    source = snapshot.nodes[snapshot.placed[pod.uid]]
    if source.tier is None or not targets:
        return
    rows = NodeRows.of((snapshot.nodes[name] for name in targets), one_more.room.free)
    # The ranking cost of each node, as for new pods.
    if source.tier is Tier.EDGE:
        costs = one_more.fragmentation.added(pod.requests, rows)
    else:
        costs = -scores_with(pod.requests, rows)
    on_node, in_zone = spread.on_node[pod.workload], spread.in_zone[pod.workload]
    ranked = sorted(
        (
            -targets[node.name],
            on_node[node.name],
            in_zone[zone_of(node)] - (zone_of(node) == zone_of(source)),
            cost,
            turn,
            node.name,
        )
        for turn, (node, cost) in enumerate(zip(rows.nodes, costs.tolist(), strict=True))
    )
    kind = MoveKind.between(source.tier, source.tier)
    for *_, name in ranked:
        yield Move(pod, source.name, name, kind, rebalances=True)


@attrs.frozen(eq=False)
class _Preference:
    """Preferred node affinity of a pod class: the part of its weight that each node satisfies."""

    parts: Floats
    #: greatest part on a node with capacity, by tier
    best: Mapping[Tier, float]

    @classmethod
    def of(cls, pod_class: PodClass, snapshot: Snapshot) -> Self:
        rules, index = pod_class.rules, snapshot.index
        weight = sum(weight for weight, _ in rules.preferences.node_affinity)
        parts = np.asarray(sum_preferences(rules, index) / max(weight, 1))
        fitting = fitting_nodes(pod_class, index, snapshot.room)
        best = {tier: parts[fitting & index.at(index.of_tier(tier))] for tier in Tier}
        return cls(parts, {tier: float(there.max(initial=0.0)) for tier, there in best.items()})


def _is_preferred(snapshot: Snapshot, move: Move) -> bool:
    """Return True if the pod's node affinity prefers the target to the source."""
    positions = snapshot.index.positions
    if move.source not in positions or move.target not in positions:
        return False
    weights = sum_preferences(move.pod.pod_class.rules, snapshot.index)
    return bool(weights[positions[move.target]] > weights[positions[NodeName(move.source or "")]])


def list_preferring(
    one_more: OneMore, gains: Gains, lasting: Lasting
) -> Iterator[tuple[Move, float]]:
    """Yield one migration for each workload to a node that the pod prefers by its node affinity,
    with benefit in pod-seconds, most important workload first.

    A pod with all terms satisfied instead of none counts as much as a pod at the edge. Benefits of
    at most the price are yielded without a search for permitted targets.
    """
    snapshot, positions = one_more.snapshot, one_more.snapshot.index.positions
    elsewhere = {move.pod.workload for move in one_more.others}
    known: dict[PodClass, _Preference] = {}
    found: dict[Workload, list[tuple[Pod, float]]] = {}
    for uid, name in snapshot.placed.items():
        pod = snapshot.pods[uid]
        if not pod.pod_class.rules.preferences.node_affinity or pod.workload in elsewhere:
            continue
        tier = snapshot.nodes[name].tier if name in snapshot.nodes else None
        if tier is None or not one_more.is_allowed(tier) or one_more.movable(pod):
            continue
        if pod.pod_class not in known:
            known[pod.pod_class] = _Preference.of(pod.pod_class, snapshot)
        preference = known[pod.pod_class]
        most = preference.best[tier] - float(preference.parts[positions[name]])
        if most > 0:
            found.setdefault(pod.workload, []).append((pod, most))

    def gain(pod: Pod, target: NodeName) -> float:
        parts = known[pod.pod_class].parts
        return float(parts[positions[target]] - parts[positions[snapshot.placed[pod.uid]]])

    def turn(workload: Workload) -> tuple[int, float, Workload]:
        return gains.level[workload], -gains.qos_targets(workload).weight, workload

    for workload in sorted(found, key=turn):
        pods = sorted(found[workload], key=lambda each: (-each[1], *leaving_turn(each[0])))
        spread = ReplicaSpread.of(snapshot, {workload})
        seconds = lasting(workload)
        yield from _find_migration(one_more, spread, pods, seconds, gain, preferred=True)


#: least combined score improvement of both nodes: smaller differences may be rounding
_LEAST = 1e-3


def balance_load(one_more: OneMore, goal: LoadGoal) -> Move | None:
    """Return the balancing migration; None if no migration is worthwhile, or after the deadline.

    one_more: without other migrations.
    """
    samples = Samples.of(goal, one_more.snapshot)
    if samples is None or not goal.move:
        return None
    homes: dict[NodeName, list[Pod]] = {}
    for uid, name in one_more.snapshot.placed.items():
        homes.setdefault(name, []).append(one_more.snapshot.pods[uid])
    for source in samples.uneven:
        node = one_more.snapshot.index.nodes[source]
        if one_more.is_out_of_time():
            return None
        if node.tier is not None and one_more.is_allowed(node.tier):
            pods = [pod for pod in homes.get(node.name, ()) if not one_more.movable(pod)]
            pods.sort(key=leaving_turn)
            move = next(_list_balancing(one_more, samples, pods, source, node.tier), None)
            if move is not None:
                return move
    return None


def _list_balancing(
    one_more: OneMore, samples: "Samples", pods: Sequence[Pod], source: int, tier: Tier
) -> Iterator[Move]:
    """Yield load-balancing migrations from the node, greatest improvement of the load scores
    first.
    """
    nodes = one_more.snapshot.index
    inside = nodes.at(nodes.of_tier(tier))
    found = [
        (-float(of_pod[target]), number, target)
        for number, of_pod in enumerate(samples.gains(pod, source) * inside for pod in pods)
        for target in of_pod.nonzero()[0].tolist()
    ]
    here = float(samples.now.own[source])
    open_to: dict[int, set[NodeName]] = {}
    for loss, number, target in sorted(found):
        pod, name = pods[number], nodes.names[target]
        if number not in open_to:
            open_to[number] = set(one_more.list_targets(pod))
        kind = MoveKind.between(tier, tier)
        move = Move(pod, nodes.names[source], name, kind, load_scores=(here, here - loss))
        harmless = name in open_to[number] and _is_harmless(one_more, move)
        if harmless and one_more.keeps_rules(move):
            yield move


def _is_harmless(one_more: OneMore, move: Move) -> bool:
    """Return whether the migration keeps replicas apart and does not fragment the edge."""
    workload, source = move.pod.workload, move.source
    if source is None:
        return False
    spread = ReplicaSpread.of(one_more.snapshot, {workload})
    spread.put(workload, source, -1)
    if spread.company(workload, move.target) > spread.company(workload, source):
        return False
    return _keeps_fragmentation(one_more, move)


def _keeps_fragmentation(one_more: OneMore, move: Move) -> bool:
    """Return whether the migration does not fragment the edge, if that is a reason to migrate."""
    if not one_more.limits.defragment or move.kind is not MoveKind.EDGE_TO_EDGE:
        return True
    edge = one_more.snapshot.in_turn(Tier.EDGE)
    return one_more.fragmentation.added_by(list_steps([move]), edge) <= 0


def is_still_worthwhile(snapshot: Snapshot, goal: LoadGoal | None, move: Move) -> bool:
    """Return whether a balancing migration is still worthwhile by current measurements."""
    samples = Samples.of(goal, snapshot) if goal is not None and goal.move else None
    source = snapshot.placed.get(move.pod.uid)
    if samples is None or source is None or move.target not in snapshot.index.positions:
        return False
    positions = snapshot.index.positions
    return bool(samples.gains(move.pod, positions[source])[positions[move.target]] > 0)


@attrs.frozen(eq=False)
class Samples:
    """Two consecutive load measurements, with scores of nodes for balancing migrations."""

    goal: LoadGoal
    now: Loads
    before: Loads
    #: nodes whose samples show the current use
    known: Mask

    @classmethod
    def of(cls, goal: LoadGoal, snapshot: Snapshot) -> Self | None:
        first = snapshot.measured.before
        now = Loads.of(goal, snapshot)
        before = Loads.of(goal, snapshot, first) if first is not None else None
        if now is None or first is None or before is None:
            return None
        sample, placed = snapshot.measured, snapshot.placed
        since = {
            name for _, name in (*only_in(sample.placed, placed), *only_in(placed, sample.placed))
        }
        within = {placed[uid] for uid in sample.came if uid in placed} | sample.left.keys()
        known = ~snapshot.index.match_names({*since, *within})
        return cls(goal, now, before, known)

    @property
    def uneven(self) -> Iterator[int]:
        """Positions of nodes whose load-balance score could improve by the required minimum, most
        uneven first.
        """
        for position in self.now.most_uneven_first:
            if 100.0 - self.now.own[position] < self.goal.min_gain:
                return
            if self.known[position]:
                yield position

    def gains(self, pod: Pod, source: int) -> Floats:
        """Return the score improvement by migrating the pod to each node; 0 for forbidden nodes."""
        name = self.now.nodes.names[source]
        if not all(loads.sample.placed.get(pod.uid) == name for loads in (self.now, self.before)):
            return np.zeros(len(self.known))
        gains = self.now.gains(pod, source)
        if gains.max() < self.goal.min_gain:
            return np.zeros(len(self.known))
        enough = np.minimum(gains, self.before.gains(pod, source)) >= self.goal.min_gain
        return np.where(
            enough & self.known & (self._gains_of_both(pod, source) > _LEAST), gains, 0.0
        )

    def _gains_of_both(self, pod: Pod, source: int) -> Floats:
        """Return the combined score improvement of source and target, for each target node."""
        now, own = self.now, self.now.own
        left = np.maximum(now.used[source] - now.estimate_use(pod), 0.0) / now.sizes[source]
        lost = own[source] - evenness(left)
        return np.asarray(now.gains(pod, source) + own[source] - own - lost)
