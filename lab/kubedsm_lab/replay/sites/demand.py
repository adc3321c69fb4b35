"""Demand of ten services by site over one day, and the edge nodes that serve it.

The request rate of a service at a site is its popularity times the users of the site, times a
random regional bias, times the daily curve of the site. The curve is a cosine; its peak wanders
from west to east over the day. Rates are constant within an hour.
"""

import math
import random
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec
from kubedsm_lab.emulator.paper import TARGET, node
from kubedsm_lab.replay.services import ServiceSpec
from kubedsm_lab.replay.sites.city import City, Floats, Ints
from kubedsm_lab.replay.workload_model import Server
from loadgen.scenario import Api, Interval, Scenario

HOURS = 24
#: seconds; not compressed, as neither are the durations and the price of migrations
HOUR = 3600.0
#: nodes of the edge, and their cores; at least one node per site
EDGE_NODES, EDGE_CORES = 24, 2
#: mean demand for cores, as a multiple of the edge's
LOAD = 1.2
#: deviation of the logarithm of a service's popularity, and of its regional bias
_POPULARITY, _BIAS = 0.4, 0.6
#: requests of a pod by service in turn: CPU and memory
_SIZES = ((0.5, "512Mi"), (1.0, "512Mi"), (0.25, "256Mi"), (0.5, "1Gi"), (0.25, "512Mi"))
_SERVICES = 10
_MOST_REPLICAS = 60
#: seconds that a pod works on a request
SERVICE_TIME = 0.02
_CLOUD = (("cloud-1", 64), ("cloud-2", 64))

SERVICES: Sequence[ServiceSpec] = tuple(
    ServiceSpec(
        f"svc-{number:02}",
        f"{1000 * cores:.0f}m",
        memory,
        (1, _MOST_REPLICAS),
        server=Server(1, SERVICE_TIME),
    )
    for number, (cores, memory) in enumerate(_SIZES * (_SERVICES // len(_SIZES)))
)
_CORES = np.array([cores for cores, _ in _SIZES * (_SERVICES // len(_SIZES))])


@attrs.frozen(eq=False)
class Demand:
    """Request rates of services by site and hour: requests/s, W x S x 24."""

    city: City
    rates: Floats

    @classmethod
    def draw(cls, city: City, peak: float, rng: random.Random) -> "Demand":
        """Draw the demand of a day. `peak` is the ratio of a site's peak to its trough."""
        hours = 2 * math.pi * (np.arange(HOURS) / HOURS - city.longitudes[:, None])
        curves = 1 + (peak - 1) / (peak + 1) * np.cos(hours)
        popularity = _draw_normals(rng, (_SERVICES, 1), _POPULARITY)
        bias = _draw_normals(rng, (_SERVICES, len(city.users)), _BIAS)
        rates = (np.exp(popularity + bias) * city.users)[:, :, None] * curves
        wanted = LOAD * EDGE_NODES * EDGE_CORES
        used = float((rates.sum(axis=(1, 2)) / HOURS / TARGET * _CORES).sum())
        return cls(city, rates * wanted / used)

    @property
    def scenario(self) -> Scenario:
        """Return the total load of each service."""
        return Scenario(
            tuple(
                Api(
                    service.name,
                    f"http://{service.name}/",
                    tuple(Interval.of(float(rate), HOUR) for rate in rates.sum(axis=0)),
                )
                for service, rates in zip(SERVICES, self.rates, strict=True)
            )
        )

    def by_site(self, moment: float) -> Mapping[str, Mapping[str, float]]:
        """Return the requests/s by service and site, `moment` seconds after the day began."""
        hour = min(HOURS - 1, max(0, int(moment / HOUR)))
        return {
            service.name: dict(zip(self.city.names, rates[:, hour].tolist(), strict=True))
            for service, rates in zip(SERVICES, self.rates, strict=True)
        }


def _draw_normals(rng: random.Random, shape: tuple[int, int], deviation: float) -> Floats:
    """Draw normally distributed numbers by Box and Muller's method, from `Random.random` only."""
    pairs = np.array([[1 - rng.random(), rng.random()] for _ in range(shape[0] * shape[1])])
    normals = np.sqrt(-2 * np.log(pairs[:, 0])) * np.cos(2 * math.pi * pairs[:, 1])
    drawn: Floats = deviation * normals.reshape(shape)
    return drawn


def make_cluster(city: City) -> ClusterSpec:
    """Return a cluster with edge nodes at the sites, in proportion to the users, and a cloud."""
    nodes: list[Object] = []
    for site, number in zip(city.names, count_nodes(city.users), strict=True):
        nodes += [
            node(f"{site}-{index}", "edge", str(EDGE_CORES), "8G", zone=site)
            for index in range(1, 1 + number)
        ]
    nodes += [node(name, "cloud", str(cores), "512G", zone=name) for name, cores in _CLOUD]
    return ClusterSpec(tuple(nodes))


def count_nodes(users: Ints) -> list[int]:
    """Divide the edge nodes among sites in proportion to the users, at least one each, by largest
    quotient (D'Hondt).
    """
    numbers = [1] * len(users)
    for _ in range(EDGE_NODES - len(users)):
        quotients = [count / (number + 1) for count, number in zip(users, numbers, strict=True)]
        numbers[quotients.index(max(quotients))] += 1
    return numbers
