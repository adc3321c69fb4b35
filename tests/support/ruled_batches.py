"""Random batches of services with rules among their pods, on too few nodes."""

import random

import attrs

from kubedsm.model.model import HostPort, PodClass, SchedulingRules, Tier
from support.placement_instances import pod, resources
from support.rule_instances import HOST, ZONE, app, cluster, evenly, near, zoned


def _rules(rng, service, services):
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
            SchedulingRules(**_rules(rng, service, services)),
            rng.choice((0, 0, 0, 10)),
        )
        for service in services
    }
    running = [
        _member(f"old-{i}", rng.choice(services), rng.choice(nodes).name, _RUNNING)
        for i in range(rng.choice((0, 0, 1, 2)))
    ]
    waiting = []
    for i in range(rng.randint(least, most)):
        service = rng.choice(services)
        waiting.append(_member(f"{service}-{i}", service, None, classes[service], float(i % 5)))
    return cluster(nodes, [*running, *waiting]), waiting


def _member(name, service, on, pod_class, created=0.0):
    made = pod(name, service, pod_class.requests, on=on, created=created)
    return attrs.evolve(made, pod_class=pod_class, labels={"app": service})
