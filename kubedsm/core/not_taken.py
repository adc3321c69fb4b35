"""The best that a suggestion left alone, and why."""

from collections.abc import Mapping

import attrs

from kubedsm.core.best_fit import size
from kubedsm.core.edge_problem import EdgeProblem, leaving_turn
from kubedsm.core.fit import reasons, static_reasons
from kubedsm.core.gains import Gains
from kubedsm.core.model import NodeName, Pod, PodClass, Resources, Snapshot, Tier, Workload
from kubedsm.core.movable import Movable
from kubedsm.core.move_groups import edge_changes, moves_of
from kubedsm.core.suggestion import MoveKind, Rejected, SuggestLimits
from kubedsm.core.take_groups import Taken

_MOST = 10


@attrs.frozen(eq=False)
class Outcome:
    """What a suggestion came to."""

    snapshot: Snapshot
    problem: EdgeProblem
    taken: Taken
    limits: SuggestLimits
    #: whether max_moves was a limit
    counted: bool
    proven: bool
    #: free room once the moves are carried out
    free: Mapping[NodeName, Resources]


def not_taken(outcome: Outcome, gains: Gains, movable: Movable) -> tuple[Rejected, ...]:
    """The ten pods that would add most QoS for their size if they came to the edge as well.

    Pods of which the same can be said are named once. Pods of groups that were dropped come first.
    """
    snapshot, taken = outcome.snapshot, outcome.taken
    dropped = [Rejected(m.pod, reason) for group, reason in taken.left for m in group]
    named = {move.pod.uid for move in taken.moves} | {pod.uid for pod, _ in dropped}
    changes = edge_changes(taken.moves)
    greatest = Resources(
        cpu=max((node.allocatable.cpu for node in outcome.problem.nodes), default=0),
        memory=max((node.allocatable.memory for node in outcome.problem.nodes), default=0),
    )
    alike: dict[tuple[Workload, PodClass, str], Rejected] = {}
    scores: dict[tuple[Workload, PodClass, str], float] = {}
    for pod in sorted(_away(snapshot), key=leaving_turn):
        done = changes.get(pod.workload, 0)
        more = gains.of_workload(pod.workload, done + 1) - gains.of_workload(pod.workload, done)
        if pod.uid in named or more <= 0:
            continue
        said = movable(pod) if pod.node_name is not None else ""
        key = (pod.workload, pod.pod_class, said)
        if key not in alike:
            alike[key] = Rejected(pod, said or _why(outcome, pod))
            scores[key] = more / size(pod.requests, greatest)
    ranked = sorted(alike, key=lambda key: (-scores[key], str(alike[key].pod)))
    return (*dropped, *(alike[key] for key in ranked))[:_MOST]


def _away(snapshot: Snapshot) -> list[Pod]:
    """Our pods that count and are not on the edge."""
    at_edge = {node.name for node in snapshot.of_tier(Tier.EDGE)}
    return [
        pod
        for pod in snapshot.pods.values()
        if pod.scheduler_name == snapshot.scheduler_name
        and pod.counts_for_qos
        and snapshot.placed.get(pod.uid) not in at_edge
    ]


def _why(outcome: Outcome, pod: Pod) -> str:
    nodes, limits, moves = outcome.problem.nodes, outcome.limits, outcome.taken.moves
    if not nodes:
        return "there is no edge node"
    static = [static_reasons(pod.pod_class, node) for node in nodes]
    if all(static):
        return f"no edge node takes it: {', '.join(sorted({r for rs in static for r in rs}))}"
    if outcome.counted and len(moves) >= limits.max_moves:
        return f"maxMoves ({limits.max_moves}) is reached"
    fetched = sum(move.kind is MoveKind.CLOUD_TO_EDGE for move in moves)
    if pod.node_name is not None and fetched >= limits.max_cloud_to_edge:
        return f"maxCloudToEdge ({limits.max_cloud_to_edge}) is reached"
    if any(not reasons(pod.pod_class, node, outcome.free[node.name]) for node in nodes):
        if pod.node_name is None:
            return "there is room for it without a move"
        if not outcome.counted:
            return "the paper's form did not pick it"
        return "moving it is worth nothing" if outcome.proven else "not found within the bounds"
    short = "no edge node has room for it"
    if _cloud_is_full(outcome):
        return f"{short}, and the cloud has none for what would have to leave"
    if moves_of(moves) and outcome.counted:
        return f"{short}, and {limits.max_moves - len(moves)} more moves make none that is worth it"
    return f"{short}, and no moves within the limits make some that are worth it"


def _cloud_is_full(outcome: Outcome) -> bool:
    """Whether the cloud has no room for any pod of the edge that may be moved, if there is one."""
    kinds = [item.cloud_kind for item in outcome.problem.items if item.here]
    return bool(kinds) and all(kind is None for kind in kinds)
