"""Placement of a single pod in one pass over the nodes, with the result of `make_decision`.

To the edge if that gains QoS, or costs none and joins fewer replicas, or as many and reduces
fragmentation; there to the node with the fewest replicas, then the least fragmentation.
"""

from collections.abc import Callable

import numpy as np

from kubedsm.model.model import Node, Pod, Resources
from kubedsm.model.node_index import Mask, NodeRows, Positions
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Ints, axes_of, row
from kubedsm.objective.replica_spread import ReplicaSpread, spreads
from kubedsm.optimizer.placing.batch_kinds import is_plain
from kubedsm.optimizer.placing.cloud import allocation_scores
from kubedsm.optimizer.placing.decision import Choice
from kubedsm.optimizer.placing.proof import Proof
from kubedsm.plugins.class_verdicts import fitting_nodes, rejection
from kubedsm.plugins.feasibility import Feasibility, Rejection


def place_alone(
    pod: Pod,
    edge: NodeRows,
    cloud: NodeRows,
    gain: int,
    fragmentation: Fragmentation,
    spread: ReplicaSpread | None = None,
) -> Choice:
    """Return the node of the pod; gain: QoS that the pod adds on the edge."""
    fits = fitting_nodes(pod.pod_class, edge.index, edge.room)
    company = np.zeros(len(edge.index), dtype=np.int64)
    if spread is not None and spreads(pod):
        company = spread.by_node(pod.workload, edge.index)
    axes = axes_of([pod.requests, *(vector for vector, _ in fragmentation.mix)])
    size, room = edge.allocatable(axes), edge.free(axes)
    waste = fragmentation.costs(axes, size, room)

    def added(rows: Positions) -> Ints:
        more = fragmentation.costs(axes, size[rows], room[rows] - row(pod.requests, axes))
        more -= waste[rows]
        return more

    total, nowhere = int(waste.sum()), np.zeros_like(company)
    chosen = choose_node(pod.requests, fits, edge, cloud, gain, added, company, nowhere)
    if chosen is None:
        return Choice((), (), total, Proof())
    node, more = chosen
    target = ((pod, edge.index.names[node]),)
    if node in edge.positions:
        return Choice(target, (), total + more, Proof())
    return Choice((), target, total, Proof())


def choose_node(
    requests: Resources,
    open_to: Mask,
    edge: NodeRows,
    cloud: NodeRows,
    gain: int,
    added: Callable[[Positions], Ints],
    company: Ints,
    penalties: Ints,
) -> tuple[int, int] | None:
    """Return the position of the node that a single pod goes to, and the fragmentation added.

    open_to: nodes that accept the pod. added: fragmentation that the pod adds to these edge rows.
    company, penalties: by position, replicas that the pod joins, and its penalty.
    """
    target = _least_allocated(requests, cloud.only(open_to), company, penalties)
    rows = np.flatnonzero(open_to[edge.positions])
    if not len(rows) or (target is not None and gain < 0):
        return None if target is None else (target, 0)
    for costs in (penalties, company):
        of_rows = costs[edge.positions[rows]]
        rows = rows[of_rows == of_rows.min()]
    more = added(rows)
    best = int(more.argmin())
    node, least = int(edge.positions[rows[best]]), int(more[best])
    if target is not None and gain == 0:
        at_edge = int(penalties[node]), int(company[node]), least
        if at_edge >= (int(penalties[target]), int(company[target]), 0):
            return target, 0
    return node, least


def _least_allocated(
    requests: Resources, nodes: NodeRows, company: Ints, penalties: Ints
) -> int | None:
    """Return the position of the cloud node for a pod; all of these nodes have room."""
    if not len(nodes.positions):
        return None
    basic = ("cpu", "memory")
    size = nodes.allocatable(basic)
    more = np.array([requests.cpu, requests.memory], dtype=np.int64)
    scores = allocation_scores(size, size - nodes.free(basic) + more)
    best = int(np.lexsort((-scores, company[nodes.positions], penalties[nodes.positions]))[0])
    return int(nodes.positions[best])


def rejection_elsewhere(snapshot: Snapshot, pod: Pod, node: Node) -> Rejection | None:
    """Return why another node would reject a pod that leaves its own; None if it would not."""
    if is_plain(snapshot, [pod]):
        return rejection(pod.pod_class, node, snapshot.free[node.name])
    return Feasibility.of(snapshot).without_pod(pod.uid).rejection(pod, node.name)
