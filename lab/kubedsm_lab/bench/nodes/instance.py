"""A cloud of some size, unevenly filled, and the pods that come to it."""

import random

import attrs

from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Node, NodeName, Pod, Resources, Workload
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.scale.world import PODS_OF_A_WORKLOAD, Batch

ZONES = 3
#: one node in so many takes no pod, so that it matters where a search ends
FULL = 4
#: of the pods that come: workloads
CLASSES = 8
_SIZE = Resources(16_000, 64 * 2**30, 110)
_ZONE = "topology.kubernetes.io/zone"


@attrs.frozen(slots=True)
class Instance:
    """Drawn by its seed."""

    nodes: int
    pods: int
    seed: int

    def mirror(self) -> ClusterMirror:
        """The nodes, on each a pod that takes up some of it, and the pods that wait."""
        rng, made = random.Random(self.seed), ClusterMirror()
        for number in range(self.nodes):
            made.apply(NodeApplied(_node(number)))
            made.apply(PodApplied(_resident(number, rng)))
        for pod in self.waiting():
            made.apply(PodApplied(pod))
        return made

    def waiting(self) -> list[Pod]:
        return Batch(self.pods, CLASSES).waiting()


def zone(node: Node) -> str:
    return node.labels[_ZONE]


def _node(number: int) -> Node:
    name = f"n{number:05}"
    labels = {
        "kubedsm.io/tier": "cloud",
        "kubernetes.io/hostname": name,
        _ZONE: f"zone-{number % ZONES}",
    }
    return Node(NodeName(name), labels, _SIZE)


def _resident(number: int, rng: random.Random) -> Pod:
    cpu, memory = (8, 8) if number % FULL == 0 else (rng.randint(1, 6), rng.randint(1, 6))
    requests = Resources(cpu * _SIZE.cpu // 8, memory * _SIZE.memory // 8, 1)
    name = f"old-{number:05}"
    owner = Workload("shop", "Deployment", f"old-{number // PODS_OF_A_WORKLOAD}")
    return instances.pod(
        name, owner, requests, node_name=_node(number).name, phase="Running", ready=True
    )
