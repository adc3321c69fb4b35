"""Prometheus gauges computed from a reading of the scheduler's state."""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

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
    yield _gauges(
        "kubedsm_site_latency_seconds",
        "Measured round trip from a site to another; without destination, to the cloud.",
        ("source", "destination"),
        sorted(snapshot.measured.latency.items())[:MOST],
    )
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
    yield _gauges("scheduler_pending_pods", "Pending pods by queue.", ("queue",), _by_label(counts))
    rules = sorted(BY_NAME.keys() | reading.rejected_by.keys())
    yield _gauges(
        "scheduler_unschedulable_pods",
        "Unschedulable pods by the plugins that reject them; a pod counts once for each plugin.",
        ("plugin", "profile"),
        [((rule, ours), reading.rejected_by.get(rule, 0)) for rule in rules],
    )


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
    shown = choose_workloads(shares)
    rows = [(workload, shares[workload], qos_targets(workload).qos) for workload in shown]
    yield _gauges(
        "kubedsm_workload_edge_share",
        "Part of a workload's pods at the edge.",
        LABELS,
        [(workload, share.ratio) for workload, share, _ in rows],
    )
    yield _gauges(
        "kubedsm_workload_promised_edge_share",
        "Part of a workload's pods that its QoS target asks for at the edge: the QoS factor.",
        LABELS,
        [(workload, qos) for workload, _, qos in rows],
    )
    yield _gauges(
        "kubedsm_workload_qos_gap",
        "Difference between a workload's QoS target and its edge share; 0 if it is met.",
        LABELS,
        [(workload, qos_gap(share, qos)) for workload, share, qos in rows],
    )
    yield _gauges(
        "kubedsm_workload_pods",
        "Pods of a workload, pending ones included.",
        LABELS,
        [(workload, share.total) for workload, share, _ in rows],
    )
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
    for name, text, field in (
        ("demand_pods", "Pods that the demand of a site's users asks for.", "demand"),
        (
            "target_share",
            "Part of a site's demand that QoS targets ask to serve from there.",
            "target_share",
        ),
        ("reached_share", "Part of a site's demand that replicas there serve.", "reached_share"),
        ("replicas", "Replicas at a site, of workloads with demand by site.", "replicas"),
        (
            "missing_replicas",
            "Replicas missing at a site, of workloads with demand by site.",
            "missing",
        ),
    ):
        by_site = [((each.site,), getattr(each, field)) for each in sites]
        yield _gauges(f"kubedsm_site_{name}", text, ("site",), by_site)
    near = []
    for workload in choose_workloads({w: s for w, s in shares.items() if s.sites is not None}):
        share, demand = shares[workload], qos_targets(workload).demand
        if demand is not None and demand.parts and share.sites is not None:
            near.append((workload, demand.near(share.sites, share.total)))
    yield _gauges(
        "kubedsm_workload_near_share",
        "Part of a workload's requests that is served near users; only with demand by site.",
        LABELS,
        near,
    )


def answer_families(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield gauge metrics of measured response times, and of workloads with slower response at the
    edge.
    """
    measured = snapshot.measured
    shown = choose_workloads(snapshot.census.shares)
    yield _gauges(
        "kubedsm_response_time_seconds",
        "Mean response time of a workload's pods in a tier, as last read from Prometheus.",
        (*LABELS, "tier"),
        [
            ((*workload, tier.value), answers.seconds)
            for workload in shown
            for tier, answers in measured.answers.get(workload, {}).items()
        ],
    )
    yield _gauges(
        "kubedsm_workload_edge_slower",
        "Whether a workload's response time is longer at the edge than in the cloud, so that no"
        " more pods are migrated there.",
        LABELS,
        [
            (workload, workload in measured.slower)
            for workload in shown
            if workload in measured.answers or workload in measured.slower
        ],
    )
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
        "kubedsm_nodes", "Nodes by tier; none: without a tier label.", ("tier",), _by_label(tiers)
    )
    away = {"cut": len(reading.away.partitioned), "unsteady": len(reading.away.stabilising)}
    text = "Edge sites by state: cut (partitioned) or unsteady (in the stabilisation period)."
    yield _gauges("kubedsm_sites", text, ("state",), _by_label(away))
    fragmentation = Fragmentation(reading.policy.measure, request_mix(snapshot))
    yield _gauge(
        "kubedsm_edge_fragmentation",
        "Edge capacity that no pod can use, in nodes (configuration key: fragmentation).",
        fragmentation.of(snapshot.in_turn(Tier.EDGE)) / SCALE,
    )
    yield _gauge(
        "kubedsm_detached_pods",
        "Pods that a migration has detached from their owner.",
        sum(pod.detached for pod in snapshot.pods.values()),
    )


def _load_families(reading: Reading) -> Iterator[Metric]:
    measured = reading.snapshot.measured
    yield _gauge("kubedsm_load_nodes", "Nodes with known resource usage.", len(measured.nodes))
    age = [((), max(0.0, reading.now - measured.at))] if measured.at else []
    yield _gauges(
        "kubedsm_load_age_seconds",
        "Age of the measured load; no sample: nothing is known.",
        (),
        age,
    )


def _watch_families(reading: Reading) -> Iterator[Metric]:
    for family, name, text, field in (
        (_gauges, "objects", "Objects in the mirror.", "objects"),
        (_gauges, "troubled", "Whether a watch currently fails.", "troubled"),
        (_counts, "restarts", "Reopened watches.", "reconnects"),
        (_counts, "relists", "Relists of all objects.", "relists"),
        (_counts, "unreadable_objects", "Objects that cannot be decoded.", "malformed"),
    ):
        by_kind = {kind: getattr(watch, field) for kind, watch in reading.watches.items()}
        yield family(f"kubedsm_watch_{name}", text, ("kind",), _by_label(by_kind))


def _process_families(reading: Reading) -> Iterator[Metric]:
    yield _gauges(
        "leader_election_master_status",
        "Whether this process leads.",
        ("name",),
        [((ELECTION,), reading.leadership.leading)],
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
        ("part",),
        _by_label(reading.caught),
    )
    lost = [((), reading.events_lost)]
    yield _counts("kubedsm_events_lost", "Events that could not be written.", (), lost)
    versions = kubedsm.__version__, platform.python_version()
    labels = ("version", "python_version")
    yield _gauges("kubedsm_build_info", "Version of the scheduler.", labels, [(versions, 1)])


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


#: values by label values
Samples = Iterable[tuple[Sequence[str], float]]


def _fill(family: GaugeMetricFamily | CounterMetricFamily, values: Samples) -> Metric:
    for of, value in values:
        family.add_metric(of, value)
    return family


def _gauges(name: str, text: str, labels: Sequence[str], values: Samples) -> Metric:
    return _fill(GaugeMetricFamily(name, text, labels=labels), values)


def _counts(name: str, text: str, labels: Sequence[str], values: Samples) -> Metric:
    return _fill(CounterMetricFamily(name, text, labels=labels), values)


def _by_label(values: Mapping[str, float]) -> Samples:
    return (((label,), value) for label, value in values.items())
