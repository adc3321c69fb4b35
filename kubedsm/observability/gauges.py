"""Prometheus gauges computed from a reading of the scheduler's state."""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

import kubedsm
from kubedsm.model.model import Share, Tier, Workload, deviation_of_shares
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import SCALE, Fragmentation, request_mix
from kubedsm.objective.objective import QosTargets
from kubedsm.objective.site_shares import sum_sites
from kubedsm.observability.reading import Reading
from kubedsm.plugins.plugins import BY_NAME

#: name of the Lease in the metric that kube-scheduler has, too
ELECTION = "kubedsm"
#: workloads with series of their own: Prometheus keeps every series, and tenants may create any
#: number of workloads; sums include every workload
MOST = 500
LABELS = ("namespace", "kind", "workload")


def families(reading: Reading) -> Iterator[Metric]:
    """Yield all gauge metrics of the scheduler, and counters that other components maintain."""
    snapshot = reading.snapshot
    yield from _queue_families(reading)
    snapshot_by_site, targets = reading.policy.resolve(snapshot)
    yield from workload_families(snapshot.census.shares, targets)
    yield from site_families(snapshot_by_site.census.shares, targets)
    yield _gauge(
        "kubedsm_services_ignoring_sites",
        "Services that send requests to any site, of workloads with demand by site.",
        reading.spreading_services,
    )
    yield from answer_families(snapshot)
    yield from _node_families(reading)
    yield from _load_families(reading)
    yield from _watch_families(reading)
    yield from _process_families(reading)


def _queue_families(reading: Reading) -> Iterator[Metric]:
    queue, ours = reading.queue, reading.snapshot.scheduler_name
    gated = sum(
        pod.gated and pod.scheduler_name == ours and not (pod.finished or pod.terminating)
        for pod in reading.snapshot.pods.values()
    )
    counts = {
        "active": queue.active,
        "backoff": queue.backing_off,
        "unschedulable": queue.unschedulable,
        "gated": gated,
    }
    yield _gauges("scheduler_pending_pods", "Pending pods by queue.", "queue", counts.items())
    family = GaugeMetricFamily(
        "scheduler_unschedulable_pods",
        "Unschedulable pods by the plugins that reject them; a pod counts once for each plugin.",
        labels=("plugin", "profile"),
    )
    for rule in sorted(BY_NAME.keys() | reading.rejected_by.keys()):
        family.add_metric((rule, ours), reading.rejected_by.get(rule, 0))
    yield family


def choose_workloads(workloads: Mapping[Workload, Share]) -> list[Workload]:
    """Choose which workloads get metric series, up to a limit: round-robin over namespaces.

    The selection is stable between scrapes, and fair to small namespaces.
    """
    before: Counter[str] = Counter()
    turns: list[tuple[int, Workload]] = []
    for workload in sorted(workloads):
        turns.append((before[workload.namespace], workload))
        before[workload.namespace] += 1
    return [workload for _, workload in sorted(turns)[:MOST]]


def qos_gap(share: Share, qos: float) -> float:
    """Return the shortfall of a workload's edge share against its QoS target, as a fraction of the
    pods.
    """
    return max(0.0, qos - share.ratio)


