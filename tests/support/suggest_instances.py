"""Small clusters with running pods, named or drawn at random."""

import random

import attrs

from kubedsm.model.model import Tier
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS, suggest
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.plugins.fit import shortages
from support.literal_moves import carried_out
from support.placement_instances import (
    NO_RULES,
    RULES,
    Instance,
    drawn_requests,
    node,
    pod,
    resources,
    snapshot,
)

ZONE = "topology.kubernetes.io/zone"

OBJECTIVES = (
    Objective(),
    Objective(gamma=10),
    Objective(alpha=1, beta=0, gamma=10),
    Objective(alpha=5, beta=4, gamma=6),
    Objective(evenness=0.65),
)


def running(name, service, requests, on, **more):
    made = pod(name, service, requests, on=on, **more)
    return attrs.evolve(made, phase="Running", ready=True)


def problem_of(case, measure, priorities=None):
    shot = case.snapshot
    fragmentation = Fragmentation(measure, request_mix(shot))
    gains = Gains(shot.census.shares, case.qos_targets, case.objective, priorities)
    movable, limits = default_movable(shot), attrs.evolve(case.limits, spread=False)
    return EdgeProblem.of(shot, movable, fragmentation, gains, limits, SUGGEST_BOUNDS)


def suggested(
    nodes,
    pods,
    targets=None,
    limits=SuggestLimits(),  # noqa: B008 - a value
    *,
    objective=OBJECTIVES[1],
    usual=QosTarget(),  # noqa: B008 - a value
    **more,
):
    """Suggest with QoS targets by workload, and check that it can be executed in several orders."""
    shot, targets = snapshot(nodes, pods), targets or {}
    found = suggest(shot, lambda w: targets.get(w.name, usual), objective, limits, **more)
    for seed in range(3):
        carried_out(shot, found, seed)
    return found


def told(found):
    return {(m.pod.name, m.source, m.target, m.kind.value) for m in found.moves}


@attrs.frozen
class Case:
    instance: Instance
    limits: SuggestLimits
    objective: Objective

    @property
    def snapshot(self):
        return self.instance.snapshot

    @property
    def qos_targets(self):
        return self.instance.qos_targets


def _small_nodes(rng):
    tiers = [Tier.EDGE] * rng.choice((1, 2, 2, 3, 3)) + [Tier.CLOUD] * rng.choice((1, 1, 2))
    roomy = rng.random() < 0.6
    found = []
    for i, tier in enumerate(tiers):
        if roomy and tier is Tier.CLOUD:
            found.append(node(f"{tier}-{i}", tier, 64, 64, gpu=9, labels={"disk": "ssd"}))
            continue
        made = node(
            f"{tier}-{i}",
            tier,
            rng.choice((1, 2, 3, 4)),
            rng.choice((2, 3, 4)),
            rng.choice((2, 3, 110, 110, 110)),
            labels={"disk": "ssd"} if rng.random() < 0.8 else {},
            gpu=rng.choice((0, 1, 2)),
            unschedulable=rng.random() < 0.05,
        )
        found.append(made)
    return found


def drawn_case(seed):
    """Draw a cluster with pods on random feasible nodes, mostly not optimal."""
    rng = random.Random(seed)
    nodes = _small_nodes(rng)
    services = "abcd"[: rng.randint(1, 4)]
    classes = {s: [(drawn_requests(rng), rng.choice((NO_RULES, *RULES)))] for s in services}
    if rng.random() < 0.3:  # a rollout: its pods are of two classes
        classes[services[0]].append((drawn_requests(rng), rng.choice(RULES)))
    if len(services) > 1 and rng.random() < 0.4:  # two workloads, one class
        classes[services[1]] = [classes[services[0]][0]]
    free = {n.name: n.allocatable for n in nodes}
    pods = []
    for i in range(rng.randint(4, 9)):
        service = rng.choice(services)
        requests, rules = rng.choice(classes[service])
        fitting = [n for n in nodes if not shortages(requests, free[n.name])]
        if rng.random() < 0.6:  # a crowded edge is what makes a choice
            fitting = [n for n in fitting if n.tier is Tier.EDGE] or fitting
        created = float(rng.randint(0, 2))
        name = f"{service}-{i}"
        if not fitting or rng.random() < 0.03:
            pods.append(pod(name, service, requests, rules=rules, created=created))
            continue
        on = rng.choice(fitting).name
        free[on] -= requests
        made = running(name, service, requests, on, rules=rules, created=created)
        if rng.random() < 0.1:
            made = attrs.evolve(made, **rng.choice(({"ready": False}, {"scheduler_name": "other"})))
        pods.append(made)
    rng.shuffle(pods)
    targets = {
        s: QosTarget(rng.choice((0.0, 0.5, 0.5, 1.0, 1.0, 0.3)), rng.choice((1.0, 1.0, 2.0, 0.5)))
        for s in services
    }
    held = {}
    if rng.random() < 0.1:  # over-committed already
        held[rng.choice(nodes).name] = resources(1, 1, 0)
    limits = SuggestLimits(
        max_moves=rng.choice((1, 2, 3, 3, 4)),
        max_cloud_to_edge=rng.choice((0, 1, 2, 5, 5)),
        max_edge_reorder=rng.choice((0, 1, 2, 3)),
    )
    shot = snapshot(nodes, pods, held)
    return Case(Instance(shot, (), targets), limits, rng.choice(OBJECTIVES))


def crowded_case(seed, *, roomy=False):
    """Draw a cluster with full edge nodes and larger pods in the cloud, which need moves to fit."""
    rng = random.Random(seed)
    nodes = [
        node(f"edge-{i}", Tier.EDGE, rng.choice((2, 3, 4)), 64) for i in range(rng.choice((2, 3)))
    ]
    tight = rng.random() < 0.4 and not roomy
    nodes.append(node("cloud", Tier.CLOUD, rng.choice((2, 3, 4)) if tight else 64, 64))
    sizes = {s: rng.choice((0.5, 1, 1.5, 2, 2.5)) for s in "abcd"[: rng.randint(2, 4)]}
    free = {n.name: n.allocatable for n in nodes}
    pods = []
    for i in range(rng.randint(6, 9)):
        service = rng.choice(list(sizes))
        requests = resources(sizes[service])
        edge_first = sorted(nodes, key=lambda n: (n.tier is Tier.CLOUD, rng.random()))
        fitting = [n.name for n in edge_first if not shortages(requests, free[n.name])]
        name = f"{service}-{i}"
        if fitting:
            free[fitting[0]] -= requests
            pods.append(running(name, service, requests, fitting[0]))
        else:
            pods.append(pod(name, service, requests))
    targets = {
        s: QosTarget(rng.choice((0.0, 0.3, 0.5, 0.7, 1.0)), rng.choice((1, 2))) for s in sizes
    }
    limits = SuggestLimits(
        max_moves=rng.choice((2, 3, 3, 3, 4)),
        max_cloud_to_edge=rng.choice((1, 5, 5)),
        max_edge_reorder=rng.choice((0, 1, 3, 3)),
    )
    return Case(Instance(snapshot(nodes, pods), (), targets), limits, rng.choice(OBJECTIVES))
