"""Small clusters with a batch of pending pods, named or drawn at random."""

import random

import attrs

from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    Resources,
    SchedulingRules,
    Taint,
    Tier,
    Toleration,
    Wishes,
)
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.qos_targets import cap_slower_edge
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.batch import Batch
from support.pods import made_pod

GPU = "example.com/gpu"
NO_RULES = SchedulingRules()


def resources(cpu=0, memory=0, pods=1, **other):
    """Return resources from cores and GiB."""
    named = tuple(sorted((GPU if n == "gpu" else n, a) for n, a in other.items() if a))
    return Resources(int(cpu * 1000), int(memory * 2**30), pods, named)


def node(
    name, tier, cpu=4, memory=8, pods=110, *, taints=(), unschedulable=False, labels=(), gpu=0
):
    return Node(
        NodeName(name),
        dict(labels),
        resources(cpu, memory, pods, gpu=gpu),
        tuple(taints),
        unschedulable,
        tier,
    )


def pod(name, service, requests, *, rules=NO_RULES, created=0.0, priority=0, on=None):
    classed = {"requests": requests, "rules": rules, "priority": priority}
    return made_pod(
        name, uid=f"uid-{name}", workload=service, node_name=on or None, created=created, **classed
    )


def asking(name, qos, created=0.0, service="web", rate=None, **more):
    """Return a pod whose tenant sets QoS and rate by annotations."""
    made = pod(name, service, resources(1), created=created)
    says = (qos, rate) != (None, None)
    return attrs.evolve(made, wishes=Wishes(qos, rate=rate) if says else None, **more)


def snapshot(nodes, pods, held=()):
    """Return a snapshot; `held` has reserved capacity by node name."""
    free = {n.name: n.allocatable for n in nodes}
    placed = {p.uid: p.node_name for p in pods if p.node_name}
    for p in pods:
        if p.node_name:
            free[p.node_name] -= p.requests
    for name, amounts in dict(held).items():
        free[NodeName(name)] -= amounts
    return Snapshot({n.name: n for n in nodes}, {p.uid: p for p in pods}, free, placed)


_NOTHING_SAID = QosTarget()


@attrs.frozen
class Instance:
    snapshot: Snapshot
    batch: tuple[Pod, ...]
    targets: dict[str, QosTarget]

    def qos_targets(self, workload):
        return self.targets.get(workload.name, _NOTHING_SAID)

    def tier(self, tier):
        return self.snapshot.of_tier(tier)

    def served_slowly(self, rng):
        """Return the instance with some workloads measured as slower at the edge."""
        names = rng.sample(sorted(self.targets), rng.randint(1, len(self.targets)))
        slower = frozenset(w for w in self.snapshot.census.shares if w.name in names)
        measured = attrs.evolve(self.snapshot.measured, slower=slower)
        shot = attrs.evolve(self.snapshot, measured=measured)
        limited = cap_slower_edge(self.qos_targets, shot)
        targets = {**self.targets, **{w.name: limited(w) for w in slower}}
        return attrs.evolve(self, snapshot=shot, targets=targets)


_TAINT = Taint("dedicated", "ml", "NoSchedule")
RULES = (
    NO_RULES,
    NO_RULES,
    SchedulingRules(tolerations=(Toleration("dedicated", "Equal", "ml", "NoSchedule"),)),
    SchedulingRules(node_selector=(("disk", "ssd"),)),
)


def drawn_requests(rng):
    kind = rng.random()
    if kind < 0.1:
        return resources()
    if kind < 0.2:
        return resources(rng.choice((0.5, 1)), 1, gpu=1)
    return resources(rng.choice((0.5, 1, 1, 2)), rng.choice((0, 1, 1, 2, 3)))


def _nodes(rng):
    tiers = [Tier.EDGE] * rng.choice((0, 1, 2, 2, 3)) + [Tier.CLOUD] * rng.choice((0, 1, 1, 2))
    tiers += [None] * rng.choice((0, 0, 1))
    return [
        node(
            f"{tier or 'other'}-{i}",
            tier,
            rng.choice((1, 2, 3, 4)),
            rng.choice((2, 3, 4, 6)),
            rng.choice((1, 2, 3, 110, 110, 110)),
            taints=[_TAINT] if rng.random() < 0.2 else [],
            unschedulable=rng.random() < 0.08,
            labels={"disk": "ssd"} if rng.random() < 0.6 else {},
            gpu=rng.choice((0, 0, 1, 2)),
        )
        for i, tier in enumerate(tiers)
    ]


def drawn(seed, most=6):
    """Draw a cluster, and a batch of up to `most` pods that compete for capacity."""
    rng = random.Random(seed)
    nodes = _nodes(rng)
    services = "abcd"[: rng.randint(1, 4)]
    classes = {s: [(drawn_requests(rng), rng.choice(RULES))] for s in services}
    if rng.random() < 0.5:  # a rollout: its pods are of two classes
        classes[services[0]].append((drawn_requests(rng), rng.choice(RULES)))
    if len(services) > 1 and rng.random() < 0.6:  # two workloads, one class
        classes[services[1]] = [classes[services[0]][0]]
    pods = []
    for i in range(rng.randint(0, most)):
        service = rng.choice(services)
        requests, rules = rng.choice(classes[service])
        created = float(rng.randint(0, 2))
        pods.append(pod(f"{service}-{i}", service, requests, rules=rules, created=created))
    batch = tuple(pods)
    for i in range(rng.randint(0, 3) if nodes else 0):  # they run already, wherever they are
        service = rng.choice(services)
        on = rng.choice(nodes).name
        pods.append(pod(f"{service}-old-{i}", service, resources(0.5, 0.5), on=on))
    rng.shuffle(pods)
    targets = {
        s: QosTarget(rng.choice((0.0, 0.5, 0.5, 1.0, 1.0, 0.3)), rng.choice((1.0, 1.0, 2.0, 0.5)))
        for s in services
    }
    held = {}
    if nodes and rng.random() < 0.15:  # over-committed already
        held[rng.choice(nodes).name] = resources(5, 1, 0)
    return Instance(snapshot(nodes, pods, held), batch, targets)


def batch_of(shot, pods, qos_targets, site_labels=()):
    """Return the batch of the pods, without ranks and replica spread."""
    return Batch(
        shot,
        pods,
        shot.census.shares,
        qos_targets,
        Objective(),
        Fragmentation(),
        Bounds(),
        {},
        None,
        None,
        shot.in_turn(Tier.EDGE),
        shot.in_turn(Tier.CLOUD),
        shot.index.site(site_labels) if site_labels else None,
    )
