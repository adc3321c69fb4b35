"""The table of metrics in metrics.md, from the code as it is.

python docs/metrics_table.py        # writes it anew
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from kubedsm.config.settings import Configuration
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.sites import NOTHING_AWAY
from kubedsm.observability.gauges import families
from kubedsm.observability.instruments import Instruments
from kubedsm.observability.reading import Leadership, Reading
from kubedsm.process.clock import SystemClock
from kubedsm.scheduling.scheduling_queue import QueueStatistics

DOCUMENT = Path(__file__).with_name("metrics.md")
TABLE = re.compile(
    r"(?<=<!-- table: python docs/metrics_table.py -->\n).*?(?=<!-- end of table)", re.DOTALL
)

NOTHING = Reading(
    snapshot=ClusterMirror().snapshot(),
    policy=Configuration().policy,
    queue=QueueStatistics(0, 0, 0),
    rejected_by=Counter(),
    watches={},
    caught={},
    events_lost=0,
    paused=False,
    away=NOTHING_AWAY,
    plans=0,
    moves=0,
    leadership=Leadership(),
    generation=1,
    configured_at=0.0,
    configuration_valid=True,
    now=0.0,
)


def _shown(metric: Metric, labels: tuple[str, ...]) -> tuple[str, str, str, str]:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return name, metric.type, ", ".join(labels), metric.documentation


def shown() -> Iterator[tuple[str, str, str, str]]:
    """Name, type, labels and meaning of each."""
    registry = Instruments(SystemClock(), "kubedsm", "").registry
    for collector in registry._collector_to_names:  # noqa: SLF001 - it lists them nowhere else
        if isinstance(collector, MetricWrapperBase):
            [metric] = collector.collect()
            yield _shown(metric, tuple(collector._labelnames))  # noqa: SLF001 - as above
    for metric in families(NOTHING):
        yield _shown(metric, tuple(getattr(metric, "_labelnames", ())))


def table() -> str:
    rows = (f"| `{name}` | {kind} | {labels} | {text} |\n" for name, kind, labels, text in shown())
    return "| metric | type | labels | meaning |\n|---|---|---|---|\n" + "".join(sorted(rows))


def written(text: str) -> str:
    """The document with the table as it should be."""
    return TABLE.sub(lambda _: table(), text)


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
