"""The algorithms in their literal, exponential forms: what the fast ones must agree with."""

from collections import Counter
from itertools import pairwise

from kubedsm.model.model import Share, Tier
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.objective.objective import Objective, quality
from support.literal_fit import reasons
from support.literal_match import literal_match


def literal_decision(instance, objective, measure):
    """(pods placed, QoS, -unevenness, -fragmentation) of the best choice: all subsets are tried.

    A subset may go to the edge only if `match` in its literal form really places it. The cloud
    takes as many of the others as can be packed there.
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
    """The shares with these pods of the batch on the edge."""
    shares = dict(instance.snapshot.census.shares)
    for pod in chosen:
        share = shares[pod.workload]
        shares[pod.workload] = Share(share.edge + 1, share.total)
    return shares


def qos_with(instance, chosen, objective):
    return quality(shares_with(instance, chosen), instance.promises, objective)


def worth(shares, promises, objective):
    """QoS in points, and what is less if it is less even; without what comes of rounding scores.

    Unevenness: the squares of shares by weight, as far as the shares add to the QoS.
    """
    uneven = 0.0
    for workload, share in shares.items():
        promise = promises(workload)
        scores = [objective.worth(edge, share.total, promise) for edge in range(share.edge + 1)]
        for edge, (less, more) in enumerate(pairwise(scores)):
            if more > less:
                uneven += promise.weight * (2 * edge + 1) / share.total**2
    return round(quality(shares, promises, objective) / 1e9, 7), -round(uneven, 9)


def worth_with(instance, chosen, objective):
    return worth(shares_with(instance, chosen), instance.promises, objective)


def standing(snapshot, batch, homes, promises):
    """Pods placed, by priority; then QoS, by the greatest priority of the workload's pods.

    homes: the nodes of pods of the batch, by uid.
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
        quality({w: shares[w] for w in levels if levels[w] == p}, promises, Objective())
        for p in priorities
    ]
    return [placed[p] for p in priorities], qos


def every_placement(case):
    """Of all placements of the batch those that fit: the node of each pod that is placed."""
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
