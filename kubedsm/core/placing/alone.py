"""One pod by itself, at one look over the nodes if its class and a node say all there is to say.

It goes where `decision.make_decision` would have it, without tables: to the edge if that gains
QoS, or costs none and leaves less of the edge to waste; there to the node that wastes least; else
to the cloud.
"""

from collections.abc import Mapping, Sequence

from kubedsm.core.goals.fragmentation import Fragmentation, axes_of, row, rows
from kubedsm.core.placing.batch_kinds import is_plain
from kubedsm.core.placing.cloud import least_allocated_node
from kubedsm.core.placing.decision import Choice
from kubedsm.core.rules.feasibility import Feasibility, Rejection
from kubedsm.core.rules.fit import rejection
from kubedsm.core.world.model import Node, NodeName, Pod, Resources, Snapshot


def place_alone(
    pod: Pod,
    edge: Sequence[Node],
    cloud: Sequence[Node],
    free: Mapping[NodeName, Resources],
    gain: int,
    fragmentation: Fragmentation,
) -> Choice:
    """Where the pod goes. Nodes are in name order; `gain` is the QoS that it adds on the edge."""

    def fits(node: Node) -> bool:
        return rejection(pod.pod_class, node, free[node.name]) is None

    target = least_allocated_node(pod.requests, filter(fits, cloud), free)
    to_cloud = () if target is None else ((pod, target.name),)
    if not edge:
        return Choice((), to_cloud, 0, proven=True)
    axes = axes_of([pod.requests, *(vector for vector, _ in fragmentation.mix)])
    size = rows([node.allocatable for node in edge], axes)
    room = rows([free[node.name] for node in edge], axes)
    waste = fragmentation.costs(axes, size, room)
    open_to = [at for at, node in enumerate(edge) if fits(node)]
    more = fragmentation.costs(axes, size[open_to], room[open_to] - row(pod.requests, axes))
    more -= waste[open_to]
    total, least = int(waste.sum()), int(more.min(initial=0))
    if not open_to or (to_cloud and (gain < 0 or (gain == 0 and least >= 0))):
        return Choice((), to_cloud, total, proven=True)
    best = int(more.argmin())
    return Choice(((pod, edge[open_to[best]].name),), (), total + int(more[best]), proven=True)


def rejection_elsewhere(snapshot: Snapshot, pod: Pod, node: Node) -> Rejection | None:
    """Why another node would not take a pod that leaves its own; None if it would."""
    if is_plain(snapshot, [pod]):
        return rejection(pod.pod_class, node, snapshot.free[node.name])
    return Feasibility.of(snapshot).without_pod(pod.uid).rejection(pod, node.name)
