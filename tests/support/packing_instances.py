"""Small clusters with pending pods, and exhaustive search over all packings."""

import itertools
import random

import attrs

from kubedsm.model.model import Tier
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.plugins.fit import shortages
from support.placement_instances import node, pod, resources, snapshot

OBJECTIVE = Objective()


def nothing_promised(_):
    return QosTarget(weight=0)


def all_promised(_):
    return QosTarget()


def drawn(seed, most=6, priorities=(0, 1)):
    """Draw a cluster of two or three nodes, with pods placed one after the other."""
    rng = random.Random(seed)
    tiers = [rng.choice((Tier.EDGE, Tier.CLOUD)) for _ in range(rng.choice((2, 3, 3)))]
    nodes = [
        node(f"n{at}", tier, rng.choice((4, 5, 6)), rng.choice((4, 5, 6)))
        for at, tier in enumerate(tiers)
    ]
    services = {
        name: (resources(rng.randint(1, 4), rng.randint(1, 4)), rng.choice(priorities))
        for name in "abcd"[: rng.randint(2, 4)]
    }
    free = {n.name: n.allocatable for n in nodes}
    pods = []
    for number in range(rng.randint(most - 2, most)):
        service = rng.choice(list(services))
        requests, priority = services[service]
        fitting = [name for name in free if not shortages(requests, free[name])]
        on = rng.choice(fitting) if fitting and rng.random() < 0.9 else None
        if on is not None:
            free[on] -= requests
        made = pod(f"{service}{number}", service, requests, on=on, priority=priority)
        ready = on is not None
        pinned = "for a reason" if rng.random() < 0.1 else ""
        phase = "Running" if ready else "Pending"
        pods.append(attrs.evolve(made, phase=phase, ready=ready, pinned=pinned))
    return snapshot(nodes, pods)


def best_of_all(of, qos_targets, worth, *, allow_evictions=False):
    """Return the best packing by `worth`, over every node (or none) for each movable pod."""
    gains = Gains.of(of, qos_targets, OBJECTIVE)
    pods = [p for p in of.pods.values() if p.node_name is None or not p.pinned]
    highest = max((p.pod_class.priority for p in pods if p.node_name is None), default=None)
    free = dict(of.free)
    for each in pods:
        if each.node_name is not None:
            free[each.node_name] += each.requests
    choices = []
    for each in pods:
        evictable = allow_evictions and highest is not None and each.pod_class.priority < highest
        none = [None] if each.node_name is None or evictable else []
        choices.append([*free, *none])
    best = None
    for targets in itertools.product(*choices):
        left = dict(free)
        for each, target in zip(pods, targets, strict=True):
            if target is not None:
                left[target] -= each.requests
        if any(min(r.cpu, r.memory, r.pods) < 0 for r in left.values()):
            continue
        found = worth(of, gains, dict(zip(pods, targets, strict=True)))
        best = found if best is None or found > best else best
    return best


def placed(targets):
    """Return the number of placed pods by priority, highest first."""
    counts = dict.fromkeys(sorted({p.pod_class.priority for p in targets}, reverse=True), 0)
    for each, target in targets.items():
        counts[each.pod_class.priority] += target is not None
    return tuple(counts.values())


def kept(targets):
    had = [(pod, target) for pod, target in targets.items() if pod.node_name is not None]
    return sum(0 if target is None else 3 if target == pod.node_name else 1 for pod, target in had)


def usual(of, gains, targets):
    """Return the default objective of a packing: pods placed, QoS, pods kept."""
    changes = {}
    for each, target in targets.items():
        edge = [n is not None and of.nodes[n].tier is Tier.EDGE for n in (each.node_name, target)]
        changes[each.workload] = changes.get(each.workload, 0) + edge[1] - edge[0]
    return placed(targets), gains.of_changes(changes), kept(targets)


def by_tier(of, gains, targets):
    """Return the paper's objective: placed and kept pods, priority by priority."""
    priorities = sorted({p.pod_class.priority for p in targets}, reverse=True)
    tiers = [{p: t for p, t in targets.items() if p.pod_class.priority == n} for n in priorities]
    return tuple((placed(tier), kept(tier)) for tier in tiers)


def targets_of(of, packed):
    """Return the final node of each movable pod."""
    targets = {p: p.node_name for p in of.pods.values() if p.node_name is None or not p.pinned}
    targets |= {move.pod: move.target for move in (*packed.moves, *packed.awaited)}
    return targets | dict.fromkeys(packed.evicted)