def workload_families(
    shares: Mapping[Workload, Share], qos_targets: QosTargets
) -> Iterator[Metric]:
    """Yield gauge metrics of edge shares and QoS targets by workload."""
    share = GaugeMetricFamily(
        "kubedsm_workload_edge_share", "Part of a workload's pods at the edge.", labels=LABELS
    )
    targets = GaugeMetricFamily(
        "kubedsm_workload_promised_edge_share",
        "Part of a workload's pods that its QoS target asks for at the edge: the QoS factor.",
        labels=LABELS,
    )
    missing = GaugeMetricFamily(
        "kubedsm_workload_qos_gap",
        "Difference between a workload's QoS target and its edge share; 0 if it is met.",
        labels=LABELS,
    )
    pods = GaugeMetricFamily(
        "kubedsm_workload_pods", "Pods of a workload, pending ones included.", labels=LABELS
    )
    shown = choose_workloads(shares)
    for workload in shown:
        labels = (workload.namespace, workload.kind, workload.name)
        now, of = shares[workload], qos_targets(workload).qos
        share.add_metric(labels, now.ratio)
        targets.add_metric(labels, of)
        missing.add_metric(labels, qos_gap(now, of))
        pods.add_metric(labels, now.total)
    yield from (share, targets, missing, pods)
    total = sum(each.total for each in shares.values())
    yield _gauge(
        "kubedsm_edge_share",
        "Part of all opted-in pods at the edge.",
        sum(each.edge for each in shares.values()) / total if total else 0.0,
    )
    targeted = [each.ratio for workload, each in shares.items() if qos_targets(workload).qos]
    yield _gauge(
        "kubedsm_edge_share_deviation",
        "Standard deviation of the edge share over workloads with a QoS target.",
        deviation_of_shares(targeted) or 0.0,
    )
    yield _gauge("kubedsm_workloads", "Opted-in workloads.", len(shares))
    yield _gauge(
        "kubedsm_workloads_below_promise",
        "Workloads below their QoS target.",
        sum(qos_gap(each, qos_targets(workload).qos) > 0 for workload, each in shares.items()),
    )
    yield _gauge(
        "kubedsm_workloads_without_series",
        f"Workloads above the limit of {MOST} with series of their own.",
        len(shares) - len(shown),
    )


def site_families(shares: Mapping[Workload, Share], qos_targets: QosTargets) -> Iterator[Metric]:
    """Yield gauge metrics by edge site (user demand in pods, replicas, missing replicas), and the
    share of requests served near users by workload.
    """
    sites = sum_sites(shares, qos_targets)[:MOST]
    for name, text, values in (
        (
            "demand_pods",
            "Pods that the demand of a site's users asks for.",
            [each.demand for each in sites],
        ),
        (
            "target_share",
            "Part of a site's demand that QoS targets ask to serve from there.",
            [each.target_share for each in sites],
        ),
        (
            "reached_share",
            "Part of a site's demand that replicas there serve.",
            [each.reached_share for each in sites],
        ),
        (
            "replicas",
            "Replicas at a site, of workloads with demand by site.",
            [each.replicas for each in sites],
        ),
        (
            "missing_replicas",
            "Replicas missing at a site, of workloads with demand by site.",
            [each.missing for each in sites],
        ),
    ):
        named = zip([each.site for each in sites], values, strict=True)
        yield _gauges(f"kubedsm_site_{name}", text, "site", named)
    near = GaugeMetricFamily(
        "kubedsm_workload_near_share",
        "Part of a workload's requests that is served near users; only with demand by site.",
        labels=LABELS,
    )
    for workload in choose_workloads({w: s for w, s in shares.items() if s.sites is not None}):
        share, demand = shares[workload], qos_targets(workload).demand
        if demand is not None and demand.parts and share.sites is not None:
            labels = (workload.namespace, workload.kind, workload.name)
            near.add_metric(labels, demand.near(share.sites, share.total))
    yield near


