"""Small clusters with measured resource usage of their pods."""

import random
from collections import Counter

import attrs

from kubedsm.model.measured import Measured, Usage
from kubedsm.model.model import SchedulingRules, Tier, Workload
from kubedsm.objective.load import Capacity, LoadGoal
from support.placement_instances import node, resources, snapshot
from support.suggest_instances import running

GOAL = LoadGoal()


def edge(name, **more):
    """Return an edge node with 4 cores and 4 GiB."""
    return node(name, Tier.EDGE, 4, 4, **more)


def cloud(name, **more):
    return node(name, Tier.CLOUD, 4, 4, **more)


def measure(shot, uses, other=(), at=60.0, before=None):
    """Return the snapshot with one usage sample: `uses` by workload, `other` by node."""
    on_node = {name: [dict(other).get(name, Usage())] for name in shot.nodes}
    for uid, name in shot.placed.items():
        on_node[name].append(uses[shot.pods[uid].workload])
    nodes = {name: _added(usages) for name, usages in on_node.items()}
    return attrs.evolve(shot, measured=Measured(at, nodes, uses, placed=shot.placed, before=before))


def _added(usages):
    columns = zip(*map(attrs.astuple, usages), strict=True)
    return Usage(*[sum(amount or 0.0 for amount in column) for column in columns])


def twice(shot, uses, other=()):
    """Return the snapshot with two equal usage samples."""
    first = measure(shot, uses, other, at=30.0).measured
    return measure(shot, uses, other, before=first)


def busy(nodes, pods, other=()):
    """Return a cluster with two usage samples; `pods` maps a pod's name to node and usage."""
    made = [running(name, name, resources(), on) for name, (on, _) in pods.items()]
    uses = {Workload("shop", "Deployment", name): use for name, (_, use) in pods.items()}
    return twice(snapshot(nodes, made), uses, other)


def drawn_use(rng):
    return Usage(
        rng.choice((0.0, 200.0, 700.0, 1500.0)),
        rng.choice((0.0, 0.2, 0.7, 1.5)) * 2**30,
        rng.choice((0.0, 5.0, 30.0)),
        rng.choice((None, 5.0)),
    )


def drawn_load(seed):
    """Draw a cluster with one to three pods per workload, some nodes overloaded, and a goal."""
    rng = random.Random(seed)
    nodes = [
        rng.choice((edge, edge, cloud))(
            f"n{i}", labels={"disk": "ssd"} if rng.random() < 0.7 else {}
        )
        for i in range(rng.randint(2, 5))
    ]
    picky = SchedulingRules(node_selector=(("disk", "ssd"),))
    pods, uses, left = [], {}, Counter({n.name: 4 for n in nodes})
    for service in "abcdef"[: rng.randint(1, 6)]:
        rules = picky if rng.random() < 0.2 else SchedulingRules()
        uses[Workload("shop", "Deployment", service)] = drawn_use(rng)
        for n in range(rng.randint(1, 3)):
            on = rng.choice(nodes).name
            if left[on]:
                left[on] -= 1
                pods.append(running(f"{service}-{n}", service, resources(1, 0.5), on, rules=rules))
    other = {n.name: Usage(rng.choice((0.0, 400.0)), 0.0, 0.0, 0.0) for n in nodes}
    shot = twice(snapshot(nodes, pods), uses, other)
    capacity = (Capacity(net=100.0),)
    most, least = rng.choice((0.85, 0.7, 9.0)), rng.choice((0.5, 5.0))
    return shot, LoadGoal(move=True, high_usage=most, min_gain=least, capacity=capacity)
