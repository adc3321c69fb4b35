"""Placements by exhaustive search, and their scores: oracles of the placement algorithms.

`literal_match` is Algorithm 8 of the paper in its textbook form on bit masks. It shares only the
model and the rules of `fit` with the scheduler.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import attrs

from kubedsm.model.model import NodeName, Pod, Share, Tier
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.objective import Objective, QosTarget, quality
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.plugins import accepts
from support.literal_rules import literal_rule, reasons


@attrs.frozen
class LiteralMatch:
    """Result of `literal_match`."""

    #: Least cost of placing exactly one set of pods, indexed by the set's bit mask; None if the
    #: set does not fit.
    costs: list[int | None]
    #: (most pods, their least cost)
    optimum: tuple[int, int]
    targets: Mapping[Pod, NodeName]


def literal_fragmentation(fragmentation, node, free):
    """Return the fragmentation of one node with these free resources, scaled to a whole number."""
    size = dict(node.allocatable.items())
    room = {name: max(0, min(amount, size.get(name, 0))) for name, amount in free.items()}
    if fragmentation.measure is Measure.PRODUCT:
        return _scale_up(_product_fragmentation(size, room))
    pods = sum(count for _, count in fragmentation.mix)
    total = 0.0
    for vector, count in fragmentation.mix:
        asked = {name: amount for name, amount in vector.items() if amount}
        fitting = min((room.get(name, 0) // amount for name, amount in asked.items()), default=0)
        parts = [
            (room.get(name, 0) - fitting * amount) / size[name]
            for name, amount in asked.items()
            if name != "pods" and size.get(name, 0) > 0
        ]
        if parts:
            total += (count / pods) * (sum(parts) / len(parts))
    return _scale_up(total)


def _product_fragmentation(size, room):
    used = {name: size[name] - room[name] for name in ("cpu", "memory")}
    if not any(used.values()):
        return 0.9
    product = 1.0
    for name, amount in used.items():
        if size[name] > 0:
            product *= amount / size[name]
    return 1.0 - product


def _scale_up(fragmentation):
    return round(2**32 * fragmentation)


def literal_match(pods, nodes, free, fragmentation):
    """Place most pods, then minimise fragmentation: a DP over nodes and pod sets, O(N 3^n)."""
    everything = range(1 << len(pods))
    best = [0] + [None] * (len(everything) - 1)
    chosen = []
    for node in nodes:
        costs = _node_costs(pods, node, free[node.name], fragmentation)
        following = []
        choices = []
        for whole in everything:
            least, choice = None, 0
            part = whole
            while True:
                before, cost = best[whole ^ part], costs[part]
                if before is not None and cost is not None:
                    total = before + cost
                    if least is None or total < least:
                        least, choice = total, part
                if not part:
                    break
                part = (part - 1) & whole
            following.append(least)
            choices.append(choice)
        best = following
        chosen.append(choices)
    reached = [
        (-mask.bit_count(), cost, mask) for mask, cost in enumerate(best) if cost is not None
    ]
    most, cost, mask = min(reached)
    targets = {}
    for node, choices in zip(reversed(nodes), reversed(chosen), strict=True):
        here = choices[mask]
        targets |= {pod: node.name for i, pod in enumerate(pods) if here >> i & 1}
        mask ^= here
    return LiteralMatch(best, (-most, cost), targets)


def _node_costs(pods, node, free, fragmentation):
    """Return the node's cost for each set of pods; None for infeasible sets."""
    rooms = [free]
    for mask in range(1, 1 << len(pods)):
        last = mask.bit_length() - 1
        pod, room = pods[last], rooms[mask ^ (1 << last)]
        if room is not None:
            room = room - pod.requests if accepts(pod.pod_class, node, room) else None
        rooms.append(room)
    return [
        None if room is None else literal_fragmentation(fragmentation, node, room) for room in rooms
    ]


def homes_of(decision):
    """Return the node of each placed pod, by uid."""
    return {binding.pod.uid: binding.node for binding in decision.bindings}


def fragmentation_after(snapshot, decision, measure=Measure.UNUSABLE):
    """Return the total fragmentation of the edge nodes after the bindings."""
    edge = snapshot.with_placed(homes_of(decision)).in_turn(Tier.EDGE)
    return Fragmentation(measure, request_mix(snapshot)).of(edge)


def literal_decision(instance, objective, measure):
    """Return (pods placed, QoS, -unevenness, -fragmentation) of the best subset for the edge.

    A subset goes to the edge only if `match` in literal form places it entirely. The cloud takes
    the most of the remaining pods.
    """
    batch, free = instance.batch, instance.snapshot.free
    measured = Fragmentation(measure, request_mix(instance.snapshot))
    edge = literal_match(batch, instance.tier(Tier.EDGE), free, measured).costs
    cloud = literal_match(batch, instance.tier(Tier.CLOUD), free, Fragmentation()).costs
    everybody = (1 << len(batch)) - 1
    results = []
    for mask, cost in enumerate(edge):
        if cost is None:
            continue
        rest = everybody ^ mask
        off = max(m.bit_count() for m, c in enumerate(cloud) if c is not None and not m & ~rest)
        chosen = [pod for i, pod in enumerate(batch) if mask >> i & 1]
        shares = shares_with(instance.snapshot, chosen)
        value = worth(shares, instance.qos_targets, objective)
        results.append((mask.bit_count() + off, *value, -cost))
    return max(results)


