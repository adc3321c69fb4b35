"""The demo's world, shortened to a minute: what runs on what, and what is promised to whom."""

from collections.abc import Mapping

import attrs

from kubedsm.config.sections import MigrationSettings, SiteSettings, SuggesterSettings
from kubedsm.config.services import EVERY_SERVICE, Service
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Tier, Tiers
from kubedsm_lab.demo.disconnection import SETTLE
from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, Timing
from kubedsm_lab.emulator.paper import NAMESPACE, paper_cluster
from loadgen.generators import normal
from loadgen.scenario import Scenario

#: seconds; the paper's are 90
CYCLE = 5.0
#: of the last cycle: 14 cores and more memory than the edge has, but far less than the cluster
LAST_REPLICAS = {"a": 4, "b": 2, "c": 4, "d": 2}
#: a shortened day: seconds
TIMING = Timing(start_delay=0.2, stop_delay=0.1, hpa_sync=0.8, monitor_grace=2.2)
#: Kubernetes' 300 s
TOLERATION = 16
#: The papers' scale-down window of 5 s is to their cycles what a third of one is to ours.
STABILIZATION_SECONDS = 0
#: The edge share of each service. All of everything is more than the edge holds under this load,
#: and a promise that nobody could keep would show nothing.
PROMISES: Mapping[str, float] = {"a": 1.0, "b": 0.5, "c": 0.75, "d": 0.25}
#: periods shortened in the same measure
CONFIGURATION = Configuration(
    site=SiteSettings(settle=SETTLE),
    suggester=SuggesterSettings(period=0.5),
    migration=MigrationSettings(price=1.0, cooldown=0.5, drain_delay=0.1, deadline=5.0),
    services={
        EVERY_SERVICE: Service(qos=1.0, weight=1.0),
        **{f"{NAMESPACE}/{name}": Service(qos=share) for name, share in PROMISES.items()},
    },
)


def demo_scenario(seed: int, cycles: int) -> Scenario:
    """Return scenario 1.5-.4 of the paper in short cycles, the last of which fits the cluster."""
    return normal(1.5, 0.4, seed=seed, cycles=cycles, cycle_seconds=CYCLE, final=LAST_REPLICAS)


def demo_cluster() -> ClusterSpec:
    """The paper's, with nodes that are called by their tier: edge-1, edge-2, edge-3, cloud-1."""
    spec, tiers = paper_cluster(TIMING), Tiers()
    numbers = dict.fromkeys(Tier, 0)

    def called_by_tier(node: Object) -> Object:
        labels = node["metadata"]["labels"]
        tier = tiers.of(labels)
        if tier is None:
            return node
        numbers[tier] += 1
        name = f"{tier}-{numbers[tier]}"
        metadata = {"name": name, "labels": labels | {"kubernetes.io/hostname": name}}
        return node | {"metadata": node["metadata"] | metadata}

    return attrs.evolve(spec, nodes=tuple(map(called_by_tier, spec.nodes)))
