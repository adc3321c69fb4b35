"""What is seen of nodes, pods and workloads: rows made of values, and of nothing else."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kubedsm.dashboard.rows import NodeRow, NodeState, PodRow, PodState, WorkloadRow
from kubedsm.model.measured import Answers, Usage
from kubedsm.model.model import Node, NodeName, Pod, Share, Tier, Workload
from kubedsm.model.sites import Away, site_of
from kubedsm.objective.objective import QosTarget

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"


def node_row(node: Node, used: Usage, away: Away, site_labels: tuple[str, ...]) -> NodeRow:
    size = node.allocatable
    return NodeRow(
        tier=node.tier,
        cpu=size.cpu,
        memory=size.memory,
        pods=size.pods,
        site=site_of(node, site_labels),
        state=_state_of(node, away),
        cordoned=node.unschedulable,
        cpu_used=_part(used.cpu, size.cpu),
        memory_used=_part(used.memory, size.memory),
    )


def _part(used: float | None, of: int) -> float | None:
    return None if used is None or not of else round(used / of, 3)


def _state_of(node: Node, away: Away) -> NodeState:
    if any(node.name in nodes for nodes in away.cut.values()):
        return "cut off"
    taints = {taint.key for taint in node.taints}
    if _UNREACHABLE in taints:
        return "unreachable"
    if _NOT_READY in taints:
        return "not ready"
    if any(node.name in nodes for nodes in away.unsteady.values()):
        return "settling"
    return "cordoned" if node.unschedulable else ""


class Why(NamedTuple):
    """Why a pod waits for a node, as far as anybody has said."""

    message: str = ""
    #: by which nodes reject it
    rules: Collection[str] = ()
    #: the node on which room is being made for it
    room_on: str = ""


def pod_row(pod: Pod, node: NodeName | None, ours: str, why: Why, move: str) -> PodRow:
    """node: the one that it is on, or that is held for it. `ours`: the name of our scheduler."""
    state = state_of_pod(pod, node)
    waits = state == "waiting"
    theirs = "" if pod.scheduler_name == ours else pod.scheduler_name
    return PodRow(
        workload=str(pod.workload),
        state=state,
        created=pod.created,
        cpu=pod.requests.cpu,
        memory=pod.requests.memory,
        node=node or "",
        move=move,
        message=_message(pod, state, theirs, why),
        rules=tuple(sorted(why.rules)) if waits else (),
        room_on=why.room_on if waits else "",
        scheduler=theirs,
    )


def state_of_pod(pod: Pod, node: NodeName | None) -> PodState:
    if pod.terminating:
        return "leaving"
    if pod.ready:
        return "ready"
    if node is not None:
        return "not ready" if pod.phase == "Running" else "starting"
    return "gated" if pod.gated else "waiting"


def _message(pod: Pod, state: PodState, theirs: str, why: Why) -> str:
    if state == "gated":
        return f"it waits until its scheduling gates are taken off: {', '.join(pod.gates)}"
    if state != "waiting":
        return ""
    return f"it waits for the scheduler {theirs}" if theirs else why.message


def workload_row(
    workload: Workload,
    share: Share,
    promise: QosTarget | None,
    answers: Mapping[Tier, Answers],
    *,
    ready: int,
    waiting: int,
    edge_slower: bool,
) -> WorkloadRow:
    return WorkloadRow(
        kind=workload.kind,
        edge=share.edge,
        total=share.total,
        promise=promise.qos if promise else None,
        weight=promise.weight if promise else 0.0,
        missing=max(0, promise.count_wanted(share.total) - share.edge) if promise else 0,
        ready=ready,
        waiting=waiting,
        edge_answers=_milliseconds(answers.get(Tier.EDGE)),
        cloud_answers=_milliseconds(answers.get(Tier.CLOUD)),
        edge_slower=edge_slower,
    )


def _milliseconds(answers: Answers | None) -> float | None:
    return None if answers is None else round(1000 * answers.seconds, 1)
