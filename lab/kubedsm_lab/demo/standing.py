"""What KubeDSM and kube-scheduler are compared by, in the demo: both of them by the same."""

from collections.abc import Mapping
from typing import Any

import attrs

from kubedsm.objective.objective import count_target_pods
from kubedsm_lab.replay.measures import counted_levels, edge_ratio
from kubedsm_lab.replay.timeline import Timeline


@attrs.frozen(slots=True)
class Standing:
    """Of the time since every service has had a Ready pod; None before."""

    #: the mean over services
    edge_share: float | None
    #: of each service; None while it had no pods
    shares: Mapping[str, float | None]
    #: the part of the time in which a service had on the edge what it was promised: the mean
    kept: float | None

    @classmethod
    def of(cls, timeline: Timeline, promises: Mapping[str, float]) -> "Standing":
        ratio = edge_ratio(timeline)
        kept = total = 0.0
        for level in counted_levels(timeline):
            for service, share in level.shares.items():
                total += level.seconds
                if share.edge >= count_target_pods(promises[service], share.total):
                    kept += level.seconds
        return cls(ratio.ratio, ratio.shares(), kept / total if total else None)

    def as_json(self) -> dict[str, Any]:
        return {
            "edgeRatio": rounded(self.edge_share),
            "edgeShare": {name: rounded(share) for name, share in self.shares.items()},
            "promisesKept": rounded(self.kept),
        }


def until(timeline: Timeline, seconds: float) -> Timeline:
    """What was known by then."""
    return attrs.evolve(timeline, end=min(timeline.end, seconds))


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
