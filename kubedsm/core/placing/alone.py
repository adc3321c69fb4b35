"""One pod by itself, at one look over the nodes if its class and a node say all there is to say.

It goes where `decision.make_decision` would have it, without tables: to the edge if that gains
QoS, or costs none and joins fewer replicas, or as many and leaves less of the edge to waste; there
to the node with the fewest, and of these the one that wastes least; else to the cloud.
"""

import numpy as np

from kubedsm.core.goals.fragmentation import Fragmentation, Ints, axes_of, row
from kubedsm.core.goals.replica_spread import ReplicaSpread, spreads
from kubedsm.core.placing.batch_kinds import is_plain
from kubedsm.core.placing.cloud import least_allocated_scores
from kubedsm.core.placing.decision import Choice
from kubedsm.core.placing.proof import Proof
from kubedsm.core.rules.class_verdicts import fitting_nodes
from kubedsm.core.rules.feasibility import Feasibility, Rejection
from kubedsm.core.rules.fit import rejection
from kubedsm.core.world.model import Node, Pod, Resources
from kubedsm.core.world.node_rows import NodeRows
from kubedsm.core.world.snapshot import Snapshot


def place_alone(
    pod: Pod,
    edge: NodeRows,
    cloud: NodeRows,
    gain: int,
    fragmentation: Fragmentation,
    spread: ReplicaSpread | None = None,
) -> Choice:
    """Where the pod goes; of equal nodes, to the first. `gain`: the QoS that it adds on the edge.

    spread: of the pod's workload, if it matters.
    """
    fits = fitting_nodes(pod.pod_class, edge.index, edge.room)
    company = np.zeros(len(edge.index), dtype=np.int64)
    if spread is not None and spreads(pod):
        company = spread.by_node(pod.workload, edge.index)
    target = _least_allocated(pod.requests, cloud.only(fits), company)
    to_cloud = () if target is None else ((pod, cloud.index.names[target]),)
    axes = axes_of([pod.requests, *(vector for vector, _ in fragmentation.mix)])
    size, room = edge.allocatable(axes), edge.free(axes)
    waste = fragmentation.costs(axes, size, room)
    total = int(waste.sum())
    open_to = np.flatnonzero(fits[edge.positions])
    if not len(open_to) or (target is not None and gain < 0):
        return Choice((), to_cloud, total, Proof())
    more = fragmentation.costs(axes, size[open_to], room[open_to] - row(pod.requests, axes))
    more -= waste[open_to]
    joined = company[edge.positions[open_to]]
    best = int(np.lexsort((more, joined))[0])
    least = int(joined[best]), int(more[best])
    if target is not None and gain == 0 and least >= (int(company[target]), 0):
        return Choice((), to_cloud, total, Proof())
    name = edge.index.names[edge.positions[open_to[best]]]
    return Choice(((pod, name),), (), total + least[1], Proof())


def _least_allocated(requests: Resources, nodes: NodeRows, company: Ints) -> int | None:
    """The position of the one of these nodes, all with room, where such a pod goes, if any.

    company: by position, how many replicas it would join.
    """
    if not len(nodes.positions):
        return None
    basic = ("cpu", "memory")
    size = nodes.allocatable(basic)
    more = np.array([requests.cpu, requests.memory], dtype=np.int64)
    scores = least_allocated_scores(size, size - nodes.free(basic) + more)
    best = int(np.lexsort((-scores, company[nodes.positions]))[0])
    return int(nodes.positions[best])


def rejection_elsewhere(snapshot: Snapshot, pod: Pod, node: Node) -> Rejection | None:
    """Why another node would not take a pod that leaves its own; None if it would."""
    if is_plain(snapshot, [pod]):
        return rejection(pod.pod_class, node, snapshot.free[node.name])
    return Feasibility.of(snapshot).without_pod(pod.uid).rejection(pod, node.name)
