"""What-if request to the planner: placements and migrations that hypothetical changes would cause.

The request is solved on a copy of the cluster: waiting, restarted and added pods are placed, and
then migrations are suggested as if the placed pods ran. Nothing is carried out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from kubedsm.model.model import Pod, Share, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import QosTargets, count_target_pods
from kubedsm.optimizer.moving.suggestion import Move, MoveKind, Suggestion
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.programming.in_order import describe_unproven
from kubedsm.planner.hypothesis import ADDED, UNMANAGED, Hypothesis
from kubedsm.planner.plurals import counted
from kubedsm.planner.rebalancing_requests import MigrationRequest
from kubedsm.planner.requests import PlanningContext
from kubedsm.plugins.fit import why_unschedulable


class NamedMove(NamedTuple):
    """Migration in a what-if response, with pod and nodes by name, because the pod may be
    hypothetical.
    """

    pod: str
    workload: Workload
    source: str
    target: str
    purpose: str
    added: bool


class Placed(NamedTuple):
    pod: str
    workload: Workload
    #: empty if no node takes the pod
    node: str
    #: reason for that
    message: str = ""
    #: node on which the pod would stop; empty for a pod that waits or is added
    source: str = ""


class ShareThen(NamedTuple):
    """Edge share of a workload now, and after all hypothetical placements and migrations."""

    now: Share
    then: Share
    qos_target: float
    wanted: int
    #: pods missing now, by the present target
    missing_now: int

    @property
    def missing(self) -> int:
        """Pods that would be missing at the edge."""
        return max(0, self.wanted - self.then.edge)


@attrs.frozen(slots=True)
class WhatIfResponse:
    shares: Mapping[Workload, ShareThen]
    #: waiting, restarted and added pods
    placed: tuple[Placed, ...]
    moves: tuple[NamedMove, ...]
    #: best migrations outside the suggestion, with reasons
    left: tuple[Placed, ...]
    #: no better migrations exist; else what is known about the optimality gap, possibly empty
    proven: bool
    gap: str = ""
    #: pods without a controller that would stop for good
    gone: tuple[str, ...] = ()
    #: ended early, because pods had to be placed
    cut_short: bool = False


@attrs.frozen(slots=True)
class WhatIfRequest(MigrationRequest):
    name = "what-if"
    hypothesis: Hypothesis = attrs.field(factory=Hypothesis)

    def solve(self, context: PlanningContext) -> WhatIfResponse:
        configuration = context.configuration()
        policy = self.hypothesis.configure(configuration).policy
        before, deadline = self.snapshot(context), context.deadline(self)
        snapshot = self.hypothesis.apply(before)
        waiting = snapshot.schedulable(snapshot.pods.values())
        # The other half of the time is for the migrations.
        decision = policy.decide_batch(snapshot, waiting, deadline.part(0.5))
        placed = _run_placed(snapshot, decision)
        movable = self.movable(context, set())
        suggestion = policy.suggest(placed, movable, deadline, self.quiet.lasting)
        now, then = configuration.policy.qos_targets_in(before), policy.qos_targets_in(placed)
        return WhatIfResponse(
            _compare_shares(before, now, suggestion, then),
            tuple(_list_placed(before, snapshot, decision)),
            tuple(_list_moves(suggestion, then)),
            tuple(Placed(str(p), p.workload, "", str(why)) for p, why in suggestion.rejected),
            suggestion.proven,
            describe_unproven(suggestion.certificates),
            tuple(_list_gone(before, snapshot)),
            context.interrupted(),
        )


def _run_placed(snapshot: Snapshot, decision: Decision) -> Snapshot:
    """Return the snapshot in which pods with a decided placement are Running and Ready on the
    decided nodes.
    """
    after = snapshot.with_placed({pod.uid: node for pod, node, _ in decision.bindings})
    started = {
        pod.uid: attrs.evolve(after.pods[pod.uid], phase="Running", ready=True)
        for pod, _, _ in decision.bindings
    }
    return attrs.evolve(after, pods={**after.pods, **started})


def _list_placed(before: Snapshot, snapshot: Snapshot, decision: Decision) -> Iterator[Placed]:
    def row(pod: Pod, node: str, message: str = "") -> Placed:
        return Placed(str(pod), pod.workload, node, message, before.placed.get(pod.uid, ""))

    for pod, node, _ in decision.bindings:
        yield row(pod, node)
    for uid, rejections in decision.unplaced.items():
        pod = snapshot.pods[uid]
        yield row(pod, "", why_unschedulable(pod.requests, rejections, snapshot.index))
    for pod in decision.late:
        yield row(pod, "", "waits for the next batch")


def _list_gone(before: Snapshot, snapshot: Snapshot) -> Iterator[str]:
    for uid, pod in before.pods.items():
        is_gone = uid not in snapshot.pods and pod.workload.kind == UNMANAGED
        if is_gone and before.is_replica(pod):
            yield str(pod)


def _list_moves(suggestion: Suggestion, qos_targets: QosTargets) -> Iterator[NamedMove]:
    for move in suggestion.moves:
        yield NamedMove(
            str(move.pod),
            move.pod.workload,
            move.source or "",
            move.target,
            describe_purpose(move, suggestion.moves, suggestion.before.shares, qos_targets),
            added=move.pod.uid.startswith(ADDED),
        )


def _compare_shares(
    before: Snapshot, targets_now: QosTargets, suggestion: Suggestion, targets: QosTargets
) -> dict[Workload, ShareThen]:
    """Compare edge shares now, by the present targets, and then, by the hypothetical targets."""
    shares = {}
    for workload, now in before.census.shares.items():
        then = suggestion.after.shares.get(workload, Share())
        qos, qos_now = targets(workload).qos, targets_now(workload).qos
        missing = max(0, count_target_pods(qos_now, now.total) - now.edge)
        wanted = count_target_pods(qos, then.total)
        shares[workload] = ShareThen(now, then, qos, wanted, missing)
    return shares


_NO_SHORTFALL = "the edge has free capacity for more than its QoS target"


def describe_purpose(
    move: Move, suggested: Sequence[Move], shares: Mapping[Workload, Share], qos_targets: QosTargets
) -> str:
    """Describe in words why a migration is made, such as the QoS gained.

    `suggested`: all migrations of the suggestion; `shares`: as before it.
    """
    if move.evens or move.room_for:
        return move.purpose
    if move.kind is MoveKind.CLOUD_TO_EDGE:
        return _describe_shortfall(move, shares, qos_targets)
    to_edge = [
        other
        for other in suggested
        if other.group == move.group and other.kind is MoveKind.CLOUD_TO_EDGE
    ]
    if to_edge:
        names = sorted({other.pod.workload.name for other in to_edge})
        shortfall = _describe_shortfall(to_edge[0], shares, qos_targets)
        more = f", {shortfall}" if len(names) == 1 and shortfall != _NO_SHORTFALL else ""
        return f"to free edge capacity for {' and '.join(names)}{more}"
    if move.kind is MoveKind.EDGE_TO_EDGE:
        return "to join fragments of free edge capacity"
    return move.purpose


def _describe_shortfall(
    move: Move, shares: Mapping[Workload, Share], qos_targets: QosTargets
) -> str:
    workload = move.pod.workload
    share = shares.get(workload, Share())
    wanted = count_target_pods(qos_targets(workload).qos, share.total)
    missing = wanted - share.edge
    if missing > 0:
        return f"{missing} of {counted(wanted, 'pod')} missing at the edge"
    return _NO_SHORTFALL
