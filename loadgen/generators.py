"""Scenarios drawn at random, from a seed."""

import math
import random
from collections.abc import Collection, Iterable, Mapping

from kubedsm.terminal.problems import Problem
from loadgen.scenario import Api, Interval, Scenario

#: What one replica is made to serve, requests a second.
REQUESTS_PER_REPLICA = 5
#: The HPA's bounds in the paper's set-up.
LEAST_REPLICAS, MOST_REPLICAS = 1, 10

_MI = 2**20
#: cores and bytes that one replica of each of the paper's services requests
PAPER_REQUESTS: Mapping[str, Mapping[str, float]] = {
    "a": {"cpu": 1, "memory": 950 * _MI},
    "b": {"cpu": 1, "memory": 1900 * _MI},
    "c": {"cpu": 1, "memory": 950 * _MI},
    "d": {"cpu": 2, "memory": 1900 * _MI},
}
#: The paper's three edge nodes, of each of which its generator sets 1 core and 1 GB aside.
PAPER_EDGE_TOTAL: Mapping[str, float] = {"cpu": 13, "memory": 11e9}


class GeneratorError(Problem, ValueError):
    """A parameter that no scenario can be generated from."""


def coefficients(
    edge_total: Mapping[str, float], requests: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Per service, the replicas of it that fill an equal part of the edge.

    The mean over resources of total / number of services / request. `edge_total` and each
    service's requests are in the same units, by resource; every request is above 0.
    Source: the scenario generator that the KubeDSM paper (arXiv 2501.07130) evaluates with.
    """
    return {
        service: sum(
            edge_total[resource] / len(requests) / amount for resource, amount in needs.items()
        )
        / len(needs)
        for service, needs in requests.items()
    }


PAPER_COEFFICIENTS: Mapping[str, float] = coefficients(PAPER_EDGE_TOTAL, PAPER_REQUESTS)


def normal(
    mean: float,
    sigma: float,
    *,
    seed: int,
    cycles: int = 12,
    cycle_seconds: float = 90.0,
    coefficients: Mapping[str, float] = PAPER_COEFFICIENTS,
    endpoint: str = "http://{service}/",
    final: Mapping[str, int] | None = None,
    most_replicas: int = MOST_REPLICAS,
) -> Scenario:
    """The paper's scenario `mean_sigma`: demand that varies about a multiple of the edge.

    Per cycle and service, drawn anew, replicas = clip(round(N(mean coef, sigma coef)), 1,
    `most_replicas`), and the rate is 5 requests a second for each. `final` gives the last cycle's
    replicas instead, for the services it names. The draws depend on the seed, the number and the
    order of the services only: they come from `random.Random.random`, the one method whose
    sequence Python keeps from version to version.

    Raises GeneratorError.
    """
    check_finite("mean", mean)
    check_finite("sigma", sigma)
    if cycles < 1:
        raise GeneratorError(f"cycles: {cycles} is not at least 1")
    check_length(cycle_seconds)
    if not coefficients:
        raise GeneratorError("services: none are given")
    last = dict(final or {})
    _check_final(last, coefficients, most_replicas)
    rng = random.Random(seed)
    drawn = [
        {
            service: _clipped(_normal(rng, mean * coefficient, sigma * coefficient), most_replicas)
            for service, coefficient in coefficients.items()
        }
        for _ in range(cycles)
    ]
    drawn[-1] |= last
    replicas = {service: [cycle[service] for cycle in drawn] for service in coefficients}
    return served(replicas, cycle_seconds, endpoint)


def check_finite(name: str, value: float) -> None:
    """Raises GeneratorError."""
    if not 0 <= value < math.inf:
        raise GeneratorError(f"{name}: {value:g} is not a finite number from 0 on")


def check_length(cycle_seconds: float) -> None:
    """Raises GeneratorError."""
    if not 0 < cycle_seconds < math.inf:
        raise GeneratorError(f"cycle length: {cycle_seconds:g} seconds are not above 0")


def served(replicas: Mapping[str, Iterable[int]], cycle_seconds: float, endpoint: str) -> Scenario:
    """Per service, cycle by cycle, as many requests as so many replicas are made to serve."""
    return Scenario(
        tuple(
            Api(
                service,
                endpoint.replace("{service}", service),
                tuple(Interval.of(REQUESTS_PER_REPLICA * n, cycle_seconds) for n in counts),
            )
            for service, counts in replicas.items()
        )
    )


def _check_final(final: Mapping[str, int], services: Collection[str], most: int) -> None:
    for service, replicas in final.items():
        if service not in services:
            raise GeneratorError(f"final: no service {service!r} among {', '.join(services)}")
        if not 0 <= replicas <= most:
            raise GeneratorError(
                f"final: {replicas} replicas of {service} are not between 0 and {most}"
            )


def _normal(rng: random.Random, mean: float, sigma: float) -> float:
    """The Box-Muller transform, its second value unused."""
    radius = math.sqrt(-2 * math.log(1 - rng.random()))
    return mean + sigma * radius * math.cos(2 * math.pi * rng.random())


def _clipped(replicas: float, most: int) -> int:
    return max(LEAST_REPLICAS, min(most, round(replicas)))
