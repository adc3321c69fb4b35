"""What a move is made for, in words."""

from collections.abc import Mapping, Sequence

from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import QosTargets, count_target_pods
from kubedsm.optimizer.moving.suggestion import Move, MoveKind
from kubedsm.planner.plurals import counted


def made_for(
    move: Move, beside: Sequence[Move], shares: Mapping[Workload, Share], promises: QosTargets
) -> str:
    """`beside`: all moves of its suggestion; the shares as they were before it."""
    if move.evens or move.room_for:
        return move.purpose
    if move.kind is MoveKind.CLOUD_TO_EDGE:
        return _for_its_promise("its promise", move, shares, promises)
    to_edge = [
        other
        for other in beside
        if other.group == move.group and other.kind is MoveKind.CLOUD_TO_EDGE
    ]
    if to_edge:
        names = sorted({other.pod.workload.name for other in to_edge})
        lacking = _for_its_promise("whose promise", to_edge[0], shares, promises)
        more = f", {lacking}" if len(names) == 1 and lacking.startswith("whose") else ""
        return f"to make room at the edge for {' and '.join(names)}{more}"
    if move.kind is MoveKind.EDGE_TO_EDGE:
        return "to join what is left of the edge's room"
    return move.purpose


def _for_its_promise(
    whose: str, move: Move, shares: Mapping[Workload, Share], promises: QosTargets
) -> str:
    workload = move.pod.workload
    share = shares.get(workload, Share())
    wanted = count_target_pods(promises(workload).qos, share.total)
    missing = wanted - share.edge
    if missing > 0:
        return f"{whose} lacks {counted(missing, 'pod')} of {wanted}"
    return "the edge has room for more than its promise"
