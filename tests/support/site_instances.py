"""Small clusters with edge sites, and batches of workloads with demand by site."""

import math
import random
from collections import Counter
from functools import cache

import attrs

from kubedsm.model.model import Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.site_demand import SiteDemand, count_sites
from kubedsm.optimizer.placing.immediate import immediate_schedule
from support.placement_instances import (
    RULES,
    Instance,
    drawn_requests,
    node,
    pod,
    resources,
    snapshot,
)
from support.placement_literal import every_placement, homes_of

LABELS = ("site",)
SITES = ("a", "b", "c")


def demand_of(weights, neighbour=0.5, pairs=()):
    total = sum(weights.values())
    parts = tuple(sorted((site, weight / total) for site, weight in weights.items() if weight))
    return SiteDemand(parts, neighbour, tuple(sorted(dict(pairs).items())))


def site_node(name, site, cpu=4, memory=64, **more):
    return node(name, Tier.EDGE, cpu, memory, labels={"site": site}, **more)


def counted(case):
    """Return the case with edge pods counted by site, for workloads with demand."""
    shares = case.snapshot.census.shares
    named = [w for w in shares if case.qos_targets(w).demand is not None]
    return attrs.evolve(case, snapshot=count_sites(case.snapshot, LABELS, named))


def at_sites(cpus, pods, targets, cloud=64):
    """Return a case with one edge node per site of the given cores, and a cloud."""
    nodes = [site_node(f"edge-{site}", site, cpu) for site, cpu in cpus.items()]
    nodes.append(node("cloud", Tier.CLOUD, cloud, 512))
    shot = snapshot(nodes, pods)
    return counted(Instance(shot, tuple(shot.schedulable(pods)), targets))


def pods_of(service, number, *, cpu=1.0, on=None, **more):
    named = f"{service}-{on or 'new'}"
    return [pod(f"{named}-{i}", service, resources(cpu), on=on, **more) for i in range(number)]


def _drawn_demand(rng):
    if rng.random() < 0.2:
        return None
    weights = {site: rng.choice((0, 1, 1, 2, 5)) for site in SITES} | {"a": 1}
    pairs = {}
    if rng.random() < 0.3:
        for one in SITES:
            for other in SITES:
                pairs[one, other] = 1.0 if one == other else rng.choice((0.2, 0.5, 0.9))
    return demand_of(weights, rng.choice((0.0, 0.5, 0.8)), pairs.items())


def drawn_by_site(seed):
    """Draw edge nodes at sites and a cloud, and a batch of workloads with demand."""
    rng = random.Random(seed)
    nodes = [
        site_node(f"edge-{i}", site, rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 8)))
        if site
        else node(f"edge-{i}", Tier.EDGE, 1, 4)
        for i, site in enumerate(rng.choices((*SITES, None), (4, 4, 4, 1), k=rng.randint(2, 4)))
    ]
    nodes += [node("cloud", Tier.CLOUD, rng.choice((1, 4, 16)), 64)] * (rng.random() < 0.8)
    services = "wxyz"[: rng.randint(1, 3)]
    classes = {s: [(drawn_requests(rng), rng.choice(RULES))] for s in services}
    if len(services) > 1 and rng.random() < 0.6:  # two workloads, one class
        classes[services[1]] = classes[services[0]]
    if rng.random() < 0.4:  # a rollout: its pods are of two classes
        classes[services[0]] = [*classes[services[0]], (drawn_requests(rng), rng.choice(RULES))]
    batch = []
    for i in range(rng.randint(1, 4)):
        service = rng.choice(services)
        requests, rules = rng.choice(classes[service])
        batch.append(pod(f"{service}-{i}", service, requests, rules=rules))
    old = [
        pod(f"{s}-old-{i}", s, resources(0.5, 0.5), on=rng.choice(nodes).name)
        for i, s in enumerate(rng.choices(services, k=rng.randint(0, 3)))
    ]
    targets = {
        name: QosTarget(
            rng.choice((0.3, 0.5, 1.0, 1.0, 1.0)),
            rng.choice((1.0, 1.0, 2.0, 0.5)),
            demand=_drawn_demand(rng),
        )
        for name in services
    }
    return counted(Instance(snapshot(nodes, [*batch, *old]), tuple(batch), targets))


