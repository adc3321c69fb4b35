"""Random batches of pods and random clusters that exceed the exact-search limit."""

import itertools
import random
from collections.abc import Iterator, Sequence

import attrs

from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    PodAffinityTerm,
    Resources,
    SchedulingRules,
    SpreadConstraint,
    Taint,
    Tier,
    Toleration,
    Workload,
)
from kubedsm.model.selectors import Requirement
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds, build_table
from kubedsm.optimizer.matching.problem import PlacementProblem, group_kinds
from kubedsm.optimizer.moving.best_changes import TooManyError, iterate_best_changes
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.optimizer.placing.immediate import rank_pods
from kubedsm.plugins.fit import shortages
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.instances import MI

#: Millicores and Mi of pods; cores and Gi of nodes.
_CPU = (100, 250, 500, 750, 1000, 1500, 2000)
_MEMORY = (128, 256, 512, 950, 1024, 1900, 2048)
_NODES = ((2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (8, 2))
_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_ZONES = 3
_SSD = SchedulingRules(node_selector=(("disk", "ssd"),))
_TAINT = Taint("dedicated", "ml", "NoSchedule")
_TOLERATING = SchedulingRules(tolerations=(Toleration("dedicated", "Equal", "ml", "NoSchedule"),))
_PLAIN = SchedulingRules()
_QOS_FACTORS = (0.1, 0.3, 0.5, 0.75, 1.0, 1.0)
_WEIGHTS = (0.5, 1.0, 1.0, 2.0)


@attrs.frozen(eq=False)
class Instance:
    name: str
    snapshot: Snapshot
    #: pending pods; none if migrations are to be found
    batch: tuple[Pod, ...]
    targets: dict[Workload, QosTarget]
    objective: Objective

    def qos_targets(self, workload: Workload) -> QosTarget:
        return self.targets[workload]


@attrs.frozen
class _Service:
    workload: Workload
    requests: Resources
    rules: SchedulingRules
    priority: int

    def pod(self, number: int, created: float, on: NodeName | None = None) -> Pod:
        made = instances.pod(
            f"{self.workload.name}-{number:03}",
            self.workload,
            self.requests,
            self.rules,
            created=created,
        )
        made = attrs.evolve(made, pod_class=attrs.evolve(made.pod_class, priority=self.priority))
        if on is None:
            return made
        return attrs.evolve(made, node_name=on, phase="Running", ready=True)


def batches(seed: int) -> Iterator[Instance]:
    """Yield random batches of pending pods endlessly: 4 to 12 workloads that request 90% to 150% of
    the capacity.
    """
    generated = (_generate_batch(f"batch {seed}.{number}") for number in itertools.count())
    return filter(_has_too_many_placements, generated)


def crowded(seed: int) -> Iterator[Instance]:
    """Yield random full clusters endlessly: 9 to 16 workloads whose pods run on random nodes."""
    generated = (_generate_cluster(f"crowded {seed}.{number}") for number in itertools.count())
    return filter(_has_too_many_moves, generated)


def ruled(seed: int) -> Iterator[Instance]:
    """Yield random batches of pending pods endlessly, with affinity or topology spread rules among
    some pods.
    """
    return map(_add_rules, batches(seed))


def _has_too_many_placements(instance: Instance) -> bool:
    """Return whether the batch has more placements than the exact search of `make_decision`
    enumerates.
    """
    snapshot = instance.snapshot
    edge, cloud = snapshot.in_turn(Tier.EDGE), snapshot.in_turn(Tier.CLOUD)
    fragmentation = Fragmentation(mix=request_mix(snapshot))
    ranks = rank_pods(instance.batch, snapshot.at, 60.0)
    batch = group_kinds(instance.batch, edge + cloud, ranks)
    packing = PlacementProblem.of(batch, edge, [vector for vector, _ in fragmentation.mix])
    return packing.weights is None or build_table(packing, fragmentation, Bounds()) is None


def _has_too_many_moves(instance: Instance) -> bool:
    """Return whether the cluster has more possible migrations than the exact search of `suggest`
    enumerates.
    """
    snapshot, bounds = instance.snapshot, SUGGEST_BOUNDS
    fragmentation = Fragmentation(mix=request_mix(snapshot))
    gains = Gains.of(snapshot, instance.qos_targets, instance.objective)
    problem = EdgeProblem.of(
        snapshot, default_movable(snapshot), fragmentation, gains, SuggestLimits(), bounds
    )
    try:
        next(iterate_best_changes(problem), None)
    except TooManyError:
        return True
    return False


def _generate_batch(name: str) -> Instance:
    rng = random.Random(name)
    picky = rng.choice((True, True, False, False, False))
    priorities = (0, 100, 1000)[: rng.choice((1, 1, 1, 2, 3))]
    services = [
        _Service(
            Workload("shop", "Deployment", f"w{at}"),
            Resources(rng.choice(_CPU), rng.choice(_MEMORY) * MI, 1),
            rng.choice((_PLAIN, _PLAIN, _SSD, _TOLERATING)) if picky else _PLAIN,
            rng.choice(priorities),
        )
        for at in range(rng.randint(4, 12))
    ]
    waiting = [s.pod(n, _draw_creation(rng)) for s in services for n in range(rng.randint(6, 30))]
    number = rng.randint(4, 20)
    edge_nodes = max(1, round(number * rng.uniform(0.4, 0.8)))
    sizes = [rng.choice(_NODES) for _ in range(number)]
    # Nodes are scaled: the batch requests `load` times their capacity of the scarcer resource.
    load = rng.uniform(0.9, 1.5)
    cores = sum(pod.requests.cpu for pod in waiting) / sum(c * 1000 for c, _ in sizes)
    memory = sum(pod.requests.memory for pod in waiting) / sum(m * 1024 * MI for _, m in sizes)
    times = max(cores, memory) / load
    nodes = [
        attrs.evolve(
            _make_node(at, edge_nodes, c * times, m * times, rng.choice((8, 16, 110, 110, 110))),
            taints=(_TAINT,) if picky and not rng.randrange(5) else (),
        )
        for at, (c, m) in enumerate(sizes)
    ]
    nodes = [
        attrs.evolve(node, labels={**node.labels, "disk": "ssd"})
        if rng.choice((True, False))
        else node
        for node in nodes
    ]
    running = _place_running(rng, services, nodes, rng.randint(0, 2 * len(services)))
    return _build_instance(name, rng, services, nodes, running, waiting)


def _generate_cluster(name: str) -> Instance:
    rng = random.Random(name)
    services = [
        _Service(
            Workload("shop", "Deployment", f"w{at}"),
            Resources(rng.choice(_CPU), rng.choice(_MEMORY) * MI, 1),
            _PLAIN,
            0,
        )
        for at in range(rng.randint(9, 16))
    ]
    edge_nodes = rng.randint(4, 12)
    cloud_nodes = rng.randint(1, 3)
    nodes = [
        _make_node(
            at, edge_nodes, rng.randint(1, 5), rng.randint(1, 6), rng.choice((3, 5, 110, 110))
        )
        for at in range(edge_nodes)
    ]
    nodes += [_make_node(edge_nodes + at, edge_nodes, 400, 500, 250) for at in range(cloud_nodes)]
    running = _place_running(rng, services, nodes, rng.randint(4, 8) * len(services))
    return _build_instance(name, rng, services, nodes, running, [])


def _place_running(
    rng: random.Random, services: Sequence[_Service], nodes: Sequence[Node], number: int
) -> list[Pod]:
    """Return running pods placed on random feasible nodes, mostly at the edge."""
    free = {node.name: node.allocatable for node in nodes}
    pods: list[Pod] = []
    for at in range(number):
        service = rng.choice(services)
        order = sorted(nodes, key=lambda n: (n.tier is Tier.CLOUD) * 0.6 + rng.random())
        fitting = (
            n.name
            for n in order
            if not shortages(service.requests, free[n.name])
            and set(service.rules.node_selector) <= set(n.labels.items())
            and (not n.taints or service.rules.tolerations)
        )
        on = next(fitting, None)
        if on is not None:
            free[on] -= service.requests
            pods.append(service.pod(900 + at, _draw_creation(rng), on))
    return pods


def _build_instance(
    name: str,
    rng: random.Random,
    services: Sequence[_Service],
    nodes: Sequence[Node],
    running: Sequence[Pod],
    waiting: Sequence[Pod],
) -> Instance:
    free = {node.name: node.allocatable for node in nodes}
    for pod in running:
        if pod.node_name is not None:
            free[pod.node_name] -= pod.requests
    return Instance(
        name,
        instances.snapshot(nodes, [*running, *waiting], free),
        tuple(waiting),
        {s.workload: QosTarget(rng.choice(_QOS_FACTORS), rng.choice(_WEIGHTS)) for s in services},
        Objective(gamma=rng.choice((0, 10))),
    )


def _draw_creation(rng: random.Random) -> float:
    """Return a random creation time of a pending pod in seconds, recent enough that waiting time
    gives no precedence.
    """
    return rng.uniform(1.0, 50.0)


def _make_node(at: int, edge_nodes: int, cores: float, gibibytes: float, pods: int) -> Node:
    tier = Tier.EDGE if at < edge_nodes else Tier.CLOUD
    room = Resources(int(cores * 1000), int(gibibytes * 1024) * MI, pods)
    return instances.node(f"{tier.value}-{at:02}", tier, room)


def _add_rules(plain: Instance) -> Instance:
    rng = random.Random(f"ruled {plain.name}")
    shift = rng.randrange(_ZONES)
    nodes = [
        _in_zone(node, f"zone-{(at + shift) % _ZONES}")
        for at, node in enumerate(plain.snapshot.nodes.values())
    ]
    workloads = sorted({pod.workload for pod in plain.batch})
    rules = {workload: _random_rules(workload, rng.randrange(6)) for workload in workloads}
    pods = tuple(_with_rules(pod, rules[pod.workload]) for pod in plain.batch)
    free = {node.name: node.allocatable for node in nodes}
    return attrs.evolve(
        plain,
        name=f"ruled {plain.name}",
        snapshot=instances.snapshot(nodes, pods, free),
        batch=pods,
    )


def _in_zone(node: Node, zone: str) -> Node:
    return attrs.evolve(node, labels={**node.labels, _HOST: node.name, _ZONE: zone})


def _with_rules(pod: Pod, added: SchedulingRules) -> Pod:
    rules = attrs.evolve(
        pod.pod_class.rules,
        affinity=added.affinity,
        anti_affinity=added.anti_affinity,
        spread=added.spread,
    )
    return attrs.evolve(
        pod,
        pod_class=attrs.evolve(pod.pod_class, rules=rules),
        labels={"app": pod.workload.name},
    )


def _random_rules(workload: Workload, draw: int) -> SchedulingRules:
    """Return scheduling rules among the workload's own pods: anti-affinity, spread, affinity or
    none.
    """
    own, namespace = (Requirement("app", "In", (workload.name,)),), workload.namespace
    match draw:
        case 0:
            return SchedulingRules(anti_affinity=(PodAffinityTerm(_HOST, own, (namespace,)),))
        case 1:
            return SchedulingRules(spread=(SpreadConstraint(_ZONE, 1, own, namespace),))
        case 2:
            return SchedulingRules(affinity=(PodAffinityTerm(_ZONE, own, (namespace,)),))
    return SchedulingRules()
