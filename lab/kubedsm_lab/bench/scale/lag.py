"""By how much an event loop was late between two scrapes of its metrics."""

import math
from typing import Any

import attrs
from prometheus_client.parser import text_string_to_metric_families

from kubedsm_lab.bench.telling import span

LAG = "kubedsm_event_loop_lag_seconds"


@attrs.frozen(slots=True)
class Lag:
    """Seconds that so many of the looks did not exceed: the upper bounds of a histogram's buckets.

    Infinite if that is beyond the last one.
    """

    looks: int
    p50: float
    p99: float
    p999: float
    max: float

    def as_json(self) -> dict[str, Any]:
        named = {"p50": self.p50, "p99": self.p99, "p99.9": self.p999, "max": self.max}
        return {
            "looks": self.looks,
            **{f"{name}AtMostMs": round(1000 * value, 1) for name, value in named.items()},
        }

    @property
    def sentence(self) -> str:
        parts = {"half": self.p50, "99 %": self.p99, "99.9 %": self.p999, "all": self.max}
        told = ", ".join(
            f"{span(late) if math.isfinite(late) else 'more than can be told'} in {part}"
            for part, late in parts.items()
        )
        return f"Its event loop was late by at most {told} of {self.looks:,} looks."


def lag_in(before: str, after: str) -> Lag:
    """What was looked at between the two, texts in Prometheus' format."""
    known, counts = _buckets(before), _buckets(after)
    counts = {bound: count - known.get(bound, 0.0) for bound, count in counts.items()}
    looks = counts.get(math.inf, 0.0)

    def at_most(part: float) -> float:
        return min(bound for bound, count in counts.items() if count >= part * looks)

    return Lag(round(looks), at_most(0.5), at_most(0.99), at_most(0.999), at_most(1.0))


def _buckets(metrics: str) -> dict[float, float]:
    """How many looks were late by no more than that."""
    return {
        float(sample.labels["le"]): sample.value
        for family in text_string_to_metric_families(metrics)
        if family.name == LAG
        for sample in family.samples
        if sample.name == f"{LAG}_bucket"
    }
