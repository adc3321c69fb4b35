"""Random packing instances (clusters and pods) of "Priority Matters" (arXiv 2511.08373), drawn as
by its authors.

All nodes are identical, with a capacity for which the pods request the configured utilisation. Pods
arrive in ReplicaSets, one set after the other.
"""

import random
from collections.abc import Sequence
from itertools import count, islice, product

import attrs
import msgspec

from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    SchedulingRules,
    Tier,
    Uid,
    Workload,
)
from kubedsm.model.snapshot import Snapshot
from kubedsm_lab.baselines.arrivals import simulate_arrivals
from kubedsm_lab.baselines.in_turn import NodeUsage
from kubedsm_lab.baselines.kube_scheduler import scores, total_scores

NODES, PODS_PER_NODE, PRIORITIES = (4, 8, 16, 32), (4, 8), (1, 2, 4)
#: requests of all pods in percent of all nodes
USAGES = (90, 95, 100, 105)
#: instances below this utilisation are drawn until a single-pod scheduler leaves a pod waiting
_FULL = 100
#: shape that the authors left out: hardly one instance in a thousand has a pending pod
_LEFT_OUT = (32, 8, 90)
_REPLICAS = (1, 4)
_CPU = (100, 1000)  # millicores
_MEMORY = (100 * 10**6, 1000 * 10**6)  # bytes
_MOST_POINTS = 100
_NAMESPACE = "default"


class Shape(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """Parameters of a packing instance other than its seed: nodes, pods per node, priority levels
    and utilisation.
    """

    nodes: int
    pods_per_node: int
    priorities: int
    #: percent
    usage: int


#: shapes of one priority level
SHAPES = tuple(
    Shape(nodes, pods_per_node, 1, usage)
    for nodes, pods_per_node, usage in product(NODES, PODS_PER_NODE, USAGES)
    if (nodes, pods_per_node, usage) != _LEFT_OUT
)


@attrs.frozen
class Instance:
    #: nodes without pods
    empty: Snapshot
    #: pods of one ReplicaSet each, in order of arrival
    arrivals: tuple[tuple[Pod, ...], ...]


def instance(shape: Shape, seed: int) -> Instance:
    """Draw a random packing instance; instances of one seed that differ only in utilisation have
    the same pods.
    """
    purposes = ("sizes", "cpu", "memory", "priorities")
    sizes, cpu, memory, priorities = (random.Random(f"{seed} {purpose}") for purpose in purposes)
    number = left = shape.nodes * shape.pods_per_node
    arrivals: list[tuple[Pod, ...]] = []
    while left:
        size = _draw_between(sizes, _REPLICAS[0], min(_REPLICAS[1], left))
        left -= size
        requests = Resources(_draw_between(cpu, *_CPU), _draw_between(memory, *_MEMORY), 1)
        pod_class = PodClass(
            requests, SchedulingRules(), _draw_between(priorities, 1, shape.priorities)
        )
        arrivals.append(_make_replicas(f"rs-{len(arrivals) + 1:03}", size, pod_class))
    asked = [pod.requests for pods in arrivals for pod in pods]
    room = Resources(
        _node_capacity([each.cpu for each in asked], shape),
        _node_capacity([each.memory for each in asked], shape),
        number,
    )
    return Instance(_make_nodes(shape.nodes, room), tuple(arrivals))


def seeds(shape: Shape, number: int) -> list[int]:
    """Return the first `number` seeds whose instances of a shape are suitable: kube-scheduler
    leaves a pod pending.

    At a utilisation of 100% or more, all seeds are suitable. Below, those for which kube-scheduler
    leaves a pod pending, if it prefers nodes by name and does not preempt; priorities have no
    influence.
    """
    if shape.usage >= _FULL:
        return [*range(1, number + 1)]
    return [*islice((seed for seed in count(1) if _leaves_some(instance(shape, seed))), number)]


def by_name(pod: Pod, fitting: Sequence[Node], room: NodeUsage, _rng: random.Random) -> Node:
    """Choose a node as the paper's authors do to select seeds: by kube-scheduler's score plus a
    bonus for names early in the alphabet.

    The paper states a tie-break by name. In the program the first node has 100 points more than the
    last one, as much as LeastAllocated gives, and nodes between them their part of it.
    """
    totals = total_scores(scores(pod, fitting, room))
    last = max(1, len(fitting) - 1)
    bonus = (_MOST_POINTS * (last - place) // last for place in range(len(fitting)))
    best = max(zip(totals, bonus, fitting, strict=True), key=lambda rated: rated[0] + rated[1])
    return best[2]


def _leaves_some(one: Instance) -> bool:
    rng = random.Random(0)
    after = simulate_arrivals(one.empty, one.arrivals, by_name, rng, preempting=False).snapshot
    return len(after.placed) < len(after.pods)


def _draw_between(rng: random.Random, least: int, most: int) -> int:
    # The only draw that no version of Python changes.
    return least + int(rng.random() * (most - least + 1))


def _node_capacity(requests: Sequence[int], shape: Shape) -> int:
    in_all = _divide_up(100 * sum(requests), shape.usage)
    return max(*requests, _divide_up(in_all, shape.nodes))


def _divide_up(amount: int, by: int) -> int:
    """Divide integers, rounding up."""
    return -(-amount // by)


def _make_replicas(name: str, size: int, pod_class: PodClass) -> tuple[Pod, ...]:
    workload = Workload(_NAMESPACE, "ReplicaSet", name)
    return tuple(
        Pod(Uid(f"{name}-{n}"), _NAMESPACE, f"{name}-{n}", workload, pod_class, "kubedsm")
        for n in range(1, size + 1)
    )


def _make_nodes(number: int, room: Resources) -> Snapshot:
    names = [NodeName(f"node-{n:02}") for n in range(1, number + 1)]
    labels = {name: {"kubernetes.io/hostname": str(name)} for name in names}
    nodes = {name: Node(name, labels[name], room, tier=Tier.EDGE) for name in names}
    return Snapshot(nodes, {}, dict.fromkeys(names, room), {})
