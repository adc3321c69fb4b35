"""What a reading says, as metrics."""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

import kubedsm
from kubedsm.model.model import Tier
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import SCALE, Fragmentation, request_mix
from kubedsm.observability.reading import Reading
from kubedsm.observability.workloads import answer_families, workload_families
from kubedsm.plugins.plugins import BY_NAME

#: what kube-scheduler, and we, name the Lease
ELECTION = "kubedsm"


def families(reading: Reading) -> Iterator[Metric]:
    """Every gauge, and every counter that is kept elsewhere."""
    snapshot = reading.snapshot
    yield from _waiting(reading)
    yield from workload_families(snapshot.shares(), reading.policy.qos_targets_in(snapshot))
    yield from answer_families(snapshot)
    yield from _nodes(reading)
    yield from _load(reading)
    yield from _watches(reading)
    yield from _process(reading)


def _waiting(reading: Reading) -> Iterator[Metric]:
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
    yield _gauges("scheduler_pending_pods", "Pods that wait, by queue.", "queue", counts.items())
    family = GaugeMetricFamily(
        "scheduler_unschedulable_pods",
        "Pods that no node takes, by the rules that reject them; a pod counts for each of its.",
        labels=("plugin", "profile"),
    )
    for rule in sorted(BY_NAME.keys() | reading.rejected_by.keys()):
        family.add_metric((rule, ours), reading.rejected_by.get(rule, 0))
    yield family


def _nodes(reading: Reading) -> Iterator[Metric]:
    snapshot = reading.snapshot
    counts = Counter(node.tier.value if node.tier else "none" for node in snapshot.nodes.values())
    tiers = {name: counts[name] for name in (Tier.EDGE.value, Tier.CLOUD.value, "none")}
    yield _gauges("kubedsm_nodes", "Nodes by tier; none: without its label.", "tier", tiers.items())
    away = {"cut": len(reading.away.cut), "unsteady": len(reading.away.unsteady)}
    text = "Edge sites that are cut off, and those that are back and not steady yet."
    yield _gauges("kubedsm_sites", text, "state", away.items())
    yield GaugeMetricFamily(
        "kubedsm_edge_fragmentation",
        "How much of the edge no pod can use, in nodes; docs/configuration.md: fragmentation.",
        value=_fragmentation(reading, snapshot),
    )
    yield GaugeMetricFamily(
        "kubedsm_detached_pods",
        "Pods that a move has taken from their owner, and that are still there.",
        value=sum(pod.detached for pod in snapshot.pods.values()),
    )


def _load(reading: Reading) -> Iterator[Metric]:
    measured = reading.snapshot.measured
    yield GaugeMetricFamily(
        "kubedsm_load_nodes", "Nodes of which it is known what they use.", value=len(measured.nodes)
    )
    age = GaugeMetricFamily(
        "kubedsm_load_age_seconds", "Since when what is known of the load is known; none: nothing."
    )
    if measured.at:
        age.add_metric((), max(0.0, reading.now - measured.at))
    yield age


def _fragmentation(reading: Reading, snapshot: Snapshot) -> float:
    measured = Fragmentation(reading.policy.measure, request_mix(snapshot))
    return measured.of(snapshot.of_tier(Tier.EDGE), snapshot.free) / SCALE


def _watches(reading: Reading) -> Iterator[Metric]:
    for family, name, text, field in (
        (_gauges, "objects", "Objects that are followed.", "objects"),
        (_gauges, "troubled", "Whether a watch does not work now.", "troubled"),
        (_counts, "restarts", "Times that a watch was opened again.", "reconnects"),
        (_counts, "relists", "Times that all objects had to be listed again.", "relists"),
        (_counts, "unreadable_objects", "Objects skipped, for they cannot be read.", "malformed"),
    ):
        by_kind = [(kind, getattr(watch, field)) for kind, watch in reading.watches.items()]
        yield family(f"kubedsm_watch_{name}", text, "kind", by_kind)


def _process(reading: Reading) -> Iterator[Metric]:
    yield _gauges(
        "leader_election_master_status",
        "Whether this process leads.",
        "name",
        [(ELECTION, reading.leadership.leading)],
    )
    yield GaugeMetricFamily(
        "kubedsm_configuration_generation",
        "How often a configuration came into force; that of the start was the first.",
        value=reading.generation,
    )
    yield GaugeMetricFamily(
        "kubedsm_configuration_age_seconds",
        "Since when the configuration is in force.",
        value=max(0.0, reading.now - reading.configured_at),
    )
    yield GaugeMetricFamily(
        "kubedsm_configuration_valid",
        "Whether the newest configuration is in force, and not refused.",
        value=reading.configuration_valid,
    )
    yield GaugeMetricFamily("kubedsm_plans_in_progress", "Plans under way.", value=reading.plans)
    yield GaugeMetricFamily(
        "kubedsm_migrations_in_progress", "Moves of pods under way.", value=reading.moves
    )
    yield GaugeMetricFamily(
        "kubedsm_paused",
        "Whether the pause switch is set, or cannot be read: no move is begun.",
        value=reading.paused,
    )
    yield _counts(
        "kubedsm_caught_errors",
        "Mistakes of the scheduler's own that were caught, by part; see its log.",
        "part",
        reading.caught.items(),
    )
    lost = CounterMetricFamily("kubedsm_events_lost", "Events that could not be written.")
    lost.add_metric((), reading.events_lost)
    yield lost
    build = GaugeMetricFamily(
        "kubedsm_build_info", "The version that runs.", labels=("version", "python_version")
    )
    build.add_metric((kubedsm.__version__, platform.python_version()), 1)
    yield build


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
