"""Placement algorithms in literal, exponential form: oracles of the fast algorithms."""

from collections import Counter
from itertools import pairwise

from kubedsm.model.model import Share, Tier
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.objective.objective import Objective, quality
from support.literal_fit import reasons
from support.literal_match import literal_match


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
        results.append((mask.bit_count() + off, *worth_with(instance, chosen, objective), -cost))
    return max(results)


def shares_with(instance, chosen):
    """Return the edge shares with the given pods of the batch on the edge."""
    shares = dict(instance.snapshot.census.shares)
    for pod in chosen:
        share = shares[pod.workload]
        shares[pod.workload] = Share(share.edge + 1, share.total)
    return shares


def qos_with(instance, chosen, objective):
    """Return the QoS of the batch's workloads, with the given pods of the batch on the edge."""
    shares, waiting = shares_with(instance, chosen), {pod.workload for pod in instance.batch}
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


def worth_with(instance, chosen, objective):
    return worth(shares_with(instance, chosen), instance.qos_targets, objective)


def standing(snapshot, batch, homes, qos_targets):
    """Return pods placed by priority, then QoS by the workloads' highest pod priority.

    `homes` has the node of each placed pod, by uid.
    """
    priorities = sorted({p.pod_class.priority for p in batch}, reverse=True)
    placed = Counter(p.pod_class.priority for p in batch if p.uid in homes)
    shares, levels = dict(snapshot.census.shares), {}
    for p in batch:
        levels[p.workload] = max(p.pod_class.priority, levels.get(p.workload, -1))
        if p.uid in homes and snapshot.nodes[homes[p.uid]].tier is Tier.EDGE:
            share = shares[p.workload]
            shares[p.workload] = Share(share.edge + 1, share.total)
    qos = [
        quality({w: shares[w] for w in levels if levels[w] == p}, qos_targets, Objective())
        for p in priorities
    ]
    return [placed[p] for p in priorities], qos


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
