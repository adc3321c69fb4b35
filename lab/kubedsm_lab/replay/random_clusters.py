"""Random clusters with small edges, random services and random loads."""

import math
import random
from collections.abc import Sequence

import attrs

from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.services import ServiceSpec
from kubedsm_lab.replay.sources import Source
from kubedsm_lab.replay.world import Setup
from loadgen.generators import MOST_REPLICAS, coefficients, normal
from loadgen.scenario import Scenario

_NODE_CORES = (2, 3, 4, 5, 6, 8)
_MEMORY_PER_CORE = (700, 1000, 1300, 1600)  # Mi
_SERVICE_CPU = (250, 500, 1000, 1500, 2000)  # millicores
_SERVICE_MEMORY = (256, 512, 950, 1400, 1900)  # Mi
#: replicas in a service's part of the edge: fewer are trivial, more reach the autoscaler's maximum
_PART = (1.0, 6.0)
#: every fourth cluster has services of many pods, a fifth of the size
_MANY_SMALL, _SMALLER = 4, 5
#: capacity of the cloud as a multiple of all replicas' requests
_CLOUD_PLENTY = 1.25


@attrs.frozen
class _Service:
    cpu: int
    memory: int

    @property
    def requests(self) -> dict[str, float]:
        return {"cpu": self.cpu, "memory": self.memory}


def random_cluster(number: int, setup: Setup) -> tuple[Source, Setup]:
    """Return a cluster of 2 to 6 edge nodes with 2 to 6 services, and its scenario.

    Services have up to 10 pods; in every fourth cluster up to 50, of a fifth of the size. Demand
    is the paper's recipe with 1.0 to 1.7 times the edge's capacity. Only the draws of the scenario
    depend on the seed.
    """
    rng = random.Random(f"cluster {number}")
    while True:
        nodes = [
            (rng.choice(_NODE_CORES), rng.choice(_MEMORY_PER_CORE))
            for _ in range(rng.randint(2, 6))
        ]
        services = {
            f"s{index}": _Service(rng.choice(_SERVICE_CPU), rng.choice(_SERVICE_MEMORY))
            for index in range(rng.randint(2, 6))
        }
        total = {
            "cpu": sum(1000 * cores for cores, _ in nodes),
            "memory": sum(cores * memory for cores, memory in nodes),
        }
        parts = coefficients(total, {name: s.requests for name, s in services.items()})
        if all(_PART[0] <= part <= _PART[1] for part in parts.values()):
            break
    mean, sigma = rng.uniform(1.0, 1.7), rng.uniform(0.1, 0.5)
    times = 1 if number % _MANY_SMALL else _SMALLER
    parts = {name: times * part for name, part in parts.items()}
    most = times * MOST_REPLICAS

    def scenario(seed: int) -> Scenario:
        return normal(mean, sigma, seed=seed, coefficients=parts, most_replicas=most)

    name = f"random-{number:02}"
    specs = tuple(
        ServiceSpec(n, f"{s.cpu // times}m", f"{s.memory // times}Mi", (1, most))
        for n, s in services.items()
    )
    cluster = ClusterSpec(
        (
            *(
                node(f"e{index}", "edge", str(cores), f"{cores * memory}Mi")
                for index, (cores, memory) in enumerate(nodes)
            ),
            *_cloud(tuple(services.values()), rng.randint(1, 3)),
        )
    )
    return Source(name, name, scenario), attrs.evolve(setup, cluster=cluster, services=specs)


def _cloud(services: Sequence[_Service], number: int) -> list[Object]:
    """Return nodes with capacity for the maximum of all autoscalers."""
    share = _CLOUD_PLENTY * MOST_REPLICAS / number
    cpu, memory = (
        math.ceil(share * sum(service.requests[resource] for service in services))
        for resource in ("cpu", "memory")
    )
    return [node(f"c{index}", "cloud", f"{cpu}m", f"{memory}Mi") for index in range(number)]