def shares_with(snapshot, chosen):
    """Return the edge shares with the given pods of the batch on the edge."""
    shares = dict(snapshot.census.shares)
    for pod in chosen:
        share = shares[pod.workload]
        shares[pod.workload] = Share(share.edge + 1, share.total)
    return shares


def qos_with(instance, chosen, objective):
    """Return the QoS of the batch's workloads, with the given pods of the batch on the edge."""
    shares, waiting = shares_with(instance.snapshot, chosen), {p.workload for p in instance.batch}
    concerned = {workload: shares[workload] for workload in waiting & shares.keys()}
    return quality(concerned, instance.qos_targets, objective)


def worth(shares, qos_targets, objective):
    """Return QoS score and unevenness of the shares, rounding errors removed.

    Unevenness is the weighted sum of squared shares, as far as shares add to the QoS.
    """
    uneven = 0.0
    for workload, share in shares.items():
        qos_target = qos_targets(workload)
        scores = [
            objective.worth_of(Share(edge, share.total), qos_target)
            for edge in range(share.edge + 1)
        ]
        for edge, (less, more) in enumerate(pairwise(scores)):
            if more > less:
                uneven += qos_target.weight * (2 * edge + 1) / share.total**2
    return round(quality(shares, qos_targets, objective) / 1e9, 7), -round(uneven, 9)


def standing(snapshot, batch, homes, qos_targets):
    """Return pods placed by priority, then QoS by the workloads' highest pod priority.

    `homes` has the node of each placed pod, by uid.
    """
    edge = {node.name for node in snapshot.of_tier(Tier.EDGE)}
    shares = shares_with(snapshot, [p for p in batch if homes.get(p.uid) in edge])
    return served(batch, homes), qos_by_priority(batch, shares, qos_targets, Objective())


def qos_by_priority(pods, shares, qos_targets, objective):
    """Return the QoS of the pods' workloads by their highest priority, highest first."""
    levels = {}
    for p in pods:
        levels[p.workload] = max(p.pod_class.priority, levels.get(p.workload, 0))
    return tuple(
        quality({w: shares[w] for w in levels if levels[w] == level}, qos_targets, objective)
        for level in sorted({*levels.values()}, reverse=True)
    )


def served(batch, homes):
    """Return the number of placed pods by priority, highest first."""
    placed = Counter(p.pod_class.priority for p in batch if p.uid in homes)
    return [placed[p] for p in sorted({p.pod_class.priority for p in batch}, reverse=True)]


def every_placement(case):
    """Yield all feasible placements of the batch: the node of each placed pod."""
    shot = case.snapshot
    nodes = [n for n in shot.nodes.values() if n.tier is not None]

    def extended(homes, free, waiting):
        if not waiting:
            yield homes
            return
        first, *others = waiting
        yield from extended(homes, free, others)
        for at in nodes:
            if not reasons(first.pod_class, at, free[at.name]):
                left = {**free, at.name: free[at.name] - first.requests}
                yield from extended({**homes, first.uid: at.name}, left, others)

    return extended({}, dict(shot.free), case.batch)


def half_or_all(workload):
    return QosTarget(0.5 if workload.name.endswith("-0") else 1.0)


def best_of_all(snapshot, batch):
    """Return the best standing over all orders and node choices, for targets `half_or_all`."""
    outcomes = _every_outcome(snapshot, batch)
    return max(standing(snapshot, batch, homes, half_or_all) for homes in outcomes)


def most_served(snapshot, batch):
    """Return the most pods placed by priority over all orders and node choices."""
    return max(served(batch, homes) for homes in _every_outcome(snapshot, batch))


def _every_outcome(snapshot, batch):
    """Yield what comes about pod by pod, in any order and with any choice of feasible nodes: the
    node of each placed pod. Of outcomes that differ in equal pods alone, the first is yielded.
    """
    kinds = {}
    for p in batch:
        look = p.pod_class, tuple(p.labels.items()), p.namespace, p.workload
        kinds.setdefault(look, []).append(p.uid)
    look_of = {uid: at for at, alike in enumerate(kinds.values()) for uid in alike}
    pods, known, left = {p.uid: p for p in batch}, set(), [(Feasibility.of(snapshot), {})]
    while left:
        feasibility, homes = left.pop()
        yield homes
        for alike in kinds.values():
            for uid in [uid for uid in alike if uid not in homes][:1]:
                for name in feasibility.feasible(pods[uid]):
                    after = {**homes, uid: name}
                    key = frozenset(Counter((look_of[u], n) for u, n in after.items()).items())
                    if key not in known:
                        known.add(key)
                        left.append((feasibility.with_pod(pods[uid], name), after))


def joined(shot, bindings):
    """Return the snapshot with these pods on their nodes."""
    free = dict(shot.free)
    for binding in bindings:
        free[binding.node] -= binding.pod.requests
    nodes = {binding.pod.uid: binding.node for binding in bindings}
    return attrs.evolve(shot, placed={**shot.placed, **nodes}, free=free)


def is_allowed(shot, bindings, binding):
    there = joined(shot, bindings)
    return literal_rule(there, binding.pod, shot.nodes[binding.node]) is None


def is_allowed_in_turn(shot, bindings):
    """Return whether each pod is allowed beside those before it."""
    return all(is_allowed(shot, bindings[:n], binding) for n, binding in enumerate(bindings))


def is_sound(shot, bindings):
    """Return whether each pod keeps its rules with all the others in place."""
    return all(
        is_allowed(shot, [other for other in bindings if other is not binding], binding)
        for binding in bindings
    )
