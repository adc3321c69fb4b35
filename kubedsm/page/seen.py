"""What is seen of each thing: rows made of values, and of nothing else."""

from collections.abc import Iterator

from kubedsm.core.goals.objective import promised_pods
from kubedsm.core.policies.kubedsm import KubeDSM
from kubedsm.core.world.measured import Usage
from kubedsm.core.world.model import Node, NodeName, Pod
from kubedsm.core.world.sites import Away, site_of
from kubedsm.core.world.snapshot import Snapshot
from kubedsm.page.rows import NodeRow, NodeState, PodRow, PodState, WorkloadRow

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"


def node_row(node: Node, used: Usage, away: Away, site_labels: tuple[str, ...]) -> NodeRow:
    size = node.allocatable
    return NodeRow(
        tier=node.tier,
        cpu=size.cpu,
        memory=size.memory,
        pods=size.amount("pods"),
        site=site_of(node, site_labels),
        state=_state_of(node, away),
        cpu_used=_part(used.cpu, size.cpu),
        memory_used=_part(used.memory, size.memory),
    )


def _part(used: float | None, of: int) -> float | None:
    return None if used is None or not of else round(used / of, 3)


def _state_of(node: Node, away: Away) -> NodeState:
    if node.name in away.cut_nodes:
        return "cut off"
    if any(taint.key == _UNREACHABLE for taint in node.taints):
        return "unreachable"
    if any(taint.key == _NOT_READY for taint in node.taints):
        return "not ready"
    if node.unschedulable:
        return "cordoned"
    return "settling" if node.name in away.nodes else ""


def pod_row(pod: Pod, node: NodeName | None, ours: str, message: str, move: str) -> PodRow:
    """node: the one that it is on, or that is held for it. `ours`: the name of our scheduler."""
    return PodRow(
        workload=str(pod.workload),
        state=_state_of_pod(pod, node),
        created=pod.created,
        cpu=pod.requests.cpu,
        memory=pod.requests.memory,
        node=node or "",
        move=move,
        message="" if node else message,
        scheduler="" if pod.scheduler_name == ours else pod.scheduler_name,
    )


def _state_of_pod(pod: Pod, node: NodeName | None) -> PodState:
    if pod.finished:
        return "finished"
    if pod.terminating:
        return "leaving"
    if pod.ready:
        return "ready"
    if node is not None:
        return "starting"
    return "gated" if pod.gated else "waiting"


def workload_rows(snapshot: Snapshot, policy: KubeDSM) -> Iterator[tuple[str, WorkloadRow]]:
    promises = policy.promises_in(snapshot)
    for workload, share in snapshot.shares().items():
        promise = promises(workload)
        yield (
            str(workload),
            WorkloadRow(
                kind=workload.kind,
                edge=share.edge,
                total=share.total,
                promise=promise.qos,
                weight=promise.weight,
                missing=max(0, promised_pods(promise.qos, share.total) - share.edge),
                edge_slower=workload in snapshot.measured.slower,
            ),
        )
