"""Values that the demo displays at one time, and measures of both schedulers up to that time."""

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from kubedsm.dashboard.rows import MoveRow, NodeRow, WorkloadRow
from kubedsm.dashboard.terminal.seen import TypedSnapshot
from kubedsm.model.model import Tier
from kubedsm.objective.objective import count_target_pods
from kubedsm_lab.demo.setting import QOS_TARGETS
from kubedsm_lab.emulator.paper import NAMESPACE
from kubedsm_lab.replay.measures import Latency, edge_ratio, edge_shares, list_counted_levels
from kubedsm_lab.replay.timeline import Timeline

#: state of kube-scheduler's replay
Replay = Literal["going on", "ready", "failed"]


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
        kept = total = 0.0
        for level in levels:
            for service, share in level.shares.items():
                total += level.seconds
                if share.edge >= count_target_pods(qos_targets[service], share.total):
                    kept += level.seconds
        shares = edge_shares(timeline.services, levels)
        return cls(edge_ratio(levels), shares, kept / total if total else None)

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


def bind_latency(timeline: Timeline) -> tuple[int, Latency | None]:
    """Return the number of bound pods in the demo, and statistics of their seconds from creation to
    bind.
    """
    seconds = [life.bound - life.created for life in timeline.lives if life.bound is not None]
    return len(seconds), Latency.of(seconds)


@attrs.frozen
class Frame:
    #: start as a Unix timestamp; seconds since then; planned length
    epoch: float
    seconds: float
    duration: float
    #: rows of the dashboard
    seen: TypedSnapshot
    #: offered requests a second by service
    rates: Mapping[str, float]
    bound: int
    latency: Latency | None
    #: KubeDSM until now, and kube-scheduler on the same load
    ours: SchedulerResult
    theirs: SchedulerResult | None
    replay: Replay
    #: migrations by key, oldest first
    moves: Mapping[str, MoveRow]
    #: migrations started and rolled back, and the pod-seconds lost to migrations
    migrations: int = 0
    taken_back: int = 0
    lost_pod_seconds: float = 0.0
    interrupted: bool = False

    @property
    def headline(self) -> str:
        return self.seen.status.headline

    @property
    def nodes(self) -> dict[str, NodeRow]:
        """Return the nodes by name, edge before cloud."""
        rows = self.seen.nodes
        return {n: rows[n] for n in sorted(rows, key=lambda n: (rows[n].tier is not Tier.EDGE, n))}

    @property
    def services(self) -> dict[str, WorkloadRow]:
        """Return the services by name; those without pods as well."""
        return {
            name: self.seen.workloads.get(
                f"{NAMESPACE}/{name}", WorkloadRow("Deployment", 0, 0, qos_target)
            )
            for name, qos_target in QOS_TARGETS.items()
        }

    @property
    def waiting(self) -> int:
        """Return the number of pending pods."""
        return sum(pod.state == "waiting" for pod in self.seen.pods.values())