def literal_near(demand, replicas, total):
    """Serve each site's requests from its own replicas, then pair by pair, nearest first."""
    benefits = dict(demand.pairs)
    wanted = {site: part * total for site, part in demand.parts}
    free = dict(replicas)
    ways = [
        (s != t, -benefits.get((s, t), 1.0 if s == t else demand.neighbour), s, t)
        for s in wanted
        for t in free
    ]
    served = 0.0
    for _, loss, s, t in sorted(ways):
        sent = min(wanted[s], free[t])
        wanted[s] -= sent
        free[t] -= sent
        served -= loss * sent
    return served / total


def literal_qos(case, homes, objective):
    """Return the QoS score of a placement, by workloads, with the near shares of those with
    demand.
    """
    shot, sites = case.snapshot, {}
    for uid, p in shot.pods.items():
        there = shot.nodes.get(homes.get(uid) or p.node_name)
        if there is not None and there.tier is Tier.EDGE:
            sites.setdefault(p.workload, Counter())[there.labels.get("site", "")] += 1
    score = 0.0
    for workload, share in shot.census.shares.items():
        replicas = tuple(sorted(sites.get(workload, {}).items()))
        score += _literal_worth(objective, case.qos_targets(workload), share.total, replicas)
    return round(score, 7)


def decided(case, objective=Objective(), bounds=None, **how):  # noqa: B008 - a value
    how |= {"bounds": bounds, "site_labels": LABELS}
    return immediate_schedule(case.snapshot, case.batch, case.qos_targets, objective, **how)


def reached(case, decision, objective=Objective()):  # noqa: B008 - a value
    homes = homes_of(decision)
    return len(homes), literal_qos(case, homes, objective)


def best_reached(case, objective):
    placements = every_placement(case)
    return max((len(homes), literal_qos(case, homes, objective)) for homes in placements)


@cache
def _literal_worth(objective, target, total, replicas):
    edge, demand, qos = sum(number for _, number in replicas), target.demand, target.qos
    near = edge / total
    if demand is not None and demand.parts:
        near = literal_near(demand, dict(replicas), total)
        qos = min(qos, most_reachable(demand, total))
    kept, below = objective.values_around(near, qos)
    worth = target.weight * float(kept if near >= qos - 1e-9 else below)
    if demand is not None:
        wanted = math.ceil(target.qos * total - 1e-9)
        needed = math.ceil(demand.kept * wanted - 1e-9)
        left = min((edge - number for _, number in replicas), default=0)
        worth -= target.weight * objective.most * max(needed - left, 0) / total
    return worth


@cache
def most_reachable(demand, total):
    """Return the greatest near share of `total` replicas, by trying every number at each site."""

    def spread(sites, left):
        if not sites:
            yield {}
            return
        for number in range(left + 1):
            for others in spread(sites[1:], left - number):
                yield {sites[0]: number, **others}

    sites = [site for site, _ in demand.parts]
    return max(literal_near(demand, replicas, total) for replicas in spread(sites, total))


def resilient(case, seed):
    """Return the case with workloads that must keep a part of their edge pods if a site is lost,
    with demand by site or without.
    """
    rng = random.Random(seed)
    targets = {}
    for name, target in case.targets.items():
        kept = rng.choice((0.0, 0.25, 0.5, 0.75, 1.0))
        demand = target.demand or SiteDemand((), 1.0)
        targets[name] = attrs.evolve(target, demand=attrs.evolve(demand, kept=kept))
    return counted(attrs.evolve(case, targets=targets))


def plain_target(qos=1.0, **weights):
    return QosTarget(qos, demand=demand_of(weights))
