"""Values that the demo displays at one time, and measures of both schedulers up to that time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import attrs

from kubedsm.dashboard.rows import MoveRow
from kubedsm.kube.wire import decoding
from kubedsm.model.model import Node, Pod, Resources, Share, Tier
from kubedsm.objective.objective import count_target_pods
from kubedsm_lab.demo.tables import NodeLine
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.emulated_cluster import EmulatedCluster
from kubedsm_lab.replay.measures import EdgeShares, Latency, list_counted_levels, lost_pod_seconds
from kubedsm_lab.replay.timeline import Timeline

#: state of kube-scheduler's replay; none without a baseline
Replay = Literal["none", "going on", "ready", "failed"]


@attrs.frozen(slots=True)
class SchedulerResult:
    """Edge shares and QoS of one scheduler in the demo so far; None before all
    services are Ready.
    """

    #: average over all services
    edge_share: float | None
    #: by service; None during intervals without pods
    shares: Mapping[str, float | None]
    #: mean part of the time in which a service met its QoS target
    kept: float | None

    @classmethod
    def of(cls, timeline: Timeline, qos_targets: Mapping[str, float]) -> "SchedulerResult":
        levels = list_counted_levels(timeline)
        edge = EdgeShares.of(timeline.services, levels)
        kept = total = 0.0
        for level in levels:
            for service, share in level.shares.items():
                total += level.seconds
                if share.edge >= count_target_pods(qos_targets[service], share.total):
                    kept += level.seconds
        return cls(edge.ratio, edge.shares, kept / total if total else None)

    def as_json(self) -> dict[str, Any]:
        return {
            "edgeRatio": round_share(self.edge_share),
            "edgeShare": {name: round_share(share) for name, share in self.shares.items()},
            "targetsMet": round_share(self.kept),
        }


def until(timeline: Timeline, seconds: float) -> Timeline:
    """Return the timeline of pods and migrations, truncated at `seconds`."""
    return attrs.evolve(timeline, end=min(timeline.end, seconds))


def round_share(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


@attrs.frozen(slots=True)
class ServiceView:
    name: str
    #: offered requests a second
    rate: float
    pods: int
    #: target edge share
    qos_target: float
    #: edge share of the Ready pods
    share: Share

    @property
    def missing(self) -> int:
        """Return the number of Ready edge pods that the service lacks for its QoS target."""
        return max(0, count_target_pods(self.qos_target, self.share.total) - self.share.edge)


@attrs.frozen(slots=True)
class Migrations:
    """Counts of migrations started and rolled back in the demo, and the pod-seconds lost to
    migrations.
    """

    begun: int = 0
    taken_back: int = 0
    lost_pod_seconds: float = 0.0

    @classmethod
    def of(cls, timeline: Timeline) -> "Migrations":
        moves = [move for move in timeline.moves if move.began >= 0.0]
        taken_back = sum(move.taken_back for move in moves)
        return cls(len(moves), taken_back, lost_pod_seconds(timeline))


@attrs.frozen
class Observation:
    """Nodes and pods of the emulated cluster, as read from its API server at one time."""

    cluster: EmulatedCluster
    nodes: Sequence[Node]

    @cached_property
    def pods(self) -> list[Pod]:
        return [decoding.pod(each) for each in self.cluster.api.list(PODS)]

    @property
    def waiting(self) -> int:
        """Return the number of pending pods in the emulated cluster."""
        return sum(pod.node_name is None and not pod.terminating for pod in self.pods)

    @property
    def unready(self) -> int:
        return sum(not pod.ready and not pod.terminating for pod in self.pods)

    def node(self, node: Node) -> NodeLine:
        here = [p for p in self.pods if p.node_name == node.name and not p.finished]
        used = sum((pod.requests for pod in here), Resources())
        pods = Counter(pod.workload.name for pod in here)
        return NodeLine(
            node.name,
            str(node.tier),
            "",
            (used.cpu, node.allocatable.cpu),
            (used.memory, node.allocatable.memory),
            dict(sorted(pods.items())),
        )

    def services(
        self, qos_targets: Mapping[str, float], rates: Mapping[str, float]
    ) -> list[ServiceView]:
        edge = {node.name for node in self.nodes if node.tier is Tier.EDGE}
        pods = [pod for pod in self.pods if not pod.terminating]
        ready = [pod for pod in pods if pod.ready and pod.node_name is not None]
        number, total = (Counter(pod.workload.name for pod in some) for some in (pods, ready))
        on_edge = Counter(pod.workload.name for pod in ready if pod.node_name in edge)
        return [
            ServiceView(
                name, rates[name], number[name], qos_target, Share(on_edge[name], total[name])
            )
            for name, qos_target in qos_targets.items()
        ]


def bind_latency(timeline: Timeline) -> tuple[int, Latency | None]:
    """Return the number of bound pods in the demo, and statistics of their seconds from creation to
    bind.
    """
    seconds = [life.bound - life.created for life in timeline.lives if life.bound is not None]
    return len(seconds), Latency.of(seconds)


@attrs.frozen(slots=True)
class Frame:
    #: start as a Unix timestamp; seconds since then; planned length
    epoch: float
    seconds: float
    duration: float
    headline: str
    nodes: Sequence[NodeLine]
    services: Sequence[ServiceView]
    bound: int
    waiting: int
    latency: Latency | None
    #: KubeDSM until now, and kube-scheduler on the same load
    ours: SchedulerResult
    theirs: SchedulerResult | None
    replay: Replay
    #: migrations by key, oldest first
    moves: Mapping[str, MoveRow]
    migrations: Migrations
    interrupted: bool = False
