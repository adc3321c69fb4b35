"""How much of each workload is on the edge, and how much of it was promised to be.

So many workloads at most: Prometheus keeps every series that it ever saw, and a tenant makes as
many workloads as it likes. Those of all namespaces take turns, so that one with many of them leaves
room for the others; sums count them all.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from kubedsm.model.model import Share, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import QosTargets

#: with series of their own
MOST = 500
LABELS = ("namespace", "kind", "workload")


def chosen(workloads: Mapping[Workload, Share]) -> list[Workload]:
    """Those that get series: the first of each namespace, then the second ones, and so on.

    By name, so that they stay the same from one scrape to the next.
    """
    before: Counter[str] = Counter()
    turns: list[tuple[int, Workload]] = []
    for workload in sorted(workloads):
        turns.append((before[workload.namespace], workload))
        before[workload.namespace] += 1
    return [workload for _, workload in sorted(turns)[:MOST]]


def gap(share: Share, promised: float) -> float:
    """Which part of a workload's pods is missing on the edge."""
    return max(0.0, promised - share.ratio)


def workload_families(shares: Mapping[Workload, Share], promises: QosTargets) -> Iterator[Metric]:
    """Of the workloads that have pods."""
    share = GaugeMetricFamily(
        "kubedsm_workload_edge_share", "Of a workload's pods, the part on the edge.", labels=LABELS
    )
    promised = GaugeMetricFamily(
        "kubedsm_workload_promised_edge_share",
        "The part of a workload's pods that is promised to be on the edge: its QoS factor.",
        labels=LABELS,
    )
    missing = GaugeMetricFamily(
        "kubedsm_workload_qos_gap",
        "By how much a workload's edge share is below the one promised; 0 if it is not.",
        labels=LABELS,
    )
    pods = GaugeMetricFamily(
        "kubedsm_workload_pods", "Pods of a workload, those that wait included.", labels=LABELS
    )
    shown = chosen(shares)
    for workload in shown:
        labels = (workload.namespace, workload.kind, workload.name)
        now, of = shares[workload], promises(workload).qos
        share.add_metric(labels, now.ratio)
        promised.add_metric(labels, of)
        missing.add_metric(labels, gap(now, of))
        pods.add_metric(labels, now.total)
    yield from (share, promised, missing, pods)
    total = sum(each.total for each in shares.values())
    yield GaugeMetricFamily(
        "kubedsm_edge_share",
        "Of all opted-in pods, the part on the edge.",
        value=sum(each.edge for each in shares.values()) / total if total else 0.0,
    )
    yield GaugeMetricFamily("kubedsm_workloads", "Opted-in workloads.", value=len(shares))
    yield GaugeMetricFamily(
        "kubedsm_workloads_below_promise",
        "Workloads with less of them on the edge than was promised.",
        value=sum(gap(each, promises(workload).qos) > 0 for workload, each in shares.items()),
    )
    yield GaugeMetricFamily(
        "kubedsm_workloads_without_series",
        f"Workloads beyond the {MOST} that have series of their own.",
        value=len(shares) - len(shown),
    )


def answer_families(snapshot: Snapshot) -> Iterator[Metric]:
    """What those with series answer in, as far as it is measured; for which the edge is slower."""
    measured = snapshot.measured
    seconds = GaugeMetricFamily(
        "kubedsm_response_time_seconds",
        "What a workload's pods in a tier answer in, as the mean: what Prometheus said last.",
        labels=(*LABELS, "tier"),
    )
    slower = GaugeMetricFamily(
        "kubedsm_workload_edge_slower",
        "Whether the edge answers a workload's requests more slowly than the cloud, so that no more"
        " pods are brought there.",
        labels=LABELS,
    )
    for workload in chosen(snapshot.shares()):
        labels = (workload.namespace, workload.kind, workload.name)
        for tier, answers in measured.answers.get(workload, {}).items():
            seconds.add_metric((*labels, tier.value), answers.seconds)
        if workload in measured.answers or workload in measured.slower:
            slower.add_metric(labels, workload in measured.slower)
    yield from (seconds, slower)
    yield GaugeMetricFamily(
        "kubedsm_workloads_edge_slower",
        "Workloads that the edge answers more slowly than the cloud.",
        value=len(measured.slower & snapshot.shares().keys()),
    )
