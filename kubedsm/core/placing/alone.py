"""One pod by itself, at one look over the nodes if its class and a node say all there is to say.

It goes where `decision.make_decision` would have it, without tables: to the edge if that gains
QoS, or costs none and joins fewer replicas, or as many and leaves less of the edge to waste; there
to the node with the fewest, and of these the one that wastes least; else to the cloud.
"""

from collections.abc import Mapping, Sequence

from kubedsm.core.goals.fragmentation import Fragmentation, axes_of, row, rows
from kubedsm.core.goals.replica_spread import ReplicaSpread, spreads
from kubedsm.core.placing.batch_kinds import is_plain
from kubedsm.core.placing.cloud import least_allocated_node
from kubedsm.core.placing.decision import Choice
from kubedsm.core.placing.proof import Proof
from kubedsm.core.rules.feasibility import Feasibility, Rejection
from kubedsm.core.rules.fit import rejection
from kubedsm.core.world.model import Node, NodeName, Pod, Resources
from kubedsm.core.world.snapshot import Snapshot


def place_alone(
    pod: Pod,
    edge: Sequence[Node],
    cloud: Sequence[Node],
    free: Mapping[NodeName, Resources],
    gain: int,
    fragmentation: Fragmentation,
    spread: ReplicaSpread | None = None,
) -> Choice:
    """Where the pod goes; of equal nodes, to the first. `gain`: the QoS that it adds on the edge.

    spread: of the pod's workload, if it matters.
    """

    def fits(node: Node) -> bool:
        return rejection(pod.pod_class, node, free[node.name]) is None

    def company(name: NodeName) -> int:
        return spread.company(pod.workload, name) if spread is not None and spreads(pod) else 0

    target = least_allocated_node(pod.requests, filter(fits, cloud), free, company)
    to_cloud = () if target is None else ((pod, target.name),)
    if not edge:
        return Choice((), to_cloud, 0, Proof())
    axes = axes_of([pod.requests, *(vector for vector, _ in fragmentation.mix)])
    size = rows([node.allocatable for node in edge], axes)
    room = rows([free[node.name] for node in edge], axes)
    waste = fragmentation.costs(axes, size, room)
    total = int(waste.sum())
    open_to = [at for at, node in enumerate(edge) if fits(node)]
    if not open_to or (target is not None and gain < 0):
        return Choice((), to_cloud, total, Proof())
    more = fragmentation.costs(axes, size[open_to], room[open_to] - row(pod.requests, axes))
    more -= waste[open_to]
    costs = [(company(edge[at].name), m) for at, m in zip(open_to, more.tolist(), strict=True)]
    least = min(costs)
    if target is not None and gain == 0 and least >= (company(target.name), 0):
        return Choice((), to_cloud, total, Proof())
    best = edge[open_to[costs.index(least)]]
    return Choice(((pod, best.name),), (), total + least[1], Proof())


def rejection_elsewhere(snapshot: Snapshot, pod: Pod, node: Node) -> Rejection | None:
    """Why another node would not take a pod that leaves its own; None if it would."""
    if is_plain(snapshot, [pod]):
        return rejection(pod.pod_class, node, snapshot.free[node.name])
    return Feasibility.of(snapshot).without_pod(pod.uid).rejection(pod, node.name)
