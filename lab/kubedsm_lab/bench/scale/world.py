"""A cluster of some size, as the mirror has it, and the pods that come."""

import random

import attrs

from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Node, NodeName, Pod, Resources, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm_lab.bench import instances

#: one node in so many is on the edge
EDGE = 4
PODS_OF_A_WORKLOAD = 20
_GI = 2**30
_EDGE_ROOM, _CLOUD_ROOM = Resources(8000, 32 * _GI, 110), Resources(32000, 32 * _GI, 110)
#: of the classes of pods: millicores, Mi
_REQUESTS = (
    *((100, 128), (250, 256), (500, 512), (1000, 1024)),
    *((200, 900), (300, 200), (150, 700), (700, 300)),
)


@attrs.frozen(slots=True)
class Size:
    nodes: int
    pods: int

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {self.pods:,} pods"


@attrs.frozen(slots=True)
class Batch:
    """Pods that come at once: as many workloads as classes, if not one for each pod."""

    pods: int
    classes: int

    def __str__(self) -> str:
        if self.pods == 1:
            return "1 pod"
        return f"{self.pods} pods of {self.classes} class{'es' if self.classes > 1 else ''}"

    def waiting(self) -> list[Pod]:
        """Created within a second, so that none has waited for longer than another."""
        return [
            attrs.evolve(_pod("new", number, number % self.classes), created=number / self.pods)
            for number in range(self.pods)
        ]


def mirror(size: Size, seed: int = 1) -> ClusterMirror:
    """Nodes of both tiers, and pods of 8 classes that run on any of them."""
    rng, made = random.Random(seed), ClusterMirror()
    for number in range(size.nodes):
        made.apply(NodeApplied(_node(number)))
    workloads = max(1, size.pods // PODS_OF_A_WORKLOAD)
    for number in range(size.pods):
        name = NodeName(_name(rng.randrange(size.nodes)))
        pod = _pod("old", number, number % workloads)
        made.apply(PodApplied(attrs.evolve(pod, node_name=name, phase="Running", ready=True)))
    return made


def rebuilt(seen: Snapshot) -> Snapshot:
    """The same, but nothing of it was kept along: all is worked out when it is asked for."""
    return attrs.evolve(seen, counted=None)


def _name(number: int) -> str:
    return f"n{number:05}"


def _node(number: int) -> Node:
    on_edge, name = number % EDGE == 0, _name(number)
    tier, room = ("edge", _EDGE_ROOM) if on_edge else ("cloud", _CLOUD_ROOM)
    return Node(NodeName(name), {"kubedsm.io/tier": tier, "kubernetes.io/hostname": name}, room)


def _pod(prefix: str, number: int, workload: int) -> Pod:
    cpu, memory = _REQUESTS[workload % len(_REQUESTS)]
    owner = Workload("shop", "Deployment", f"{prefix}-{workload}")
    requests = Resources(cpu, memory * instances.MI, 1)
    return instances.pod(f"{prefix}-{number:06}", owner, requests, created=float(number))
