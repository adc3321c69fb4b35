"""Batches and clusters that are more than can be compared one by one, drawn from numbers."""

import itertools
import random
from collections.abc import Iterator, Sequence

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
    Workload,
)
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds, build_table
from kubedsm.optimizer.matching.problem import Packing, group_kinds
from kubedsm.optimizer.moving.best_changes import TooManyError, iterate_best_changes
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.moving.proposal import Question
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.optimizer.placing.immediate import rank_pods
from kubedsm.plugins.fit import shortages
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.instances import MI

_CORES = (100, 250, 500, 750, 1000, 1500, 2000)  # millicores
_MEMORY = (128, 256, 512, 950, 1024, 1900, 2048)  # Mi
_NODES = ((2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (8, 2))  # cores, Gi
_SSD = SchedulingRules(node_selector=(("disk", "ssd"),))
_TAINT = Taint("dedicated", "ml", "NoSchedule")
_TOLERATING = SchedulingRules(tolerations=(Toleration("dedicated", "Equal", "ml", "NoSchedule"),))
_PLAIN = SchedulingRules()
_PROMISES = (0.1, 0.3, 0.5, 0.75, 1.0, 1.0)
_WEIGHTS = (0.5, 1.0, 1.0, 2.0)


@attrs.frozen(eq=False)
class Instance:
    name: str
    snapshot: Snapshot
    #: they wait for a node; none where it is asked what to move
    batch: tuple[Pod, ...]
    promised: dict[Workload, QosTarget]
    objective: Objective

    def promises(self, workload: Workload) -> QosTarget:
        return self.promised[workload]


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
    """Batches that ask for .9 to 1.5 of the room there is, of 4 to 12 workloads, without end."""
    drawn = (_batch(f"batch {seed}.{number}") for number in itertools.count())
    return filter(_too_many_places, drawn)


def crowded(seed: int) -> Iterator[Instance]:
    """Clusters of 9 to 16 workloads whose pods run wherever there was room, without end."""
    drawn = (_crowded(f"crowded {seed}.{number}") for number in itertools.count())
    return filter(_too_many_moves, drawn)


def _too_many_places(instance: Instance) -> bool:
    """Whether the exact form of `make_decision` has more to compare than its bounds allow."""
    snapshot = instance.snapshot
    edge, cloud = snapshot.in_turn(Tier.EDGE), snapshot.in_turn(Tier.CLOUD)
    fragmentation = Fragmentation(mix=request_mix(snapshot))
    ranks = rank_pods(instance.batch, snapshot.at, 60.0)
    batch = group_kinds(instance.batch, edge + cloud, ranks)
    packing = Packing.of(batch, edge, [vector for vector, _ in fragmentation.mix])
    return packing.weights is None or build_table(packing, fragmentation, Bounds()) is None


def _too_many_moves(instance: Instance) -> bool:
    """Whether the exact form of `suggest` has."""
    snapshot, bounds = instance.snapshot, SUGGEST_BOUNDS
    fragmentation = Fragmentation(mix=request_mix(snapshot))
    problem = EdgeProblem.of(snapshot, default_movable(snapshot), fragmentation, bounds)
    gains = Gains.of(snapshot, instance.promises, instance.objective)
    try:
        next(iterate_best_changes(Question(problem, gains, gains, SuggestLimits(), bounds)), None)
    except TooManyError:
        return True
    return False


def _batch(name: str) -> Instance:
    rng = random.Random(name)
    picky = rng.choice((True, True, False, False, False))
    priorities = (0, 100, 1000)[: rng.choice((1, 1, 1, 2, 3))]
    services = [
        _Service(
            Workload("shop", "Deployment", f"w{at}"),
            Resources(rng.choice(_CORES), rng.choice(_MEMORY) * MI, 1),
            rng.choice((_PLAIN, _PLAIN, _SSD, _TOLERATING)) if picky else _PLAIN,
            rng.choice(priorities),
        )
        for at in range(rng.randint(4, 12))
    ]
    waiting = [s.pod(n, _age(rng)) for s in services for n in range(rng.randint(6, 30))]
    number = rng.randint(4, 20)
    edge_nodes = max(1, round(number * rng.uniform(0.4, 0.8)))
    sizes = [rng.choice(_NODES) for _ in range(number)]
    # So large that all of them together have about as much as is asked for, of what is scarcer.
    load = rng.uniform(0.9, 1.5)
    cores = sum(pod.requests.cpu for pod in waiting) / sum(c * 1000 for c, _ in sizes)
    memory = sum(pod.requests.memory for pod in waiting) / sum(m * 1024 * MI for _, m in sizes)
    times = max(cores, memory) / load
    nodes = [
        attrs.evolve(
            _node(at, edge_nodes, c * times, m * times, rng.choice((8, 16, 110, 110, 110))),
            taints=(_TAINT,) if picky and not rng.randrange(5) else (),
        )
        for at, (c, m) in enumerate(sizes)
    ]
    nodes = [_labelled(node, ssd=rng.choice((True, False))) for node in nodes]
    running = _running(rng, services, nodes, rng.randint(0, 2 * len(services)))
    return _instance(name, rng, services, nodes, running, waiting)


def _crowded(name: str) -> Instance:
    rng = random.Random(name)
    services = [
        _Service(
            Workload("shop", "Deployment", f"w{at}"),
            Resources(rng.choice(_CORES), rng.choice(_MEMORY) * MI, 1),
            _PLAIN,
            0,
        )
        for at in range(rng.randint(9, 16))
    ]
    edge_nodes = rng.randint(4, 12)
    cloud_nodes = rng.randint(1, 3)
    nodes = [
        _node(at, edge_nodes, rng.randint(1, 5), rng.randint(1, 6), rng.choice((3, 5, 110, 110)))
        for at in range(edge_nodes)
    ]
    nodes += [_node(edge_nodes + at, edge_nodes, 400, 500, 250) for at in range(cloud_nodes)]
    running = _running(rng, services, nodes, rng.randint(4, 8) * len(services))
    return _instance(name, rng, services, nodes, running, [])


def _running(
    rng: random.Random, services: Sequence[_Service], nodes: Sequence[Node], number: int
) -> list[Pod]:
    """So many pods, less those for which there is no room, mostly at the edge while there is."""
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
            pods.append(service.pod(900 + at, _age(rng), on))
    return pods


def _instance(
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
        {s.workload: QosTarget(rng.choice(_PROMISES), rng.choice(_WEIGHTS)) for s in services},
        Objective(gamma=rng.choice((0, 10))),
    )


def _age(rng: random.Random) -> float:
    """Of nobody so great that it would come before others."""
    return rng.uniform(1.0, 50.0)


def _node(at: int, edge_nodes: int, cores: float, gibibytes: float, pods: int) -> Node:
    tier = Tier.EDGE if at < edge_nodes else Tier.CLOUD
    room = Resources(int(cores * 1000), int(gibibytes * 1024) * MI, pods)
    return instances.node(f"{tier.value}-{at:02}", tier, room)


def _labelled(node: Node, *, ssd: bool) -> Node:
    return attrs.evolve(node, labels={**node.labels, "disk": "ssd"}) if ssd else node