def answer_families(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield gauge metrics of measured response times, and of workloads with slower response at the
    edge.
    """
    measured = snapshot.measured
    seconds = GaugeMetricFamily(
        "kubedsm_response_time_seconds",
        "Mean response time of a workload's pods in a tier, as last read from Prometheus.",
        labels=(*LABELS, "tier"),
    )
    slower = GaugeMetricFamily(
        "kubedsm_workload_edge_slower",
        "Whether a workload's response time is longer at the edge than in the cloud, so that no"
        " more pods are migrated there.",
        labels=LABELS,
    )
    for workload in choose_workloads(snapshot.census.shares):
        labels = (workload.namespace, workload.kind, workload.name)
        for tier, answers in measured.answers.get(workload, {}).items():
            seconds.add_metric((*labels, tier.value), answers.seconds)
        if workload in measured.answers or workload in measured.slower:
            slower.add_metric(labels, workload in measured.slower)
    yield from (seconds, slower)
    yield _gauge(
        "kubedsm_workloads_edge_slower",
        "Workloads whose response time is longer at the edge.",
        len(measured.slower & snapshot.census.shares.keys()),
    )


def _node_families(reading: Reading) -> Iterator[Metric]:
    snapshot = reading.snapshot
    counts = Counter(node.tier.value if node.tier else "none" for node in snapshot.nodes.values())
    tiers = {name: counts[name] for name in (Tier.EDGE.value, Tier.CLOUD.value, "none")}
    yield _gauges(
        "kubedsm_nodes", "Nodes by tier; none: without a tier label.", "tier", tiers.items()
    )
    away = {"cut": len(reading.away.partitioned), "unsteady": len(reading.away.stabilising)}
    text = "Edge sites by state: cut (partitioned) or unsteady (in the stabilisation period)."
    yield _gauges("kubedsm_sites", text, "state", away.items())
    yield _gauge(
        "kubedsm_edge_fragmentation",
        "Edge capacity that no pod can use, in nodes (configuration key: fragmentation).",
        _measure_fragmentation(reading, snapshot),
    )
    yield _gauge(
        "kubedsm_detached_pods",
        "Pods that a migration has detached from their owner.",
        sum(pod.detached for pod in snapshot.pods.values()),
    )


def _load_families(reading: Reading) -> Iterator[Metric]:
    measured = reading.snapshot.measured
    yield _gauge("kubedsm_load_nodes", "Nodes with known resource usage.", len(measured.nodes))
    age = GaugeMetricFamily(
        "kubedsm_load_age_seconds", "Age of the measured load; no sample: nothing is known."
    )
    if measured.at:
        age.add_metric((), max(0.0, reading.now - measured.at))
    yield age


def _measure_fragmentation(reading: Reading, snapshot: Snapshot) -> float:
    measured = Fragmentation(reading.policy.measure, request_mix(snapshot))
    return measured.of(snapshot.of_tier(Tier.EDGE), snapshot.free) / SCALE


def _watch_families(reading: Reading) -> Iterator[Metric]:
    for family, name, text, field in (
        (_gauges, "objects", "Objects in the mirror.", "objects"),
        (_gauges, "troubled", "Whether a watch currently fails.", "troubled"),
        (_counts, "restarts", "Reopened watches.", "reconnects"),
        (_counts, "relists", "Relists of all objects.", "relists"),
        (_counts, "unreadable_objects", "Objects that cannot be decoded.", "malformed"),
    ):
        by_kind = [(kind, getattr(watch, field)) for kind, watch in reading.watches.items()]
        yield family(f"kubedsm_watch_{name}", text, "kind", by_kind)


def _process_families(reading: Reading) -> Iterator[Metric]:
    yield _gauges(
        "leader_election_master_status",
        "Whether this process leads.",
        "name",
        [(ELECTION, reading.leadership.leading)],
    )
    yield _gauge(
        "kubedsm_configuration_generation",
        "Configurations that came into force, the initial one included.",
        reading.generation,
    )
    yield _gauge(
        "kubedsm_configuration_age_seconds",
        "Age of the configuration in force.",
        max(0.0, reading.now - reading.configured_at),
    )
    yield _gauge(
        "kubedsm_configuration_valid",
        "Whether the newest configuration is in force; 0: it is refused.",
        reading.configuration_valid,
    )
    yield _gauge("kubedsm_plans_in_progress", "Plans in progress.", reading.plans)
    yield _gauge("kubedsm_migrations_in_progress", "Migrations in progress.", reading.moves)
    yield _gauge(
        "kubedsm_paused",
        "Whether the pause switch is set, or cannot be read: no migration begins.",
        reading.paused,
    )
    yield _counts(
        "kubedsm_caught_errors",
        "Internal errors of the scheduler that were caught, by part; see its log.",
        "part",
        reading.caught.items(),
    )
    lost = CounterMetricFamily("kubedsm_events_lost", "Events that could not be written.")
    lost.add_metric((), reading.events_lost)
    yield lost
    build = GaugeMetricFamily(
        "kubedsm_build_info", "Version of the scheduler.", labels=("version", "python_version")
    )
    build.add_metric((kubedsm.__version__, platform.python_version()), 1)
    yield build


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _gauges(
    name: str, text: str, label: str, values: Iterable[tuple[str, float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for of, value in values:
        family.add_metric((of,), value)
    return family


def _counts(
    name: str, text: str, label: str, values: Iterable[tuple[str, float]]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=(label,))
    for of, value in values:
        family.add_metric((of,), value)
    return family
