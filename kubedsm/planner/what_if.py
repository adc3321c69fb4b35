"""What-if request to the planner: placements and migrations that other QoS targets, more replicas
or the loss of an edge site would cause.

The request is solved on a copy of the cluster: waiting and added pods are placed, and then
migrations are suggested as if the placed pods ran. Nothing is carried out.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from kubedsm.config.services import Service
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Pod, Share, Uid, Workload
from kubedsm.model.node_index import site_of
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import QosTargets, count_target_pods
from kubedsm.optimizer.moving.suggestion import Move, MoveKind, Suggestion
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.planner.plurals import counted
from kubedsm.planner.rebalancing_requests import MigrationRequest
from kubedsm.planner.requests import PlanningContext
from kubedsm.plugins.fit import why_unschedulable

#: prefix of the uids of added pods
_ADDED = "what-if/"


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


class ShareThen(NamedTuple):
    """Edge share of a workload now, and after all hypothetical placements and migrations."""

    now: Share
    then: Share
    qos_target: float
    wanted: int


@attrs.frozen(slots=True)
class WhatIfResponse:
    shares: Mapping[Workload, ShareThen]
    #: waiting and added pods
    placed: tuple[Placed, ...]
    moves: tuple[NamedMove, ...]
    #: best migrations outside the suggestion, with reasons
    left: tuple[Placed, ...]
    proven: bool
    #: ended early, because pods had to be placed
    cut_short: bool = False


@attrs.frozen(slots=True)
class WhatIfRequest(MigrationRequest):
    name = "what-if"
    #: QoS factors by the keys of `services`
    qos: tuple[tuple[str, float], ...] = ()
    #: number of added pods by workload
    replicas: tuple[tuple[Workload, int], ...] = ()
    #: edge sites without their nodes: pods there are created again
    lost: frozenset[str] = frozenset()

    def solve(self, context: PlanningContext) -> WhatIfResponse:
        policy = assume_qos_factors(context.configuration(), dict(self.qos)).policy
        before, deadline = self.snapshot(context), context.deadline(self)
        labels = context.configuration().site.label
        snapshot = _add_replicas(lose_sites(before, self.lost, labels), self.replicas)
        waiting = snapshot.schedulable(snapshot.pods.values())
        # The other half of the time is for the migrations.
        decision = policy.decide_batch(snapshot, waiting, deadline.part(0.5))
        placed = _run_placed(snapshot, decision)
        movable = self.movable(context, set())
        suggestion = policy.suggest(placed, movable, deadline, self.quiet.lasting)
        return WhatIfResponse(
            _compare_shares(before, suggestion, policy, placed),
            tuple(_list_placed(snapshot, decision)),
            tuple(_list_moves(suggestion, policy.qos_targets_in(placed))),
            tuple(Placed(str(p), p.workload, "", str(why)) for p, why in suggestion.rejected),
            suggestion.proven,
            context.interrupted(),
        )


def assume_qos_factors(configuration: Configuration, qos: Mapping[str, float]) -> Configuration:
    """Return the configuration with hypothetical QoS factors, by keys of `services`."""
    services = dict(configuration.services)
    for key, factor in qos.items():
        service = services.get(key, Service())
        services[key] = attrs.evolve(service, qos=factor, latency_target=None)
    return attrs.evolve(configuration, services=services)


def lose_sites(snapshot: Snapshot, sites: Collection[str], labels: Sequence[str]) -> Snapshot:
    """Return the snapshot without the nodes of the edge sites, in which the pods there are pending
    again; pods that no controller creates on another node are left out.
    """
    lost = {name for name, node in snapshot.nodes.items() if site_of(node, labels) in sites}
    if not sites or not lost:
        return snapshot
    pods = dict(snapshot.pods)
    for uid, name in snapshot.placed.items():
        if name in lost:
            pod = pods.pop(uid)
            if not (pod.terminating or pod.finished or pod.workload.kind in ("DaemonSet", "Node")):
                pods[uid] = attrs.evolve(pod, node_name=None, phase="Pending", ready=False)
    return attrs.evolve(
        snapshot,
        nodes={name: node for name, node in snapshot.nodes.items() if name not in lost},
        free={name: free for name, free in snapshot.free.items() if name not in lost},
        placed={uid: name for uid, name in snapshot.placed.items() if name not in lost},
        pods=pods,
        counted=None,
    )


def _add_replicas(snapshot: Snapshot, replicas: Iterable[tuple[Workload, int]]) -> Snapshot:
    """Return the snapshot with hypothetical pending pods, copies of the newest pod of each
    workload.
    """
    added: dict[Uid, Pod] = {}
    for workload, number in replicas:
        newest = _find_newest(snapshot, workload)
        if newest is not None:
            added |= {pod.uid: pod for pod in _copies(newest, number, snapshot.at)}
    return (
        attrs.evolve(snapshot, pods={**snapshot.pods, **added}, counted=None) if added else snapshot
    )


def _find_newest(snapshot: Snapshot, workload: Workload) -> Pod | None:
    ours = (
        pod
        for pod in snapshot.pods.values()
        if pod.workload == workload
        and pod.scheduler_name == snapshot.scheduler_name
        and pod.counts_for_qos
    )
    return max(ours, key=lambda pod: (pod.created, pod.name), default=None)


def _copies(newest: Pod, number: int, at: float) -> Iterator[Pod]:
    pod_class = newest.pod_class
    if newest.workload.kind == "StatefulSet":
        # Each pod has separate claims, with unknown location of the volumes.
        rules = attrs.evolve(pod_class.rules, claims=())
        pod_class = attrs.evolve(pod_class, rules=rules)
    for count in range(1, number + 1):
        yield attrs.evolve(
            newest,
            uid=Uid(f"{_ADDED}{newest.workload}/{count}"),
            name=f"{newest.workload.name}-added-{count}",
            pod_class=pod_class,
            node_name=None,
            phase="Pending",
            ready=False,
            gated=False,
            created=max(at, newest.created),
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


def _list_placed(snapshot: Snapshot, decision: Decision) -> Iterator[Placed]:
    for pod, node, _ in decision.bindings:
        yield Placed(str(pod), pod.workload, node)
    for uid, rejections in decision.unplaced.items():
        pod = snapshot.pods[uid]
        why = why_unschedulable(pod.requests, rejections, snapshot.index)
        yield Placed(str(pod), pod.workload, "", why)
    for pod in decision.late:
        yield Placed(str(pod), pod.workload, "", "waits for the next batch")


def _list_moves(suggestion: Suggestion, qos_targets: QosTargets) -> Iterator[NamedMove]:
    for move in suggestion.moves:
        yield NamedMove(
            str(move.pod),
            move.pod.workload,
            move.source or "",
            move.target,
            describe_purpose(move, suggestion.moves, suggestion.before.shares, qos_targets),
            added=move.pod.uid.startswith(_ADDED),
        )


def _compare_shares(
    now: Snapshot, suggestion: Suggestion, policy: KubeDSM, placed: Snapshot
) -> dict[Workload, ShareThen]:
    before, qos_targets = now.census.shares, policy.qos_targets_in(placed)
    shares = {}
    for workload, share in suggestion.after.shares.items():
        qos = qos_targets(workload).qos
        wanted = count_target_pods(qos, share.total)
        shares[workload] = ShareThen(before.get(workload, Share()), share, qos, wanted)
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
