"""One picture of the demo as a value, and the measures that compare two schedulers."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from kubedsm.dashboard.rows import MoveRow
from kubedsm.objective.objective import count_target_pods
from kubedsm_lab.demo.disconnection import Disconnection
from kubedsm_lab.demo.observer import Migrations, NodeView, ServiceView
from kubedsm_lab.replay.measures import EdgeShares, Latency, counted_levels
from kubedsm_lab.replay.timeline import Timeline

#: state of kube-scheduler's replay; none if a disconnection rules it out
Replay = Literal["none", "going on", "ready", "failed"]


@attrs.frozen(slots=True)
class Standing:
    """Measures that compare KubeDSM with kube-scheduler; None before all services are Ready."""

    #: mean over services
    edge_share: float | None
    #: by service; None while it had no pods
    shares: Mapping[str, float | None]
    #: mean part of the time in which a service met its QoS target
    kept: float | None

    @classmethod
    def of(cls, timeline: Timeline, promises: Mapping[str, float]) -> "Standing":
        levels = counted_levels(timeline)
        edge = EdgeShares.of(timeline.services, levels)
        kept = total = 0.0
        for level in levels:
            for service, share in level.shares.items():
                total += level.seconds
                if share.edge >= count_target_pods(promises[service], share.total):
                    kept += level.seconds
        return cls(edge.ratio, edge.shares, kept / total if total else None)

    def as_json(self) -> dict[str, Any]:
        return {
            "edgeRatio": rounded(self.edge_share),
            "edgeShare": {name: rounded(share) for name, share in self.shares.items()},
            "promisesKept": rounded(self.kept),
        }


def until(timeline: Timeline, seconds: float) -> Timeline:
    """Return the timeline up to that second."""
    return attrs.evolve(timeline, end=min(timeline.end, seconds))


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


@attrs.frozen(slots=True)
class Frame:
    #: start in seconds since the epoch; seconds since then; planned length
    epoch: float
    seconds: float
    duration: float
    headline: str
    nodes: Sequence[NodeView]
    services: Sequence[ServiceView]
    bound: int
    waiting: int
    latency: Latency | None
    #: KubeDSM until now, and kube-scheduler on the same load
    ours: Standing
    theirs: Standing | None
    replay: Replay
    #: migrations by key, oldest first
    moves: Mapping[str, MoveRow]
    migrations: Migrations
    #: None if no site is disconnected
    cut: Disconnection | None = None
    interrupted: bool = False

    def is_away(self, node: NodeView) -> bool:
        return self.cut is not None and self.cut.away and node.name in self.cut.nodes
