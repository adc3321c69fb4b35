"""Settings of the demo: cluster, load, QoS targets and configuration, scaled down to a minute."""

from collections.abc import Mapping

import attrs

from kubedsm.config.sections import MigrationSettings, SuggesterSettings
from kubedsm.config.services import EVERY_SERVICE, Service
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Tier, Tiers
from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, Timing
from kubedsm_lab.emulator.paper import NAMESPACE, paper_cluster
from loadgen.generators import normal
from loadgen.scenario import Scenario

#: seconds; the paper's are 90
CYCLE = 5.0
#: replicas of the last cycle: 14 cores and more memory than the edge has, but far less than the
#: cluster
LAST_REPLICAS = {"a": 4, "b": 2, "c": 4, "d": 2}
#: shortened times in seconds
TIMING = Timing(start_delay=0.2, stop_delay=0.1, hpa_sync=0.8)
#: shortened: the papers' 5 s of a cycle of 90 s are 0.3 s of ours
STABILIZATION_SECONDS = 0
#: edge share of each service. The edge cannot hold all pods under this load, and targets that no
#: scheduler reaches would show nothing.
QOS_TARGETS: Mapping[str, float] = {"a": 1.0, "b": 0.5, "c": 0.75, "d": 0.25}
#: periods shortened by the same factor
CONFIGURATION = Configuration(
    suggester=SuggesterSettings(period=0.5),
    migration=MigrationSettings(price=1.0, cooldown=0.5, drain_delay=0.1, deadline=5.0),
    services={
        EVERY_SERVICE: Service(qos=1.0, weight=1.0),
        **{f"{NAMESPACE}/{name}": Service(qos=share) for name, share in QOS_TARGETS.items()},
    },
)


def demo_scenario(seed: int, cycles: int) -> Scenario:
    """Return the paper's scenario 1.5-.4 with short cycles; the last cycle fits the cluster."""
    return normal(1.5, 0.4, seed=seed, cycles=cycles, cycle_seconds=CYCLE, final=LAST_REPLICAS)


def demo_cluster() -> ClusterSpec:
    """Return the paper's cluster with nodes named by tier: edge-1, edge-2, edge-3, cloud-1."""
    spec, tiers = paper_cluster(TIMING), Tiers()
    numbers = dict.fromkeys(Tier, 0)

    def name_by_tier(node: Object) -> Object:
        labels = node["metadata"]["labels"]
        tier = tiers.of(labels)
        if tier is None:
            return node
        numbers[tier] += 1
        name = f"{tier}-{numbers[tier]}"
        metadata = {"name": name, "labels": labels | {"kubernetes.io/hostname": name}}
        return node | {"metadata": node["metadata"] | metadata}

    return attrs.evolve(spec, nodes=tuple(map(name_by_tier, spec.nodes)))
