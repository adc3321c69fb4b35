"""Where the metrics of one scheduler are kept, and how they are written for Prometheus."""

from collections.abc import Iterator

import attrs
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@attrs.frozen
class Families:
    """Metrics that were worked out, to be written with those of a registry."""

    families: tuple[Metric, ...]

    def collect(self) -> Iterator[Metric]:
        return iter(self.families)


class Registry(CollectorRegistry):
    """Without the moments at which series began: nobody asks, and they double the counters."""

    def collect(self) -> Iterator[Metric]:
        for family in super().collect():
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family


def written(*parts: CollectorRegistry | Families) -> bytes:
    """Prometheus' text format."""
    # It writes whatever collects, though it asks for a registry by name.
    return b"".join(generate_latest(part) for part in parts)
