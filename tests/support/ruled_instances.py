"""Pods with rules about each other, named or drawn: running ones on small clusters, and batches on
too few nodes.
"""

import random

import attrs

from kubedsm.model.model import HostPort, PodClass, SchedulingRules, Tier
from kubedsm.objective.objective import QosTarget
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from support.literal_rules import literal_rule
from support.placement_instances import Instance, pod, resources, snapshot
from support.rule_instances import HOST, ZONE, app, cluster, evenly, near, zoned
from support.suggest_instances import OBJECTIVES, Case


def member(name, service, on=None, *, requests=None, priority=0, created=0.0, **rules):
    """Return a pod of a Deployment with the label app; running if it has a node."""
    made = pod(
        name,
        service,
        requests or resources(1, 1),
        rules=SchedulingRules(**rules),
        priority=priority,
        created=created,
        on=on,
    )
    phase = "Running" if on else "Pending"
    return attrs.evolve(made, phase=phase, ready=on is not None, labels={"app": service})


def apart(*services, key=HOST):
    return near(app(*services), key=key)


def _rules(rng, service, services):
    kind = rng.random()
    key = rng.choice((HOST, HOST, HOST, ZONE))
    other = rng.choice(services)
    if kind < 0.3:
        return {"anti_affinity": (apart(service, key=key),)}
    if kind < 0.42:
        return {"anti_affinity": (apart(other, key=key),)}
    if kind < 0.62:
        return {"spread": (evenly(app(service), key=key, skew=rng.choice((1, 1, 2))),)}
    if kind < 0.72:
        return {"ports": (HostPort(80, "TCP", "10.0.0.1"),)}
    if kind < 0.8:
        return {"affinity": (near(app(other), key=key),)}
    return {}


def leaning(rng, service, services):
    """Draw rules that arrivals and departures of other pods may violate."""
    kind, key = rng.random(), rng.choice((HOST, ZONE, ZONE))
    others = [other for other in services if other != service]
    if kind < 0.45:
        return {"affinity": (near(app(rng.choice(others)), key=key),)}
    if kind < 0.75:
        return {"spread": (evenly(app(service, rng.choice(others)), key=key),)}
    return {}


def _nodes(rng):
    edge = [
        zoned(f"edge-{i}", rng.choice("xy"), cpu=rng.choice((1, 2, 2, 3)), memory=64)
        for i in range(rng.choice((2, 2, 3)))
    ]
    cloud = [
        zoned(
            f"cloud-{i}", rng.choice("xz"), tier=Tier.CLOUD, cpu=rng.choice((2, 3, 64)), memory=64
        )
        for i in range(rng.choice((1, 1, 2)))
    ]
    return edge + cloud


def ruled_case(seed, rules=_rules):
    """Draw a cluster whose pods are placed feasibly but mostly not optimally."""
    rng = random.Random(seed)
    nodes = _nodes(rng)
    services = "abc"[: rng.choice((2, 2, 3))]
    made = {
        service: {
            "requests": resources(rng.choice((0.5, 1, 1, 2)), 1),
            "priority": rng.choice((0, 0, 100)),
            **rules(rng, service, services),
        }
        for service in services
    }
    pods = []
    for i in range(rng.randint(4, 7)):
        service = rng.choice(services)
        each = member(f"{service}-{i}", service, created=float(i % 3), **made[service])
        shot = snapshot(nodes, pods)
        fitting = [n for n in nodes if literal_rule(shot, each, n) is None]
        if rng.random() < 0.6:  # a crowded edge is what makes a choice
            fitting = [n for n in fitting if n.tier is Tier.EDGE] or fitting
        if fitting and rng.random() < 0.95:
            on = rng.choice(fitting).name
            each = attrs.evolve(each, node_name=on, phase="Running", ready=rng.random() < 0.95)
        pods.append(each)
    targets = {s: QosTarget(rng.choice((0.0, 0.5, 1.0, 1.0)), rng.choice((1, 2))) for s in services}
    limits = SuggestLimits(
        max_moves=rng.choice((1, 2, 3, 3)),
        max_cloud_to_edge=rng.choice((1, 5, 5)),
        max_edge_reorder=rng.choice((0, 1, 3)),
    )
    return Case(Instance(snapshot(nodes, pods), (), targets), limits, rng.choice(OBJECTIVES))


def _of_class(name, service, pod_class, on=None, created=0.0):
    made = pod(name, service, pod_class.requests, on=on, created=created)
    return attrs.evolve(made, pod_class=pod_class, labels={"app": service})


def _several_rules(rng, service, services):
    """Draw one or two rules of a service."""
    asked = {}
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        other, key = rng.choice(services), rng.choice((HOST, ZONE))
        kind = rng.choice(("apart", "away", "away", "even", "even", "group", "near", "port"))
        if kind == "apart":
            asked["anti_affinity"] = (near(app(service), key=HOST),)
        elif kind == "away":
            asked["anti_affinity"] = (near(app(other), key=key),)
        elif kind == "even":
            looked_at = app(*{service, rng.choice((service, service, other))})
            skew = rng.choice((1, 1, 2))
            more = {"min_domains": rng.choice((1, 1, 1, 3))}
            asked["spread"] = (evenly(looked_at, key=key, skew=skew, **more),)
        elif kind == "group":
            asked["affinity"] = (near(app(service), key=key),)
        elif kind == "near":
            asked["affinity"] = (near(app(other), key=key),)
        else:
            asked["ports"] = (HostPort(rng.choice((80, 81)), "TCP", rng.choice(_ADDRESSES)),)
    return asked


_RUNNING = PodClass(resources(0.5), SchedulingRules())
_ADDRESSES = ("0.0.0.0", "10.0.0.1", "10.0.0.2")  # noqa: S104 - nothing listens there


def ruled_batch(seed, least=8, most=24, edge=(2, 3, 4), cloud=(1, 2, 3)):
    """Draw a cluster, and between `least` and `most` pending pods."""
    rng = random.Random(seed)
    tiers = [Tier.EDGE] * rng.choice(edge) + [Tier.CLOUD] * rng.choice(cloud)
    nodes = [
        zoned(
            f"{tier}-{i}",
            rng.choice(("x", "x", "y", "y", "z", None)),
            tier=tier,
            cpu=rng.choice((2, 3, 4) if tier is Tier.EDGE else (2, 4, 8)),
            memory=64,
        )
        for i, tier in enumerate(tiers)
    ]
    services = "abcd"[: rng.choice((2, 3, 3, 4))]
    classes = {
        service: PodClass(
            resources(rng.choice((0.5, 0.5, 1, 1.5)), 1),
            SchedulingRules(**_several_rules(rng, service, services)),
            rng.choice((0, 0, 0, 10)),
        )
        for service in services
    }
    running = [
        _of_class(f"old-{i}", rng.choice(services), _RUNNING, rng.choice(nodes).name)
        for i in range(rng.choice((0, 0, 1, 2)))
    ]
    waiting = []
    for i in range(rng.randint(least, most)):
        service = rng.choice(services)
        waiting.append(_of_class(f"{service}-{i}", service, classes[service], created=float(i % 5)))
    return cluster(nodes, [*running, *waiting]), waiting
