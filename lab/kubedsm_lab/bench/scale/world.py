"""Generated cluster of one size as a mirror, and batches of pending pods."""

import random

import attrs

from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Node, NodeName, Pod, Resources, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm_lab.bench import instances

#: One node in `EDGE` is an edge node.
EDGE = 4
#: sites of the edge nodes, in turn
SITES = tuple(f"s{number:03}" for number in range(100))
PODS_OF_A_WORKLOAD = 20
_GI = 2**30
_EDGE_SIZE, _CLOUD_SIZE = Resources(8000, 32 * _GI, 110), Resources(32000, 32 * _GI, 110)
#: Requests by pod class: millicores, Mi.
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
    """Size of a batch: number of pending pods, and number of pod classes (workloads)
    among these.
    """

    pods: int
    classes: int

    def __str__(self) -> str:
        if self.pods == 1:
            return "1 pod"
        return f"{self.pods} pods of {self.classes} class{'es' if self.classes > 1 else ''}"

    def pending_pods(self) -> list[Pod]:
        """Return the pods of the batch, created within one second, so age gives no precedence."""
        return [
            attrs.evolve(
                _make_pod("new", number, number % self.classes), created=number / self.pods
            )
            for number in range(self.pods)
        ]


def build_mirror(size: Size) -> ClusterMirror:
    """Return a mirror of a generated cluster: edge and cloud nodes, and running pods of 8 classes
    on random nodes.
    """
    rng, mirror = random.Random(1), ClusterMirror()
    for number in range(size.nodes):
        mirror.apply(NodeApplied(_make_node(number)))
    workloads = max(1, size.pods // PODS_OF_A_WORKLOAD)
    for number in range(size.pods):
        name = NodeName(_node_name(rng.randrange(size.nodes)))
        pod = _make_pod("old", number, number % workloads)
        mirror.apply(PodApplied(attrs.evolve(pod, node_name=name, phase="Running", ready=True)))
    return mirror


def without_aggregates(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without cached aggregates (counts of pods and free capacity), which are
    then computed on demand.
    """
    return attrs.evolve(snapshot, counted=None)


def _node_name(number: int) -> str:
    return f"n{number:05}"


def _make_node(number: int) -> Node:
    is_edge, name = number % EDGE == 0, _node_name(number)
    tier, allocatable = ("edge", _EDGE_SIZE) if is_edge else ("cloud", _CLOUD_SIZE)
    labels = {"kubedsm.io/tier": tier, "kubernetes.io/hostname": name}
    if is_edge:
        labels["kubedsm.io/site"] = SITES[number // EDGE % len(SITES)]
    return Node(NodeName(name), labels, allocatable)


def _make_pod(prefix: str, number: int, workload: int) -> Pod:
    cpu, memory = _REQUESTS[workload % len(_REQUESTS)]
    owner = Workload("shop", "Deployment", f"{prefix}-{workload}")
    requests = Resources(cpu, memory * instances.MI, 1)
    return instances.pod(f"{prefix}-{number:06}", owner, requests, created=float(number))
